//! The results of a profiler, as plain data.

mod result;
mod snapshot;
mod summary;

use serde::Serialize;

pub use result::{Allocated, ProfileResult};
pub use snapshot::Snapshot;
pub use summary::{Figures, Summary};

/// All results of a profiler, in the form in which they are exported.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Sums by name, over all results.
    pub summary: Summary,
    /// The results, in the order in which scopes ended.
    pub results: Vec<ProfileResult>,
    /// The snapshots, in the order in which they were taken.
    pub snapshots: Vec<Snapshot>,
    /// The number of results and snapshots that were not kept for lack of room. The summary
    /// includes the results.
    pub dropped: u64,
}
