//! Disk space of a file system.
#![allow(unsafe_code)]

use std::io;
use std::path::Path;

use super::parts::DiskUsage;

/// Returns the space of the file system of `path`, counted as `df` does: space reserved for root is
/// not free, and the percentage ignores it.
#[cfg(unix)]
#[allow(clippy::unnecessary_cast, reason = "these types differ between platforms")]
pub(super) fn of(path: &Path) -> io::Result<DiskUsage> {
    use std::ffi::CString;
    use std::mem::MaybeUninit;
    use std::os::unix::ffi::OsStrExt;

    let path = CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)?;
    let mut place = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path ends with a zero, and there is room for a `statvfs`.
    if unsafe { libc::statvfs(path.as_ptr(), place.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it succeeded.
    let found = unsafe { place.assume_init() };
    let unit = if found.f_frsize > 0 { found.f_frsize as u64 } else { found.f_bsize as u64 };
    let bytes = |blocks: u64| blocks.saturating_mul(unit);
    let (blocks, unused) = (found.f_blocks as u64, found.f_bfree as u64);
    let used = bytes(blocks.saturating_sub(unused));
    let free = bytes(found.f_bavail as u64);
    let percent = super::parts::percent(used, used.saturating_add(free));
    Ok(DiskUsage { total: bytes(blocks), used, free, percent })
}

/// Fails: here the portable backend determines the space itself.
#[cfg(not(unix))]
pub(super) fn of(_: &Path) -> io::Result<DiskUsage> {
    Err(io::ErrorKind::Unsupported.into())
}
