//! Describes two runs, and their differences other than figures.

use std::collections::BTreeMap;
use std::io::{self, Write};

use runlore::record::WorkflowObject;
use runlore_core::text::printable;
use serde_json::Value;

use crate::out::{BOLD, DIM, local_time, paint};

/// Maximum number of characters shown of a value.
const LENGTH: usize = 60;

/// Parts of a run's record whose differences may explain different figures.
const EXPLAIN: [&str; 10] = [
    "used",
    "custom_metadata",
    "tags",
    "hostname",
    "user",
    "environment_id",
    "status",
    "ended_early",
    "exit_code",
    "settings",
];

/// A difference between two runs, other than figures.
pub(super) struct Difference {
    /// The activity that the value belongs to. `None` for the run itself.
    pub(super) activity: Option<String>,
    pub(super) name: String,
    /// Whether the values are the last ones of the activity's tasks. Otherwise they are the same
    /// for all tasks.
    pub(super) is_last: bool,
    pub(super) before: Option<Value>,
    pub(super) after: Option<Value>,
}

impl Difference {
    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let text = |value: &Option<Value>| match value {
            None => "none".to_owned(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        let (before, after) = (text(&self.before), text(&self.after));
        let (before, after) =
            (printable(&before).at_most(LENGTH), printable(&after).at_most(LENGTH));
        let space = if self.activity.is_some() { " " } else { "" };
        let activity = printable(self.activity.as_deref().unwrap_or_default());
        let mark = if self.is_last { ", at last" } else { "" };
        let name = printable(&self.name);
        writeln!(out, "{DIM}differs{DIM:#} {activity}{space}{name}{mark}: {before} → {after}")
    }
}

/// Writes the names, ids and times of both runs.
pub(super) fn write(
    out: &mut impl Write,
    before: &WorkflowObject,
    after: &WorkflowObject,
) -> io::Result<()> {
    for (what, run) in [("before", before), ("after", after)] {
        let name = printable(run.display_name());
        let id = printable(&run.workflow_id);
        let time = run.started_at.map(local_time).unwrap_or_default();
        let (shown, paint) = (run.shown(), paint(run.shown().tone()));
        let shown = printable(&shown.to_string()).to_string();
        writeln!(
            out,
            "{what:<6}  {BOLD}{name}{BOLD:#}  {paint}{shown}{paint:#}  {DIM}{id}  {time}{DIM:#}"
        )?;
    }
    Ok(())
}

/// Returns the differences between the records of the runs.
pub(super) fn differences(before: &WorkflowObject, after: &WorkflowObject) -> Vec<Difference> {
    let (before, after) = (explaining(before), explaining(after));
    let names = before.keys().chain(after.keys().filter(|name| !before.contains_key(*name)));
    let difference = |name: &String| {
        let (one, other) = (before.get(name), after.get(name));
        (one != other).then(|| Difference {
            activity: None,
            name: name.clone(),
            is_last: false,
            before: one.cloned(),
            after: other.cloned(),
        })
    };
    names.filter_map(difference).collect()
}

/// Returns the individual values of these parts, by path.
fn explaining(run: &WorkflowObject) -> BTreeMap<String, Value> {
    let record = serde_json::to_value(run).unwrap_or_default();
    let mut found = BTreeMap::new();
    for part in EXPLAIN {
        if let Some(value) = record.get(part) {
            flatten(part.to_owned(), value, &mut found);
        }
    }
    // The build describes the code that ran and the compiler that built it.
    let build = record.get("machine_info").and_then(Value::as_object);
    for machine in build.into_iter().flat_map(serde_json::Map::values) {
        if let Some(build) = machine.get("build") {
            flatten("build".to_owned(), build, &mut found);
        }
    }
    found
}

fn flatten(path: String, value: &Value, found: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(parts) => {
            for (name, part) in parts {
                flatten(format!("{path}.{name}"), part, found);
            }
        }
        other => _ = found.insert(path, other.clone()),
    }
}
