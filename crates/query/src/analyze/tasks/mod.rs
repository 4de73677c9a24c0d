//! Analyses the tasks of a run: where its time went, which tasks stood out, waited or ran in
//! parallel, and how the machine affected them.

mod activities;
mod growth;
mod outliers;
mod overhead;
mod parallel;
mod path;
mod pressure;
mod rows;

use std::collections::{HashMap, HashSet};

use serde::Serialize;

pub use activities::ActivityTime;
pub use parallel::Parallelism;
pub use path::{CriticalPath, PathStep};
#[doc(hidden)]
pub use rows::Names;

use self::rows::Rows;
use super::finding::{self, Finding, Severity, Window};
use super::kind::Kind;
use super::thresholds::Thresholds;
use crate::provenance::Provenance;
use crate::query::{Filter, field};
use runlore_core::record::{Lost, TaskObject, WorkflowObject};
use runlore_core::runs::RunSummary;
use runlore_core::{Error, ErrorKind, Result};

/// The result of analysing the tasks of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RunAnalysis {
    /// The id of the run.
    pub workflow_id: String,
    /// The name of the run.
    pub name: Option<String>,
    /// How the run ended, as [every view shows it](WorkflowObject::shown).
    pub shown: Option<String>,
    /// The number of tasks, including those of the runs that it started.
    pub tasks: u64,
    /// The number of tasks that failed.
    pub errors: u64,
    /// The number of tasks that have not ended.
    pub running: u64,
    /// The time span of the run, by its own record and its tasks.
    pub window: Option<Window>,
    /// The findings, the worst first.
    pub findings: Vec<Finding>,
    /// Time by activity, most own time first.
    pub activities: Vec<ActivityTime>,
    /// The tasks that must become shorter for the run to become shorter.
    pub critical_path: CriticalPath,
    /// How many tasks were at work at the same time.
    pub parallelism: Option<Parallelism>,
    /// What could not be analysed, and why.
    pub notes: Vec<String>,
}

impl RunAnalysis {
    /// Starts an analysis of a run, with options.
    ///
    /// ```
    /// use runlore::Provenance;
    /// use runlore::analyze::{RunAnalysis, Thresholds};
    ///
    /// # let file = std::env::temp_dir().join(format!("runlore-doc-analysis-{}.jsonl", std::process::id()));
    /// # let run = r#"{"type":"workflow","workflow_id":"w","name":"train","started_at":0.0,"ended_at":9.0}"#;
    /// # std::fs::write(&file, run)?;
    /// let records = Provenance::open(&file)?;
    /// let mut thresholds = Thresholds::default();
    /// thresholds.set("outlier_factor=5")?;
    /// let runs = records.runs()?;
    /// let analysis = RunAnalysis::builder(&records, "w").runs(&runs).thresholds(&thresholds).build()?;
    /// assert_eq!(analysis.name.as_deref(), Some("train"));
    /// # std::fs::remove_file(&file)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn builder<'a>(records: &'a Provenance, workflow_id: &'a str) -> RunAnalysisBuilder<'a> {
        RunAnalysisBuilder { records, workflow_id, runs: None, thresholds: Thresholds::default() }
    }

    /// Returns the severity of the worst finding. `None` without findings.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }
}

/// Analyses a run and the runs that it started. Reads one task at a time, and keeps only its id
/// and some numbers.
///
/// ```
/// use runlore::Provenance;
/// use runlore::analyze::{self, Thresholds};
///
/// # let file = std::env::temp_dir().join(format!("runlore-doc-analyze-{}.jsonl", std::process::id()));
/// # let mut lines = String::from(r#"{"type":"workflow","workflow_id":"w","name":"train","started_at":0.0,"ended_at":10.0}"#);
/// # for (id, name, from, took) in [("a", "load", 0, 2), ("b", "fit", 2, 7), ("c", "save", 9, 1)] {
/// #     lines += &format!("\n{{\"type\":\"task\",\"task_id\":\"{id}\",\"workflow_id\":\"w\",\"activity_id\":\"{name}\",\
/// #         \"started_at\":{from}.0,\"duration_ns\":{took}000000000,\"status\":\"FINISHED\"}}");
/// # }
/// # std::fs::write(&file, lines)?;
/// let records = Provenance::open(&file)?;
/// let report = analyze::run(&records, "w", &Thresholds::default())?;
/// assert_eq!(report.activities[0].activity_id, "fit");
/// assert_eq!(report.findings[0].to_string(), "info slow_activity: activity fit: \
///     70 % of the critical path are its own: 7.0 s in 1 task");
/// # std::fs::remove_file(&file)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// Returns an error if the store cannot be read, or has no such run.
pub fn run(
    records: &Provenance,
    workflow_id: &str,
    thresholds: &Thresholds,
) -> Result<RunAnalysis> {
    RunAnalysis::builder(records, workflow_id).thresholds(thresholds).build()
}

/// Returns the run and all runs that it started, directly or indirectly.
fn with_started(runs: &[RunSummary], workflow_id: &str) -> Vec<WorkflowObject> {
    let mut by_parent: HashMap<&str, Vec<&WorkflowObject>> = HashMap::new();
    for workflow in runs.iter().map(|run| &run.workflow) {
        if let Some(parent) = &workflow.parent_workflow_id {
            by_parent.entry(parent).or_default().push(workflow);
        }
    }
    let mut found: Vec<&WorkflowObject> =
        runs.iter().map(|run| &run.workflow).filter(|it| it.workflow_id == workflow_id).collect();
    // Records may contain a cycle.
    let mut seen = HashSet::from([workflow_id]);
    let mut at = 0;
    while at < found.len() {
        let started = by_parent.get(&*found[at].workflow_id).into_iter().flatten();
        found.extend(started.filter(|started| seen.insert(&started.workflow_id)));
        at += 1;
    }
    found.into_iter().cloned().collect()
}

/// Returns a filter for the tasks of a run and of the runs that it started.
fn tasks_of(workflow_id: &str, workflows: &[WorkflowObject]) -> Filter {
    let ids: Vec<String> = match workflows {
        [] => vec![workflow_id.to_owned()],
        all => all.iter().map(|one| one.workflow_id.clone()).collect(),
    };
    match workflow_id {
        // Some records do not name a run.
        "" => field("workflow_id").exists(false),
        _ => field("workflow_id").is_in(ids),
    }
}

/// Reports tasks without a record. All other findings then cover only a part of the run.
fn lost(workflows: &[WorkflowObject]) -> Option<Finding> {
    let lost = Lost::of(workflows)?;
    let severity = if lost.tasks() > 0 { Severity::Critical } else { Severity::Warning };
    let finding = Finding::new(Kind::LostTasks, severity, 1.0, lost.to_string())
        .with("dropped_count", lost.dropped)
        .with("refused_count", lost.refused);
    Some(finding)
}

/// The options of an [analysis](RunAnalysis::builder).
#[derive(Debug, Clone)]
pub struct RunAnalysisBuilder<'a> {
    records: &'a Provenance,
    workflow_id: &'a str,
    runs: Option<&'a [RunSummary]>,
    thresholds: Thresholds,
}

impl<'a> RunAnalysisBuilder<'a> {
    /// Uses the [runs](Provenance::runs) of the store, which must be all of them, instead of
    /// reading them again.
    pub fn runs(mut self, runs: &'a [RunSummary]) -> Self {
        self.runs = Some(runs);
        self
    }

    /// Sets the thresholds above which a finding is reported.
    pub fn thresholds(mut self, thresholds: &Thresholds) -> Self {
        self.thresholds.clone_from(thresholds);
        self
    }

    /// Analyses the run.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read, or has no such run.
    pub fn build(&self) -> Result<RunAnalysis> {
        let workflows = self.workflows()?;
        let rows = self.read(&workflows, &[], |_| {})?;
        self.analyze(rows, &workflows)
    }

    /// Returns the run, if it has a record, and the runs that it started.
    #[doc(hidden)]
    pub fn workflows(&self) -> Result<Vec<WorkflowObject>> {
        match self.runs {
            Some(runs) => Ok(with_started(runs, self.workflow_id)),
            None => self.records.workflow_and_started(self.workflow_id),
        }
    }

    /// Reads the tasks, each with these fields besides those that the analysis needs, and passes
    /// each to `visit`.
    #[doc(hidden)]
    pub fn read(
        &self,
        workflows: &[WorkflowObject],
        fields: &[&str],
        mut visit: impl FnMut(&TaskObject),
    ) -> Result<Rows> {
        let mut rows = Rows::default();
        let tasks = self.records.tasks().filter(tasks_of(self.workflow_id, workflows));
        let fields = rows::FIELDS.iter().chain(fields).copied();
        for task in tasks.only(fields).loosely().run()? {
            let task = task?;
            rows.add(&task);
            visit(&task);
        }
        Ok(rows)
    }

    /// Analyses the tasks.
    #[doc(hidden)]
    pub fn analyze(&self, mut rows: Rows, workflows: &[WorkflowObject]) -> Result<RunAnalysis> {
        let Self { records, workflow_id, runs, ref thresholds } = *self;
        let dead = workflows.iter().filter(|run| run.is_dead());
        rows.finish(&dead.map(|run| &*run.workflow_id).collect());
        let rows = &rows;
        let workflow = workflows.iter().find(|one| one.workflow_id == workflow_id);
        if workflow.is_none() && rows.is_empty() {
            let what = format!("there is no run {workflow_id}");
            return Err(Error::new(ErrorKind::Store, what));
        }
        let mut analysis = RunAnalysis {
            workflow_id: workflow_id.to_owned(),
            name: workflow.and_then(|one| one.name.clone()),
            shown: workflow.map(|one| one.shown().to_string()).filter(|it| !it.is_empty()),
            tasks: rows.counts.tasks,
            errors: rows.counts.errors,
            running: rows.counts.running,
            window: rows.window(workflow),
            ..RunAnalysis::default()
        };
        analysis.findings.extend(lost(workflows));
        let untimed = rows.counts.tasks - rows.len() as u64;
        if untimed > 0 {
            let note = format!("{untimed} tasks do not tell when they ran, and are left out");
            analysis.notes.push(note);
        }
        let Some(window) = analysis.window.filter(|window| window.length_ns() > 0) else {
            analysis.notes.push("nothing tells how long the run took".to_owned());
            return Ok(analysis);
        };
        let tree = rows.tree();
        let own = rows.own_times(&tree);
        analysis.critical_path = path::find(rows, &tree, window);
        let captures = rows.own_captures(&tree);
        analysis.activities = activities::times(rows, &own, &captures, &analysis.critical_path);
        analysis.findings.extend(activities::find(&analysis.activities, window, thresholds));
        let history = outliers::History::read(records, runs, workflow, rows)?;
        analysis.findings.extend(outliers::find(rows, &history, window, thresholds));
        if rows.iter().all(|row| row.is_open) {
            let note = "no task has ended, so it is not known how long any took: the program runs still, or was killed";
            analysis.notes.push(note.to_owned());
        } else {
            let parallelism = parallel::measure(&own, window);
            let recording_ns = rows.recording_ns(&tree, window, workflow);
            analysis.findings.extend(parallel::find(&parallelism, recording_ns, thresholds));
            analysis.parallelism = Some(parallelism);
        }
        analysis.findings.extend(overhead::find(workflow, thresholds));
        analysis.findings.extend(growth::find(rows, thresholds));
        analysis.findings.extend(pressure::find(rows, window, thresholds));
        analysis.notes.extend(rows.notes());
        finding::sort(&mut analysis.findings);
        Ok(analysis)
    }
}
