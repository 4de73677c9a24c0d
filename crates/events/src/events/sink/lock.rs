//! Who writes to a sink: one at a time, as long as its process lives.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use runlore_core::store::{OwnFile, create_private, open_plain};

const NAME: &str = "writer.lock";
/// Readers look at the lock for a moment.
const PATIENCE: Duration = Duration::from_millis(200);

/// Takes the lock of a folder; none where somebody else has it.
pub(super) fn take(folder: &Path) -> io::Result<Option<OwnFile>> {
    let path = folder.join(NAME);
    let mut own = OwnFile::new(open(&path)?, &path)?;
    Ok(lock(own.check()?.0)?.then_some(own))
}

/// Takes the lock again if the program closed its descriptor, which gave it up.
pub(super) fn keep(own: &mut OwnFile) -> io::Result<()> {
    match own.check()? {
        (file, true) if !lock(file)? => Err(io::Error::other("another tracker has it now")),
        _ => Ok(()),
    }
}

/// Takes the lock; `false` where somebody else has it.
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

/// Opens the file, which is made if need be: a plain one, for a link could lead elsewhere.
fn open(path: &Path) -> io::Result<File> {
    let is = |error: &io::Error, kind| error.kind() == kind;
    match open_plain(path, true) {
        Err(error) if is(&error, io::ErrorKind::NotFound) => {
            match create_private(path) {
                // Somebody else was faster.
                Err(error) if is(&error, io::ErrorKind::AlreadyExists) => open_plain(path, true),
                made => made,
            }
        }
        opened => opened,
    }
}

/// Some file systems have no locks; there nobody can tell.
fn is_unsupported(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Unsupported
}

/// Whether nobody writes to a folder any more that left its lock there. Where there is no lock, nobody can tell.
pub(super) fn is_abandoned(folder: &Path) -> bool {
    open_plain(&folder.join(NAME), false).is_ok_and(|file| file.try_lock_shared().is_ok())
}
