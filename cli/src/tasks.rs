//! `runlore tasks`: lists the tasks of a run, one per line.

use std::io::Write;
use std::process::ExitCode;

use runlore::record::{Shown, Status, TaskObject};
use runlore_core::text::human_duration;

use crate::out::{RED, local_time, paint, short_ids, stdout};
use crate::store::Store;
use crate::table::{self, Cell};
use crate::{Done, lost, select};

/// List the tasks of a run by start time
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  runlore tasks                  the tasks of the newest run
  runlore tasks train            those of the newest run named `train`
  runlore tasks a350e9a46279 --json | jq .used")]
pub(crate) struct Args {
    /// The run: its id, the first or last characters of it (at least 4), or its name, which selects
    /// the newest run of that name [default: the newest run]
    run: Option<String>,

    /// Print the record of each task as one JSON object per line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, store: &Store) -> Done {
    let records = store.open()?;
    let run = select::run(&store.runs(&records)?, args.run.as_deref(), store)?.workflow.clone();
    let asked = records.tasks().filter(select::of_run(&run.workflow_id));
    // The telemetry of a long run does not fit into memory.
    let asked = if args.json { asked } else { asked.only(ROW) };
    let mut tasks = asked.to_vec()?;
    store.tell(&records);
    tasks.sort_by(|one, other| {
        let start = |task: &TaskObject| task.started_at.unwrap_or(f64::INFINITY);
        start(one).total_cmp(&start(other))
    });

    let mut out = stdout();
    if args.json {
        for task in &tasks {
            serde_json::to_writer(&mut out, task).map_err(std::io::Error::from)?;
            writeln!(out)?;
        }
    } else {
        lost::write(&mut out, [&run])?;
        write_table(&mut out, &tasks, run.is_interrupted())?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The fields of a row.
pub(crate) const ROW: [&str; 9] = [
    "task_id",
    "activity_id",
    "status",
    "started_at",
    "ended_at",
    "duration_ns",
    "stderr",
    "error.message",
    "error.chain",
];

/// Writes tasks, one per line. `is_interrupted` marks the open tasks of an interrupted run.
pub(crate) fn write_table(
    out: &mut impl Write,
    tasks: &[TaskObject],
    is_interrupted: bool,
) -> std::io::Result<()> {
    let ids: Vec<&str> = tasks.iter().map(|task| &*task.task_id).collect();
    let row = |(task, id)| row(task, id, is_interrupted);
    let rows: Vec<_> = tasks.iter().zip(short_ids(&ids)).map(row).collect();
    table::write(out, &["TASK", "NAME", "STATUS", "STARTED", ">DURATION", "ERROR"], &rows)
}

fn row(task: &TaskObject, id: &str, is_interrupted: bool) -> Vec<Cell> {
    let shown = match task.status {
        Some(Status::Running) if is_interrupted => Shown::interrupted(),
        status => status.map(Shown::from).unwrap_or_default(),
    };
    let error = task.error_message().filter(|_| task.is_error());
    vec![
        Cell::new(id),
        Cell::new(task.activity_id.as_deref().unwrap_or_default()),
        Cell::styled(&shown.to_string(), paint(shown.tone())),
        Cell::new(&task.started_at.map(local_time).unwrap_or_default()),
        Cell::new(&task.duration().map(human_duration).unwrap_or_default()),
        Cell::styled(&error.unwrap_or_default(), RED),
    ]
}
