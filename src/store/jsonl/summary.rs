//! The runs of a path with their tasks counted, not kept.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use super::load::key;
use super::read::read;
use crate::record::{Record, Status, TaskObject, WorkflowObject};
use crate::store::join::Workflows;
use crate::{Error, Result};

/// A run and how its tasks stand.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct RunSummary {
    /// Its record. Where only tasks tell of it: their workflow id, and when the first of them began.
    pub workflow: WorkflowObject,
    /// Its tasks, however they stand.
    pub tasks: u64,
    /// Its tasks that ended by an error.
    pub errors: u64,
    /// Its tasks that have begun and not ended.
    pub running: u64,
    /// The processor time of its tasks that have ended, and of the processes that they ran; none where no task tells.
    pub cpu: Option<Duration>,
}

/// The runs of a file or folder.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Summaries {
    /// The runs, oldest first.
    pub runs: Vec<RunSummary>,
    /// What could not be read.
    pub problems: Vec<Error>,
}

/// Reads the runs of a file or folder and counts their tasks: of each task only a few bytes are kept, to
/// count it once.
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
/// Where the path itself cannot be read; what is wrong inside is in [`Summaries::problems`].
pub fn summaries(path: impl AsRef<Path>) -> Result<Summaries> {
    let mut problems = Vec::new();
    let mut workflows = Workflows::default();
    let mut counts = Counts::default();
    for record in read(path)? {
        match record {
            Ok(Record::Task(task)) => counts.add(&task),
            Ok(Record::Workflow(workflow)) => workflows.add(*workflow),
            Ok(Record::Other(_)) => {}
            Err(problem) => problems.push(problem),
        }
    }
    let mut runs: Vec<_> = workflows
        .joined()
        .into_iter()
        .map(|workflow| {
            let counted = counts.by_workflow.remove(&workflow.workflow_id).unwrap_or_default();
            RunSummary { workflow, ..counted }
        })
        .collect();
    runs.extend(counts.by_workflow.into_values());
    runs.sort_by(|one, other| {
        let start = |run: &RunSummary| run.workflow.started_at.unwrap_or(f64::NEG_INFINITY);
        start(one)
            .total_cmp(&start(other))
            .then_with(|| one.workflow.workflow_id.cmp(&other.workflow.workflow_id))
    });
    Ok(Summaries { runs, problems })
}

#[derive(Debug, Default)]
struct Counts {
    by_workflow: HashMap<String, RunSummary>,
    seen: HashMap<u128, Option<Status>>,
}

impl Counts {
    fn add(&mut self, task: &TaskObject) {
        let workflow_id = task.workflow_id.as_deref().unwrap_or_default();
        let run = match self.by_workflow.get_mut(workflow_id) {
            Some(run) => run,
            None => {
                let workflow = WorkflowObject {
                    workflow_id: workflow_id.to_owned(),
                    ..WorkflowObject::default()
                };
                let run = RunSummary { workflow, ..RunSummary::default() };
                self.by_workflow.entry(workflow_id.to_owned()).or_insert(run)
            }
        };
        if let Some(start) = task.started_at {
            let first = run.workflow.started_at.get_or_insert(start);
            *first = first.min(start);
        }
        let before = self.seen.insert(key(task), task.status);
        // A task may be told twice; its time counts once.
        if !before.flatten().is_some_and(Status::is_final)
            && let Some(cpu) = task.own_cpu()
        {
            *run.cpu.get_or_insert_default() += cpu;
        }
        match before {
            None => run.tasks += 1,
            Some(before) if before.is_some_and(Status::is_final) && !task.is_finished() => {
                self.seen.insert(key(task), before);
                return;
            }
            Some(before) => run.count(before, u64::wrapping_sub),
        }
        run.count(task.status, u64::wrapping_add);
    }
}

impl RunSummary {
    fn count(&mut self, status: Option<Status>, change: fn(u64, u64) -> u64) {
        match status {
            Some(Status::Error) => self.errors = change(self.errors, 1),
            Some(Status::Running) => self.running = change(self.running, 1),
            _ => {}
        }
    }
}
