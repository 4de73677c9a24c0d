//! The few things a user must hear of while the program runs, each once.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

static TOLD: Mutex<Option<HashSet<String>>> = Mutex::new(None);

/// What was told, locked while the process forks.
#[cfg(unix)]
pub(super) type Held = std::sync::MutexGuard<'static, Option<HashSet<String>>>;

#[cfg(unix)]
pub(super) fn hold() -> Held {
    TOLD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells the user on standard error, unless the same was told before.
#[allow(
    clippy::print_stderr,
    reason = "the program under watch gets no other word of the recorder's troubles"
)]
pub(crate) fn notice(text: &str) {
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    let told = told.get_or_insert_default();
    // A notice that changes with every record must not fill memory.
    if told.len() < 100 && told.insert(text.to_owned()) {
        eprintln!("runlore: {text}");
    }
}
