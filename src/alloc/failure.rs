//! An allocation that failed: whoever waits for that is told, before the program ends over it.

use std::cell::Cell;
use std::sync::Mutex;
#[cfg(feature = "events")]
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Thread;
use std::time::Duration;

/// How long whoever could not allocate waits until the last events are written.
const PATIENCE: Duration = Duration::from_secs(2);

/// How many allocations have failed, and how many of them were seen to.
static FAILED: AtomicU64 = AtomicU64::new(0);
static ANSWERED: AtomicU64 = AtomicU64::new(0);
/// What could not be had, last.
static SIZE: AtomicU64 = AtomicU64::new(0);
/// Who is told.
static WATCHER: Mutex<Option<Thread>> = Mutex::new(None);

thread_local! {
    /// A thread that is seeing to a failure, or waiting for that, makes no more of it.
    static IS_BUSY: Cell<bool> = const { Cell::new(false) };
}

/// Notes that so many bytes could not be had.
#[cold]
pub(super) fn note(size: usize) {
    SIZE.store(size as u64, Ordering::Relaxed);
    let number = FAILED.fetch_add(1, Ordering::Release) + 1;
    if IS_BUSY.replace(true) {
        return;
    }
    let watcher = WATCHER.try_lock().ok().and_then(|watcher| watcher.clone());
    if let Some(watcher) = watcher {
        watcher.unpark();
        let step = Duration::from_millis(1);
        for _ in 0..PATIENCE.as_millis() {
            if ANSWERED.load(Ordering::Acquire) >= number {
                break;
            }
            std::thread::sleep(step);
        }
    }
    IS_BUSY.set(false);
}

/// A thread that is told of failures, as long as this lives. There is one at a time; the last one counts.
#[derive(Debug)]
#[cfg(feature = "events")]
pub(crate) struct Watcher {
    seen: u64,
}

#[cfg(feature = "events")]
impl Watcher {
    /// The calling thread, which is unparked when there is something to see.
    pub(crate) fn new() -> Self {
        IS_BUSY.set(true);
        *WATCHER.lock().unwrap_or_else(PoisonError::into_inner) = Some(std::thread::current());
        Self { seen: FAILED.load(Ordering::Acquire) }
    }

    /// The size of an allocation that has failed since it was last asked. Whoever waits goes on once
    /// [`answer`](Self::answer) is called.
    pub(crate) fn failed(&self) -> Option<u64> {
        (FAILED.load(Ordering::Acquire) > self.seen).then(|| SIZE.load(Ordering::Relaxed))
    }

    /// The failures so far were seen to.
    pub(crate) fn answer(&mut self) {
        self.seen = FAILED.load(Ordering::Acquire);
        ANSWERED.fetch_max(self.seen, Ordering::Release);
    }
}

#[cfg(feature = "events")]
impl Drop for Watcher {
    fn drop(&mut self) {
        let own = std::thread::current().id();
        let mut watcher = WATCHER.lock().unwrap_or_else(PoisonError::into_inner);
        // Another may have come since.
        watcher.take_if(|thread| thread.id() == own);
        drop(watcher);
        self.answer();
        IS_BUSY.set(false);
    }
}
