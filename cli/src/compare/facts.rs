//! What two runs are, and in what they differ beside their figures.

use std::collections::BTreeMap;
use std::io::{self, Write};

use runlore::query::text::printable;
use runlore::record::WorkflowObject;
use serde_json::Value;

use crate::out::{BOLD, DIM, local_time};

/// How much of a value is shown.
pub(super) const LENGTH: usize = 60;

/// Parts of a run's record of which a difference explains something.
const EXPLAIN: [&str; 9] = [
    "used",
    "custom_metadata",
    "tags",
    "hostname",
    "user",
    "environment_id",
    "status",
    "ended_early",
    "settings",
];

/// Writes which runs these are, and what differs between them.
pub(super) fn write(
    out: &mut impl Write,
    before: &WorkflowObject,
    after: &WorkflowObject,
) -> io::Result<()> {
    for (what, run) in [("before", before), ("after", after)] {
        let name = printable(run.display_name());
        let id = printable(&run.workflow_id);
        let time = run.started_at.map(local_time).unwrap_or_default();
        writeln!(out, "{what:<6}  {BOLD}{name}{BOLD:#}  {DIM}{id}  {time}{DIM:#}")?;
    }
    let (before, after) = (explaining(before), explaining(after));
    let names = before.keys().chain(after.keys().filter(|name| !before.contains_key(*name)));
    for name in names {
        let (one, other) = (before.get(name), after.get(name));
        if one != other {
            let [one, other] = [one, other].map(|value| value.map_or("none", String::as_str));
            let (one, other) = (printable(one).at_most(LENGTH), printable(other).at_most(LENGTH));
            writeln!(out, "{DIM}differs{DIM:#} {}: {one} → {other}", printable(name))?;
        }
    }
    writeln!(out)
}

/// The single values among those parts, by their paths.
fn explaining(run: &WorkflowObject) -> BTreeMap<String, String> {
    let record = serde_json::to_value(run).unwrap_or_default();
    let mut found = BTreeMap::new();
    for part in EXPLAIN {
        if let Some(value) = record.get(part) {
            flatten(part.to_owned(), value, &mut found);
        }
    }
    // The code that ran, and what it was built by.
    let build = record.get("machine_info").and_then(Value::as_object);
    for machine in build.into_iter().flat_map(serde_json::Map::values) {
        if let Some(build) = machine.get("build") {
            flatten("build".to_owned(), build, &mut found);
        }
    }
    found
}

fn flatten(path: String, value: &Value, found: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(parts) => {
            for (name, part) in parts {
                flatten(format!("{path}.{name}"), part, found);
            }
        }
        Value::String(text) => _ = found.insert(path, text.clone()),
        other => _ = found.insert(path, other.to_string()),
    }
}
