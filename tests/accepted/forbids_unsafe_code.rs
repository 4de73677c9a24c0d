#![forbid(unsafe_code, unsafe_op_in_unsafe_fn)]

use runlore::telemetry_task;

#[telemetry_task]
fn add(a: i32, b: i32) -> i32 {
    a + b
}

#[telemetry_task]
async fn add_later(a: i32, b: i32) -> i32 {
    a + b
}

#[telemetry_task]
fn boxed(a: i32) -> std::pin::Pin<Box<dyn Future<Output = i32>>> {
    Box::pin(async move { a })
}

#[tokio::test]
async fn runs() {
    assert_eq!(add(1, 2), 3);
    assert_eq!(add_later(1, 2).await, 3);
    assert_eq!(boxed(4).await, 4);
}
