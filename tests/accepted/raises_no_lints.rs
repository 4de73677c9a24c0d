//! Nothing in the expansion may be blamed on the user.
#![deny(warnings, missing_docs, rust_2018_idioms, unreachable_pub, unused_qualifications)]
#![deny(clippy::all, clippy::pedantic, clippy::nursery)]
#![forbid(unused_mut, unreachable_code, unused_variables)]

use runlore::telemetry_task;
use std::future::Future;
use std::pin::Pin;

/// Adds.
#[must_use]
#[telemetry_task(outputs("sum", "difference"), fail_if = ret.0 > 100, metadata(kind = "sum"))]
pub fn both(left: i32, right: i32) -> (i32, i32) {
    (left + right, left - right)
}

/// Records a name with an underscore.
#[must_use]
#[telemetry_task]
pub fn hidden(_hint: &str, _owned: u8, mut steps: u8) -> u8 {
    const LIMIT: u8 = 3;
    steps += 1;
    steps.min(LIMIT)
}

/// Returns nothing.
///
/// # Errors
/// When empty.
#[telemetry_task]
pub fn checked(text: &str) -> Result<(), String> {
    if text.is_empty() { Err("empty".to_owned()) } else { Ok(()) }
}

/// Never uses its return value.
#[must_use]
#[telemetry_task(generated(constant = 1))]
pub fn constant() -> i32 {
    5
}

/// Waits.
#[telemetry_task(output = "length")]
pub async fn later(text: &str, _hint: u8) -> usize {
    const EXTRA: usize = 1;
    tokio::task::yield_now().await;
    text.len() + EXTRA
}

/// Waits for nothing.
#[telemetry_task]
pub async fn silent(text: &str) {
    tokio::task::yield_now().await;
    drop(text.to_owned());
}

/// Boxes.
#[must_use]
#[telemetry_task]
pub fn boxed(text: &str, _hint: u8) -> Pin<Box<dyn Future<Output = usize> + Send + '_>> {
    const EXTRA: usize = 1;
    let trimmed = text.trim();
    Box::pin(async move {
        tokio::task::yield_now().await;
        trimmed.len() + EXTRA
    })
}

/// Leaves.
#[telemetry_task]
pub fn leave(code: i32) -> ! {
    std::process::exit(code)
}

#[test]
fn runs() {
    assert_eq!(both(1, 2), (3, -1));
    assert_eq!(hidden("", 0, 1), 2);
    assert!(checked("").is_err());
    assert_eq!(constant(), 5);
    let _: fn(i32) -> ! = leave;
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(async {
        assert_eq!(later("a", 0).await, 2);
        silent("a").await;
        assert_eq!(boxed(" a ", 0).await, 2);
    });
}
