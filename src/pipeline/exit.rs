//! The end of the process: whatever is recorded by then must reach its store.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

#[cfg(unix)]
use super::{config, fork};
use super::{recorder, signals};
#[cfg(unix)]
use crate::once::Once;

/// How long a normal end of the process may be held up.
const AT_EXIT: Duration = Duration::from_secs(2);

/// What ends the process: 0 for nothing in particular, a signal, or [`PANIC`].
static REASON: AtomicI32 = AtomicI32::new(0);
const PANIC: i32 = -1;

/// Sees to it that the end of the process ends all runs, and that a fork makes no mess.
pub(super) fn watch() {
    static WATCHED: Once<()> = Once::new();
    WATCHED.get_or_init(|| {
        #[cfg(unix)]
        {
            // SAFETY: `at_exit` is a plain function that neither unwinds nor needs anything that is gone by then.
            unsafe { libc::atexit(at_exit) };
            fork::watch();
            if config::settings().instrumentation.signals {
                signals::watch();
            }
        }
    });
}

#[cfg(unix)]
extern "C" fn at_exit() {
    // A panic must not cross into C.
    _ = std::panic::catch_unwind(|| recorder::end_process(AT_EXIT));
}

/// A panic that ends the process: stores everything while there is time.
pub(crate) fn end_by_panic() {
    REASON.store(PANIC, Ordering::Relaxed);
    recorder::end_process(AT_EXIT);
}

/// A signal that ends the process: stores everything while there is time.
#[cfg(unix)]
pub(super) fn end_by_signal(signal: i32, patience: Duration) {
    REASON.store(signal, Ordering::Relaxed);
    recorder::end_process(patience);
}

/// Why the process ends, as a kind and a sentence for its workflows; none for a normal end.
pub(super) fn reason() -> Option<(&'static str, String)> {
    match REASON.load(Ordering::Relaxed) {
        0 => None,
        PANIC => Some(("panic", "the process was aborted by a panic".to_owned())),
        signal => Some(("signal", format!("the process was ended by {}", signals::name(signal)))),
    }
}
