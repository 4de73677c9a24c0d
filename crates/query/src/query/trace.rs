//! Hashed values of a task, by which tasks of one or several runs are linked.

use std::collections::HashSet;

use serde::Serialize;
use serde_json::{Map, Value};

use runlore_core::record::TaskObject;
use runlore_core::record::hash::identifies;
use runlore_core::store::ValueHash;

/// A task that used or generated a value.
#[derive(Debug, Clone, PartialEq, Serialize)]
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
        let wanted = known.filter(|it| hashes.is_none_or(|hashes| hashes.contains(&*it.hash)));
        let trace = |value: ValueHash<'_>| Trace {
            hash: value.hash.into_owned(),
            is_generated: value.side == "generated",
            name: value.name.into_owned(),
            task_id: task.task_id.clone(),
            workflow_id: task.workflow_id.clone(),
            activity_id: task.activity_id.clone(),
            started_at: task.started_at,
        };
        wanted.map(trace).collect()
    }
}

/// Returns the hashes in the field `hashes` of a task that identify a value, those of used values
/// first.
pub fn value_hashes(hashes: &Map<String, Value>) -> impl Iterator<Item = ValueHash<'_>> {
    ["used", "generated"].into_iter().flat_map(move |side| {
        let values = hashes.get(side).and_then(Value::as_object).into_iter().flatten();
        values.filter_map(move |(name, hash)| {
            let hash = hash.as_str().filter(|hash| identifies(hash))?;
            Some(ValueHash { side, name: name.into(), hash: hash.into() })
        })
    })
}
