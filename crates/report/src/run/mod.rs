//! All of a run in one report.

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

/// What a run was: what ran, how it went, what it used, where and with what, and what is missing.
///
/// It is made in one pass over the records, and holds the slowest and the failed tasks, not all of them.
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
    /// Runs that it started.
    pub started: Vec<RunFacts>,
    /// How its tasks ended.
    pub tasks: Counts,
    /// What its tasks come to, by activity, most time first.
    pub activities: Vec<Activity>,
    /// Which activity called which.
    pub calls: Vec<Call>,
    /// What failed: alike failures are told once.
    pub failures: Vec<Failed>,
    /// The slowest tasks, with what went in and what came out.
    pub slowest: Vec<TaskFacts>,
    /// What an [analysis](runlore_query::analyze::run) finds in it, the worst first.
    pub findings: Vec<Finding>,
    /// Which activity used what another one made.
    pub lineage: FlowGraph,
    /// The machine, as the run's record has it.
    pub machine: Map<String, Value>,
    /// The settings in force.
    pub settings: Map<String, Value>,
    /// The repository and commit of the run, where its record names them: Flowcept's do. [`crates`](Self::crates) have what they were built from.
    pub code: Map<String, Value>,
    /// The crates that its tasks are part of, most tasks first.
    pub crates: Vec<Crate>,
    /// What could not be recorded, and why.
    pub unavailable: Vec<Unavailable>,
    /// What recording it cost, and what was lost.
    pub cost: Cost,
    /// Records that could not be read, and what was left out here.
    pub notes: Vec<String>,
    /// Tasks as bars, and what sensors told, over time.
    #[serde(skip)]
    pub picture: Picture,
}

impl RunReport {
    /// Reads a run, with those that it started.
    ///
    /// # Errors
    ///
    /// Where the store cannot be read.
    pub fn of(records: &Provenance, workflow_id: &str) -> Result<Self> {
        let (workflows, thresholds) =
            (records.workflow_and_started(workflow_id)?, Thresholds::default());
        collect::run(records, &workflows, Earlier::Asked(records), workflow_id, &thresholds)
    }

    /// The same, where the [runs](Provenance::runs) of the store are known already: a folder need not be read again for
    /// them.
    ///
    /// # Errors
    ///
    /// Where the store cannot be read.
    pub fn among(records: &Provenance, runs: &[RunSummary], workflow_id: &str) -> Result<Self> {
        Self::judged_by(records, runs, workflow_id, &Thresholds::default())
    }

    /// The same, with findings by other thresholds.
    ///
    /// # Errors
    ///
    /// Where the store cannot be read.
    pub fn judged_by(
        records: &Provenance,
        runs: &[RunSummary],
        workflow_id: &str,
        thresholds: &Thresholds,
    ) -> Result<Self> {
        let workflows = with_started(runs, workflow_id);
        collect::run(records, &workflows, Earlier::Known(runs), workflow_id, thresholds)
    }

    /// The report as JSON.
    pub fn to_json(&self) -> String {
        // Nothing in it can fail to become JSON.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}
