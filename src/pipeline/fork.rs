//! Handles forks: the child has a copy of everything except the threads.
//!
//! A forked child records nothing until it starts a workflow of its own. The runs, rings, sessions
//! and writer that it inherits belong to the parent. The child forgets them; it neither frees nor
//! writes nor sends any of them.
//!
//! The fork handlers take all locks before the fork and release them afterwards in both processes,
//! so that no lock stays taken in the child.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU32, Ordering};

/// The number of forks between the first process and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Returns a number that differs between a process and its forked children. A task or run that
/// began in one must not end in the other.
#[inline]
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

#[cfg(unix)]
pub(crate) use unix::watch;

#[cfg(unix)]
mod unix {
    use std::any::Any;
    use std::cell::UnsafeCell;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::GENERATION;
    use crate::pipeline::{push, recorder, rings, session, signal, site};
    use runlore_core::context;
    use runlore_core::notice;
    use runlore_core::record::Id;
    use runlore_core::store;
    use runlore_telemetry as telemetry;

    /// All locks that are held while the process forks.
    type Held = (Outer, rings::Held, push::Held, notice::Held);
    type Outer = (Vec<Box<dyn Any>>, context::Held, site::Held, session::Held);

    struct Place(UnsafeCell<Option<Held>>);

    // SAFETY: accessed only between the handlers of one fork, by the thread that forks. The first
    // lock in `Held` keeps other threads out.
    unsafe impl Sync for Place {}

    static HELD: Place = Place(UnsafeCell::new(None));

    /// Installs the fork handlers: no lock is taken during a fork, and the child knows that it is a
    /// child.
    pub(crate) fn watch() {
        // Installed twice, the handlers would deadlock.
        static IS_WATCHED: AtomicBool = AtomicBool::new(false);
        if IS_WATCHED.swap(true, Ordering::Relaxed) {
            return;
        }
        // SAFETY: the handlers do not unwind, and stay for the life of the process.
        unsafe { libc::pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child)) };
    }

    extern "C" fn before() {
        // Take the locks in the order in which all other code takes them. A store may be busy for a
        // moment, and needs none of the other locks for that.
        let outer = (store::hold_for_fork(), context::hold(), site::hold(), session::hold());
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
        context::forget_runs();
        GENERATION.fetch_add(1, Ordering::Relaxed);
    }
}
