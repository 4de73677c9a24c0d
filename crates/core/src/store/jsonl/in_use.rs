//! Locks that mark files as in use: every writer holds a shared lock on its file, and a file may be
//! deleted only under an exclusive lock.
//!
//! The system releases the lock when the process ends, however it ends. A forked child shares the
//! lock, so a file is in use until both have ended. On systems other than Unix such a lock would
//! prevent the owner itself from writing, so no lock is taken there.

use std::fs::{self, File};
use std::path::Path;

#[cfg(unix)]
use crate::store::open_plain;

/// Marks a file as in use until it is closed. Returns `false` if another process is deleting it.
#[cfg(unix)]
pub(super) fn hold(file: &File) -> bool {
    // If the file system has no locks, the file is written to anyway.
    !matches!(file.try_lock_shared(), Err(fs::TryLockError::WouldBlock)) && !is_deleted(file)
}

#[cfg(not(unix))]
pub(super) fn hold(_: &File) -> bool {
    true
}

/// Returns whether a file has been deleted.
#[cfg(unix)]
pub(super) fn is_deleted(file: &File) -> bool {
    let links = file.metadata().map(|facts| std::os::unix::fs::MetadataExt::nlink(&facts));
    links.is_ok_and(|links| links == 0)
}

#[cfg(not(unix))]
pub(super) fn is_deleted(_: &File) -> bool {
    false
}

/// Deletes a file that is not in use. If locks cannot decide that, `is_quiet` does. Returns whether
/// it was deleted.
#[cfg(unix)]
pub(super) fn delete(path: &Path, is_quiet: bool, locks_tell: bool) -> bool {
    // Some file systems grant an exclusive lock only on a file that is open for writing.
    let file = open_plain(path, true).or_else(|_| open_plain(path, false));
    let Ok(file) = file else { return false };
    let is_free = match file.try_lock() {
        // While we hold the lock, nobody else can delete the file and create another one of the
        // same name.
        Ok(()) => is_file_at(&file, path) && (locks_tell || is_quiet),
        Err(fs::TryLockError::WouldBlock) => false,
        Err(fs::TryLockError::Error(_)) => is_quiet,
    };
    is_free && fs::remove_file(path).is_ok()
}

#[cfg(not(unix))]
pub(super) fn delete(path: &Path, is_quiet: bool, _locks_tell: bool) -> bool {
    is_quiet && fs::remove_file(path).is_ok()
}

#[cfg(unix)]
fn is_file_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}
