//! `runlore tree`: a run as the tree of who called whom.

mod energy;
mod names;
mod resources;

use std::collections::HashSet;
use std::io::Write;
use std::process::ExitCode;

use runlore::query::{Detached, Item, Node};
use runlore::record::{Record, TaskObject};
use runlore::store::jsonl::RunSummary;
use serde_json::{Map, Value, json};

use crate::out::{Colours, stdout};
use crate::store::Store;
use crate::{Done, select};

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

    /// One JSON object a line, in the order of the tree: `depth`, `detached` and the `record`
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, store: &Store) -> Done {
    let runs = store.runs()?;
    let root = &select::run(&runs, args.run.as_deref(), store)?.workflow.workflow_id;
    let ids = with_those_started_by(root, &runs);

    let loaded = store.load(|record| {
        let is_wanted = ids.contains(record.workflow_id().unwrap_or_default());
        is_wanted.then(|| if args.json { record } else { slim(record, args) })
    })?;
    let tree = loaded.into_tree();

    let mut out = stdout();
    if args.json {
        for (depth, node) in tree.walk() {
            writeln!(out, "{}", as_json(depth, node))?;
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

/// The run and the runs that it started, at any distance.
fn with_those_started_by<'a>(root: &'a str, runs: &'a [RunSummary]) -> HashSet<&'a str> {
    let mut ids = HashSet::from([root]);
    loop {
        let before = ids.len();
        for run in runs {
            if run.workflow.parent_workflow_id.as_deref().is_some_and(|id| ids.contains(id)) {
                ids.insert(&run.workflow.workflow_id);
            }
        }
        if ids.len() == before {
            return ids;
        }
    }
}

/// Takes off what the text does not show: the telemetry of a long run does not fit into memory.
fn slim(mut record: Record, args: &Args) -> Record {
    if let Record::Task(task) = &mut record {
        if args.energy {
            keep_energy(task);
        } else if !args.resources {
            task.resources = None;
        }
        if !args.values {
            (task.used, task.generated) = (None, None);
        }
        (task.telemetry_at_start, task.telemetry_at_end) = (None, None);
        (task.hashes, task.custom_metadata) = (None, None);
        (task.code, task.capture, task.data, task.stdout) = (None, None, None, None);
    }
    record
}

/// Leaves of what a task used the energy, or why it is not known.
fn keep_energy(task: &mut TaskObject) {
    let reason = task.joules().err().map(str::to_owned);
    if let Some(resources) = &mut task.resources {
        resources.retain(|name, _| name == "joules");
    }
    task.unavailable =
        reason.map(|reason| Map::from_iter([("resources.joules".to_owned(), reason.into())]));
}

fn as_json(depth: usize, node: &Node) -> Value {
    let record = match &node.item {
        Item::Task(task) => serde_json::to_value(task),
        Item::Workflow(workflow) => serde_json::to_value(workflow),
    };
    let mut line = json!({"depth": depth, "record": record.unwrap_or_default()});
    if let Some(why) = node.detached {
        line["detached"] = match why {
            Detached::ParentMissing => "parent missing".into(),
            Detached::Circle => "circle".into(),
            _ => format!("{why:?}").into(),
        };
    }
    line
}
