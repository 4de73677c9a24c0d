//! Process exit: libraries are torn down then, and no thread may be inside them.
#![cfg_attr(unix, allow(unsafe_code))]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
#[cfg(unix)]
use std::time::{Duration, Instant};

use runlore_core::fork::PerProcess;

/// How long the process waits for a driver before it exits.
#[cfg(unix)]
const PATIENCE: Duration = Duration::from_secs(1);

/// Number of threads that are inside a vendor's library.
static INSIDE: PerProcess<AtomicUsize> = PerProcess::new();
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
