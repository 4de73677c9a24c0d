//! How much memory is in use at a moment.

use serde::Serialize;

use runlore_core::context::current_task_id;
use runlore_core::{alloc, clock};
use runlore_telemetry::resident_now;

/// Memory in use at one moment. What cannot be known is none.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Snapshot {
    /// What it was taken for.
    pub label: String,
    /// When, in Unix seconds.
    pub timestamp: f64,
    /// Resident memory of the process.
    pub rss_bytes: Option<u64>,
    /// What the [counting allocator](runlore_core::alloc) says is in use, where it is installed.
    pub allocated_bytes: Option<u64>,
    /// The task around it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
}

impl Snapshot {
    /// Reads how much memory is in use now.
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
