//! What a store that can be read must answer.

use std::collections::HashSet;

use serde_json::Value;

use super::runs::{CountedRuns, Runs};
use super::{Find, Pipeline, field};
use crate::Result;
use crate::record::Record;

/// What a question is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Collection {
    /// The tasks.
    Tasks,
    /// The workflows.
    Workflows,
}

impl Collection {
    /// Whether a record belongs here.
    pub fn has(self, record: &Record) -> bool {
        match self {
            Collection::Tasks => record.as_task().is_some(),
            Collection::Workflows => record.as_workflow().is_some(),
        }
    }
}

/// Records, one at a time. What is wrong with one of them comes out as an error; the others follow.
pub type Records<'a> = Box<dyn Iterator<Item = Result<Record>> + Send + 'a>;

/// Answers, one JSON object at a time, with errors as in [`Records`].
pub type Documents<'a> = Box<dyn Iterator<Item = Result<Value>> + Send + 'a>;

/// A task that used or generated a value.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// The hash of the value.
    pub hash: String,
    /// Whether the task made it; else it used it.
    pub is_generated: bool,
    /// The name that the value has there.
    pub name: String,
    /// The task.
    pub task_id: String,
    /// Its workflow.
    pub workflow_id: Option<String>,
    /// Its name.
    pub activity_id: Option<String>,
    /// When it began, in Unix seconds.
    pub started_at: Option<f64>,
}

impl Trace {
    /// The values of a task, given as the JSON of its record, that have one of these hashes; every value with a hash,
    /// where none is named.
    pub fn in_task(task: &Value, hashes: Option<&HashSet<String>>) -> Vec<Trace> {
        let text = |name: &str| task.get(name).and_then(Value::as_str).map(str::to_owned);
        let mut found = Vec::new();
        for (side, is_generated) in [("used", false), ("generated", true)] {
            let Some(Value::Object(values)) = task.pointer(&format!("/hashes/{side}")) else {
                continue;
            };
            for (name, hash) in values {
                let Some(hash) = hash.as_str() else { continue };
                if hashes.is_some_and(|hashes| !hashes.contains(hash)) {
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

/// A store that can be read. Only [`records`](Self::records) must be written: all else is worked out from them, unless
/// the store can do better.
///
/// Whatever it does instead must come to the same: `find` and `aggregate` answer as [`Find::apply`] and
/// [`Pipeline::apply`] do.
pub trait Source: Send + Sync {
    /// Every record, each task and each workflow once.
    fn records(&self) -> Result<Records<'_>>;

    /// The tasks or workflows that are asked for.
    fn find(&self, of: Collection, find: &Find) -> Result<Documents<'_>> {
        Ok(Box::new(find.apply(self.documents(of)?)))
    }

    /// What a pipeline makes of all tasks or workflows.
    fn aggregate(&self, of: Collection, pipeline: &Pipeline) -> Result<Documents<'_>> {
        Ok(Box::new(pipeline.apply(self.documents(of)?)))
    }

    /// Every task or workflow.
    fn documents(&self, of: Collection) -> Result<Documents<'_>> {
        let records = self.records()?;
        Ok(Box::new(records.filter_map(move |record| match record {
            Ok(record) => of.has(&record).then(|| Ok(record.to_json())),
            Err(problem) => Some(Err(problem)),
        })))
    }

    /// The tasks around a task: its parent first, then whose parent that is.
    fn ancestors(&self, task_id: &str) -> Result<Vec<Value>> {
        let mut found: Vec<Value> = Vec::new();
        // Records of other programs may go round in a circle.
        let mut seen = HashSet::from([task_id.to_owned()]);
        let mut next = parent(task(self, task_id)?.as_ref());
        while let Some(id) = next.filter(|id| seen.insert(id.clone())) {
            let Some(task) = task(self, &id)? else { break };
            next = parent(Some(&task));
            found.push(task);
        }
        Ok(found)
    }

    /// The tasks that used or generated a value with one of these hashes.
    fn traces(&self, hashes: &HashSet<String>) -> Result<Vec<Trace>> {
        let mut found = Vec::new();
        for task in self.documents(Collection::Tasks)? {
            // What cannot be read is told where tasks are asked for.
            let Ok(task) = task else { continue };
            found.extend(Trace::in_task(&task, Some(hashes)));
        }
        Ok(found)
    }

    /// The runs with their tasks counted.
    fn runs(&self) -> Result<Runs> {
        let mut counted = CountedRuns::default();
        for record in self.records()? {
            counted.add(record);
        }
        Ok(counted.finish())
    }
}

/// Of what a store finds, the first task with this id.
fn task(source: &(impl Source + ?Sized), id: &str) -> Result<Option<Value>> {
    let find = Find::new().filter(field("task_id").eq(id)).limit(1);
    let mut found = source.find(Collection::Tasks, &find)?;
    found.find(Result::is_ok).transpose()
}

fn parent(task: Option<&Value>) -> Option<String> {
    task?.get("parent_task_id")?.as_str().map(str::to_owned)
}
