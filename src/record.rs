//! Records: JSON objects that describe a task or a workflow, with exactly Flowcept's keys.
//!
//! Parsing is lenient and loses nothing:
//!
//! * a null field counts as absent;
//! * a field of an unexpected type stays in `extra` under its name, and is written back from there;
//! * an unknown status reads as [`Status::Unknown`] and is written back unchanged;
//! * a record without `type` is a task if it has an activity or a task id, and a workflow if it
//!   only has a workflow id;
//! * a record without an id gets one computed from its content and its line, the same on every
//!   read;
//! * an object that is neither a task nor a workflow is kept unchanged.
//!
//! ```
//! use runlore::record::{Record, Status};
//! use serde_json::json;
//!
//! let json = json!({"type": "task", "task_id": "t1", "activity_id": "load", "status": "CANCELLED", "mine": 1});
//! let record = Record::from_json(json.clone())?;
//!
//! let task = record.as_task().unwrap();
//! assert_eq!(task.status, Some(Status::Unknown));
//! assert_eq!(task.extra["mine"], 1);
//! assert_eq!(record.to_json(), json);
//! # Ok::<(), runlore::Error>(())
//! ```

#[cfg(feature = "blake3")]
pub use runlore_core::record::blake3_of;
pub use runlore_core::record::{
    CaptureObject, CaptureValue, CodeObject, Encoder, ErrorObject, FoundSecret, Id, Inspect,
    JoulesObject, Limits, Lock, Lost, Record, Shown, Status, TaskObject, TensorFacts,
    TensorStatistics, ThreadObject, TryLock, WorkflowObject, find_secrets, hash_of, is_secret_name,
    scrub, scrub_arguments, try_lock,
};
#[doc(hidden)]
pub use runlore_core::record::{Probe, Tensors, use_redact_settings};
