//! The lock of a sink. It allows one writer at a time, and is released when the writer's process
//! ends.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use runlore_core::store::{OwnFile, create_private, open_plain};

const NAME: &str = "writer.lock";
/// How long to wait for the lock. Readers hold it for a moment when they check it.
const PATIENCE: Duration = Duration::from_millis(200);

/// Acquires the lock of a folder. `None` if another writer holds it.
pub(super) fn take(folder: &Path) -> io::Result<Option<OwnFile>> {
    let path = folder.join(NAME);
    let mut own = OwnFile::new(open(&path)?, &path)?;
    Ok(lock(own.check()?.0)?.then_some(own))
}

/// Acquires the lock again if the program closed its file descriptor, which released it.
pub(super) fn keep(own: &mut OwnFile) -> io::Result<()> {
    match own.check()? {
        (file, true) if !lock(file)? => Err(io::Error::other("another tracker has it now")),
        _ => Ok(()),
    }
}

/// Acquires the lock. `false` if another writer holds it.
fn lock(file: &File) -> io::Result<bool> {
    let until = Instant::now() + PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) if is_unsupported(&error) => return Ok(true),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Opens the lock file, creating it if needed. It must be a regular file, because a link could lead
/// out of the folder.
fn open(path: &Path) -> io::Result<File> {
    let is = |error: &io::Error, kind| error.kind() == kind;
    match open_plain(path, true) {
        Err(error) if is(&error, io::ErrorKind::NotFound) => {
            match create_private(path) {
                // Another process created it in the meantime.
                Err(error) if is(&error, io::ErrorKind::AlreadyExists) => open_plain(path, true),
                made => made,
            }
        }
        opened => opened,
    }
}

/// Whether the file system has no locks. Other writers then cannot be detected.
fn is_unsupported(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Unsupported
}

/// Whether a folder has a lock file that no writer holds. Without a lock file, it is unknown
/// whether a writer is active, and this returns `false`.
pub(super) fn is_abandoned(folder: &Path) -> bool {
    open_plain(&folder.join(NAME), false).is_ok_and(|file| file.try_lock_shared().is_ok())
}
