//! Collects a report in one pass over the tasks of a run.

use std::collections::{BTreeMap, HashMap};

use super::RunReport;
use super::calls;
use super::facts::{Activity, Cost, Counts, Crate, Failed, RunFacts, TaskFacts, Unavailable};
use super::gantt::{self, Row};
use super::lineage::Values;
use super::sensors::Sensors;
use crate::axis;
use crate::picture::{Mark, Picture, State};
use crate::timeline::{level, mark_text};
use runlore_core::record::{Status, TaskObject, WorkflowObject};
use runlore_core::runs::failed_children;
use runlore_query::analyze::Finding;
use runlore_query::analyze::tasks::Names;
use runlore_query::query::Summary;

/// Maximum number of slow tasks in the report. Of a small run, this includes all tasks.
const SLOWEST: usize = 40;
/// Maximum number of distinct failures in the report.
const FAILURES: usize = 60;
/// Maximum number of distinct reasons, and of crates, in the report.
const REASONS: usize = 100;
/// Maximum number of findings that are marked in the picture.
const MARKS: usize = 12;

/// Returns marks for the findings that concern at most half of the run.
pub(super) fn marks(findings: &[Finding], picture: &Picture) -> Vec<Mark> {
    let mark = |finding: &Finding| {
        let window = finding.place.window?;
        (window.length_ns() <= picture.length_ns / 2).then(|| Mark {
            at_ns: window.start_ns.saturating_sub(picture.start_ns),
            end_ns: window.end_ns.saturating_sub(picture.start_ns),
            level: level(finding.severity),
            text: mark_text(finding),
            panel: None,
        })
    };
    findings.iter().filter_map(mark).take(MARKS).collect()
}

pub(super) struct Collected {
    summary: Summary,
    names: Names,
    /// The earliest start of each activity.
    first_ns: Vec<u64>,
    rows: Vec<Row>,
    counts: Counts,
    slowest: Vec<TaskFacts>,
    /// Keyed by activity and message.
    failures: HashMap<(u32, String), Failed>,
    failures_left_out: u64,
    unavailable: BTreeMap<(String, String), u64>,
    crates: BTreeMap<[Option<Box<str>>; 3], u64>,
    values: Values,
    sensors: Sensors,
    /// For each workflow, the task that started it.
    started_by: HashMap<String, Option<Box<str>>>,
    main: Option<String>,
}

impl Collected {
    /// Returns the fields to read of each task.
    pub(super) fn fields() -> Vec<String> {
        let own = [
            "used",
            "generated",
            "error",
            "stderr",
            "code.crate",
            "code.version",
            "code.commit",
            "code.file",
            "code.line",
            "hashes",
            "unavailable",
        ];
        let fields = own.into_iter().chain(Summary::FIELDS).map(str::to_owned);
        fields.chain(Sensors::fields()).collect()
    }

    pub(super) fn new(workflows: &[WorkflowObject]) -> Self {
        let started_by = workflows
            .iter()
            .map(|one| (one.workflow_id.clone(), one.parent_task_id.as_deref().map(Into::into)))
            .collect();
        Self {
            summary: Summary::by("activity_id"),
            names: Names::default(),
            first_ns: Vec::new(),
            rows: Vec::new(),
            counts: Counts::default(),
            slowest: Vec::new(),
            failures: HashMap::new(),
            failures_left_out: 0,
            unavailable: BTreeMap::new(),
            crates: BTreeMap::new(),
            values: Values::default(),
            sensors: Sensors::default(),
            started_by,
            main: workflows.first().map(|one| one.workflow_id.clone()),
        }
    }

    pub(super) fn add(&mut self, task: &TaskObject) {
        self.summary.add(task);
        let name = task.activity_id.as_deref().unwrap_or("(none)");
        let state = match task.status {
            Some(Status::Error) => State::Failed,
            Some(Status::Finished) => State::Finished,
            _ => State::Running,
        };
        let began = task.started_at.map(nanoseconds);
        let length_ns = task.duration().map_or(0, |duration| duration.as_nanos() as u64);
        self.counts.tasks += 1;
        match state {
            State::Finished => self.counts.finished += 1,
            State::Failed => self.counts.errors += 1,
            State::Running => self.counts.running += 1,
        }
        let activity = self.names.number(name) as u32;
        self.first_ns.resize(self.names.texts.len(), u64::MAX);
        self.sensors.add(began, task.telemetry_at_start.as_ref(), task);
        self.sensors.add(task.ended_at.map(nanoseconds), task.telemetry_at_end.as_ref(), task);
        self.add_crate(task);
        self.values.add(task, activity);
        for (what, reason) in task.unavailable.iter().flatten() {
            let reason = reason.as_str().map_or_else(|| reason.to_string(), str::to_owned);
            let key = (what.clone(), reason);
            if self.unavailable.len() < REASONS || self.unavailable.contains_key(&key) {
                *self.unavailable.entry(key).or_default() += 1;
            }
        }
        if let Some(start_ns) = began {
            self.first_ns[activity as usize] = self.first_ns[activity as usize].min(start_ns);
            let (id, parent) = (task.task_id.as_str().into(), self.parent_of(task));
            self.rows.push(Row { id, parent, activity, start_ns, length_ns, state });
        }
        if state == State::Failed {
            self.add_failure(task, activity, length_ns);
        }
        self.keep_if_slow(task, length_ns);
    }

    /// Returns the task's parent. For a top-level task of a started run, this is the task that
    /// started the run.
    fn parent_of(&self, task: &TaskObject) -> Option<Box<str>> {
        task.parent_task_id.as_deref().map(Into::into).or_else(|| {
            let workflow = task.workflow_id.as_deref()?;
            let is_started = self.main.as_deref() != Some(workflow);
            self.started_by.get(workflow).filter(|_| is_started)?.clone()
        })
    }

    fn add_crate(&mut self, task: &TaskObject) {
        let Some(code) = &task.code else { return };
        let key =
            [&code.krate, &code.version, &code.commit].map(|it| it.as_deref().map(Into::into));
        if key[0].is_some() && (self.crates.len() < REASONS || self.crates.contains_key(&key)) {
            *self.crates.entry(key).or_default() += 1;
        }
    }

    fn add_failure(&mut self, task: &TaskObject, activity: u32, length_ns: u64) {
        let message = task.error.as_ref().and_then(|error| error.message.as_deref());
        let message = message.or(task.stderr.as_deref()).unwrap_or("no message").to_owned();
        let key = (activity, message);
        if let Some(known) = self.failures.get_mut(&key) {
            known.tasks += 1;
        } else if self.failures.len() < FAILURES {
            let example = TaskFacts::of(task, length_ns);
            let (activity, message) = (example.activity.clone(), key.1.clone());
            self.failures.insert(key, Failed { activity, message, tasks: 1, example });
        } else {
            self.failures_left_out += 1;
        }
    }

    fn keep_if_slow(&mut self, task: &TaskObject, length_ns: u64) {
        let is_slow = |least: &TaskFacts| length_ns > least.duration_ns;
        if self.slowest.len() < SLOWEST || self.slowest.last().is_some_and(is_slow) {
            let at = self.slowest.partition_point(|known| known.duration_ns >= length_ns);
            self.slowest.insert(at, TaskFacts::of(task, length_ns));
            self.slowest.truncate(SLOWEST);
        }
    }

    pub(super) fn finish(mut self, workflows: &[WorkflowObject], workflow_id: &str) -> RunReport {
        let main = workflows.first();
        let failed = failed_children(workflows.iter());
        let mut report = RunReport {
            run: main.map(|main| RunFacts::of(main, failed[0])).unwrap_or_else(|| RunFacts {
                workflow_id: workflow_id.to_owned(),
                name: workflow_id.to_owned(),
                ..RunFacts::default()
            }),
            started: workflows
                .iter()
                .zip(&failed)
                .skip(1)
                .map(|(run, failed)| RunFacts::of(run, *failed))
                .collect(),
            tasks: self.counts,
            activities: self.summary.groups().iter().map(Activity::of).collect(),
            slowest: std::mem::take(&mut self.slowest),
            ..RunReport::default()
        };
        if let Some(main) = main {
            report.machine = main.machine_info.clone().unwrap_or_default();
            report.settings = main.settings.clone().unwrap_or_default();
            report.code = main.code_repository.clone().unwrap_or_default();
        }
        report.cost = Cost::of(workflows);
        report.crates = std::mem::take(&mut self.crates).into_iter().map(Crate::of).collect();
        report.crates.sort_by_key(|one| std::cmp::Reverse(one.tasks));
        report.failures = std::mem::take(&mut self.failures).into_values().collect();
        report.failures.sort_by(|one, other| {
            let order =
                |it: &Failed| (u64::MAX - it.tasks, it.activity.clone(), it.message.clone());
            order(one).cmp(&order(other))
        });
        let unavailable = std::mem::take(&mut self.unavailable).into_iter();
        report.unavailable = unavailable
            .map(|((what, reason), tasks)| Unavailable { what, reason, tasks })
            .collect();
        if self.failures_left_out > 0 {
            let left_out = self.failures_left_out;
            report.notes.push(format!(
                "{left_out} more tasks failed with other messages, which are not told"
            ));
        }
        let (calls, left_out) = calls::of(&self.rows, &self.names.texts);
        report.calls = calls;
        if left_out > 0 {
            report
                .notes
                .push(format!("{left_out} tasks were called in more ways than the tree shows"));
        }
        if self.values.left_out > 0 {
            let left_out = self.values.left_out;
            report
                .notes
                .push(format!("the lineage leaves out {left_out} values: there are too many"));
        }
        report.picture = self.picture(&report.run, main);
        report.lineage = self.values.graph(&self.names.texts, &self.first_ns);
        report
    }

    fn picture(&mut self, run: &RunFacts, main: Option<&WorkflowObject>) -> Picture {
        let Some((start_ns, end_ns)) = gantt::window(&self.rows) else { return Picture::default() };
        // Cover the whole run, which may begin before its first task and end after its last.
        let of_run = |at: Option<f64>| at.filter(|at| (0.0..1e10).contains(at)).map(nanoseconds);
        let began = of_run(main.and_then(|run| run.started_at));
        let ended = of_run(main.and_then(|run| run.ended_at));
        let (start_ns, end_ns) = (
            began.map_or(start_ns, |it| it.min(start_ns)),
            ended.map_or(end_ns, |it| it.max(end_ns)),
        );
        let length_ns = end_ns - start_ns;
        for row in self.rows.iter_mut().filter(|row| row.state == State::Running) {
            // A task that is still open is drawn up to the end of the picture.
            row.length_ns = row.length_ns.max(end_ns - row.start_ns);
        }
        let (bars, density) = gantt::bars(&self.rows, &self.names.texts, start_ns, length_ns);
        Picture {
            title: run.name.clone(),
            subtitle: format!("{} tasks, from {}", self.counts.tasks, axis::utc(start_ns)),
            start_ns,
            length_ns,
            panels: std::mem::take(&mut self.sensors).panels(start_ns, length_ns),
            bars,
            density,
            ..Picture::default()
        }
    }
}

/// Converts Unix seconds to nanoseconds.
fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}
