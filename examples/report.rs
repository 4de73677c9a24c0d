//! A run, and its report as one file: `cargo run --features report --example report`, then open `report.html`.

use std::thread::sleep;
use std::time::Duration;

use runlore::report::RunReport;
use runlore::{Provenance, telemetry_task};

#[telemetry_task(output = "rows")]
fn load(part: u64) -> Vec<u64> {
    sleep(Duration::from_millis(5 + part % 7));
    (0..part).collect()
}

#[telemetry_task(output = "sum")]
fn add_up(rows: &[u64]) -> Result<u64, String> {
    sleep(Duration::from_millis(3));
    match rows.len() {
        13 => Err("thirteen rows are one too many".to_owned()),
        _ => Ok(rows.iter().sum()),
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let run = runlore::workflow("parts").start()?;
    let id = run.id().to_owned();
    for part in 0..40 {
        runlore::task("part").used("number", part).run(|| add_up(&load(part)).ok());
    }
    run.finish()?;

    let report = RunReport::builder(&Provenance::open("runlore")?, &id).build()?;
    std::fs::write("report.html", report.to_html())?;
    println!("{}", report.to_markdown());
    println!("report.html tells the rest");
    Ok(())
}
