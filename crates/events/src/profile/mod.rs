//! What a profiler of a program's parts measured, as plain data.

mod result;
mod snapshot;
mod summary;

use serde::Serialize;

pub use result::{Allocated, ProfileResult};
pub use snapshot::Snapshot;
pub use summary::{Figures, Summary};

/// All that a profiler has to tell, as it is exported.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Sums by name, over all results.
    pub summary: Summary,
    /// The results, in the order in which scopes ended.
    pub results: Vec<ProfileResult>,
    /// The snapshots, in the order in which they were taken.
    pub snapshots: Vec<Snapshot>,
    /// Results and snapshots that there was no room for; the summary knows them all the same.
    pub dropped: u64,
}
