//! Process exit: libraries are torn down then, and no thread may be inside them.
#![cfg_attr(unix, allow(unsafe_code))]

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
#[cfg(unix)]
use std::time::{Duration, Instant};

/// How long the process waits for a driver before it exits.
#[cfg(unix)]
const PATIENCE: Duration = Duration::from_secs(1);

/// Number of threads that are inside a vendor's library.
static INSIDE: AtomicUsize = AtomicUsize::new(0);
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// A guard for a thread that is inside a vendor's library.
#[derive(Debug)]
pub(super) struct Inside;

impl Inside {
    /// Enters a library. `None` if the process is exiting.
    pub(super) fn enter() -> Option<Self> {
        INSIDE.fetch_add(1, Ordering::SeqCst);
        // Created in any case, so that dropping it decrements the counter.
        let inside = Self;
        (!IS_ENDING.load(Ordering::SeqCst)).then_some(inside)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Makes the process wait for drivers when it exits.
///
/// Exit handlers run in reverse order, and a library registers its own when it is loaded. So this
/// must be called again after loading one.
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

/// Resets the counter in a forked child, which has none of the threads that were inside.
pub(crate) fn forget_after_fork() {
    INSIDE.store(0, Ordering::SeqCst);
}

/// Resets the counter if this process was forked without a call of [`forget_after_fork`].
pub(super) fn forget_if_forked() {
    static PROCESS: AtomicU32 = AtomicU32::new(0);
    let process = std::process::id();
    if PROCESS.swap(process, Ordering::SeqCst) != process {
        forget_after_fork();
    }
}
