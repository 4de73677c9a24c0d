//! `runlore copy`: copies records from one store to another.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use serde_json::json;

use crate::Done;
use crate::failure::Failure;
use crate::out::stdout;
use crate::progress::Progress;
use crate::store::Store;
use crate::units::counted;

/// Copy all records of a store to another
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  runlore copy runlore sqlite://runs.db      a folder to a database
  runlore copy sqlite://runs.db lines        and back

Records are compared by id, so a record that the target already has is not copied again. A new folder or SQLite file
appears only when the copy is complete; if an error occurs, it is not created.")]
pub(crate) struct Args {
    /// The store to read: a folder, a file or a URI
    from: OsString,

    /// The store to write; it is created if it does not exist
    to: OsString,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Done {
    let from = Store::at(args.from.clone());
    let to = Store::at(args.to.clone());
    if let (Some(one), Some(other)) = (from.path(), to.path())
        && one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
    {
        return Err(Failure::new("both stores are the same; nothing was copied"));
    }
    let records = from.open()?;
    let progress = Progress::new("records", || {
        let runs = records.runs().ok()?;
        Some(runs.iter().map(|run| run.tasks + 1).sum())
    });
    let copied = records.copy_to(to.place(), |copied| {
        progress.set(copied.records() + copied.already_there + copied.refused);
    })?;
    drop(progress);
    from.tell(&records);
    let mut out = stdout();
    if args.json {
        let told = json!({
            "tasks": copied.tasks, "workflows": copied.workflows, "others": copied.others,
            "already_there": copied.already_there, "refused": copied.refused,
        });
        writeln!(out, "{told}")?;
    } else {
        let tasks = counted(copied.tasks, "task", "tasks");
        let runs = counted(copied.workflows, "run", "runs");
        write!(out, "copied {tasks} and {runs}")?;
        if copied.others > 0 {
            write!(out, ", and {}", counted(copied.others, "other record", "other records"))?;
        }
        if copied.already_there > 0 {
            let known = counted(copied.already_there, "record was", "records were");
            write!(out, "; {known} there already")?;
        }
        if copied.refused > 0 {
            write!(out, "; {} refused", counted(copied.refused, "record was", "records were"))?;
        }
        writeln!(out)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
