//! The counts of the counting allocator.

use serde::Serialize;

/// What a process has allocated so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct Counts {
    /// Bytes allocated.
    pub allocated_bytes: u64,
    /// Bytes freed.
    pub freed_bytes: u64,
    /// Number of allocations.
    pub allocations: u64,
    /// Number of deallocations.
    pub deallocations: u64,
    /// The most bytes in use at the same time. Accurate to 64 KiB per thread.
    pub peak_bytes: u64,
}

impl Counts {
    /// Returns the bytes in use.
    pub fn live_bytes(&self) -> u64 {
        self.allocated_bytes.saturating_sub(self.freed_bytes)
    }
}

/// What a thread has allocated and freed so far. A thread may free memory that another one
/// allocated, so it can have freed more than it allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct ThreadCounts {
    /// Bytes allocated.
    pub allocated_bytes: u64,
    /// Bytes freed.
    pub freed_bytes: u64,
    /// Number of allocations.
    pub allocations: u64,
    /// Number of deallocations.
    pub deallocations: u64,
}

impl ThreadCounts {
    /// Returns the difference to an earlier reading of the same thread.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            allocated_bytes: self.allocated_bytes.saturating_sub(before.allocated_bytes),
            freed_bytes: self.freed_bytes.saturating_sub(before.freed_bytes),
            allocations: self.allocations.saturating_sub(before.allocations),
            deallocations: self.deallocations.saturating_sub(before.deallocations),
        }
    }

    /// Returns the change of the memory in use.
    pub fn change_bytes(&self) -> i64 {
        self.allocated_bytes.wrapping_sub(self.freed_bytes) as i64
    }
}
