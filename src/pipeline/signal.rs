//! Requests to the writer that use neither locks nor thread-locals, so that they work while the
//! process ends.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::recorder;
use runlore_core::fork::PerProcess;

/// How often a waiting caller wakes the writer again: a store on its own thread may be done.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// A request that any thread can make, and the writer's answer.
#[derive(Default)]
pub(super) struct Signal {
    asked: AtomicU64,
    answered: AtomicU64,
    /// Changes with each answer.
    answers: AtomicU32,
}

/// Requests a flush.
pub(super) static FLUSH: PerProcess<Signal> = PerProcess::new();
/// Requests a flush and the end of all runs.
pub(super) static END_ALL: PerProcess<Signal> = PerProcess::new();

/// A request that the writer has seen.
pub(super) struct Taken {
    signal: &'static Signal,
    number: u64,
    asked: bool,
}

impl Signal {
    /// Makes a request and waits for the answer. Returns `false` on timeout.
    pub(super) fn ask(&self, patience: Duration) -> bool {
        let number = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
        let until = Instant::now() + patience;
        loop {
            recorder::wake();
            // Load this before checking for the answer, so that an answer in between ends the wait.
            let answers = self.answers.load(Ordering::Acquire);
            if self.answered.load(Ordering::Acquire) >= number {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            change::wait(&self.answers, answers, left.min(LOOK_AGAIN));
        }
    }

    /// For the writer: takes the requests made so far.
    pub(super) fn take(&'static self) -> Taken {
        let number = self.asked.load(Ordering::Acquire);
        Taken { signal: self, number, asked: number > self.answered.load(Ordering::Relaxed) }
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
        if self.asked {
            self.signal.answered.store(self.number, Ordering::Release);
            self.signal.answers.fetch_add(1, Ordering::Release);
            change::tell(&self.signal.answers);
        }
    }
}

/// Waits for a number to change, using only what still works while the process ends.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub(super) mod change {
    use std::ptr;
    use std::sync::atomic::AtomicU32;
    use std::time::Duration;

    /// Waits while the number equals `seen`. May return early.
    pub(in crate::pipeline) fn wait(number: &AtomicU32, seen: u32, at_most: Duration) {
        let timeout = libc::timespec {
            tv_sec: at_most.as_secs().try_into().unwrap_or(libc::time_t::MAX),
            tv_nsec: at_most.subsec_nanos().into(),
        };
        let how = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the kernel reads the number and the time, both of which live until the call
        // returns.
        unsafe { libc::syscall(libc::SYS_futex, number.as_ptr(), how, seen, &raw const timeout) };
    }

    /// Wakes all waiting threads.
    pub(in crate::pipeline) fn tell(number: &AtomicU32) {
        let how = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        let nothing = ptr::null::<libc::timespec>();
        // SAFETY: the kernel only uses the address to find waiting threads.
        unsafe { libc::syscall(libc::SYS_futex, number.as_ptr(), how, i32::MAX, nothing) };
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) mod change {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::{Duration, Instant};

    /// The first and the longest pause between two checks of the number.
    const PAUSE: (Duration, Duration) = (Duration::from_micros(100), Duration::from_millis(20));

    /// Waits while the number equals `seen`.
    pub(in crate::pipeline) fn wait(number: &AtomicU32, seen: u32, at_most: Duration) {
        let until = Instant::now() + at_most;
        let mut pause = PAUSE.0;
        while number.load(Ordering::Acquire) == seen && Instant::now() < until {
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    pub(in crate::pipeline) fn tell(_: &AtomicU32) {}
}
