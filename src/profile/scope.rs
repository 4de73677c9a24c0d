//! One scope: a task, with memory before and after.

use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use super::Profiler;
use super::memory::Snapshot;
use super::open::{Seen, note_resident};
use crate::alloc::{self, PeakScope, ThreadCounts};
use crate::telemetry::usage;
use crate::{TaskGuard, clock};

/// A part of a program that is being measured; made by [`Profiler::scope`].
#[derive(Debug)]
pub struct Scope {
    profiler: Profiler,
    name: String,
    /// None once it has ended.
    begun: Option<Begun>,
}

#[derive(Debug)]
struct Begun {
    task: TaskGuard,
    before: Snapshot,
    /// The most resident memory of the process so far, as the kernel has it.
    peak_before: Option<u64>,
    seen: Seen,
    counts: ThreadCounts,
    peak: PeakScope,
    since_ns: u64,
}

/// What a scope measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
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
    /// What the scope's own thread allocated, where the [counting allocator](crate::alloc) is installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocator: Option<Allocated>,
}

/// What a thread allocated in a scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
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

    /// Notes how much memory is in use now.
    pub fn snapshot(&mut self, label: &str) -> Snapshot {
        let snapshot = Snapshot::now(label);
        if let Some(rss) = snapshot.rss_bytes {
            note_resident(rss);
        }
        self.profiler.note(&snapshot);
        snapshot
    }

    /// Runs a closure in the scope, and ends it.
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

    /// Measures, and tells the profiler and the task.
    fn measure(&mut self) -> (Option<TaskGuard>, ProfileResult) {
        let ended_ns = clock::monotonic_ns();
        let name = std::mem::take(&mut self.name);
        let Some(begun) = self.begun.take() else { return (None, ProfileResult::nothing(name)) };
        let Begun { mut task, before, peak_before, seen, counts, peak, since_ns } = begun;
        let peak = peak.end();
        let counts = alloc::thread_counts().since(counts);
        let used = usage::process();
        // The kernel's mark has moved: it was in here.
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
            &json!({
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

/// It ends as its task does: a panic is an error.
impl Drop for Scope {
    fn drop(&mut self) {
        if self.begun.is_some() {
            drop(self.measure());
        }
    }
}

impl ProfileResult {
    fn nothing(name: String) -> Self {
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
}
