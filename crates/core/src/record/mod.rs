//! Record types: one JSON object per task or workflow, with the same keys as Flowcept's records.

mod field;

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
mod synthetic_id;
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
    /// A record of any other type, such as Flowcept's agents and objects. It is kept unchanged.
    Other(Map<String, Value>),
}

impl Record {
    /// Parses a record.
    ///
    /// # Errors
    ///
    /// Fails only if `json` is not an object.
    pub fn from_json(json: Value) -> Result<Record> {
        Self::from_json_at(json, 0)
    }

    /// Parses a record from line number `line` of a file.
    ///
    /// A record without an id gets one derived from its content and `line`, so that equal records
    /// on different lines get different ids.
    ///
    /// # Errors
    ///
    /// Fails only if `json` is not an object.
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

    /// Returns the record as JSON, without null fields.
    pub fn to_json(&self) -> Value {
        // Serialization fails only for map keys that are not text or for a failing `Serialize`. A
        // record has neither.
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Converts the record into JSON, without null fields and without copying values.
    pub fn into_json(self) -> Value {
        match self {
            Record::Task(task) => task.into_json(),
            Record::Workflow(workflow) => workflow.into_json(),
            Record::Other(map) => Value::Object(map),
        }
    }

    /// Returns the task. `None` if this is another kind of record.
    pub fn as_task(&self) -> Option<&TaskObject> {
        match self {
            Record::Task(task) => Some(task),
            _ => None,
        }
    }

    /// Returns the workflow. `None` if this is another kind of record.
    pub fn as_workflow(&self) -> Option<&WorkflowObject> {
        match self {
            Record::Workflow(workflow) => Some(workflow),
            _ => None,
        }
    }

    /// Returns the id of the workflow that this record describes or belongs to.
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
                // Blobs can have a task id and agents a workflow id, but they are neither tasks nor
                // workflows.
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
        // If the wall clock was set back, the difference is negative. `None` is better than a wrong
        // duration.
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
