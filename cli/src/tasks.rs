//! `runlore tasks`: the tasks of a run, one a line.

use std::io::Write;
use std::process::ExitCode;

use runlore::query::text::human_duration;
use runlore::record::{Record, TaskObject};

use crate::out::{RED, local_time, paint, short_ids, stdout};
use crate::store::Store;
use crate::table::{self, Cell};
use crate::{Done, select};

/// List the tasks of a run in the order they began
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  runlore tasks                  of the newest run
  runlore tasks train            of the newest run named `train`
  runlore tasks a350e9a46279 --json | jq .used")]
pub(crate) struct Args {
    /// The run: its id, 4 or more characters its id begins or ends with, or its name (the newest of
    /// that name); none: the newest
    run: Option<String>,

    /// One JSON object a task: its record
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, store: &Store) -> Done {
    let runs = store.runs()?;
    let run = select::run(&runs, args.run.as_deref(), store)?;
    let id = run.workflow.workflow_id.clone();
    drop(runs);

    let loaded = store.load(|record| match record {
        Record::Task(task) if task.workflow_id.as_deref().unwrap_or_default() == id => {
            Some(if args.json { Record::Task(task) } else { slim(&task).into() })
        }
        _ => None,
    })?;
    let mut tasks = loaded.tasks;
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
        let ids: Vec<&str> = tasks.iter().map(|task| &*task.task_id).collect();
        let rows: Vec<_> =
            tasks.iter().zip(short_ids(&ids)).map(|(task, id)| row(task, id)).collect();
        table::write(
            &mut out,
            &["TASK", "NAME", "STATUS", "STARTED", ">DURATION", "ERROR"],
            &rows,
        )?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// What a row needs of a task: the telemetry of a long run does not fit into memory.
fn slim(task: &TaskObject) -> TaskObject {
    TaskObject {
        task_id: task.task_id.clone(),
        workflow_id: task.workflow_id.clone(),
        activity_id: task.activity_id.clone(),
        status: task.status,
        started_at: task.started_at,
        ended_at: task.ended_at,
        duration_ns: task.duration_ns,
        stderr: task.error_message().map(std::borrow::Cow::into_owned),
        ..TaskObject::default()
    }
}

fn row(task: &TaskObject, id: &str) -> Vec<Cell> {
    let error = task.error_message().filter(|_| task.is_error());
    vec![
        Cell::new(id),
        Cell::new(task.activity_id.as_deref().unwrap_or_default()),
        Cell::styled(task.status.map_or("", |status| status.as_str()), paint(task.status)),
        Cell::new(&task.started_at.map(local_time).unwrap_or_default()),
        Cell::new(&task.duration().map(human_duration).unwrap_or_default()),
        Cell::styled(&error.unwrap_or_default(), RED),
    ]
}
