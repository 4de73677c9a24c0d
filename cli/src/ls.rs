//! `runlore ls`: lists the runs.

use std::io::Write;
use std::process::ExitCode;

use runlore::query::RunSummary;
use runlore_core::text::human_duration;

use crate::Done;
use crate::out::{PLAIN, RED, local_time, paint, short_ids, stdout};
use crate::store::Store;
use crate::table::{self, Cell};

/// List the runs, newest first
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  runlore ls
  runlore ls --json | jq -r 'select(.status == \"ERROR\") | .workflow_id'

STATUS is the recorded status, and a warning if there is one: failed root tasks, an exit code, a run that was left open
or was interrupted, failed child runs. `lost` after the number of tasks counts tasks without a record.")]
pub(crate) struct Args {
    /// Print one JSON object per run: its record, with `shown` (the status as shown in the table),
    /// `task_counts`, and the CPU time of its tasks as `cpu_ns`
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, store: &Store) -> Done {
    let mut runs = store.runs(&store.open()?)?;
    runs.reverse();
    let mut out = stdout();
    if args.json {
        for run in &runs {
            writeln!(out, "{}", serde_json::to_value(run).unwrap_or_default())?;
        }
    } else {
        let ids: Vec<&str> = runs.iter().map(|run| &*run.workflow.workflow_id).collect();
        let rows: Vec<_> = runs.iter().zip(short_ids(&ids)).map(|(run, id)| row(run, id)).collect();
        let headings =
            ["RUN", "NAME", "STATUS", "STARTED", ">DURATION", ">CPU", ">TASKS", ">ERRORS"];
        table::write(&mut out, &headings, &rows)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn row(run: &RunSummary, id: &str) -> Vec<Cell> {
    let workflow = &run.workflow;
    let shown = run.shown();
    let tasks = match workflow.lost() {
        Some(lost) => Cell::styled(&format!("{} (+ {} lost)", run.tasks, lost.number()), RED),
        None => Cell::new(&run.tasks.to_string()),
    };
    vec![
        Cell::new(if id.is_empty() { "(none)" } else { id }),
        Cell::new(workflow.name.as_deref().unwrap_or_default()),
        Cell::styled(&shown.to_string(), paint(shown.tone())),
        Cell::new(&workflow.started_at.map(local_time).unwrap_or_default()),
        Cell::new(&workflow.duration().map(human_duration).unwrap_or_default()),
        Cell::new(&run.cpu.map(human_duration).unwrap_or_default()),
        tasks,
        Cell::styled(&run.errors.to_string(), if run.errors > 0 { RED } else { PLAIN }),
    ]
}
