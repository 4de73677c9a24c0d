//! The tasks of a run, reduced to a few numbers each.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::pressure::Readings;
use crate::analyze::finding::Window;
use crate::engine::path::value_at;
use runlore_core::record::{CaptureObject, Status, TaskObject, WorkflowObject};

/// The fields that the analysis reads from each task.
pub(super) const FIELDS: [&str; 27] = [
    "task_id",
    "parent_task_id",
    "activity_id",
    "subtype",
    "status",
    "hostname",
    "pid",
    "submitted_at",
    "started_at",
    "ended_at",
    "duration_ns",
    "custom_metadata.wait_ns",
    "capture",
    "resources.cpu_ns.self",
    "resources.child",
    "telemetry_at_end.process.memory.rss",
    "telemetry_at_start.memory.swap.sin",
    "telemetry_at_end.memory.swap.sin",
    "telemetry_at_start.memory.swap.sout",
    "telemetry_at_end.memory.swap.sout",
    "telemetry_at_start.cpu.times_avg",
    "telemetry_at_end.cpu.times_avg",
    "telemetry_at_start.container.cpu.throttled_us",
    "telemetry_at_end.container.cpu.throttled_us",
    "telemetry_at_start.gpu",
    "telemetry_at_end.gpu",
    "workflow_id",
];

/// A task with a known start time.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) task_id: String,
    pub(super) activity: usize,
    pub(super) process: usize,
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) is_open: bool,
    /// Whether the task was open when its process died, so that its duration is unknown.
    pub(super) is_interrupted: bool,
    pub(super) is_iteration: bool,
    /// How long the task was ready before it started.
    pub(super) queued_ns: u64,
    /// How long the task waited for its data before it started.
    pub(super) data_wait_ns: Option<u64>,
    pub(super) cpu_ns: Option<u64>,
    /// How long the task's own captures took, before its start and after its end.
    pub(super) capture_ns: u64,
    /// How long the captures of tasks inside it took.
    pub(super) nested_capture_ns: u64,
    /// Resident memory of the process at the end of the task.
    pub(super) rss: Option<u64>,
    parent: Option<String>,
    run: usize,
}

impl Row {
    pub(super) fn length_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }

    pub(super) fn window(&self) -> Window {
        Window { start_ns: self.start_ns, end_ns: self.end_ns }
    }
}

/// All tasks of a run, in the order they started.
#[derive(Debug, Default)]
pub struct Rows {
    rows: Vec<Row>,
    pub(super) counts: Counts,
    pub(super) readings: Readings,
    activities: Names,
    processes: Names,
    runs: Names,
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) tasks: u64,
    pub(super) errors: u64,
    pub(super) running: u64,
}

/// Interns frequent strings as numbers.
#[derive(Debug, Default)]
pub struct Names {
    numbers: HashMap<String, usize>,
    pub texts: Vec<String>,
}

impl Names {
    pub fn number(&mut self, text: &str) -> usize {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.texts.len();
        self.numbers.insert(text.to_owned(), number);
        self.texts.push(text.to_owned());
        number
    }
}

/// The call tree of the tasks, by their indices.
pub(super) struct Tree {
    /// The called tasks of each task, in the order they started.
    pub(super) children: Vec<Vec<usize>>,
    pub(super) roots: Vec<usize>,
}

impl Rows {
    /// Sorts the tasks after the last one was added. Marks the open tasks of `dead` runs as
    /// interrupted.
    pub(super) fn finish(&mut self, dead: &HashSet<&str>) {
        self.rows.sort_by_key(|row| (row.start_ns, std::cmp::Reverse(row.end_ns)));
        // Treat open tasks as running until the last task ended.
        let last = self.rows.iter().map(|row| row.end_ns).max().unwrap_or_default();
        for row in self.rows.iter_mut().filter(|row| row.is_open) {
            row.end_ns = last;
            row.is_interrupted = dead.contains(&*self.runs.texts[row.run]);
        }
    }

    pub(super) fn add(&mut self, task: &TaskObject) {
        let host = task.hostname.as_deref().unwrap_or_default();
        let [submitted, started, ended] =
            [task.submitted_at, task.started_at, task.ended_at].map(unix_nanos);
        self.counts.tasks += 1;
        self.counts.errors += u64::from(task.is_error());
        self.counts.running += u64::from(task.status == Some(Status::Running));
        self.readings.add(host, task.telemetry_at_start.as_ref(), started);
        self.readings.add(host, task.telemetry_at_end.as_ref(), ended.or(started));
        let Some(start_ns) = started else { return };
        let end_ns = match task.duration_ns {
            Some(duration) => start_ns.checked_add(duration),
            None => ended.map(|end| end.max(start_ns)),
        };
        let process = format!("{host}\n{}", task.pid.unwrap_or_default());
        let capture = task.capture.as_deref();
        let capture = |of: fn(&CaptureObject) -> Option<u64>| capture.and_then(of).unwrap_or(0);
        let number = |object: &Option<Map<String, Value>>, path: &str| {
            value_at(object.as_ref()?, path)?.as_u64()
        };
        self.rows.push(Row {
            task_id: task.task_id.clone(),
            activity: self.activities.number(task.activity_id.as_deref().unwrap_or("(none)")),
            process: self.processes.number(&process),
            start_ns,
            end_ns: end_ns.unwrap_or(start_ns),
            is_open: end_ns.is_none(),
            is_interrupted: false,
            is_iteration: task.subtype.as_deref() == Some("iteration"),
            queued_ns: submitted.map_or(0, |since| start_ns.saturating_sub(since)),
            data_wait_ns: number(&task.custom_metadata, "wait_ns"),
            cpu_ns: task.own_cpu().map(|cpu| cpu.as_nanos() as u64),
            capture_ns: capture(|it| it.start_ns).saturating_add(capture(|it| it.end_ns)),
            nested_capture_ns: capture(|it| it.nested_ns),
            rss: number(&task.telemetry_at_end, "process.memory.rss"),
            parent: task.parent_task_id.clone(),
            run: self.runs.number(task.workflow_id.as_deref().unwrap_or_default()),
        });
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter()
    }

    pub(super) fn get(&self, at: usize) -> &Row {
        &self.rows[at]
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.counts.tasks == 0
    }

    pub(super) fn activity(&self, number: usize) -> &str {
        &self.activities.texts[number]
    }

    pub(super) fn activities(&self) -> usize {
        self.activities.texts.len()
    }

    /// Returns the host of a process. `None` if unknown.
    pub(super) fn host(&self, process: usize) -> Option<String> {
        let host = self.processes.texts[process].split('\n').next()?;
        (!host.is_empty()).then(|| host.to_owned())
    }

    /// Returns the time span of the run: that of its record, extended to include all of its tasks.
    pub(super) fn window(&self, workflow: Option<&WorkflowObject>) -> Option<Window> {
        let start = unix_nanos(workflow.and_then(|run| run.started_at));
        let end = unix_nanos(workflow.and_then(|run| run.ended_at));
        let first = self.rows.first().map(|row| row.start_ns);
        let last = self.rows.iter().map(|row| row.end_ns).max();
        let start_ns = [start, first].into_iter().flatten().min()?;
        let end_ns = [end, last].into_iter().flatten().max()?;
        Some(Window { start_ns, end_ns: end_ns.max(start_ns) })
    }

    pub(super) fn tree(&self) -> Tree {
        let places: HashMap<&str, usize> =
            self.rows.iter().enumerate().map(|(at, row)| (&*row.task_id, at)).collect();
        let mut tree = Tree { children: vec![Vec::new(); self.rows.len()], roots: Vec::new() };
        for (at, row) in self.rows.iter().enumerate() {
            let parent = row.parent.as_deref().and_then(|id| places.get(id)).copied();
            // A parent starts before its children. Requiring that excludes cycles.
            match parent.filter(|parent| *parent < at) {
                Some(parent) => tree.children[parent].push(at),
                None => tree.roots.push(at),
            }
        }
        tree
    }

    /// Returns the times during which each task did its own work and none of the tasks it called
    /// ran.
    pub(super) fn own_times(&self, tree: &Tree) -> Vec<Vec<Window>> {
        let of = |(at, row): (usize, &Row)| {
            let mut own = Vec::new();
            let mut from = row.start_ns;
            for child in &tree.children[at] {
                let child = &self.rows[*child];
                let (start, end) = (child.start_ns.min(row.end_ns), child.end_ns.min(row.end_ns));
                if start > from {
                    own.push(Window { start_ns: from, end_ns: start });
                }
                from = from.max(end);
            }
            if row.end_ns > from {
                own.push(Window { start_ns: from, end_ns: row.end_ns });
            }
            own
        };
        self.rows.iter().enumerate().map(of).collect()
    }

    /// Returns how long captures took within each task's own time.
    pub(super) fn own_captures(&self, tree: &Tree) -> Vec<u64> {
        let of = |(at, row): (usize, &Row)| {
            let deeper = tree.children[at].iter().map(|child| self.rows[*child].nested_capture_ns);
            row.nested_capture_ns.saturating_sub(deeper.fold(0, u64::saturating_add))
        };
        self.rows.iter().enumerate().map(of).collect()
    }

    /// Returns how long the recorder was at work outside of any task: for its start, and for the
    /// captures of root tasks.
    pub(super) fn recording_ns(
        &self,
        tree: &Tree,
        window: Window,
        workflow: Option<&WorkflowObject>,
    ) -> u64 {
        let totals = workflow.and_then(|run| run.totals.as_ref());
        let start_up = totals.and_then(|totals| totals.get("start_up_ns")?.as_u64()).unwrap_or(0);
        let first = self.rows.first().map_or(window.end_ns, |row| row.start_ns);
        let start_up = start_up.min(first.saturating_sub(window.start_ns));
        let captures = tree.roots.iter().map(|root| self.rows[*root].capture_ns);
        captures.fold(start_up, u64::saturating_add)
    }

    /// Lists what is missing from the records.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let interrupted = self.rows.iter().filter(|row| row.is_interrupted).count();
        if interrupted > 0 {
            let tasks = if interrupted == 1 { "task was" } else { "tasks were" };
            notes.push(format!(
                "{interrupted} {tasks} open when the process died, and not judged: how long they would have taken \
                 is not known"
            ));
        }
        if !self.rows.is_empty() && self.rows.iter().all(|row| row.cpu_ns.is_none()) {
            notes.push("no task tells its processor time, so that waiting is not known".to_owned());
        }
        if !self.rows.is_empty() && self.rows.iter().all(|row| row.rss.is_none()) {
            notes.push(
                "no task tells the memory of its process, so that its growth is not known"
                    .to_owned(),
            );
        }
        notes
    }
}

/// Converts Unix seconds to nanoseconds. `None` for a time that no clock can have shown.
fn unix_nanos(seconds: Option<f64>) -> Option<u64> {
    seconds.filter(|at| (0.0..1e10).contains(at)).map(|at| (at * 1e9) as u64)
}
