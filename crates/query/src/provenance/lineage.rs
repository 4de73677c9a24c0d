//! Lineage: the tasks that generated a value, and the tasks that used it.

use std::collections::HashSet;

use serde::Serialize;
use serde_json::Value;

use super::{Provenance, QueryIter};
use crate::query::Trace;
use runlore_core::record::{TaskObject, hash};
use runlore_core::{Error, ErrorKind, Result};

/// The value or task to trace.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Subject {
    /// A value as it was recorded. Whole numbers also match equal floats: `[3.5, 4]` finds
    /// `[3.5, 4.0]` too.
    Value(Value),
    /// The hash of a value as it appears in records: `xxh3-128:48764c…`.
    Hash(String),
    /// All values of the task with this id.
    Task(String),
}

impl From<Value> for Subject {
    fn from(value: Value) -> Self {
        Subject::Value(value)
    }
}

/// The path of one or more values through the tasks of one or more runs.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[non_exhaustive]
pub struct Lineage {
    /// The traced values. For a task, the values it used come before the values it generated.
    pub values: Vec<ValueLineage>,
}

/// The path of one value through tasks.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ValueLineage {
    /// The hash of the value.
    pub hash: String,
    /// The tasks that generated the value, in the order they started.
    pub generated_by: Vec<Trace>,
    /// The tasks that used the value, in the order they started.
    pub used_by: Vec<Trace>,
}

impl Provenance {
    /// Finds the tasks that generated or used a value, in any run, by the hash of its content.
    ///
    /// ```
    /// use runlore::{Provenance, telemetry_task};
    /// use runlore::store::MemoryStore;
    ///
    /// #[telemetry_task(output = "words")]
    /// fn split(text: &str) -> Vec<String> {
    ///     text.split(' ').map(str::to_owned).collect()
    /// }
    /// #[telemetry_task]
    /// fn count(words: &[String]) -> usize { words.len() }
    ///
    /// let store = MemoryStore::new();
    /// let run = runlore::workflow("text").store(store.clone()).start()?;
    /// count(&split("where does it come from"));
    /// run.finish()?;
    ///
    /// let records = Provenance::of(store);
    /// let words = serde_json::json!(["where", "does", "it", "come", "from"]);
    /// let lineage = records.lineage_of(words)?;
    /// let value = &lineage.values[0];
    /// assert_eq!(value.generated_by[0].activity_id.as_deref(), Some("split"));
    /// assert_eq!(value.used_by[0].activity_id.as_deref(), Some("count"));
    /// # Ok::<(), runlore::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the task does not exist or the store cannot be read. A value that no
    /// task recorded is not an error.
    pub fn lineage_of(&self, subject: impl Into<Subject>) -> Result<Lineage> {
        let subject = subject.into();
        let hashes = match &subject {
            Subject::Hash(hash) => vec![hash.clone()],
            Subject::Value(value) => hashes_of(value),
            Subject::Task(id) => self.hashes_in(id)?,
        };
        let wanted: HashSet<String> = hashes.iter().cloned().collect();
        let mut traces = Vec::new();
        for task in QueryIter::<TaskObject>::new(self, self.source.tasks_with(&wanted)?) {
            traces.extend(Trace::in_task(&task?, Some(&wanted)));
        }
        traces.sort_by(|one, other| {
            let start = |trace: &Trace| trace.started_at.unwrap_or(f64::INFINITY);
            start(one).total_cmp(&start(other))
        });
        let values = hashes.into_iter().map(|hash| {
            let of = |is_generated: bool| {
                let is_it =
                    |trace: &&Trace| trace.hash == hash && trace.is_generated == is_generated;
                traces.iter().filter(is_it).cloned().collect()
            };
            ValueLineage { generated_by: of(true), used_by: of(false), hash }
        });
        let mut values: Vec<ValueLineage> = values.collect();
        if matches!(subject, Subject::Value(_)) {
            // One value has several possible hashes, most of which no record contains.
            let is_known =
                |one: &ValueLineage| !(one.generated_by.is_empty() && one.used_by.is_empty());
            values.sort_by_key(|one| !is_known(one));
            let known = values.iter().filter(|one| is_known(one)).count();
            values.truncate(known.max(1));
        }
        Ok(Lineage { values })
    }

    fn hashes_in(&self, task_id: &str) -> Result<Vec<String>> {
        let task = self
            .task(task_id)?
            .ok_or_else(|| Error::new(ErrorKind::Store, format!("there is no task {task_id}")))?;
        let mut seen = HashSet::new();
        let hashes = Trace::in_task(&task, None).into_iter().map(|trace| trace.hash);
        Ok(hashes.filter(|hash| seen.insert(hash.clone())).collect())
    }
}

/// Returns every hash that records may contain for a value.
fn hashes_of(value: &Value) -> Vec<String> {
    let mut hashes = Vec::new();
    // Users omit the `.0`: of one number in a list of floats, or of all numbers.
    for value in [value, &as_floats(value, false), &as_floats(value, true)] {
        for hash in hash::all_of(value) {
            if !hashes.contains(&hash) {
                hashes.push(hash);
            }
        }
    }
    hashes
}

/// Converts whole numbers to floats: everywhere, or only in lists that contain a float.
fn as_floats(value: &Value, everywhere: bool) -> Value {
    match value {
        Value::Number(number) if everywhere => number.as_f64().map_or(Value::Null, Value::from),
        Value::Array(items) => {
            let everywhere = everywhere || items.iter().any(Value::is_f64);
            items.iter().map(|item| as_floats(item, everywhere)).collect()
        }
        Value::Object(fields) => {
            let fields = fields.iter();
            let fields = fields.map(|(name, value)| (name.clone(), as_floats(value, everywhere)));
            Value::Object(fields.collect())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use runlore_core::record::hash_of;

    use super::*;

    #[test]
    fn whole_numbers_may_stand_for_floats() {
        let recorded = hash_of(&json!({"n": 3, "xs": [3.5, 4.0]}));
        assert!(hashes_of(&json!({"n": 3, "xs": [3.5, 4]})).contains(&recorded));
        let recorded = hash_of(&json!([1.0, [2.0]]));
        assert!(hashes_of(&json!([1, [2]])).contains(&recorded));
        assert!(!hashes_of(&json!([1.0, [2.0]])).contains(&hash_of(&json!([1, [2]]))));
    }
}
