use runlore::telemetry_task;
use std::future::Future;
use std::pin::Pin;

async fn work() -> u32 {
    1
}

#[telemetry_task]
fn unboxed() -> impl Future<Output = u32> {
    work()
}

#[telemetry_task]
fn boxed() -> Pin<Box<dyn Future<Output = u32> + Send>> {
    Box::pin(work())
}

fn main() {
    drop(unboxed());
    drop(boxed());
}
