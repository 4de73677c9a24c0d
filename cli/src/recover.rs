//! `runlore recover`: completes the records of processes that died while recording.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::ExitCode;

use runlore::Recovered;

use crate::Done;
use crate::failure::Failure;
use crate::out::stdout;
use crate::store::Store;

/// Complete the records of processes that were killed
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  runlore recover

Every command that reads a store recovers records first, and so does every new run in it. This command does nothing
else, and reports what it found. Processes that are still running are not affected.")]
pub(crate) struct Args {
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, store: &Store) -> Done {
    let mut folders = BTreeSet::new();
    for store in store.each() {
        store.refuse_special()?;
        let Some(folder) = store.folder() else {
            return Err(Failure::new(format!(
                "{} is not a folder on this machine: run `runlore recover` where the programs ran",
                store.display()
            )));
        };
        folders.insert(folder);
    }
    let mut found = Recovered::default();
    for folder in &folders {
        let more = runlore::recover(folder)?;
        found.processes += more.processes;
        found.tasks += more.tasks;
        found.open += more.open;
    }
    let mut out = stdout();
    if args.json {
        let told = serde_json::json!({
            "processes": found.processes, "tasks": found.tasks, "open": found.open,
        });
        writeln!(out, "{told}")?;
    } else if found.processes == 0 {
        let folders: Vec<String> = folders.iter().map(|it| it.display().to_string()).collect();
        writeln!(out, "nothing to recover in {}", folders.join(" and "))?;
    } else {
        let (processes, tasks, open) = (found.processes, found.tasks, found.open);
        let s = if processes == 1 { "" } else { "es" };
        writeln!(
            out,
            "recovered the records of {processes} dead process{s}: {tasks} ended tasks, {open} open tasks"
        )?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
