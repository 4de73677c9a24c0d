//! One attribute on each function, one line to start: every call leaves a record.
//!
//! ```text
//! cargo run --example quickstart
//! ```

use std::thread::sleep;
use std::time::Duration;

use runlore::store::{DEFAULT_FOLDER, jsonl};
use runlore::telemetry_task;

#[telemetry_task]
fn load(path: &str) -> Vec<f64> {
    sleep(Duration::from_millis(3));
    (0..path.len()).map(|n| n as f64 * 1.5).collect()
}

#[telemetry_task(output = "mean")]
fn mean(values: &[f64]) -> Result<f64, String> {
    if values.is_empty() {
        return Err("no values".to_owned());
    }
    Ok(values.iter().sum::<f64>() / values.len() as f64)
}

#[telemetry_task(tags("etl"))]
fn pipeline(paths: &[&str]) -> usize {
    paths.iter().filter(|path| mean(&load(path)).is_ok()).count()
}

fn main() -> runlore::Result<()> {
    let run = runlore::workflow("quickstart").start()?;
    pipeline(&["north.csv", "south.csv", ""]);
    let id = run.id().to_owned();
    let totals = run.finish()?;

    // What was recorded, read back from the store.
    let records = jsonl::load_with(DEFAULT_FOLDER, |record| {
        (record.workflow_id() == Some(&id)).then_some(record)
    })?;
    print!("{}", records.into_tree().render().values(true));
    println!("\n{} tasks are in ./{DEFAULT_FOLDER}/", totals.tasks);
    println!("To look at them again: cargo run -p runlore-cli -- tree quickstart --values");
    Ok(())
}
