//! A scope: a task that measures memory before and after.

use serde_json::json;

use super::Profiler;
use super::{Allocated, ProfileResult, Snapshot};
use crate::TaskGuard;
use runlore_core::alloc;
use runlore_core::alloc::{PeakScope, ThreadCounts};
use runlore_core::clock;
use runlore_core::resident::{Seen, note_resident};
use runlore_telemetry::usage;

/// A part of a program that is being measured. Created by [`Profiler::scope`].
#[derive(Debug)]
pub struct Scope {
    profiler: Profiler,
    name: String,
    /// `None` after it has ended.
    begun: Option<Begun>,
}

#[derive(Debug)]
struct Begun {
    task: TaskGuard,
    before: Snapshot,
    /// The process's peak resident memory so far, according to the kernel.
    peak_before: Option<u64>,
    seen: Seen,
    counts: ThreadCounts,
    peak: PeakScope,
    since_ns: u64,
}

impl Scope {
    #[track_caller]
    pub(super) fn begin(profiler: Profiler, name: &str) -> Self {
        let task = crate::task(name).tag("profile").start();
        let before = Snapshot::now(name);
        let peak_before = usage::process().peak_rss;
        let seen = Seen::new(before.rss_bytes.unwrap_or(0));
        let begun = Begun {
            task,
            before,
            peak_before,
            seen,
            counts: alloc::thread_counts(),
            peak: PeakScope::begin(),
            since_ns: clock::monotonic_ns(),
        };
        Self { profiler, name: name.to_owned(), begun: Some(begun) }
    }

    /// Takes a snapshot of the memory in use now, and adds it to the profiler.
    pub fn snapshot(&mut self, label: &str) -> Snapshot {
        let snapshot = Snapshot::now(label);
        if let Some(rss) = snapshot.rss_bytes {
            note_resident(rss);
        }
        self.profiler.note(&snapshot);
        snapshot
    }

    /// Runs a closure in the scope and ends the scope.
    pub fn run<R>(self, work: impl FnOnce() -> R) -> R {
        let result = work();
        self.finish();
        result
    }

    /// Ends the scope.
    pub fn finish(mut self) -> ProfileResult {
        let (task, result) = self.measure();
        if let Some(task) = task {
            task.finish();
        }
        result
    }

    /// Measures, and adds the result to the profiler and the task.
    fn measure(&mut self) -> (Option<TaskGuard>, ProfileResult) {
        let ended_ns = clock::monotonic_ns();
        let name = std::mem::take(&mut self.name);
        let Some(begun) = self.begun.take() else { return (None, ProfileResult::nothing(name)) };
        let Begun { mut task, before, peak_before, seen, counts, peak, since_ns } = begun;
        let peak = peak.end();
        let counts = alloc::thread_counts().since(counts);
        let used = usage::process();
        // The kernel's peak has moved, so the peak was within this scope.
        let exact = used.peak_rss.filter(|now| peak_before.is_some_and(|before| *now > before));
        let seen = seen.most().max(used.rss.unwrap_or(0));
        let result = ProfileResult {
            name,
            task_id: task.id().map(|id| id.to_string()),
            started_at: before.timestamp,
            duration_ns: ended_ns.saturating_sub(since_ns),
            before_bytes: before.rss_bytes,
            after_bytes: used.rss,
            peak_bytes: exact.or(used.rss.map(|_| seen)),
            peak_is_exact: exact.is_some(),
            allocator: alloc::is_installed().then_some(Allocated {
                allocated_bytes: counts.allocated_bytes,
                freed_bytes: counts.freed_bytes,
                allocations: counts.allocations,
                peak_bytes: peak,
            }),
        };
        task.generated(
            "memory",
            json!({
                "before_bytes": result.before_bytes,
                "after_bytes": result.after_bytes,
                "peak_bytes": result.peak_bytes,
                "peak_is_exact": result.peak_is_exact,
            }),
        );
        self.profiler.add(&result);
        (Some(task), result)
    }
}

/// Ends the scope like its task: a panic is an error.
impl Drop for Scope {
    fn drop(&mut self) {
        if self.begun.is_some() {
            drop(self.measure());
        }
    }
}
