//! `runlore emit import`: imports emitted records as tasks.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use runlore::emit;
use runlore_core::text::printable;
use serde_json::json;

use crate::Done;
use crate::failure::say;
use crate::out::stdout;
use crate::store::Store;
use crate::units::counted;

/// Import emitted records into the store, as the tasks of a run
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  runlore emit import telemetry.db
  runlore --store data/ emit import telemetry.jsonl

Importing a file again replaces the records of the earlier import.
Exit codes: 0 success, 1 something could not be read.")]
pub(crate) struct Args {
    /// A JSON Lines file, or an SQLite database with the table `telemetry`
    file: PathBuf,

    /// Print the id of the run and its number of tasks as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, store: &Store) -> Done {
    let imported = emit::import(&args.file, store.place())?;
    for problem in &imported.problems {
        say(&problem.to_string());
    }
    let mut out = stdout();
    if args.json {
        writeln!(out, "{}", json!({"workflow_id": imported.workflow_id, "tasks": imported.tasks}))?;
    } else {
        let tasks = counted(imported.tasks, "task", "tasks");
        let file = imported.file.map(|file| file.display().to_string());
        let place = file.unwrap_or_else(|| store.display().to_string());
        writeln!(out, "run {}: {tasks} in {}", imported.workflow_id, printable(&place))?;
    }
    out.flush()?;
    Ok(if imported.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
