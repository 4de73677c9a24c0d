#![allow(clippy::needless_return)]

use runlore::telemetry_task;
use std::future::Future;
use std::pin::Pin;

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

#[telemetry_task]
fn plain(a: i32, b: i32) -> impl Future<Output = i32> + Send {
    let sum = a + b;
    async move {
        tokio::task::yield_now().await;
        sum
    }
}

#[telemetry_task]
fn boxed(text: &str) -> Pin<Box<dyn Future<Output = Result<i32, String>> + Send + '_>> {
    Box::pin(async move {
        let number = text.parse::<i32>().map_err(|error| error.to_string())?;
        tokio::task::yield_now().await;
        Ok(number)
    })
}

#[telemetry_task]
fn aliased(text: String) -> Boxed<'static, usize> {
    const EXTRA: usize = 1;
    return Box::pin(async move { text.len() + EXTRA });
}

#[telemetry_task(used(length = text.len()))]
fn without_move(text: &str) -> impl Future<Output = usize> + '_ {
    async { text.len() }
}

#[telemetry_task]
fn recursive(n: u32) -> Boxed<'static, u32> {
    Box::pin(async move { if n == 0 { 0 } else { n + recursive(n - 1).await } })
}

#[telemetry_task]
fn leaves_early(n: u32) -> Boxed<'static, u32> {
    if n == 0 {
        return Box::pin(std::future::ready(100));
    }
    Box::pin(async move { n })
}

#[telemetry_task]
fn nothing() -> impl Future<Output = ()> {
    async move {}
}

struct Service(u32);

impl Service {
    #[telemetry_task(used(before = self.0))]
    fn call(&mut self, by: u32) -> Boxed<'_, &mut u32> {
        Box::pin(async move {
            self.0 += by;
            &mut self.0
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn runs() {
    assert_eq!(tokio::spawn(plain(1, 2)).await.unwrap(), 3);
    assert_eq!(boxed("7").await, Ok(7));
    assert!(boxed("x").await.is_err());
    assert_eq!(aliased("abc".to_owned()).await, 4);
    assert_eq!(without_move("abc").await, 3);
    assert_eq!(tokio::spawn(recursive(4)).await.unwrap(), 10);
    assert_eq!(leaves_early(0).await, 100);
    assert_eq!(leaves_early(3).await, 3);
    nothing().await;
    let mut service = Service(1);
    *service.call(2).await += 1;
    assert_eq!(service.0, 4);
}
