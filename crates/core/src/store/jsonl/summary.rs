//! Lists the runs of a path and counts their tasks without keeping them.

use std::collections::HashMap;
use std::path::Path;

use super::joined::{Repeats, short_key};
use super::load::key;
use super::read::{Listed, read_parts};
use crate::Result;
use crate::json::mask::FieldMask;
use crate::record::{Record, Status, TaskObject};
use crate::runs::{CountedRuns, Runs};
use crate::store::join::Workflows;

/// Reads the runs of a file or folder and counts their tasks. Only a few bytes per task are kept in
/// memory, to count each task once.
///
/// ```
/// # let file = std::env::temp_dir().join(format!("runlore-doc-sum-{}.jsonl", std::process::id()));
/// std::fs::write(&file, concat!(
///     r#"{"type":"workflow","workflow_id":"w","name":"train","status":"RUNNING"}"#, "\n",
///     r#"{"type":"task","task_id":"t","workflow_id":"w","status":"ERROR"}"#, "\n",
/// ))?;
/// let runs = runlore::store::jsonl::summaries(&file)?.runs;
/// assert_eq!(runs[0].workflow.name.as_deref(), Some("train"));
/// assert_eq!((runs[0].tasks, runs[0].errors), (1, 1));
/// # std::fs::remove_file(&file)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// If the path itself cannot be read. Problems inside it are in [`Runs::problems`].
pub fn summaries(path: impl AsRef<Path>) -> Result<Runs> {
    let mut workflows = Workflows::default();
    let mut counts = Counts::default();
    let wanted = FieldMask::paths(CountedRuns::FIELDS);
    for record in read_parts(path.as_ref(), Some(wanted))? {
        match record {
            Ok(Record::Task(task)) => counts.add(&task),
            Ok(Record::Workflow(workflow)) => workflows.add(*workflow),
            other => counts.runs.add(other),
        }
    }
    for workflow in workflows.joined() {
        counts.runs.add(Ok(workflow.into()));
    }
    Ok(counts.runs.finish())
}

/// Like [`summaries`], without counting tasks. Also returns which tasks have several lines.
pub fn listed(path: &Path) -> Result<(Runs, Repeats)> {
    let mut workflows = Workflows::default();
    let mut repeats = Repeats::default();
    let mut runs = CountedRuns::default();
    let mut reader = read_parts(path, Some(FieldMask::default()))?;
    while let Some(found) = reader.next_listed() {
        match found {
            Ok(Listed::Task(workflow_id, started_at, key)) => {
                repeats.note(key);
                runs.list(&workflow_id, started_at);
            }
            Ok(Listed::Record(Record::Task(task))) => {
                let workflow_id = task.workflow_id.as_deref().unwrap_or_default();
                repeats.note(Some(short_key(workflow_id, &task.task_id)));
                runs.list(workflow_id, task.started_at);
            }
            Ok(Listed::Record(Record::Workflow(workflow))) => workflows.add(*workflow),
            Ok(Listed::Record(Record::Other(_))) => {}
            Err(problem) => runs.add(Err(problem)),
        }
    }
    for workflow in workflows.joined() {
        runs.add(Ok(workflow.into()));
    }
    repeats.finish();
    Ok((runs.finish(), repeats))
}

#[derive(Debug, Default)]
struct Counts {
    runs: CountedRuns,
    seen: HashMap<u128, Option<Status>>,
}

impl Counts {
    /// Counts the task of one line. A task may have several lines.
    fn add(&mut self, task: &TaskObject) {
        let run = self.runs.run_of(task);
        let Some(before) = self.seen.insert(key(task), task.status) else {
            return run.count_task(task);
        };
        let has_ended = before.is_some_and(Status::is_final);
        if has_ended && !task.is_finished() {
            self.seen.insert(key(task), before);
            return;
        }
        run.began(task.started_at);
        run.count_status(before, u64::wrapping_sub);
        run.count_status(task.status, u64::wrapping_add);
        // The task may have several lines, but its time counts once.
        if !has_ended && let Some(cpu) = task.own_cpu() {
            *run.cpu.get_or_insert_default() += cpu;
        }
    }
}
