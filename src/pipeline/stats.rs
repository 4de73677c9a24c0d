//! Counters of recorded and lost records.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use runlore_core::record::Status;

/// Counters of the recorder in this process so far, over all workflows.
///
/// ```
/// let stats = runlore::stats();
/// assert_eq!(stats.dropped, 0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Stats {
    /// Records that a store has accepted.
    pub written: u64,
    /// Records that are synced to disk; only with `durability: system`.
    pub synced: u64,
    /// The size of the accepted records as JSON, in bytes.
    pub bytes: u64,
    /// Batches that a store has accepted.
    pub batches: u64,
    /// Records that no store will ever get.
    pub dropped: u64,
    /// Records that a store refused and keeps elsewhere.
    pub refused: u64,
    /// Records that wait because their store failed or is slow. They are retried.
    pub waiting: u64,
    /// The part of `waiting` that is on disk.
    pub spooled: u64,
    /// Events that went to the session's overflow file because their queue was full.
    pub overflowed: u64,
    /// How often a task had to wait for room in its queue.
    pub waits: u64,
    /// How often a store failed.
    pub store_errors: u64,
}

/// Counts of the tasks of one workflow. Stored in its last record as `totals`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Totals {
    /// Tasks that were written.
    pub tasks: u64,
    /// Tasks that finished successfully.
    pub finished: u64,
    /// Tasks that ended in an error, a panic or a cancellation.
    pub errors: u64,
    /// Tasks that were still open at the end.
    pub running: u64,
    /// The part of `errors` that no other task of the workflow called.
    #[serde(default)]
    pub failed_roots: u64,
    /// Tasks that were not recorded.
    pub dropped: u64,
    /// Tasks that the store refused and keeps elsewhere. All tasks of the workflow are `tasks`,
    /// `dropped` and `refused` together.
    #[serde(default)]
    pub refused: u64,
    /// Tasks that went through the overflow file because their queue was full. They are recorded
    /// like all others.
    #[serde(default)]
    pub overflowed: u64,
    /// Records that wait on disk for their store. The next run writes them, or `runlore replay`.
    #[serde(default)]
    pub spooled: u64,
    /// The size of the written JSON in bytes.
    pub bytes_written: u64,
    /// The time that captures took, summed over all threads, in nanoseconds.
    #[serde(default)]
    pub capture_ns: u64,
    /// The CPU time that recording used while the workflow ran, in nanoseconds: captures, records
    /// and the writer's work, for all workflows of the process.
    #[serde(default)]
    pub overhead_cpu_ns: u64,
    /// Tasks whose captures were reduced, shared or omitted because of
    /// `telemetry_capture.max_overhead_percent`.
    #[serde(default)]
    pub held_back: u64,
    /// How long the recorder took to start, in nanoseconds. It is part of the run's duration.
    #[serde(default)]
    pub start_up_ns: u64,
}

impl Totals {
    /// Adds the counts of other tasks.
    pub(super) fn add(&mut self, others: &Self) {
        self.tasks += others.tasks;
        self.finished += others.finished;
        self.errors += others.errors;
        self.running += others.running;
    }

    /// Moves tasks that were counted but will never be stored to `dropped`.
    pub(super) fn lose(&mut self, lost: &Self) {
        self.take_out(lost);
        self.dropped += lost.tasks;
    }

    /// Moves tasks that were counted but refused by the store to `refused`.
    pub(super) fn refuse(&mut self, refused: &Self) {
        self.take_out(refused);
        self.refused += refused.tasks;
    }

    fn take_out(&mut self, others: &Self) {
        self.tasks -= others.tasks;
        self.finished -= others.finished;
        self.errors -= others.errors;
        self.running -= others.running;
    }

    /// Counts a task.
    pub(super) fn count(&mut self, status: Status) {
        self.tasks += 1;
        match status {
            Status::Finished => self.finished += 1,
            Status::Error => self.errors += 1,
            _ => self.running += 1,
        }
    }
}

pub(super) static WRITTEN: AtomicU64 = AtomicU64::new(0);
pub(super) static SYNCED: AtomicU64 = AtomicU64::new(0);
pub(super) static BYTES: AtomicU64 = AtomicU64::new(0);
pub(super) static BATCHES: AtomicU64 = AtomicU64::new(0);
pub(super) static DROPPED: AtomicU64 = AtomicU64::new(0);
pub(super) static REFUSED: AtomicU64 = AtomicU64::new(0);
pub(super) static WAITING: AtomicU64 = AtomicU64::new(0);
pub(super) static SPOOLED: AtomicU64 = AtomicU64::new(0);
pub(super) static OVERFLOWED: AtomicU64 = AtomicU64::new(0);
pub(super) static WAITS: AtomicU64 = AtomicU64::new(0);
pub(super) static STORE_ERRORS: AtomicU64 = AtomicU64::new(0);

pub(super) fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

/// Returns the counters of the recorder in this process so far.
pub fn stats() -> Stats {
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    Stats {
        written: read(&WRITTEN),
        synced: read(&SYNCED),
        bytes: read(&BYTES),
        batches: read(&BATCHES),
        dropped: read(&DROPPED),
        refused: read(&REFUSED),
        waiting: read(&WAITING),
        spooled: read(&SPOOLED),
        overflowed: read(&OVERFLOWED),
        waits: read(&WAITS),
        store_errors: read(&STORE_ERRORS),
    }
}
