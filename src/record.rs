//! What a record is: one JSON object about a task or a workflow, in Flowcept's shape, key for key.
//!
//! Reading is forgiving and loses nothing:
//!
//! * a field that is null counts as absent;
//! * a field of another type than its own stays in `extra` under its name, and is written back from there;
//! * a status outside the closed set reads as [`Status::Unknown`] and is written back as it was;
//! * a record without `type` is a task if it names an activity or a task, a workflow if it names a
//!   workflow only;
//! * a record without an id gets one made from its content and its line: the same on every read;
//! * what is neither a task nor a workflow is kept as it is.
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
    scrub, scrub_arguments, try_lock, use_redact_settings,
};
#[doc(hidden)]
pub use runlore_core::record::{Probe, Tensors};
