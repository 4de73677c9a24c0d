//! `runlore recover`: completes the records of processes that died while recording.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::ExitCode;

use runlore::Recovered;

use crate::Done;
use crate::failure::Failure;
use crate::out::stdout;
use crate::store::Store;

/// Finish the records of processes that were killed
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  runlore recover

Every command that reads a store does this first, and so does every run that starts in it; this one says what it
found. Processes that are alive are left alone.")]
pub(crate) struct Args {
    /// What was found as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, store: &Store) -> Done {
    let mut folders = BTreeSet::new();
    for store in store.each() {
        store.refuse_special()?;
        let Some(folder) = store.folder() else {
            return Err(Failure::new(format!(
                "{} is no folder of this machine: recover where the programs ran",
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
            "recovered from {processes} process{s} that died: {tasks} tasks that had ended, {open} that were open"
        )?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
