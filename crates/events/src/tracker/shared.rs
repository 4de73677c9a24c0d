//! What a tracker's thread and its users have in common.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use super::core::Core;
use super::outgoing::Outgoing;
use super::sleep::Sleep;
use super::statistics::TrackerStatistics;
use super::timeline::Timeline;
use crate::events::{SessionSummary, TelemetryEvent};
use runlore_core::this_process;

/// How long somebody waits for a round that was asked for: a collector may hang.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Shared {
    /// The process that has the thread: a forked child does not.
    pid: u32,
    core: Mutex<Core>,
    pub(super) begun: Begun,
    pub(super) sleep: Sleep,
    /// Where events go; none where they go nowhere.
    outgoing: Option<Mutex<Outgoing>>,
    pub(super) is_stopping: AtomicBool,
    /// Rounds that were asked for, and how many of them were done.
    asked: AtomicU64,
    wants_sample: AtomicBool,
    wants_flush: AtomicBool,
    done: Mutex<u64>,
    is_done: Condvar,
}

/// What a round is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    Sample,
    /// What waits for the sink is on disk.
    Flush,
}

/// What was known at the beginning: all that a forked child may have.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) session: SessionSummary,
    pub(super) statistics: TrackerStatistics,
}

impl Shared {
    pub(super) fn new(core: Core, outgoing: Option<Outgoing>) -> Self {
        Self {
            pid: this_process::id(),
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
        self.pid == this_process::id()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known, to look at. In a forked child none, if the thread that it does not have was just changing it.
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

    /// The last events, oldest first.
    pub(super) fn events(&self) -> Vec<TelemetryEvent> {
        self.look().map(|core| core.events()).unwrap_or_default()
    }

    /// The first device over time.
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

    /// Where events go, once nobody else writes there.
    pub(super) fn outgoing(&self) -> Option<MutexGuard<'_, Outgoing>> {
        Some(self.outgoing.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Where events go, if nobody writes there now.
    pub(super) fn outgoing_if_free(&self) -> Option<MutexGuard<'_, Outgoing>> {
        match self.outgoing.as_ref()?.try_lock() {
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
            Ok(guard) => Some(guard),
        }
    }

    /// Gives the lock back, and wakes the thread if enough events wait to be written.
    pub(super) fn unlock(&self, core: MutexGuard<'_, Core>) {
        let wants_writing = core.wants_writing();
        drop(core);
        if wants_writing {
            self.wake();
        }
    }

    /// Lets the thread look what there is to do.
    pub(super) fn wake(&self) {
        self.sleep.wake();
    }

    /// The rounds that were asked for.
    pub(super) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Acquire)
    }

    fn wanted(&self, wish: Wish) -> &AtomicBool {
        match wish {
            Wish::Sample => &self.wants_sample,
            Wish::Flush => &self.wants_flush,
        }
    }

    /// Whether one of those rounds is for this. It is up to the caller from here on.
    pub(super) fn take(&self, wish: Wish) -> bool {
        self.wanted(wish).swap(false, Ordering::AcqRel)
    }

    /// Asks for a round now, and waits for it; `false` when it did not come in time.
    pub(super) fn ask(&self, wish: Wish) -> bool {
        self.wanted(wish).store(true, Ordering::Release);
        let number = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
        self.wake();
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        let is_waiting = |done: &mut u64| *done < number;
        let waited = self.is_done.wait_timeout_while(done, PATIENCE, is_waiting);
        *waited.unwrap_or_else(PoisonError::into_inner).0 >= number
    }

    /// So many rounds were done.
    pub(super) fn answer(&self, number: u64) {
        *self.done.lock().unwrap_or_else(PoisonError::into_inner) = number;
        self.is_done.notify_all();
    }
}
