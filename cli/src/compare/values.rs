//! Compares the inputs and outputs of the tasks of two runs.

use std::collections::BTreeMap;
use std::io::{self, Write};

use runlore::Provenance;
use runlore::query::{Collection, Find};
use serde_json::Value;

use super::facts::Difference;
use crate::out::DIM;
use crate::select;

/// Maximum number of differences shown.
const SHOWN: usize = 20;

/// The values that the tasks of one activity have under one name.
#[derive(Debug, Default)]
struct Said {
    /// The value of all tasks. `None` if it differs between tasks.
    always: Option<Value>,
    is_known: bool,
    /// The start time and the value of the last task.
    last: Option<(f64, Value)>,
}

impl Said {
    fn add(&mut self, started: f64, value: &Value) {
        if !self.is_known {
            (self.is_known, self.always) = (true, Some(value.clone()));
        } else if self.always.as_ref() != Some(value) {
            self.always = None;
        }
        if self.last.as_ref().is_none_or(|(last, _)| started >= *last) {
            self.last = Some((started, value.clone()));
        }
    }
}

/// The values of a run, by activity and name.
pub(super) struct Values(BTreeMap<(String, String), Said>);

impl Values {
    /// Collects the values of all tasks of a run.
    pub(super) fn of(records: &Provenance, workflow_id: &str) -> runlore::Result<Self> {
        let find = Find::new().filter(select::of_run(workflow_id)).fields([
            "activity_id",
            "started_at",
            "used",
            "generated",
        ]);
        let mut said: BTreeMap<(String, String), Said> = BTreeMap::new();
        for task in records.find(Collection::Tasks, &find)? {
            let task = task?;
            let Some(activity) = task["activity_id"].as_str() else { continue };
            let started = task["started_at"].as_f64().unwrap_or_default();
            for side in ["used", "generated"] {
                for (name, value) in task[side].as_object().into_iter().flatten() {
                    if is_comparable(side, value) {
                        let key = (activity.to_owned(), format!("{side}.{name}"));
                        said.entry(key).or_default().add(started, value);
                    }
                }
            }
        }
        Ok(Self(said))
    }
}

/// Whether a value is compared: all inputs and numeric outputs. Other outputs usually differ
/// between runs.
fn is_comparable(side: &str, value: &Value) -> bool {
    side == "used" || value.is_number()
}

/// Returns the values that differ between the runs. A value that is the same for all tasks of each
/// run is compared directly. Of other outputs, the last values are compared; other inputs are
/// skipped.
pub(super) fn differences(before: &Values, after: &Values) -> Vec<Difference> {
    let mut differences = Vec::new();
    for ((activity, name), one) in &before.0 {
        let Some(other) = after.0.get(&(activity.clone(), name.clone())) else { continue };
        let (is_last, (one, other)) = match (&one.always, &other.always) {
            (Some(one), Some(other)) => (false, (one, other)),
            _ if name.starts_with("used.") => continue,
            _ => match (&one.last, &other.last) {
                (Some((_, one)), Some((_, other))) => (true, (one, other)),
                _ => continue,
            },
        };
        if one != other {
            differences.push(Difference {
                activity: Some(activity.clone()),
                name: name.clone(),
                is_last,
                before: Some(one.clone()),
                after: Some(other.clone()),
            });
        }
    }
    differences
}

/// Writes the first differences, and how many more there are.
pub(super) fn write(out: &mut impl Write, differences: &[Difference]) -> io::Result<()> {
    for difference in differences.iter().take(SHOWN) {
        difference.write(out)?;
    }
    if differences.len() > SHOWN {
        writeln!(out, "{DIM}and {} more{DIM:#}", differences.len() - SHOWN)?;
    }
    if differences.is_empty() { Ok(()) } else { writeln!(out) }
}
