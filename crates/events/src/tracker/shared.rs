//! The state that a tracker's thread shares with its users.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use super::core::Core;
use super::outgoing::Outgoing;
use super::sleep::Sleep;
use super::statistics::TrackerStatistics;
use super::timeline::Timeline;
use crate::events::{SessionSummary, TelemetryEvent};
use runlore_core::fork::generation;

/// How long to wait until a request is served: a collector may hang.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Shared {
    /// The process that has the thread. A forked child does not have it.
    generation: u32,
    core: Mutex<Core>,
    pub(super) begun: Begun,
    pub(super) sleep: Sleep,
    /// The outputs of events. `None` if there are none.
    outgoing: Option<Mutex<Outgoing>>,
    pub(super) is_stopping: AtomicBool,
    /// The number of requests so far. `done` is the number of those that were served.
    asked: AtomicU64,
    wants_sample: AtomicBool,
    wants_flush: AtomicBool,
    done: Mutex<u64>,
    is_done: Condvar,
}

/// A request to the tracker's thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    Sample,
    /// Write the queued events to the sink and sync them to disk.
    Flush,
}

/// The state at the start. A forked child uses it if it cannot lock the core.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) session: SessionSummary,
    pub(super) statistics: TrackerStatistics,
}

impl Shared {
    pub(super) fn new(core: Core, outgoing: Option<Outgoing>) -> Self {
        Self {
            generation: generation(),
            begun: Begun { session: core.summary(), statistics: core.first_statistics() },
            core: Mutex::new(core),
            sleep: Sleep::default(),
            outgoing: outgoing.map(Mutex::new),
            is_stopping: AtomicBool::new(false),
            asked: AtomicU64::new(0),
            wants_sample: AtomicBool::new(false),
            wants_flush: AtomicBool::new(false),
            done: Mutex::new(0),
            is_done: Condvar::new(),
        }
    }

    pub(super) fn is_of_this_process(&self) -> bool {
        self.generation == generation()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the core for reading. In a forked child, `None` if another thread held the lock during
    /// the fork.
    pub(super) fn look(&self) -> Option<MutexGuard<'_, Core>> {
        if self.is_of_this_process() {
            return Some(self.lock());
        }
        match self.core.try_lock() {
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
            Ok(guard) => Some(guard),
        }
    }

    /// Returns the most recent events, oldest first.
    pub(super) fn events(&self) -> Vec<TelemetryEvent> {
        self.look().map(|core| core.events()).unwrap_or_default()
    }

    /// Returns the memory of the first device over time.
    pub(super) fn timeline(&self, interval: Duration) -> Timeline {
        let mut events = self.events();
        if let Some(device) = events.first().map(|event| event.device_id) {
            events.retain(|event| event.device_id == device);
        }
        Timeline::of(&events, interval)
    }

    pub(super) fn has_outgoing(&self) -> bool {
        self.outgoing.is_some()
    }

    /// Locks the outputs, waiting until no other thread writes.
    pub(super) fn outgoing(&self) -> Option<MutexGuard<'_, Outgoing>> {
        Some(self.outgoing.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Locks the outputs. `None` if another thread is writing.
    pub(super) fn outgoing_if_free(&self) -> Option<MutexGuard<'_, Outgoing>> {
        match self.outgoing.as_ref()?.try_lock() {
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
            Ok(guard) => Some(guard),
        }
    }

    /// Releases the lock, and wakes the thread if enough events are queued.
    pub(super) fn unlock(&self, core: MutexGuard<'_, Core>) {
        let wants_writing = core.wants_writing();
        drop(core);
        if wants_writing {
            self.wake();
        }
    }

    /// Wakes the thread.
    pub(super) fn wake(&self) {
        self.sleep.wake();
    }

    /// Returns the number of requests so far.
    pub(super) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Acquire)
    }

    fn wanted(&self, wish: Wish) -> &AtomicBool {
        match wish {
            Wish::Sample => &self.wants_sample,
            Wish::Flush => &self.wants_flush,
        }
    }

    /// Takes a request of this kind, if there is one. The caller must then serve it.
    pub(super) fn take(&self, wish: Wish) -> bool {
        self.wanted(wish).swap(false, Ordering::AcqRel)
    }

    /// Sends a request and waits until it is served. `false` if that took too long.
    pub(super) fn ask(&self, wish: Wish) -> bool {
        self.wanted(wish).store(true, Ordering::Release);
        let number = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
        self.wake();
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        let is_waiting = |done: &mut u64| *done < number;
        let waited = self.is_done.wait_timeout_while(done, PATIENCE, is_waiting);
        *waited.unwrap_or_else(PoisonError::into_inner).0 >= number
    }

    /// Reports that the requests up to this number are served.
    pub(super) fn answer(&self, number: u64) {
        *self.done.lock().unwrap_or_else(PoisonError::into_inner) = number;
        self.is_done.notify_all();
    }
}
