//! What a scope of a profiler measured.

use std::time::Duration;

use serde::Serialize;

/// What a scope measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProfileResult {
    /// The scope's name.
    pub name: String,
    /// The task that it was recorded as; none outside a workflow.
    pub task_id: Option<String>,
    /// When it began, in Unix seconds.
    pub started_at: f64,
    /// How long it took.
    pub duration_ns: u64,
    /// Resident memory of the process before.
    pub before_bytes: Option<u64>,
    /// Resident memory of the process after.
    pub after_bytes: Option<u64>,
    /// The most resident memory in between: exact where the process never had more before; otherwise the most that was seen, at
    /// the edges, by snapshots and by a tracker.
    pub peak_bytes: Option<u64>,
    /// Whether that is exact.
    pub peak_is_exact: bool,
    /// What the scope's own thread allocated, where the [counting allocator](runlore_core::alloc) is installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocator: Option<Allocated>,
}

/// What a thread allocated in a scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Allocated {
    /// Bytes that were handed out.
    pub allocated_bytes: u64,
    /// Bytes that were given back.
    pub freed_bytes: u64,
    /// How often bytes were handed out.
    pub allocations: u64,
    /// The most that was in use at once, beyond what was in use before.
    pub peak_bytes: u64,
}

impl ProfileResult {
    /// The result of a scope that measured nothing.
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

    /// By how much resident memory has changed; 0 where it is not known.
    pub fn change_bytes(&self) -> i64 {
        let change = self
            .before_bytes
            .zip(self.after_bytes)
            .map(|(before, after)| after.wrapping_sub(before));
        change.map_or(0, |change| change as i64)
    }

    /// How long it took.
    pub fn duration(&self) -> Duration {
        Duration::from_nanos(self.duration_ns)
    }
}
