//! Handles the end of the process: everything recorded so far must reach its store.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use super::ending::Ending;
use super::{recorder, signals};
#[cfg(unix)]
use runlore_core::contain::contain;

/// How long a normal exit of the process may be delayed.
const AT_EXIT: Duration = Duration::from_secs(2);

/// The reason for the process's end: 0 for none, a signal, [`PANIC`], [`UNKNOWN_EXIT`], or [`EXIT`]
/// plus the exit code.
static REASON: AtomicI32 = AtomicI32::new(0);
const PANIC: i32 = -1;
const UNKNOWN_EXIT: i32 = -2;
const EXIT: i32 = 1 << 16;

/// Installs the handler that ends all runs when the process ends. A forked child inherits it.
pub(super) fn watch() {
    static IS_WATCHED: AtomicBool = AtomicBool::new(false);
    if !IS_WATCHED.swap(true, Ordering::Relaxed) {
        #[cfg(unix)]
        at_exit::register();
    }
}

#[cfg(unix)]
mod at_exit {
    /// Registers the exit handler. glibc passes the exit code to handlers of `on_exit`.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    pub(super) fn register() {
        use std::ffi::{c_int, c_void};

        unsafe extern "C" {
            fn on_exit(handler: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
        }

        extern "C" fn handler(status: c_int, _: *mut c_void) {
            // `wait` reports only the low byte of the exit code.
            super::end_by_exit(super::EXIT | (status & 0xff));
        }

        // SAFETY: the handler neither unwinds nor needs anything that is gone when the process exits.
        unsafe { on_exit(handler, std::ptr::null_mut()) };
    }

    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    pub(super) fn register() {
        extern "C" fn handler() {
            super::end_by_exit(super::UNKNOWN_EXIT);
        }

        // SAFETY: as above.
        unsafe { libc::atexit(handler) };
    }
}

#[cfg(unix)]
fn end_by_exit(reason: i32) {
    // A panic must not cross into C.
    _ = contain(|| end(reason, AT_EXIT));
}

/// Stores everything within the time limit. The first reason takes precedence.
fn end(reason: i32, patience: Duration) {
    _ = REASON.compare_exchange(0, reason, Ordering::Relaxed, Ordering::Relaxed);
    recorder::end_process(patience);
}

/// Stores everything within the time limit, before a panic ends the process.
pub(crate) fn end_by_panic() {
    end(PANIC, AT_EXIT);
}

/// Stores everything within the time limit, before a signal ends the process.
#[cfg(unix)]
pub(super) fn end_by_signal(signal: i32, patience: Duration) {
    end(signal, patience);
}

/// Returns how the process ends the open runs.
pub(super) fn ending() -> Ending {
    match REASON.load(Ordering::Relaxed) {
        PANIC => Ending::Aborted,
        exit @ EXIT.. => Ending::Exit((exit & 0xff) as u8),
        signal @ 1..EXIT => {
            let name = signals::name(signal);
            Ending::Signal(signal, format!("the process was ended by {name}"))
        }
        0 | i32::MIN..=UNKNOWN_EXIT => Ending::UnknownExit,
    }
}
