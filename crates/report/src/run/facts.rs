//! The parts of a run report, as plain data.

use serde::Serialize;
use serde_json::Value;

use runlore_core::record::{Lost, Status, TaskObject, WorkflowObject};
use runlore_core::text::thousands;
use runlore_query::query::Group;

/// The main fields of a run's record.
#[derive(Debug, Clone, Default, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the workflow's record")]
pub struct RunFacts {
    pub workflow_id: String,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// The status as all views show it. See [`WorkflowObject::shown`].
    pub shown: String,
    /// Whether that status is a failure.
    pub failed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl RunFacts {
    pub(super) fn of(workflow: &WorkflowObject, failed_children: u64) -> Self {
        let shown = workflow.shown().with_failed_children(failed_children);
        Self {
            workflow_id: workflow.workflow_id.clone(),
            name: workflow.display_name().to_owned(),
            description: workflow.workflow_description.clone(),
            status: workflow.status,
            shown: shown.to_string(),
            failed: shown.is_failure(),
            started_at: workflow.started_at,
            duration_ns: workflow.duration().map(|duration| duration.as_nanos() as u64),
            hostname: workflow.hostname.clone(),
            user: workflow.user.clone(),
            error: workflow.error_message().map(std::borrow::Cow::into_owned),
        }
    }
}

impl RunFacts {
    /// Returns the status to display, or "unknown" if the record has none.
    pub(super) fn shown_or_unknown(&self) -> &str {
        if self.shown.is_empty() { "unknown" } else { &self.shown }
    }
}

/// The number of tasks, by how they ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Counts {
    pub tasks: u64,
    pub finished: u64,
    pub errors: u64,
    pub running: u64,
}

/// Totals and statistics of the tasks of one activity.
#[derive(Debug, Clone, Default, Serialize)]
#[expect(missing_docs, reason = "the fields are those of `query::Group`, in nanoseconds and bytes")]
pub struct Activity {
    pub name: String,
    pub tasks: u64,
    pub errors: u64,
    pub running: u64,
    pub total_ns: u64,
    pub mean_ns: u64,
    pub p50_ns: u64,
    pub p95_ns: u64,
    pub max_ns: u64,
    pub cpu_ns: Option<u64>,
    pub peak_rss_bytes: Option<u64>,
    pub read_bytes: Option<u64>,
    pub write_bytes: Option<u64>,
    pub joules: Option<f64>,
}

impl Activity {
    pub(super) fn of(group: &Group) -> Self {
        let spread = group.duration;
        let ns = |of: fn(&runlore_query::query::Distribution) -> std::time::Duration| {
            spread.as_ref().map_or(0, |spread| of(spread).as_nanos() as u64)
        };
        Self {
            name: group.name(),
            tasks: group.tasks,
            errors: group.errors,
            running: group.running,
            total_ns: ns(|it| it.total),
            mean_ns: ns(|it| it.mean),
            p50_ns: ns(|it| it.p50),
            p95_ns: ns(|it| it.p95),
            max_ns: ns(|it| it.max),
            cpu_ns: group.cpu.map(|cpu| cpu.as_nanos() as u64),
            peak_rss_bytes: group.peak_rss,
            read_bytes: group.read_bytes,
            write_bytes: group.write_bytes,
            joules: group.joules,
        }
    }
}

/// The fields of a task that a report shows.
#[derive(Debug, Clone, Default, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the task's record")]
pub struct TaskFacts {
    pub task_id: String,
    pub activity: String,
    pub status: Option<String>,
    pub started_at: Option<f64>,
    pub duration_ns: u64,
    #[serde(skip_serializing_if = "Value::is_null")]
    pub used: Value,
    #[serde(skip_serializing_if = "Value::is_null")]
    pub generated: Value,
    #[serde(skip_serializing_if = "Value::is_null")]
    pub error: Value,
    /// The source location, such as `src/data.rs:12`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

impl TaskFacts {
    pub(super) fn of(task: &TaskObject, duration_ns: u64) -> Self {
        let code = task.code.as_ref().and_then(|code| {
            let file = code.file.as_deref()?;
            Some(code.line.map_or_else(|| file.to_owned(), |line| format!("{file}:{line}")))
        });
        let field = |name: &str| task.field(name).unwrap_or_default();
        Self {
            task_id: task.task_id.clone(),
            activity: task.activity_id.clone().unwrap_or_else(|| "(none)".to_owned()),
            status: field("status").as_str().map(str::to_owned),
            started_at: task.started_at,
            duration_ns,
            used: field("used"),
            generated: field("generated"),
            error: field("error"),
            code,
        }
    }
}

/// Failures of one activity with the same message.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Failed {
    /// The activity that failed.
    pub activity: String,
    /// The error message.
    pub message: String,
    /// The number of tasks that failed this way.
    pub tasks: u64,
    /// The first such task that was read.
    pub example: TaskFacts,
}

/// A value that could not be recorded, and why.
#[derive(Debug, Clone, Default, Serialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Unavailable {
    pub what: String,
    pub reason: String,
    pub tasks: u64,
}

/// A crate whose functions were recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Crate {
    /// Its name.
    pub name: String,
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The commit that it was built from, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The number of tasks of its functions.
    pub tasks: u64,
}

impl Crate {
    pub(super) fn of(([name, version, commit], tasks): ([Option<Box<str>>; 3], u64)) -> Self {
        Self {
            name: name.map(String::from).unwrap_or_default(),
            version: version.map(String::from),
            commit: commit.map(String::from),
            tasks,
        }
    }
}

/// The overhead of recording a run and the runs that it started, and what was lost. A field is
/// `None` if no record has its value.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Cost {
    /// Time spent on reading telemetry, summed over all threads.
    pub capture_ns: Option<u64>,
    /// That time as a percentage of the run's duration.
    pub capture_percent: Option<f64>,
    /// Bytes of records written.
    pub bytes_written: Option<u64>,
    /// Tasks that were dropped without a record.
    pub dropped: Option<u64>,
    /// Records that a store refused.
    pub refused: Option<u64>,
    /// Records that wait on disk for their store.
    pub spooled: Option<u64>,
    /// The reason why the number of lost records is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_unknown: Option<String>,
}

impl Cost {
    /// Adds up the costs of a run, which comes first, and of the runs that it started.
    pub(super) fn of(runs: &[WorkflowObject]) -> Self {
        let sum = |name: &str| {
            let told = runs.iter().filter_map(|run| run.totals.as_ref()?.get(name)?.as_u64());
            told.fold(None, |sum: Option<u64>, more| Some(sum.unwrap_or(0).saturating_add(more)))
        };
        let capture_ns = sum("capture_ns");
        let capture_percent = match runs {
            [one] => one.totals.as_ref().and_then(|it| it.get("capture_percent")?.as_f64()),
            // Percentages of runs with different durations cannot be added.
            several => {
                let length = several.first().and_then(WorkflowObject::duration);
                let length = length.map(|length| length.as_nanos() as f64).filter(|it| *it > 0.0);
                capture_ns.zip(length).map(|(ns, length)| ns as f64 / length * 100.0)
            }
        };
        Self {
            capture_ns,
            capture_percent,
            bytes_written: sum("bytes_written"),
            dropped: sum("dropped"),
            refused: sum("refused"),
            spooled: sum("spooled"),
            lost_unknown: Lost::of(runs).and_then(|lost| lost.unknown),
        }
    }

    /// Returns the number of lost tasks as text, and whether to highlight it as a problem.
    pub(super) fn lost_in_words(&self) -> (String, bool) {
        match (self.lost(), &self.lost_unknown) {
            (Some(lost @ 1..), Some(_)) => (format!("{} or more", thousands(lost)), true),
            (_, Some(_)) => ("unknown".to_owned(), true),
            (Some(lost), None) => (thousands(lost), lost > 0),
            (None, None) => ("unknown".to_owned(), false),
        }
    }

    /// Returns the number of dropped and refused records. `None` if no record has these counts.
    pub(super) fn lost(&self) -> Option<u64> {
        match (self.dropped, self.refused) {
            (None, None) => None,
            (dropped, refused) => Some(dropped.unwrap_or(0).saturating_add(refused.unwrap_or(0))),
        }
    }
}
