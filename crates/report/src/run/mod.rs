//! A report of a whole run.

mod activities;
mod calls;
mod collect;
mod facts;
pub(super) mod gantt;
mod lineage;
mod markdown;
mod page;
mod sensors;

use serde::Serialize;
use serde_json::{Map, Value};

pub use calls::Call;
pub use facts::{Activity, Cost, Counts, Crate, Failed, RunFacts, TaskFacts, Unavailable};
pub use lineage::{Flow, FlowGraph};

use super::picture::Picture;
use runlore_core::Result;
use runlore_core::runs::RunSummary;
use runlore_query::analyze::{Earlier, Finding, Thresholds, with_started};
use runlore_query::provenance::Provenance;

/// A report of a run: what ran, how it ended, what it used, on which machine and with which
/// settings, and what is missing.
///
/// It is collected in one pass over the records. It contains the slowest and the failed tasks, not
/// all tasks.
///
/// ```
/// use runlore::report::RunReport;
/// use runlore::store::MemoryStore;
/// use runlore::{Provenance, telemetry_task};
///
/// #[telemetry_task]
/// fn load(path: &str) -> Result<u64, String> {
///     if path.is_empty() { Err("no path".to_owned()) } else { Ok(3) }
/// }
///
/// let store = MemoryStore::new();
/// let run = runlore::workflow("nightly").store(store.clone()).start()?;
/// let id = run.id().to_string();
/// _ = load("a.csv");
/// _ = load("");
/// run.finish()?;
///
/// let report = RunReport::of(&Provenance::of(store), &id)?;
/// assert_eq!((report.tasks.tasks, report.tasks.errors), (2, 1));
/// assert_eq!(report.failures[0].message, "no path");
/// assert!(report.to_html().contains("<title>nightly"));
/// assert!(report.to_markdown().contains("| load | 2 | 1 |"));
/// # Ok::<(), runlore::Error>(())
/// ```
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct RunReport {
    /// The run.
    pub run: RunFacts,
    /// The runs that it started.
    pub started: Vec<RunFacts>,
    /// The number of tasks, by how they ended.
    pub tasks: Counts,
    /// Totals and statistics of each activity, ordered by total time, longest first.
    pub activities: Vec<Activity>,
    /// The tree of activities that called each other.
    pub calls: Vec<Call>,
    /// The failures. Failures of one activity with the same message are one entry.
    pub failures: Vec<Failed>,
    /// The slowest tasks, with their inputs and outputs.
    pub slowest: Vec<TaskFacts>,
    /// The findings of an [analysis](runlore_query::analyze::run), worst first.
    pub findings: Vec<Finding>,
    /// The values that one activity generated and another one used.
    pub lineage: FlowGraph,
    /// The machine, from the run's record.
    pub machine: Map<String, Value>,
    /// The settings of the run.
    pub settings: Map<String, Value>,
    /// The repository and commit of the run, if its record has them, as Flowcept's records do. See
    /// [`crates`](Self::crates) for the commits that the crates were built from.
    pub code: Map<String, Value>,
    /// The crates of the recorded functions, ordered by number of tasks, most first.
    pub crates: Vec<Crate>,
    /// Values that could not be recorded, and the reasons.
    pub unavailable: Vec<Unavailable>,
    /// The overhead of recording, and what was lost.
    pub cost: Cost,
    /// Records that could not be read, and what this report leaves out.
    pub notes: Vec<String>,
    /// The tasks as bars, and the sensor readings as curves, over time.
    #[serde(skip)]
    pub picture: Picture,
}

impl RunReport {
    /// Creates the report of a run and of the runs that it started.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn of(records: &Provenance, workflow_id: &str) -> Result<Self> {
        let (workflows, thresholds) =
            (records.workflow_and_started(workflow_id)?, Thresholds::default());
        collect::run(records, &workflows, Earlier::Asked(records), workflow_id, &thresholds)
    }

    /// Creates the report like [`of`](Self::of), with the already known [runs](Provenance::runs) of
    /// the store. This saves reading the store again for them.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn among(records: &Provenance, runs: &[RunSummary], workflow_id: &str) -> Result<Self> {
        Self::judged_by(records, runs, workflow_id, &Thresholds::default())
    }

    /// Creates the report like [`among`](Self::among), with other thresholds for findings.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn judged_by(
        records: &Provenance,
        runs: &[RunSummary],
        workflow_id: &str,
        thresholds: &Thresholds,
    ) -> Result<Self> {
        let workflows = with_started(runs, workflow_id);
        collect::run(records, &workflows, Earlier::Known(runs), workflow_id, thresholds)
    }

    /// Returns the report as JSON.
    pub fn to_json(&self) -> String {
        // Every part of the report can be serialised.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}
