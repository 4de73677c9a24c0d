//! When the process ends, libraries are taken down, and no thread may be inside them.
#![cfg_attr(unix, allow(unsafe_code))]

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
#[cfg(unix)]
use std::time::{Duration, Instant};

/// How long the end of the process waits for a driver.
#[cfg(unix)]
const PATIENCE: Duration = Duration::from_secs(1);

/// How many threads are inside a vendor's library.
static INSIDE: AtomicUsize = AtomicUsize::new(0);
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// A thread is inside a vendor's library.
#[derive(Debug)]
pub(super) struct Inside;

impl Inside {
    /// None where the process is ending.
    pub(super) fn enter() -> Option<Self> {
        INSIDE.fetch_add(1, Ordering::SeqCst);
        // Made in any case, so that it leaves again.
        let inside = Self;
        (!IS_ENDING.load(Ordering::SeqCst)).then_some(inside)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Makes the end of the process wait for drivers. What is asked for last is done first: to be called again when a library was
/// loaded, which asks for its own end.
pub(super) fn watch() {
    #[cfg(unix)]
    // SAFETY: `wait` is a plain function that neither unwinds nor needs anything that is gone by then.
    unsafe {
        libc::atexit(wait)
    };
}

#[cfg(unix)]
extern "C" fn wait() {
    IS_ENDING.store(true, Ordering::SeqCst);
    let until = Instant::now() + PATIENCE;
    while INSIDE.load(Ordering::SeqCst) > 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// In a forked child: none of the threads that were inside are here.
pub(crate) fn forget_after_fork() {
    INSIDE.store(0, Ordering::SeqCst);
}

/// The same, in a process whose forks nobody told of.
pub(super) fn forget_if_forked() {
    static PROCESS: AtomicU32 = AtomicU32::new(0);
    let process = std::process::id();
    if PROCESS.swap(process, Ordering::SeqCst) != process {
        forget_after_fork();
    }
}
