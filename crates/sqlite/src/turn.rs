//! Whose turn it is to write next.
//!
//! SQLite's lock is no queue: a process that writes all the time takes it again before others wake up. So whoever wants to
//! begin a transaction holds a lock on the folder until it has begun. Who has just written then finds that lock taken by
//! somebody who waited, and waits too. It is manners, not safety: where it cannot be had in time, one goes on without.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

/// Between two tries.
pub(super) const PAUSE: Duration = Duration::from_millis(1);

/// A turn, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn(File);

impl Turn {
    /// Waits for a turn in a folder, but no longer than this.
    pub(super) fn take(folder: &Path, until: Instant) -> Option<Self> {
        // The database itself must not be opened for this: to close it would give up SQLite's own locks on it.
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
        // Closing it is not enough: a forked child may have it open too.
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
