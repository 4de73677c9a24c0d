//! Hashed values of a task, by which tasks of one or several runs are linked.

use std::collections::HashSet;

use serde_json::{Map, Value};

use runlore_core::record::TaskObject;
use runlore_core::record::hash::identifies;

/// A task that used or generated a value.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Trace {
    /// The hash of the value.
    pub hash: String,
    /// Whether the task generated the value; otherwise it used it.
    pub is_generated: bool,
    /// The name of the value in this task.
    pub name: String,
    /// The id of the task.
    pub task_id: String,
    /// The id of the task's workflow.
    pub workflow_id: Option<String>,
    /// The name of the task.
    pub activity_id: Option<String>,
    /// When the task started, in Unix seconds.
    pub started_at: Option<f64>,
}

impl Trace {
    /// Returns the values of a task that have one of these hashes, or all hashed values if `hashes`
    /// is `None`. Used values come before generated ones.
    ///
    /// Ignores the hashes of a value's prefix that older versions wrote: different values share
    /// them.
    pub fn in_task(task: &TaskObject, hashes: Option<&HashSet<String>>) -> Vec<Trace> {
        let known = task.hashes.iter().flat_map(value_hashes);
        let wanted = known.filter(|it| hashes.is_none_or(|hashes| hashes.contains(it.hash)));
        let trace = |value: ValueHash<'_>| Trace {
            hash: value.hash.to_owned(),
            is_generated: value.is_generated,
            name: value.name.to_owned(),
            task_id: task.task_id.clone(),
            workflow_id: task.workflow_id.clone(),
            activity_id: task.activity_id.clone(),
            started_at: task.started_at,
        };
        wanted.map(trace).collect()
    }
}

/// The hash of a value that a task used or generated.
#[derive(Debug, Clone, Copy)]
pub struct ValueHash<'a> {
    pub is_generated: bool,
    pub name: &'a str,
    pub hash: &'a str,
}

/// Returns the hashes in the field `hashes` of a task that identify a value, those of used values
/// first.
pub fn value_hashes(hashes: &Map<String, Value>) -> impl Iterator<Item = ValueHash<'_>> {
    let sides = [("used", false), ("generated", true)].into_iter();
    let values = sides
        .filter_map(|(side, is_generated)| Some((hashes.get(side)?.as_object()?, is_generated)));
    values.flat_map(|(values, is_generated)| {
        values.iter().filter_map(move |(name, hash)| {
            let hash = hash.as_str().filter(|hash| identifies(hash))?;
            Some(ValueHash { is_generated, name, hash })
        })
    })
}
