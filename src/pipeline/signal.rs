//! Requests to the writer that need neither a lock nor a thread-local: they are made while the process ends.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::recorder;

/// A request that anyone may make, and the writer's answer.
pub(super) struct Signal {
    asked: AtomicU64,
    answered: AtomicU64,
}

/// Write what there is.
pub(super) static FLUSH: Signal = Signal::new();
/// Write what there is and end all runs.
pub(super) static END_ALL: Signal = Signal::new();

/// A request that the writer has seen.
pub(super) struct Taken {
    signal: &'static Signal,
    number: u64,
    asked: bool,
}

impl Signal {
    const fn new() -> Self {
        Self { asked: AtomicU64::new(0), answered: AtomicU64::new(0) }
    }

    /// Asks, and waits for the answer; `false` when it did not come in time.
    pub(super) fn ask(&self, patience: Duration) -> bool {
        let number = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
        let until = Instant::now() + patience;
        loop {
            recorder::wake();
            if self.answered.load(Ordering::Acquire) >= number {
                return true;
            }
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// By the writer: what was asked so far.
    pub(super) fn take(&'static self) -> Taken {
        let number = self.asked.load(Ordering::Acquire);
        Taken { signal: self, number, asked: number > self.answered.load(Ordering::Relaxed) }
    }

    /// In a forked child: what was asked was the parent's affair.
    #[cfg(unix)]
    pub(super) fn reset(&self) {
        self.asked.store(0, Ordering::Relaxed);
        self.answered.store(0, Ordering::Relaxed);
    }

    pub(super) fn was_answered(&self) -> bool {
        self.answered.load(Ordering::Relaxed) > 0
    }
}

impl Taken {
    pub(super) fn is_asked(&self) -> bool {
        self.asked
    }

    pub(super) fn answer(self) {
        self.signal.answered.store(self.number, Ordering::Release);
    }
}
