//! What a record is: one JSON object about a task or a workflow, in Flowcept's shape, key for key.

mod field;
mod fill;
#[doc(hidden)]
pub mod hash;
mod id;
mod joules;
mod lost;
mod parts;
#[doc(hidden)]
pub mod redact;
mod shown;
mod status;
mod task;
mod tensor;
mod tensors;
#[doc(hidden)]
mod value;
mod workflow;

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

pub use hash::Budget;
#[cfg(feature = "blake3")]
pub use hash::blake3_of;
pub use hash::hash_of;
pub use id::Id;
pub use joules::JoulesObject;
pub use lost::Lost;
pub use redact::{
    FoundSecret, find_secrets, is_secret_name, scrub, scrub_arguments, use_redact_settings,
};
pub use value::base64;
pub use value::{
    Absent, BoundedText, Hashing, Notes, Secrecy, Slot, ValueView, describes, numeric_slice,
};
pub use value::{CaptureValue, Encoder, Limits, Lock, TryLock, try_lock};

pub use parts::{CaptureObject, CodeObject, ErrorObject, ThreadObject};
pub use shown::Shown;
pub use status::Status;
pub use task::TaskObject;
pub use tensor::{Inspect, TensorFacts, TensorStatistics};
#[doc(hidden)]
pub use tensors::{Probe, Tensors};
pub use workflow::WorkflowObject;

use crate::{Error, ErrorKind, Result};

/// One record of a store.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// A task.
    Task(Box<TaskObject>),
    /// A workflow.
    Workflow(Box<WorkflowObject>),
    /// Anything else, such as Flowcept's agents and objects: kept as it is.
    Other(Map<String, Value>),
}

impl Record {
    /// Reads a record. Fails only where the JSON is not an object.
    pub fn from_json(json: Value) -> Result<Record> {
        Self::from_json_at(json, 0)
    }

    /// Reads the record of a line of a file: the number of the line tells apart equal records that have
    /// no id of their own.
    pub fn from_json_at(json: Value, line: u64) -> Result<Record> {
        let Value::Object(map) = json else {
            let what = match json {
                Value::Null => "null",
                Value::Bool(_) => "true or false",
                Value::Number(_) => "a number",
                Value::String(_) => "a string",
                Value::Array(_) => "an array",
                Value::Object(_) => "an object",
            };
            return Err(Error::new(
                ErrorKind::Record,
                format!("a record must be a JSON object, found {what}"),
            ));
        };
        Ok(match Kind::of(&map) {
            Kind::Task => Record::Task(Box::new(TaskObject::from_object(map, line))),
            Kind::Workflow => Record::Workflow(Box::new(WorkflowObject::from_object(map, line))),
            Kind::Other => Record::Other(map),
        })
    }

    /// The record as JSON, nulls left out.
    pub fn to_json(&self) -> Value {
        // Only keys that are not text or a failing Serialize could make this fail; a record has neither.
        serde_json::to_value(self).unwrap_or_default()
    }

    /// The same, of a record that nobody needs any more: nothing is copied.
    pub fn into_json(self) -> Value {
        match self {
            Record::Task(task) => task.into_json(),
            Record::Workflow(workflow) => workflow.into_json(),
            Record::Other(map) => Value::Object(map),
        }
    }

    /// The task, if it is one.
    pub fn as_task(&self) -> Option<&TaskObject> {
        match self {
            Record::Task(task) => Some(task),
            _ => None,
        }
    }

    /// The workflow, if it is one.
    pub fn as_workflow(&self) -> Option<&WorkflowObject> {
        match self {
            Record::Workflow(workflow) => Some(workflow),
            _ => None,
        }
    }

    /// The id of the workflow it is or belongs to.
    pub fn workflow_id(&self) -> Option<&str> {
        match self {
            Record::Task(task) => task.workflow_id.as_deref(),
            Record::Workflow(workflow) => Some(&workflow.workflow_id),
            Record::Other(map) => map.get("workflow_id").and_then(Value::as_str),
        }
    }
}

impl From<TaskObject> for Record {
    fn from(task: TaskObject) -> Self {
        Record::Task(Box::new(task))
    }
}

impl From<WorkflowObject> for Record {
    fn from(workflow: WorkflowObject) -> Self {
        Record::Workflow(Box::new(workflow))
    }
}

impl Serialize for Record {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Record::Task(task) => task.serialize(to),
            Record::Workflow(workflow) => workflow.serialize(to),
            Record::Other(map) => map.serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for Record {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Record::from_json(Value::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}

enum Kind {
    Task,
    Workflow,
    Other,
}

impl Kind {
    fn of(map: &Map<String, Value>) -> Kind {
        let has = |name: &str| map.get(name).is_some_and(|value| !value.is_null());
        match map.get("type") {
            Some(Value::String(kind)) if kind == "task" => Kind::Task,
            Some(Value::String(kind)) if kind == "workflow" => Kind::Workflow,
            None | Some(Value::Null) => {
                // Blobs name a task too, and agents name a workflow; neither is one.
                if has("object_id") {
                    Kind::Other
                } else if has("activity_id") || has("task_id") {
                    Kind::Task
                } else if has("workflow_id")
                    && (!has("agent_id") || has("status") || has("started_at"))
                {
                    Kind::Workflow
                } else {
                    Kind::Other
                }
            }
            Some(_) => Kind::Other,
        }
    }
}

fn duration(nanos: Option<u64>, started: Option<f64>, ended: Option<f64>) -> Option<Duration> {
    nanos.map(Duration::from_nanos).or_else(|| {
        // A wall clock that was set back gives a negative difference: no duration, rather than a wrong one.
        Duration::try_from_secs_f64(ended? - started?).ok()
    })
}

fn error_message<'a>(
    stderr: Option<&'a str>,
    error: Option<&'a ErrorObject>,
    extra: &'a Map<String, Value>,
) -> Option<Cow<'a, str>> {
    if let Some(text) = stderr {
        return Some(text.into());
    }
    if let Some(message) = error.and_then(|error| error.message.as_deref()) {
        let chain = error.map_or(&[][..], |error| &error.chain);
        return Some(if chain.is_empty() {
            message.into()
        } else {
            format!("{message}: {}", chain.join(": ")).into()
        });
    }
    // Flowcept's Dask adapter writes an object here.
    Some(match extra.get("stderr")? {
        Value::Object(parts) => match parts.get("exception") {
            Some(Value::String(text)) => text.into(),
            _ => Value::Object(parts.clone()).to_string().into(),
        },
        other => other.to_string().into(),
    })
}
