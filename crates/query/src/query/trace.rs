//! Hashed values of a task, by which tasks of one or several runs are linked.

use std::collections::HashSet;

use serde_json::Value;

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
    /// is `None`. `task` is the JSON of its record. Used values come before generated ones.
    ///
    /// Ignores the hashes of a value's prefix that older versions wrote: different values share
    /// them.
    pub fn in_task(task: &Value, hashes: Option<&HashSet<String>>) -> Vec<Trace> {
        let text = |name: &str| task.get(name).and_then(Value::as_str).map(str::to_owned);
        let mut found = Vec::new();
        for (side, is_generated) in [("used", false), ("generated", true)] {
            let values = task.get("hashes").and_then(|hashes| hashes.get(side));
            for (name, hash) in values.and_then(Value::as_object).into_iter().flatten() {
                let Some(hash) = hash.as_str() else { continue };
                if !identifies(hash) || hashes.is_some_and(|hashes| !hashes.contains(hash)) {
                    continue;
                }
                found.push(Trace {
                    hash: hash.to_owned(),
                    is_generated,
                    name: name.clone(),
                    task_id: text("task_id").unwrap_or_default(),
                    workflow_id: text("workflow_id"),
                    activity_id: text("activity_id"),
                    started_at: task.get("started_at").and_then(Value::as_f64),
                });
            }
        }
        found
    }
}
