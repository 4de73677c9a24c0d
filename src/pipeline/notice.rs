//! The few things a user must hear of while the program runs, each once.

use std::collections::HashSet;
use std::io::Write as _;
use std::sync::{Mutex, PoisonError};

static TOLD: Mutex<Option<HashSet<String>>> = Mutex::new(None);

/// What was told, locked while the process forks.
#[cfg(unix)]
pub(super) type Held = std::sync::MutexGuard<'static, Option<HashSet<String>>>;

#[cfg(unix)]
pub(super) fn hold() -> Held {
    TOLD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells the user on standard error, unless the same was told before. Where nobody can read it, nothing happens.
pub(crate) fn notice(text: &str) {
    let is_new = {
        let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
        let told = told.get_or_insert_default();
        // A notice that changes with every record must not fill memory.
        told.len() < 100 && told.insert(text.to_owned())
    };
    if is_new {
        _ = write(&format!("runlore: {text}\n"));
    }
}

/// Past the lock of the standard library, which a forked child may have inherited closed.
#[cfg(unix)]
fn write(text: &str) -> std::io::Result<()> {
    use std::os::fd::AsFd as _;
    let stderr = std::io::stderr().as_fd().try_clone_to_owned()?;
    std::fs::File::from(stderr).write_all(text.as_bytes())
}

#[cfg(not(unix))]
fn write(text: &str) -> std::io::Result<()> {
    std::io::stderr().write_all(text.as_bytes())
}
