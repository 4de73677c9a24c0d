use records::telemetry_task as task;
use runlore as records;

mod hidden {
    #[task(crate = crate::accepted::telemetry)]
    pub(super) fn add(a: i32, b: i32) -> i32 {
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

#[tokio::test]
async fn runs() {
    assert_eq!(hidden::add(1, 2), 3);
    assert_eq!(add_later(1, 2).await, 3);
    assert_eq!(absolute(1), 1);
}
