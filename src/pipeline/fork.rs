//! Processes that fork: the child has a copy of everything but the threads.
//!
//! What the parent's threads hold is taken before the fork and given back after it on both sides, so that no lock stays
//! closed in the child. The child's own handler only marks: rings, sessions and writer are the parent's and are
//! forgotten, never freed. Its first task makes new ones, with files of their own.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::run::RunSpec;
use super::{config, overhead, recorder};
use crate::context;
use crate::store::{RunInfo, StoreChoice};
use crate::{clock, host};

/// How many forks lie between the first process and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);
static MARKED: AtomicBool = AtomicBool::new(false);

/// Differs between a process and its forked children: a task that began in one does not end in the other.
#[inline]
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// In a forked child, once: goes on recording for the workflows that were running, into files of its own.
pub(super) fn rearm_if_marked() {
    if !MARKED.load(Ordering::Relaxed) || !MARKED.swap(false, Ordering::Relaxed) {
        return;
    }
    for run in context::running() {
        // A store in memory went with the parent.
        let pid = std::process::id();
        let info = RunInfo::new(run.id.clone(), run.name.clone(), pid, config::settings());
        let open = |uri| StoreChoice::from(uri).open(&info).ok();
        let stores: Vec<_> = run.stores.into_iter().filter_map(open).collect();
        if stores.is_empty() {
            continue;
        }
        let monotonic_ns = clock::monotonic_ns();
        _ = recorder::open_run(RunSpec {
            number: run.number,
            stores,
            name: run.name,
            workflow_id: run.id,
            campaign_id: run.campaign,
            hostname: host::name(),
            // The parent tells how its workflow ends.
            workflow: None,
            known_later: None,
            monotonic_ns,
            wall_ns: clock::wall_ns(monotonic_ns),
            cost_before: overhead::Reading::now(),
        });
    }
}

#[cfg(unix)]
pub(crate) use unix::watch;

#[cfg(unix)]
mod unix {
    use std::cell::UnsafeCell;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::{GENERATION, MARKED};
    use crate::context;
    use crate::pipeline::{notice, push, recorder, rings, session, signal, site};
    use crate::record::Id;
    use crate::store;
    use crate::telemetry;

    /// Everything that is locked while the process forks.
    type Held = (Outer, rings::Held, push::Held, notice::Held);
    type Outer = (store::Held, context::Held, site::Held, session::Held);

    struct Place(UnsafeCell<Option<Held>>);

    // SAFETY: touched only between the handlers of one fork, by the thread that forks: the first lock in `Held`
    // keeps others out.
    unsafe impl Sync for Place {}

    static HELD: Place = Place(UnsafeCell::new(None));

    /// Sees to it that a fork finds no lock closed, and that the child knows that it is one.
    pub(crate) fn watch() {
        // Twice the handlers would wait for themselves.
        static IS_WATCHED: AtomicBool = AtomicBool::new(false);
        if IS_WATCHED.swap(true, Ordering::Relaxed) {
            return;
        }
        // SAFETY: the handlers do not unwind, and stay for the life of the process.
        unsafe { libc::pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child)) };
    }

    extern "C" fn before() {
        // In the order in which everybody else takes them.
        // A store may be at work for a moment, and needs none of the others for that.
        let outer = (store::hold(), context::hold(), site::hold(), session::hold());
        let held = (outer, rings::hold(), push::hold(), notice::hold());
        // SAFETY: see `Place`.
        unsafe { *HELD.0.get() = Some(held) };
    }

    extern "C" fn after_in_parent() {
        // SAFETY: see `Place`.
        drop(unsafe { (*HELD.0.get()).take() });
    }

    extern "C" fn after_in_child() {
        after_in_parent();
        rings::forget_all();
        recorder::forget();
        session::disown();
        push::forget_adds();
        signal::FLUSH.reset();
        signal::END_ALL.reset();
        Id::reseed_thread();
        telemetry::forget_after_fork();
        GENERATION.fetch_add(1, Ordering::Relaxed);
        MARKED.store(true, Ordering::Relaxed);
    }
}
