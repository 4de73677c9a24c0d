//! What the results of scopes add up to.

use std::collections::BTreeMap;

use serde::Serialize;

use super::ProfileResult;

/// Sums by name.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// How many scopes have ended.
    pub scopes: u64,
    /// How long all of them took together; those inside others count twice.
    pub total_duration_ns: u64,
    /// The most resident memory that any of them saw.
    pub peak_bytes: Option<u64>,
    /// The figures of each name.
    pub by_name: BTreeMap<String, Figures>,
}

/// What scopes of one name add up to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Figures {
    /// How many there were.
    pub count: u64,
    /// How long they took together.
    pub total_duration_ns: u64,
    /// How long the longest took.
    pub longest_duration_ns: u64,
    /// By how much resident memory changed in all of them together.
    pub change_bytes: i64,
    /// The most resident memory that one of them saw.
    pub peak_bytes: Option<u64>,
    /// What they allocated, where the [counting allocator](runlore_core::alloc) is installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated_bytes: Option<u64>,
}

impl Figures {
    /// How long one took, in the mean.
    pub fn mean_duration_ns(&self) -> u64 {
        self.total_duration_ns.checked_div(self.count).unwrap_or(0)
    }
}

impl Summary {
    /// Adds the result of a scope.
    pub fn add(&mut self, result: &ProfileResult) {
        self.scopes += 1;
        self.total_duration_ns = self.total_duration_ns.saturating_add(result.duration_ns);
        self.peak_bytes = self.peak_bytes.max(result.peak_bytes);
        let of_name = self.by_name.entry(result.name.clone()).or_default();
        of_name.count += 1;
        of_name.total_duration_ns = of_name.total_duration_ns.saturating_add(result.duration_ns);
        of_name.longest_duration_ns = of_name.longest_duration_ns.max(result.duration_ns);
        of_name.change_bytes = of_name.change_bytes.saturating_add(result.change_bytes());
        of_name.peak_bytes = of_name.peak_bytes.max(result.peak_bytes);
        if let Some(allocated) = result.allocator {
            *of_name.allocated_bytes.get_or_insert(0) += allocated.allocated_bytes;
        }
    }
}
