//! `runlore tree`: shows a run as a tree of calls.

mod energy;
mod names;
mod resources;

use std::io::Write;
use std::process::ExitCode;

use crate::out::{Colours, stdout};
use crate::store::Store;
use crate::{Done, lost, select};

/// Show a run as a tree of tasks, each with its status and duration
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  runlore tree                   the newest run
  runlore tree train --values    the newest run named `train`, with inputs and outputs
  runlore tree --resources       the newest run, with CPU time, memory and disk transfers
  runlore tree --energy          the newest run, with the energy used during each task

Columns of --resources: CPU is the CPU time of a task including the tasks it called, SELF is the CPU time without them,
and LOAD is CPU divided by the duration (100 % is one processor). MEMORY is the change of the process's resident memory;
for a command it is the peak. READ and WRITTEN are bytes read from and written to disks. `~` marks values of the whole
process that include other tasks, because they ran at the same time.

Columns of --energy: ENERGY is what the machine and its devices used while the task ran, SELF is the part during which
no task inside it ran, POWER is ENERGY divided by the duration, and SOURCE names the meters or says why the energy is
unknown. `~` means that other tasks ran at the same time. Energy is measured if `telemetry_capture.energy` is on.")]
pub(crate) struct Args {
    /// The run: its id, the first or last characters of it (at least 4), or its name, which selects
    /// the newest run of that name [default: the newest run]
    run: Option<String>,

    /// Show inputs and outputs, shortened
    #[arg(long, short)]
    values: bool,

    /// Show what each task used: CPU time, memory, disk transfers
    #[arg(long, short, conflicts_with = "values")]
    resources: bool,

    /// Show the energy used while each task ran, and the meters it was read from
    #[arg(long, short, conflicts_with_all = ["values", "resources"])]
    energy: bool,

    /// Print one JSON object per line, in the order of the tree: `depth`, `shown` (the status as shown
    /// in the tree), `detached` and `record`
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
