//! The critical path: the tasks that must become shorter for the run to become shorter.
//!
//! The search goes backwards from the end of the run. It enters the task that ended last, then the
//! task that ended last before that one started, and so on. Inside a task it does the same with
//! the tasks it called. Time not covered by a called task belongs to the caller. At the top level
//! there is no caller, so this time belongs to a task that was running then.

use std::collections::{BTreeMap, BinaryHeap};

use serde::Serialize;

use super::rows::{Rows, Tree};
use crate::analyze::finding::Window;

/// The maximum number of steps to keep.
const MOST: usize = 100;

/// The critical path of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CriticalPath {
    /// How much of the path is own time of each activity, in nanoseconds.
    pub by_activity: BTreeMap<String, u64>,
    /// The time on the path during which no task was open.
    pub outside_ns: u64,
    /// The time on the path of tasks that were open when their process died. They are not among the
    /// steps.
    pub interrupted_ns: u64,
    /// The steps in chronological order. If there are too many, only the longest are kept.
    pub steps: Vec<PathStep>,
    /// The total number of steps.
    pub steps_in_all: u64,
}

/// A part of the path during which one task did its own work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the task")]
#[non_exhaustive]
pub struct PathStep {
    pub task_id: String,
    pub activity_id: String,
    pub start_ns: u64,
    pub end_ns: u64,
}

impl PathStep {
    /// Returns the length in nanoseconds.
    pub fn length_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }
}

/// A task, or the run, that is being searched for its part of the path.
struct Open {
    task: Option<usize>,
    /// The tasks it called, the one that ended last at the end.
    children: Vec<usize>,
    /// At the top level: tasks that ended later and so ran beside the path, ordered by their start.
    beside: BinaryHeap<(u64, usize)>,
    from: u64,
    to: u64,
}

impl Open {
    /// Returns the next task on the path, with the start and end of its part.
    fn next(&mut self, rows: &Rows) -> Option<(usize, u64, u64)> {
        let ended = loop {
            let Some(child) = self.children.last().copied() else { break None };
            let row = rows.get(child);
            if row.end_ns <= self.to && row.end_ns > self.from && row.length_ns() > 0 {
                break Some((child, row.start_ns.max(self.from), row.end_ns));
            }
            self.children.pop();
            if self.task.is_none() && row.end_ns > self.to {
                self.beside.push((row.start_ns, child));
            }
        };
        let until = ended.map_or(self.from, |(.., end)| end);
        // Tasks that started after the rest of the path do not run beside it.
        while self.beside.peek().is_some_and(|(start, _)| *start >= self.to) {
            self.beside.pop();
        }
        match self.beside.peek() {
            Some((start, child)) if until < self.to => Some((*child, until.max(*start), self.to)),
            _ => {
                self.children.pop();
                ended
            }
        }
    }
}

pub(super) fn find(rows: &Rows, tree: &Tree, window: Window) -> CriticalPath {
    let opened = |task: Option<usize>, from: u64, to: u64| {
        let mut children = match task {
            Some(task) => tree.children[task].clone(),
            None => tree.roots.clone(),
        };
        children.sort_by_key(|child| (rows.get(*child).end_ns, *child));
        Open { task, children, beside: BinaryHeap::new(), from, to }
    };
    let mut path: Vec<(Option<usize>, Window)> = Vec::new();
    let mut open = vec![opened(None, window.start_ns, window.end_ns)];
    while let Some(current) = open.last_mut() {
        match current.next(rows) {
            Some((child, from, to)) => {
                if current.to > to {
                    path.push((current.task, Window { start_ns: to, end_ns: current.to }));
                }
                current.to = from;
                open.push(opened(Some(child), from, to));
            }
            None => {
                if current.to > current.from {
                    let own = Window { start_ns: current.from, end_ns: current.to };
                    path.push((current.task, own));
                }
                open.pop();
            }
        }
    }
    path.reverse();
    collected(rows, &path)
}

fn collected(rows: &Rows, path: &[(Option<usize>, Window)]) -> CriticalPath {
    let mut critical = CriticalPath::default();
    let mut steps = Vec::new();
    for (task, window) in path {
        let Some(task) = task else {
            critical.outside_ns += window.length_ns();
            continue;
        };
        let row = rows.get(*task);
        if row.is_interrupted {
            critical.interrupted_ns += window.length_ns();
            continue;
        }
        let activity = rows.activity(row.activity);
        *critical.by_activity.entry(activity.to_owned()).or_default() += window.length_ns();
        steps.push((*task, *window));
    }
    critical.steps_in_all = steps.len() as u64;
    if steps.len() > MOST {
        steps.sort_by_key(|(_, window)| std::cmp::Reverse(window.length_ns()));
        steps.truncate(MOST);
        steps.sort_by_key(|(_, window)| window.start_ns);
    }
    critical.steps = steps
        .into_iter()
        .map(|(task, window)| PathStep {
            task_id: rows.get(task).task_id.clone(),
            activity_id: rows.activity(rows.get(task).activity).to_owned(),
            start_ns: window.start_ns,
            end_ns: window.end_ns,
        })
        .collect();
    critical
}
