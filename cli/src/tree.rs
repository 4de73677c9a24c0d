//! `runlore tree`: shows a run as a tree of calls.

mod energy;
mod names;
mod resources;

use std::io::Write;
use std::process::ExitCode;

use crate::out::{Colours, stdout};
use crate::store::Store;
use crate::{Done, lost, select};

/// Show a run as a tree: which task called which, how each ended and how long it took
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  runlore tree                   the newest run
  runlore tree train --values    the newest run named `train`, with what went in and came out
  runlore tree --resources       the newest run, with what each task used
  runlore tree --energy          the newest run, with the joules of each task

Of the columns of --resources, CPU is the processor time of a task with all that it called, SELF its own part, and LOAD
the first in percent of the duration: 100 % is one processor. MEMORY is by how much the process's resident memory
changed, for a command its peak; READ and WRITTEN are bytes from and to disks. Behind ~ other tasks ran at the same time,
and what is told of the process is theirs too.

Of those of --energy, ENERGY is what the machine and its devices used while a task ran, SELF the part of it in which no
task inside it ran, POWER the first by the duration, and SOURCE the meters, or why nothing is known. Behind ~ other tasks
ran at the same time. Energy is measured where `telemetry_capture.energy` is on.")]
pub(crate) struct Args {
    /// The run: its id, 4 or more characters its id begins or ends with, or its name (the newest of
    /// that name); none: the newest
    run: Option<String>,

    /// Show what went in and came out, shortened
    #[arg(long, short)]
    values: bool,

    /// Show what each task used: processor time, memory, bytes from and to disks
    #[arg(long, short, conflicts_with = "values")]
    resources: bool,

    /// Show the energy that went by while each task ran, and which meters told it
    #[arg(long, short, conflicts_with_all = ["values", "resources"])]
    energy: bool,

    /// One JSON object per line, in the order of the tree: `depth`, `shown` (the status as the tree shows it),
    /// `detached` and the `record`
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, store: &Store) -> Done {
    let records = store.open()?;
    let runs = store.runs(&records)?;
    let id = &select::run(&runs, args.run.as_deref(), store)?.workflow.workflow_id;
    let tree = records.tree_of(id, fields(args))?;
    store.tell(&records);

    let mut out = stdout();
    if !args.json {
        lost::write(&mut out, tree.walk().filter_map(|(_, node)| node.item.as_workflow()))?;
    }
    if args.json {
        for (depth, node) in tree.walk() {
            let line = serde_json::to_value(node.serialize_at(depth)).unwrap_or_default();
            writeln!(out, "{line}")?;
        }
    } else if args.resources {
        resources::write(&mut out, &tree)?;
    } else if args.energy {
        energy::write(&mut out, &tree)?;
    } else {
        write!(out, "{}", tree.render().values(args.values).style(&Colours))?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the fields to read for the details of a task. Not all of them, because the telemetry of
/// a long run does not fit into memory.
fn fields(args: &Args) -> &'static [&'static str] {
    match args {
        // All fields.
        Args { json: true, .. } => &[],
        Args { values: true, .. } => &["used", "generated"],
        Args { resources: true, .. } => &["resources"],
        // The keys of `unavailable` contain dots, so a path cannot select one of them.
        Args { energy: true, .. } => &["resources.joules", "unavailable"],
        _ => &["task_id"],
    }
}
