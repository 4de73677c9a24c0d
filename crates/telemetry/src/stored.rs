//! The telemetry in stored records, as typed values.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::parts::Telemetry;
use super::usage::ChildUsage;
use runlore_core::record::{JoulesObject, TaskObject};
use runlore_core::{Error, ErrorKind, Result};

/// Reads the captures and the resources of a stored task as typed values.
///
/// ```
/// use runlore::record::TaskObject;
/// use runlore::telemetry::TaskTelemetry;
///
/// let text = r#"{"task_id": "t1", "telemetry_at_end": {"cpu": {"percent_all": 12.5}},
///     "resources": {"cpu_ns": {"self": 500, "inclusive": 800}}}"#;
/// let task: TaskObject = serde_json::from_str(text)?;
/// assert_eq!(task.telemetry_at_end()?.cpu.unwrap().percent_all, Some(12.5));
/// assert_eq!(task.resources()?.cpu_ns.unwrap().inclusive, 800);
/// let missing = task.telemetry_at_start().unwrap_err();
/// assert_eq!(missing.to_string(), "task `t1` has no `telemetry_at_start`");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Each method returns an error that names the field if the record does not contain it, or if its
/// content has another form.
pub trait TaskTelemetry {
    /// Returns the capture at the start of the task.
    ///
    /// # Errors
    ///
    /// If the record has no such capture, or one of another form.
    fn telemetry_at_start(&self) -> Result<Telemetry>;

    /// Returns the capture at the end of the task.
    ///
    /// # Errors
    ///
    /// As for [`telemetry_at_start`](Self::telemetry_at_start).
    fn telemetry_at_end(&self) -> Result<Telemetry>;

    /// Returns the resources that the task used.
    ///
    /// # Errors
    ///
    /// As for [`telemetry_at_start`](Self::telemetry_at_start).
    fn resources(&self) -> Result<Resources>;
}

impl TaskTelemetry for TaskObject {
    fn telemetry_at_start(&self) -> Result<Telemetry> {
        read(self, "telemetry_at_start", self.telemetry_at_start.as_ref())
    }

    fn telemetry_at_end(&self) -> Result<Telemetry> {
        read(self, "telemetry_at_end", self.telemetry_at_end.as_ref())
    }

    fn resources(&self) -> Result<Resources> {
        read(self, "resources", self.resources.as_ref())
    }
}

/// The resources that a task used. A figure that was not measured is `None`.
///
/// Figures of the task's threads are exact. Those of the whole process (`read_bytes`,
/// `write_bytes`, `rss_bytes`, `joules`) include what other tasks did at the same time, see
/// [`Amount::overlap`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Resources {
    /// CPU time in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_ns: Option<Amount>,
    /// Page faults that needed no disk access.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minor_faults: Option<Amount>,
    /// Page faults that had to read from a disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub major_faults: Option<Amount>,
    /// Context switches because a thread had to wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub voluntary_switches: Option<Amount>,
    /// Context switches because the scheduler ran another thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub involuntary_switches: Option<Amount>,
    /// Bytes that the task allocated. Needs the counting allocator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated_bytes: Option<Amount>,
    /// Bytes that it freed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub freed_bytes: Option<Amount>,
    /// The number of allocations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocations: Option<Amount>,
    /// The most bytes that it had allocated at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated_peak_bytes: Option<Amount>,
    /// Bytes that the process read from disks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<Amount>,
    /// Bytes that the process wrote to disks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_bytes: Option<Amount>,
    /// How much the resident memory of the process grew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_bytes: Option<Amount>,
    /// Energy of the machine, in joules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub joules: Option<JoulesObject>,
    /// The usage of a process that the task ran and waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub child: Option<ChildUsage>,
}

/// One figure of [`Resources`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Amount {
    /// The task's own usage, without its child tasks, stored as `self`. `None` if the record has
    /// only the sum.
    #[serde(rename = "self", default, skip_serializing_if = "Option::is_none")]
    pub own: Option<i64>,
    /// The usage of the task and its child tasks.
    pub inclusive: i64,
    /// Whether other tasks ran at the same time, so that not all of it belongs to this task.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overlap: bool,
}

/// Reads a field of a task. All fields of `T` must be optional.
fn read<T: for<'de> Deserialize<'de>>(
    task: &TaskObject,
    field: &str,
    content: Option<&Map<String, Value>>,
) -> Result<T> {
    let error =
        |what: String| Error::new(ErrorKind::Record, format!("task `{}` {what}", task.task_id));
    let content = content.ok_or_else(|| error(format!("has no `{field}`")))?;
    T::deserialize(content).map_err(|why| {
        // Name the part that is wrong: a part on its own is read like the whole.
        let wrong = content.iter().find_map(|(name, value)| {
            let alone = Map::from_iter([(name.clone(), value.clone())]);
            T::deserialize(&alone).err().map(|why| (format!("{field}.{name}"), why))
        });
        let (name, why) = wrong.unwrap_or_else(|| (field.to_owned(), why));
        error(format!("has a `{name}` of another form")).with_source(why)
    })
}
