//! Files in use: who writes to one holds a lock on it, and only who can lock it alone may delete it.
//!
//! The system gives the lock up with its process, however that ends. A forked child holds it too: a file is in use until
//! neither is left. Elsewhere than on Unix such a lock would keep the owner itself from writing, and none is taken.

use std::fs::{self, File};
use std::path::Path;

#[cfg(unix)]
use crate::store::open_plain;

/// Marks a file as in use for as long as it is open; `false` when somebody is deleting it.
#[cfg(unix)]
pub(super) fn hold(file: &File) -> bool {
    // Where a file system has no locks, the file is written to all the same.
    !matches!(file.try_lock_shared(), Err(fs::TryLockError::WouldBlock)) && !is_deleted(file)
}

#[cfg(not(unix))]
pub(super) fn hold(_: &File) -> bool {
    true
}

/// Whether a file is in no folder any more.
#[cfg(unix)]
pub(super) fn is_deleted(file: &File) -> bool {
    let links = file.metadata().map(|facts| std::os::unix::fs::MetadataExt::nlink(&facts));
    links.is_ok_and(|links| links == 0)
}

#[cfg(not(unix))]
pub(super) fn is_deleted(_: &File) -> bool {
    false
}

/// Deletes a file that nobody uses. Where locks cannot tell, a file that `is_quiet` is taken for one of those.
#[cfg(unix)]
pub(super) fn delete(path: &Path, is_quiet: bool, locks_tell: bool) -> bool {
    // Some file systems lock alone only what is open for writing.
    let file = open_plain(path, true).or_else(|_| open_plain(path, false));
    let Ok(file) = file else { return false };
    let is_free = match file.try_lock() {
        // Whoever would delete it now, and make another of its name, would need the lock.
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
