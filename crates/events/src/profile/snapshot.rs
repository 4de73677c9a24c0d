//! Snapshots of memory use.

use serde::Serialize;

use runlore_core::context::current_task_id;
use runlore_core::{alloc, clock};
use runlore_telemetry::resident_now;

/// The memory in use at one moment. Unknown values are `None`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Snapshot {
    /// The label given by the caller.
    pub label: String,
    /// The time, in Unix seconds.
    pub timestamp: f64,
    /// Resident memory of the process.
    pub rss_bytes: Option<u64>,
    /// Bytes in use according to the [counting allocator](runlore_core::alloc), if it is installed.
    pub allocated_bytes: Option<u64>,
    /// The id of the current task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
}

impl Snapshot {
    /// Takes a snapshot.
    pub fn now(label: &str) -> Self {
        clock::anchor();
        Self {
            label: label.to_owned(),
            timestamp: clock::seconds(clock::wall_ns(clock::monotonic_ns())),
            rss_bytes: resident_now(),
            allocated_bytes: alloc::is_installed().then(|| alloc::counts().live_bytes()),
            task_id: current_task_id().map(|id| id.to_string()),
        }
    }
}
