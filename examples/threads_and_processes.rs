//! Work that moves to other threads and to another process keeps its place in the tree.
//!
//! ```text
//! cargo run --example threads_and_processes
//! ```
//!
//! The records go to `./runlore`, those of the child process too.

use std::error::Error;
use std::process::Command;
use std::thread;

use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};
use runlore::store::{DEFAULT_FOLDER, jsonl};
use runlore::{carry, current, telemetry_task};

#[telemetry_task(output = "square")]
fn square(n: u64) -> u64 {
    n * n
}

/// `carry` makes a closure that runs where it was made, as far as the tree is concerned.
#[telemetry_task(output = "square")]
fn on_a_thread(n: u64) -> u64 {
    thread::spawn(carry(move || square(n))).join().unwrap_or(0)
}

/// Scoped threads take `carry` as well.
#[telemetry_task(output = "sum")]
fn on_scoped_threads(numbers: &[u64]) -> u64 {
    thread::scope(|scope| {
        let threads: Vec<_> =
            numbers.iter().map(|n| scope.spawn(carry(move || square(*n)))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(0)).sum()
    })
}

/// A pool runs one closure on many threads: take `current()` once, and run inside it as often as needed.
#[telemetry_task(output = "sum")]
fn on_a_pool(up_to: u64) -> u64 {
    let here = current();
    (1..=up_to).into_par_iter().map(|n| here.run(|| square(n))).sum()
}

/// Two environment variables tell a child process what called it, and where its records go.
#[telemetry_task(output = "success")]
fn in_a_child_process(n: u64) -> Result<bool, std::io::Error> {
    let mut child = Command::new(std::env::current_exe()?);
    child.arg(n.to_string());
    current().to_env(&mut child);
    Ok(child.status()?.success())
}

fn main() -> Result<(), Box<dyn Error>> {
    if let Some(n) = std::env::args().nth(1) {
        // The child. It starts no workflow of its own, so its tasks belong to its parent's.
        square(n.parse()?);
        return Ok(());
    }

    let run = runlore::workflow("threads_and_processes").start()?;
    on_a_thread(3);
    on_scoped_threads(&[4, 5]);
    on_a_pool(3);
    in_a_child_process(12)?;
    let id = run.id().to_owned();
    run.finish()?;

    let records = jsonl::load_with(DEFAULT_FOLDER, |record| {
        (record.workflow_id() == Some(&id)).then_some(record)
    })?;
    print!("{}", records.into_tree().render().values(true));
    println!("\nthe records of both processes are in ./{DEFAULT_FOLDER}/");
    Ok(())
}
