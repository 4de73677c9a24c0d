use runlore::telemetry_task;
use std::rc::Rc;

#[telemetry_task]
async fn nothing() {}

#[telemetry_task]
async fn add(a: i32, b: i32) -> i32 {
    tokio::task::yield_now().await;
    a + b
}

#[telemetry_task]
async fn nested(n: i32) -> i32 {
    let (left, right) = tokio::join!(add(n, 1), add(n, 2));
    left + right
}

#[telemetry_task]
async fn borrows(text: &str, out: &mut String) -> usize {
    tokio::task::yield_now().await;
    out.push_str(text);
    out.len()
}

/// A guard among the arguments must not make the future keep it across an await.
#[telemetry_task(used(length = lock.lock().unwrap().len()))]
async fn holds_no_guard(lock: &std::sync::Mutex<Vec<u8>>) -> usize {
    tokio::task::yield_now().await;
    lock.lock().unwrap().len()
}

#[telemetry_task]
async fn not_send(value: Rc<i32>) -> i32 {
    tokio::task::yield_now().await;
    *value
}

#[telemetry_task]
async fn coerced(ok: bool) -> Result<Box<dyn std::fmt::Display>, Box<dyn std::error::Error>> {
    if ok { Ok(Box::new(1)) } else { Err("no")? }
}

#[telemetry_task]
async fn forever() -> ! {
    std::future::pending().await
}

fn is_send<T: Send>(value: T) -> T {
    value
}

#[tokio::test(flavor = "multi_thread")]
async fn runs() {
    is_send(nothing()).await;
    assert_eq!(is_send(add(1, 2)).await, 3);
    assert_eq!(tokio::spawn(nested(1)).await.unwrap(), 5);
    let mut out = String::new();
    assert_eq!(is_send(borrows("abc", &mut out)).await, 3);
    let lock = std::sync::Mutex::new(vec![1, 2]);
    assert_eq!(is_send(holds_no_guard(&lock)).await, 2);
    assert_eq!(not_send(Rc::new(4)).await, 4);
    assert!(coerced(true).await.is_ok());
    assert!(coerced(false).await.is_err());
    drop(forever());
    drop(nested(1));
}
