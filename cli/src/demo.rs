//! `runlore demo`: records a small built-in workflow as an example.

use std::io::Write;
use std::process::ExitCode;

use crate::Done;
use crate::out::stdout;
use crate::store::Store;
use crate::units::counted;

/// Record a small built-in workflow as an example
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  runlore demo && runlore tree demo --values")]
pub(crate) struct Args {
    /// Print the id of the run as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, store: &Store) -> Done {
    // It is enough that one store accepts the records. They can wait for the others.
    if store.each().all(|store| store.check().is_err()) {
        store.check()?;
    }
    let workflow = runlore::workflow("demo");
    let workflow = store.each().fold(workflow, |workflow, store| workflow.store(store.place()));
    let recording = workflow.start()?;
    let id = recording.id().to_owned();
    pipeline(&["north", "south", "west"]);
    let waiting = recording.finish()?.spooled;

    let program = store.program();
    let mut out = stdout();
    if args.json {
        writeln!(out, "{}", serde_json::json!({"workflow_id": id, "spooled": waiting}))?;
    } else if waiting > 0 {
        let records = counted(waiting, "record waits", "records wait");
        writeln!(
            out,
            "recorded run {id}; {records} on disk: `{program} doctor` shows for which store and why"
        )?;
    } else {
        let places: Vec<String> = store.each().map(|store| store.display().to_string()).collect();
        let places = places.join(" and ");
        writeln!(out, "recorded run {id} in {places}; `{program} tree demo --values` shows it")?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

#[runlore::telemetry_task(output = "stations")]
fn pipeline(names: &[&str]) -> usize {
    let mut good = 0;
    for name in names {
        let readings = load(name);
        // One of them fails, to provide an example of an error.
        if average(name, &readings).is_ok() {
            good += 1;
        }
    }
    good
}

#[runlore::telemetry_task(output = "readings")]
fn load(station: &str) -> Vec<f64> {
    match station {
        "north" => vec![3.5, 4.0, 2.5],
        "south" => vec![18.0, 21.5, 19.0],
        _ => Vec::new(),
    }
}

#[runlore::telemetry_task(output = "mean")]
fn average(station: &str, readings: &[f64]) -> Result<f64, String> {
    if readings.is_empty() {
        return Err(format!("station {station} has no readings"));
    }
    Ok(readings.iter().sum::<f64>() / readings.len() as f64)
}
