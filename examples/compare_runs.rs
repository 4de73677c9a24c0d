//! Two runs beside each other, and a limit that a test could insist on.
//!
//! ```text
//! cargo run --example compare_runs
//! ```

use std::thread::sleep;
use std::time::Duration;

use runlore::query::{Comparison, Figure, Limit};
use runlore::store::DEFAULT_FOLDER;
use runlore::{Provenance, telemetry_task};

#[telemetry_task]
fn load(rows: u64) -> u64 {
    sleep(Duration::from_millis(2));
    rows
}

#[telemetry_task]
fn fit(rows: u64, rate: f64) -> f64 {
    // The smaller the steps, the more of them.
    sleep(Duration::from_secs_f64(0.001 / rate));
    rows as f64 * rate
}

fn run(rate: f64) -> runlore::Result<String> {
    let run = runlore::workflow("train").used("rate", rate).start()?;
    let id = run.id().to_owned();
    for rows in [100, 200, 300] {
        fit(load(rows), rate);
    }
    run.finish()?;
    Ok(id)
}

fn main() -> runlore::Result<()> {
    let (before, after) = (run(0.5)?, run(0.1)?);

    let records = Provenance::open(DEFAULT_FOLDER)?;
    let comparison = Comparison::new(&records.measured(&before)?, &records.measured(&after)?);
    for group in comparison.groups() {
        let name = group.activity.as_deref().unwrap_or("the whole run");
        if let Some(percent) = group.change(Figure::Duration).percent() {
            println!("{name:<14} {percent:+8.1} %");
        }
    }

    // What a program would insist on, and what `runlore compare --fail-on` does.
    for limit in ["load.duration:+50%", "fit.duration:+50%", "errors:+0"] {
        let limit: Limit = limit.parse()?;
        match limit.check(&comparison)? {
            None => println!("{limit} holds"),
            Some(_) => println!("{limit} does not hold"),
        }
    }
    println!("\nThe same as a table: cargo run -p runlore-cli -- compare {before} {after}");
    Ok(())
}
