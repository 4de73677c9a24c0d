//! Sums over the results of scopes.

use std::collections::BTreeMap;

use serde::Serialize;

use super::ProfileResult;

/// Totals over all scopes, and the figures of each name.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// The number of scopes that have ended.
    pub scopes: u64,
    /// The total duration of all scopes. The time of nested scopes counts twice.
    pub total_duration_ns: u64,
    /// The highest resident memory in any scope.
    pub peak_bytes: Option<u64>,
    /// The figures of each name.
    pub by_name: BTreeMap<String, Figures>,
}

/// Sums over the scopes with one name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Figures {
    /// The number of scopes.
    pub count: u64,
    /// The total duration.
    pub total_duration_ns: u64,
    /// The longest duration of one scope.
    pub longest_duration_ns: u64,
    /// The sum of the changes in resident memory.
    pub change_bytes: i64,
    /// The highest resident memory in any of the scopes.
    pub peak_bytes: Option<u64>,
    /// Bytes that the scopes allocated, if the [counting allocator](runlore_core::alloc) is
    /// installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated_bytes: Option<u64>,
}

impl Figures {
    /// Returns the mean duration of a scope.
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
