use runlore as records;
use records::telemetry_task as task;

mod facade {
    pub mod telemetry {
        pub use runlore::*;
    }
}

mod hidden {
    #[task(crate = crate::facade::telemetry)]
    pub fn add(a: i32, b: i32) -> i32 {
        a + b
    }
    use super::task;
}

#[task(crate = records, name = "later")]
async fn add_later(a: i32, b: i32) -> i32 {
    a + b
}

#[task(crate = ::runlore)]
fn absolute(a: i32) -> i32 {
    a
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    assert_eq!(hidden::add(1, 2), 3);
    assert_eq!(add_later(1, 2).await, 3);
    assert_eq!(absolute(1), 1);
}
