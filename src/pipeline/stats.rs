//! Counters: what was recorded, and what was not.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use runlore_core::record::Status;

/// What the recorder has done in this process so far, over all workflows.
///
/// ```
/// let stats = runlore::stats();
/// assert_eq!(stats.dropped, 0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Records that a store has taken.
    pub written: u64,
    /// Records that are on disk for sure; only with `durability: system`.
    pub synced: u64,
    /// Bytes of those records as JSON.
    pub bytes: u64,
    /// Batches that a store has taken.
    pub batches: u64,
    /// Records that no store will ever have.
    pub dropped: u64,
    /// Records that a store would not have among the others, and keeps apart.
    pub refused: u64,
    /// Records that wait because their store failed or is slow; they are tried again.
    pub waiting: u64,
    /// Those of them that wait on disk.
    pub spooled: u64,
    /// Events of tasks that their full queue passed on to the session's overflow file.
    pub overflowed: u64,
    /// How often a task had to wait for room in its queue.
    pub waits: u64,
    /// How often a store failed.
    pub store_errors: u64,
}

/// What became of the tasks of one workflow: stored in its final record as `totals`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Totals {
    /// All tasks that were written.
    pub tasks: u64,
    /// Tasks that ended well.
    pub finished: u64,
    /// Tasks that ended in an error, a panic or a cancellation.
    pub errors: u64,
    /// Tasks that were still open at the end.
    pub running: u64,
    /// Tasks among the `errors` that no other task of the workflow called.
    #[serde(default)]
    pub failed_roots: u64,
    /// Tasks of which no record was kept.
    pub dropped: u64,
    /// Tasks that the store would not have among the others, and keeps apart: those that were written, were dropped and were refused are all
    /// that there were.
    #[serde(default)]
    pub refused: u64,
    /// Tasks that went through the overflow file because their queue was full: recorded as all others are.
    #[serde(default)]
    pub overflowed: u64,
    /// Records that wait on disk for their store; the next run writes them, or `runlore replay`.
    #[serde(default)]
    pub spooled: u64,
    /// Bytes of JSON.
    pub bytes_written: u64,
    /// Nanoseconds that reading telemetry took, on all threads together.
    #[serde(default)]
    pub capture_ns: u64,
    /// Processor time that recording cost while the workflow ran, in nanoseconds: captures, records and the writer's
    /// work, for all workflows of the process.
    #[serde(default)]
    pub overhead_cpu_ns: u64,
    /// Tasks whose telemetry `telemetry_capture.max_overhead_percent` thinned, shared or left out.
    #[serde(default)]
    pub held_back: u64,
    /// How long the recorder took to start, in nanoseconds of the run's duration.
    #[serde(default)]
    pub start_up_ns: u64,
}

impl Totals {
    /// Adds the tasks of others.
    pub(super) fn add(&mut self, others: &Self) {
        self.tasks += others.tasks;
        self.finished += others.finished;
        self.errors += others.errors;
        self.running += others.running;
    }

    /// These tasks were counted, and will never be stored.
    pub(super) fn lose(&mut self, lost: &Self) {
        self.take_out(lost);
        self.dropped += lost.tasks;
    }

    /// These tasks were counted, and the store keeps them apart.
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

/// What the recorder has done in this process so far.
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
