//! The small objects inside a task record: error, source location, thread and captures.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The error of a task or workflow.
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
    /// The kind of failure: `error` for a returned error, `panic`, or `cancelled` for a future that
    /// was dropped before its end.
    ///
    /// Workflows also have `signal`, `exit` for an exit code other than 0, and `unfinished` for a
    /// guard that was dropped without `finish()`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The Rust type of the error. Written as `type`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_name: Option<String>,
    /// The error message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The messages of the causes, the direct cause first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<String>,
    /// The backtrace of a panic, if backtraces are enabled: `function at file:line`, innermost
    /// frame first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backtrace: Vec<String>,
    /// All other fields of the object.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// The source location of a task's code.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct CodeObject {
    /// The crate's name. Written as `crate`.
    #[serde(rename = "crate", skip_serializing_if = "Option::is_none")]
    pub krate: Option<String>,
    /// The module path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// The function's path with its type, as the compiler spells it. `None` if the module and the
    /// activity give the same path.
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
    /// The git commit, if it was known at build time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// All other fields of the object.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// The thread that ran a task.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ThreadObject {
    /// The operating system's id of the thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// The name that the program gave the thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// All other fields of the object.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// How the captures of a task were taken, and their cost.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct CaptureObject {
    /// `own` if the captures were taken for this task, `shared` if other tasks use them too, or
    /// `none`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Why the mode is `none`: `budget`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// If the captures are shared, the age of the older one in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_ns: Option<u64>,
    /// How long the capture before the body took, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_ns: Option<u64>,
    /// How long the capture after the body took, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_ns: Option<u64>,
    /// How much the captures of nested tasks added to this task's duration, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nested_ns: Option<u64>,
    /// All other fields of the object.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}
