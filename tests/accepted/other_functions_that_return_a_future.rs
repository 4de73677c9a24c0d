use runlore::telemetry_task;
use std::future::{Future, Ready, ready};
use std::pin::Pin;

async fn work(n: u32) -> u32 {
    tokio::task::yield_now().await;
    n + 1
}

#[telemetry_task(future)]
fn unboxed(n: u32) -> impl Future<Output = u32> + Send {
    work(n)
}

#[telemetry_task(future, output = "n")]
fn boxed(n: u32) -> Pin<Box<dyn Future<Output = u32> + Send>> {
    if n == 0 {
        return Box::pin(ready(0));
    }
    Box::pin(work(n))
}

#[telemetry_task(future)]
fn ends_in_a_block(n: u32) -> impl Future<Output = u32> {
    async move { work(n).await }
}

#[telemetry_task(future)]
fn borrows<'a>(text: &'a str) -> impl Future<Output = &'a str> + 'a {
    let trimmed = text.trim();
    async fn same(text: &str) -> &str {
        text
    }
    same(trimmed)
}

/// Making something that is not written as a future is recorded as the call it is.
#[telemetry_task]
fn maker(n: u32) -> Ready<u32> {
    ready(n)
}

#[tokio::test(flavor = "multi_thread")]
async fn runs() {
    assert_eq!(tokio::spawn(unboxed(1)).await.unwrap(), 2);
    assert_eq!(tokio::spawn(boxed(1)).await.unwrap(), 2);
    assert_eq!(boxed(0).await, 0);
    assert_eq!(ends_in_a_block(4).await, 5);
    assert_eq!(borrows(" x ").await, "x");
    assert_eq!(maker(3).await, 3);
}
