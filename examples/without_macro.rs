//! Tasks without the attribute: for a block, a closure, a future, or code that is not yours.
//!
//! ```text
//! cargo run --example without_macro
//! ```
//!
//! The records go to `./runlore`.

use std::fs;
use std::io;

use runlore::store::{DEFAULT_FOLDER, jsonl};
use runlore::task;

/// A closure: the task is as long as the closure runs.
fn closure() -> u64 {
    task("sum").used("up_to", 100).tag("arithmetic").run(|| {
        let sum = (1..=100).sum();
        // Adds to the task around it, however deep this is called.
        runlore::generated("sum", sum);
        sum
    })
}

/// A closure that may fail: an `Err` makes the record an ERROR with the error's whole chain.
fn closure_that_fails() -> io::Result<String> {
    task("read").used("path", "no/such/file").try_run(|| fs::read_to_string("no/such/file"))
}

/// A block: from `start` to `finish`.
fn block(words: &[&str]) -> usize {
    let mut count = task("count").used("words", words).metadata("language", "en").start();
    let letters = words.iter().map(|word| word.len()).sum();
    count.generated("letters", letters);
    count.finish();
    letters
}

/// A block that is left before `finish`, by `return`, `?` or `break`, says `ended_early`. It is not an error by
/// itself: a guard cannot tell a search that succeeded from a check that failed.
fn block_left_early(numbers: &[i32]) -> Option<usize> {
    let search = task("search").used("numbers", numbers).start();
    for (at, number) in numbers.iter().enumerate() {
        if *number < 0 {
            return Some(at);
        }
    }
    search.finish();
    None
}

/// A block that knows better says so.
fn block_that_fails(percent: u32) {
    let mut check = task("check").used("percent", percent).start();
    if percent > 100 {
        check.fail(io::Error::other(format!("{percent} % is more than all")));
    }
    check.finish();
}

/// A future: open from its first poll to its end, on whichever thread it is polled.
async fn future() -> usize {
    task("wait")
        .subtype("io")
        .track(async {
            tokio::task::yield_now().await;
            block(&["inside", "a", "future"])
        })
        .await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> runlore::Result<()> {
    let run = runlore::workflow("without_macro")
        .description("every way to record a task by hand")
        .used("version", 1)
        .start()?;
    closure();
    closure_that_fails().unwrap_or_default();
    block(&["twenty", "letters", "in", "total"]);
    block_left_early(&[3, 1, -4, 1]);
    block_that_fails(120);
    future().await;
    let id = run.id().to_owned();
    run.finish()?;

    let records = jsonl::load_with(DEFAULT_FOLDER, |record| {
        (record.workflow_id() == Some(&id)).then_some(record)
    })?;
    let left_early = records.tasks.iter().filter(|task| task.ended_early == Some(true)).count();
    print!("{}", records.into_tree().render().values(true));
    println!("\n{left_early} task was left early; the records are in ./{DEFAULT_FOLDER}/");
    Ok(())
}
