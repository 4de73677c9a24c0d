//! What was counted.

use serde::Serialize;

/// What a process has allocated so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct Counts {
    /// Bytes that were handed out.
    pub allocated_bytes: u64,
    /// Bytes that were given back.
    pub freed_bytes: u64,
    /// How often bytes were handed out.
    pub allocations: u64,
    /// How often they were given back.
    pub deallocations: u64,
    /// The most bytes that were in use at once, to 64 KiB a thread.
    pub peak_bytes: u64,
}

impl Counts {
    /// Bytes that are in use.
    pub fn live_bytes(&self) -> u64 {
        self.allocated_bytes.saturating_sub(self.freed_bytes)
    }
}

/// What a thread has allocated and given back so far. What it gives back may be another's: then it has freed more than it
/// allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct ThreadCounts {
    /// Bytes that were handed out.
    pub allocated_bytes: u64,
    /// Bytes that were given back.
    pub freed_bytes: u64,
    /// How often bytes were handed out.
    pub allocations: u64,
    /// How often they were given back.
    pub deallocations: u64,
}

impl ThreadCounts {
    /// What was counted since an earlier reading of the same thread.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            allocated_bytes: self.allocated_bytes.saturating_sub(before.allocated_bytes),
            freed_bytes: self.freed_bytes.saturating_sub(before.freed_bytes),
            allocations: self.allocations.saturating_sub(before.allocations),
            deallocations: self.deallocations.saturating_sub(before.deallocations),
        }
    }

    /// By how much memory in use has changed.
    pub fn change_bytes(&self) -> i64 {
        self.allocated_bytes.wrapping_sub(self.freed_bytes) as i64
    }
}
