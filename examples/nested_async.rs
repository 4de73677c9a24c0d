//! Async tasks on several threads: who called whom stays right across `.await`, `join!` and `spawn`.
//!
//! ```text
//! cargo run --example nested_async
//! ```
//!
//! The records go to `./runlore`.

use std::num::ParseIntError;
use std::time::Duration;

use runlore::store::{DEFAULT_FOLDER, jsonl};
use runlore::{FutureExt as _, telemetry_task};
use tokio::time::{sleep, timeout};

/// A task begins at the first poll, and is open until the future is ready: here, about `ms`.
#[telemetry_task(output = "body", skip(ms))]
async fn fetch(page: &'static str, ms: u64) -> &'static str {
    sleep(Duration::from_millis(ms)).await;
    match page {
        "/visitors" => "1204",
        "/orders" => "17",
        _ => "<h1>not found</h1>",
    }
}

/// An `Err` makes the record an ERROR; the caller gets the `Err` as ever.
#[telemetry_task(output = "number")]
async fn parse(body: &str) -> Result<u32, ParseIntError> {
    body.parse()
}

#[telemetry_task]
async fn count(page: &'static str) -> Result<u32, ParseIntError> {
    let body = fetch(page, 10).await;
    parse(body).await
}

#[telemetry_task(tags("report"))]
async fn report() -> u32 {
    // At the same time, on one thread: each keeps its own children.
    let (visitors, orders) = tokio::join!(count("/visitors"), count("/orders"));

    // On whichever thread the runtime likes: `in_current` says to whom it belongs.
    let spawned = tokio::spawn(count("/typo").in_current());
    let typo = spawned.await.unwrap_or(Ok(0));

    // Given up after 20 ms: a future that is dropped before its end leaves an ERROR of kind `cancelled`.
    let slow = timeout(Duration::from_millis(20), fetch("/slow", 60_000)).await;
    assert!(slow.is_err());

    [visitors, orders, typo].into_iter().flatten().sum()
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> runlore::Result<()> {
    let run = runlore::workflow("nested_async").start()?;
    let total = report().await;
    let id = run.id().to_owned();
    run.finish()?;

    let records = jsonl::load_with(DEFAULT_FOLDER, |record| {
        (record.workflow_id() == Some(&id)).then_some(record)
    })?;
    print!("{}", records.into_tree().render().values(true));
    println!("\nthe report says {total}; the records are in ./{DEFAULT_FOLDER}/");
    Ok(())
}
