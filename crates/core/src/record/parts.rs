//! The small objects inside a task record: how it failed, where its code is, which thread ran it, what
//! capturing it cost.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// How a task or workflow failed.
///
/// ```
/// use runlore::record::{ErrorObject, Record};
///
/// let record = Record::from_json(serde_json::json!({
///     "type": "task", "task_id": "t1", "status": "ERROR",
///     "error": {"kind": "panic", "message": "index out of bounds"},
/// }))?;
/// let error: &ErrorObject = record.as_task().unwrap().error.as_ref().unwrap();
/// assert_eq!(error.kind.as_deref(), Some("panic"));
/// # Ok::<(), runlore::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ErrorObject {
    /// `error` for a returned error, `panic`, or `cancelled` for a future dropped before its end; of workflows also
    /// `signal`, `exit` for an exit code other than 0, and `unfinished` for a guard dropped without `finish()`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The Rust type of the error; written as `type`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_name: Option<String>,
    /// The error's own words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The words of what caused it, nearest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<String>,
    /// Where a panic came from, when backtraces are enabled: `function at file:line`, the innermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backtrace: Vec<String>,
    /// Whatever else stands in the object.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Where the code of a task is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct CodeObject {
    /// The crate's name; written as `crate`.
    #[serde(rename = "crate", skip_serializing_if = "Option::is_none")]
    pub krate: Option<String>,
    /// The module path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// The function's path with its type, as the compiler spells it; where the module and the activity say it all, none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// The source file, as the compiler named it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line in that file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The column in that line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    /// The crate's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The git commit, when the build knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Whatever else stands in the object.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// The thread that ran a task.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ThreadObject {
    /// The operating system's number of the thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// The name the program gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whatever else stands in the object.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// How telemetry was captured for a task, and what that cost.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct CaptureObject {
    /// `own`, `shared` with other tasks, or `none`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Why the task has no capture: `budget`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How old the older capture was when it was shared, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_ns: Option<u64>,
    /// Nanoseconds before the body began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_ns: Option<u64>,
    /// Nanoseconds after the body ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_ns: Option<u64>,
    /// What the captures of nested tasks added to this task's duration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nested_ns: Option<u64>,
    /// Whatever else stands in the object.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}
