//! A file lock that lives exactly as long as the process that took it.
//!
//! This is a record lock and not `flock`, because a forked child does not share it: the lock shows
//! whether the owner itself is alive. The system releases it when the process closes *any*
//! descriptor of the file, so a process must not open its own lock file a second time.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;

/// Takes the lock. Returns `false` if another process has it.
#[cfg(unix)]
pub fn try_lock(file: &File) -> io::Result<bool> {
    use std::os::fd::AsRawFd as _;
    // SAFETY: a zeroed `flock` is valid, and means the whole file from its start.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    // SAFETY: the descriptor is open for writing and `lock` lives through the call.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const lock) } == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EAGAIN) => Ok(false),
        _ => Err(error),
    }
}

/// Takes the lock. Returns `false` if another process has it.
#[cfg(not(unix))]
pub fn try_lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(std::fs::TryLockError::WouldBlock) => Ok(false),
        Err(std::fs::TryLockError::Error(error)) => Err(error),
    }
}
