//! Where the tracker's thread waits between two samples.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::Duration;

/// Puts one thread to sleep, and lets any other thread wake it.
#[derive(Debug, Default)]
pub(super) struct Sleep {
    thread: OnceLock<Thread>,
    /// Set by [`wake`](Self::wake), which may come before the thread sleeps for the first time.
    is_woken: AtomicBool,
}

impl Sleep {
    /// Sleeps for at most this long, or until [`wake`](Self::wake) is called. Returns at once if
    /// `wake` was called since the last sleep. May return early for no reason.
    pub(super) fn wait(&self, at_most: Duration) {
        self.thread.get_or_init(std::thread::current);
        if !self.is_woken.swap(false, Ordering::AcqRel) {
            std::thread::park_timeout(at_most);
            self.is_woken.store(false, Ordering::Release);
        }
    }

    /// Wakes the thread, now or when it next wants to sleep.
    pub(super) fn wake(&self) {
        self.is_woken.store(true, Ordering::Release);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};
    use std::time::Instant;

    use super::*;

    #[test]
    fn every_call_of_wake_ends_a_wait() {
        const ROUNDS: usize = 2000;
        let sleep = Arc::new(Sleep::default());
        let (tells, told) = mpsc::channel();
        let sleeper = Arc::clone(&sleep);
        let thread = std::thread::spawn(move || {
            for _ in 0..ROUNDS {
                sleeper.wait(Duration::from_secs(3600));
                tells.send(()).unwrap();
            }
        });
        for _ in 0..ROUNDS {
            sleep.wake();
            told.recv().expect("the thread was woken");
        }
        thread.join().unwrap();
    }

    #[test]
    fn a_wait_lasts_as_long_as_it_should() {
        let sleep = Sleep::default();
        let time = Duration::from_millis(30);
        let began = Instant::now();
        while began.elapsed() < time {
            sleep.wait(time);
        }
        sleep.wake();
        sleep.wait(Duration::MAX);
    }
}
