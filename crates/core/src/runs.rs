//! The runs of a store, with counts of their tasks.

use std::collections::HashMap;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::record::{Record, Shown, Status, TaskObject, WorkflowObject};
use crate::{Error, Result};

/// A run with the counts of its tasks.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct RunSummary {
    /// The run's record. If the store has only tasks of it, this has their workflow id and the
    /// start time of the first one.
    pub workflow: WorkflowObject,
    /// The number of its tasks, in any state.
    pub tasks: u64,
    /// The number of its tasks that ended with an error.
    pub errors: u64,
    /// The number of its tasks that have started but not ended.
    pub running: u64,
    /// The processor time of its ended tasks and of the processes that they ran. `None` if no task
    /// recorded it.
    pub cpu: Option<Duration>,
    /// How many of the runs that it started failed, directly or through others.
    pub failed_children: u64,
}

/// The runs of a store.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Runs {
    /// The runs, oldest first.
    pub runs: Vec<RunSummary>,
    /// Errors for what could not be read.
    pub problems: Vec<Error>,
}

/// Counts runs while records are added one by one. Each task and each workflow must be added only
/// once.
#[derive(Debug, Default)]
pub struct CountedRuns {
    by_workflow: HashMap<String, RunSummary>,
    workflows: Vec<WorkflowObject>,
    problems: Vec<Error>,
}

impl CountedRuns {
    /// The fields of a task that are used.
    pub const FIELDS: [&str; 7] = [
        "type",
        "task_id",
        "workflow_id",
        "status",
        "started_at",
        "resources.cpu_ns",
        "resources.child",
    ];

    pub fn add(&mut self, record: Result<Record>) {
        match record {
            Ok(Record::Task(task)) => self.run_of(&task).count_task(&task),
            Ok(Record::Workflow(workflow)) => self.workflows.push(*workflow),
            Ok(Record::Other(_)) => {}
            Err(problem) => self.problems.push(problem),
        }
    }

    /// Notes that a run has a task, without counting the task.
    pub fn list(&mut self, workflow_id: &str, started_at: Option<f64>) {
        self.run(workflow_id).began(started_at);
    }

    /// Returns the run that a task belongs to.
    pub fn run_of(&mut self, task: &TaskObject) -> &mut RunSummary {
        self.run(task.workflow_id.as_deref().unwrap_or_default())
    }

    fn run(&mut self, workflow_id: &str) -> &mut RunSummary {
        if !self.by_workflow.contains_key(workflow_id) {
            let workflow =
                WorkflowObject { workflow_id: workflow_id.to_owned(), ..WorkflowObject::default() };
            let run = RunSummary { workflow, ..RunSummary::default() };
            self.by_workflow.insert(workflow_id.to_owned(), run);
        }
        self.by_workflow.get_mut(workflow_id).expect("it was there or was added")
    }

    pub fn finish(mut self) -> Runs {
        let mut runs: Vec<_> = std::mem::take(&mut self.workflows)
            .into_iter()
            .map(|workflow| {
                let counted = self.by_workflow.remove(&workflow.workflow_id).unwrap_or_default();
                RunSummary { workflow, ..counted }
            })
            .collect();
        runs.extend(self.by_workflow.into_values());
        runs.sort_by(|one, other| {
            let start = |run: &RunSummary| run.workflow.started_at.unwrap_or(f64::NEG_INFINITY);
            start(one)
                .total_cmp(&start(other))
                .then_with(|| one.workflow.workflow_id.cmp(&other.workflow.workflow_id))
        });
        let failed = failed_children(runs.iter().map(|run| &run.workflow));
        for (run, failed) in runs.iter_mut().zip(failed) {
            run.failed_children = failed;
        }
        Runs { runs, problems: self.problems }
    }
}

/// Returns for each run how many of the runs that it started failed, directly or through others.
pub fn failed_children<'a>(runs: impl Iterator<Item = &'a WorkflowObject> + Clone) -> Vec<u64> {
    let places: HashMap<&str, usize> =
        runs.clone().enumerate().map(|(at, run)| (&*run.workflow_id, at)).collect();
    let parents: Vec<Option<usize>> =
        runs.clone().map(|run| places.get(run.parent_workflow_id.as_deref()?).copied()).collect();
    let mut failed = vec![0; parents.len()];
    for (at, _) in runs.enumerate().filter(|(_, run)| run.has_failed()) {
        let mut above = parents[at];
        // In records of other programs the parents may form a circle.
        let mut steps = parents.len();
        while let Some(parent) = above.filter(|parent| *parent != at && steps > 0) {
            failed[parent] += 1;
            steps -= 1;
            above = parents[parent];
        }
    }
    failed
}

/// Serializes the run's record with the counts of its tasks, its processor time and its status as
/// it is shown.
impl Serialize for RunSummary {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Counts {
            all: u64,
            #[serde(rename = "ERROR")]
            errors: u64,
            #[serde(rename = "RUNNING")]
            running: u64,
        }
        #[derive(Serialize)]
        struct Fields<'a> {
            #[serde(flatten)]
            workflow: &'a WorkflowObject,
            task_counts: Counts,
            shown: String,
            #[serde(skip_serializing_if = "Option::is_none")]
            cpu_ns: Option<u64>,
        }
        let fields = Fields {
            workflow: &self.workflow,
            task_counts: Counts { all: self.tasks, errors: self.errors, running: self.running },
            shown: self.shown().to_string(),
            cpu_ns: self.cpu.map(|cpu| u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX)),
        };
        fields.serialize(to)
    }
}

impl RunSummary {
    /// Returns the status as it is shown: see [`WorkflowObject::shown`], plus the failed child
    /// runs.
    pub fn shown(&self) -> Shown {
        self.workflow.shown().with_failed_children(self.failed_children)
    }

    /// Counts a task that was not counted before.
    pub(crate) fn count_task(&mut self, task: &TaskObject) {
        self.began(task.started_at);
        self.tasks += 1;
        self.count_status(task.status, u64::wrapping_add);
        if let Some(cpu) = task.own_cpu() {
            *self.cpu.get_or_insert_default() += cpu;
        }
    }

    /// Notes the start of a task. A run without a record of its own starts with its first task.
    pub fn began(&mut self, started_at: Option<f64>) {
        if let Some(start) = started_at {
            let first = self.workflow.started_at.get_or_insert(start);
            *first = first.min(start);
        }
    }

    pub(crate) fn count_status(&mut self, status: Option<Status>, change: fn(u64, u64) -> u64) {
        match status {
            Some(Status::Error) => self.errors = change(self.errors, 1),
            Some(Status::Running) => self.running = change(self.running, 1),
            _ => {}
        }
    }
}
