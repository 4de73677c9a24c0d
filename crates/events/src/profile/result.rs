//! The result of one scope of a profiler.

use std::time::Duration;

use serde::Serialize;

/// The measurements of one scope.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProfileResult {
    /// The scope's name.
    pub name: String,
    /// The id of the task that the scope was recorded as. `None` outside a workflow.
    pub task_id: Option<String>,
    /// The start, in Unix seconds.
    pub started_at: f64,
    /// The duration.
    pub duration_ns: u64,
    /// Resident memory of the process at the start.
    pub before_bytes: Option<u64>,
    /// Resident memory of the process at the end.
    pub after_bytes: Option<u64>,
    /// The peak resident memory during the scope. Exact if the process had never used more before.
    /// Otherwise the highest value seen at the start and the end, by snapshots and by a tracker.
    pub peak_bytes: Option<u64>,
    /// Whether the peak is exact.
    pub peak_is_exact: bool,
    /// Allocations of the scope's own thread, if the [counting allocator](runlore_core::alloc) is
    /// installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocator: Option<Allocated>,
}

/// The allocations of a thread in a scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Allocated {
    /// Allocated bytes.
    pub allocated_bytes: u64,
    /// Freed bytes.
    pub freed_bytes: u64,
    /// The number of allocations.
    pub allocations: u64,
    /// The peak of bytes in use, above what was in use at the start.
    pub peak_bytes: u64,
}

impl ProfileResult {
    /// Creates the result of a scope without measurements.
    pub fn nothing(name: String) -> Self {
        Self {
            name,
            task_id: None,
            started_at: 0.0,
            duration_ns: 0,
            before_bytes: None,
            after_bytes: None,
            peak_bytes: None,
            peak_is_exact: false,
            allocator: None,
        }
    }

    /// Returns the change in resident memory. 0 if it is unknown.
    pub fn change_bytes(&self) -> i64 {
        let change = self
            .before_bytes
            .zip(self.after_bytes)
            .map(|(before, after)| after.wrapping_sub(before));
        change.map_or(0, |change| change as i64)
    }

    /// Returns the duration.
    pub fn duration(&self) -> Duration {
        Duration::from_nanos(self.duration_ns)
    }
}
