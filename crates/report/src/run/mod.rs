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

use self::collect::Collected;
use super::picture::Picture;
use runlore_core::Result;
use runlore_core::runs::RunSummary;
use runlore_query::analyze::{Finding, RunAnalysis, RunAnalysisBuilder, Thresholds};
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
/// let report = RunReport::builder(&Provenance::of(store), &id).build()?;
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
    /// Starts the report of a run and of the runs that it started, with options.
    pub fn builder<'a>(records: &'a Provenance, workflow_id: &'a str) -> RunReportBuilder<'a> {
        RunReportBuilder {
            workflow_id,
            analysis: RunAnalysis::builder(records, workflow_id),
            records,
        }
    }

    /// Returns the report as JSON.
    pub fn to_json(&self) -> String {
        // Every part of the report can be serialised.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

/// The options of a [report](RunReport::builder).
#[derive(Debug, Clone)]
pub struct RunReportBuilder<'a> {
    records: &'a Provenance,
    workflow_id: &'a str,
    analysis: RunAnalysisBuilder<'a>,
}

impl<'a> RunReportBuilder<'a> {
    /// Uses the [runs](Provenance::runs) of the store, which must be all of them, instead of
    /// reading them again.
    pub fn runs(mut self, runs: &'a [RunSummary]) -> Self {
        self.analysis = self.analysis.runs(runs);
        self
    }

    /// Sets the thresholds above which a finding is reported.
    pub fn thresholds(mut self, thresholds: &Thresholds) -> Self {
        self.analysis = self.analysis.thresholds(thresholds);
        self
    }

    /// Reads the run and creates the report. A run that the store does not have gives an empty
    /// report.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn build(&self) -> Result<RunReport> {
        let workflows = self.analysis.workflows()?;
        let mut collected = Collected::new(&workflows);
        let fields = Collected::fields();
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        let rows = self.analysis.read(&workflows, &fields, |task| collected.add(task))?;
        let mut report = collected.finish(&workflows, self.workflow_id);
        // A run without tasks still has a report, but nothing to analyse.
        if report.tasks.tasks > 0 {
            let analysis = self.analysis.analyze(rows, &workflows)?;
            report.picture.marks = collect::marks(&analysis.findings, &report.picture);
            report.findings = analysis.findings;
            report.notes.extend(analysis.notes);
        }
        report.notes.extend(self.records.problems());
        Ok(report)
    }
}
