//! Takes turns between processes that write to the same file.
//!
//! SQLite's lock is not fair: a process that writes all the time takes it again before others wake
//! up. Therefore a writer locks the folder until its transaction has begun. A process that has just
//! written then finds the folder locked by one that waited, and waits too. This lock only provides
//! fairness, not safety: a writer that cannot get it in time continues without it.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

/// The pause between two attempts.
pub(super) const PAUSE: Duration = Duration::from_millis(1);

/// A turn to write, which ends when it is dropped.
#[derive(Debug)]
pub(super) struct Turn(File);

impl Turn {
    /// Waits for a turn in a folder, at most until this time. `None` if there was none.
    pub(super) fn take(folder: &Path, until: Instant) -> Option<Self> {
        // Do not lock the database file: closing it would release SQLite's own locks on it.
        let folder = File::open(folder).ok()?;
        loop {
            match folder.try_lock() {
                Ok(()) => return Some(Self(folder)),
                Err(std::fs::TryLockError::WouldBlock) if Instant::now() < until => {
                    std::thread::sleep(PAUSE);
                }
                Err(_) => return None,
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // Closing the file is not enough: a forked child may have it open too.
        _ = self.0.unlock();
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_and_nobody_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let now = Instant::now();
        let turn = Turn::take(folder.path(), now).unwrap();
        assert!(Turn::take(folder.path(), now).is_none());
        drop(turn);
        assert!(Turn::take(folder.path(), now).is_some());
        assert!(Turn::take(Path::new("/no/such/folder"), now).is_none());
    }
}
