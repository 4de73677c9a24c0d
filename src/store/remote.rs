//! File systems of other machines.
#![allow(unsafe_code)]

#[cfg(target_os = "linux")]
use std::fs::File;
use std::path::Path;

/// Whether a folder is on a file system of another machine, where shared mappings are slow or lie and locks may
/// hold on one machine only.
#[cfg(target_os = "linux")]
pub(crate) fn is_remote(folder: &Path) -> bool {
    use std::os::fd::AsRawFd as _;
    const REMOTE: [u32; 9] = [
        0x6969,      // NFS
        0xFF53_4D42, // CIFS
        0xFE53_4D42, // SMB2
        0x517B,      // SMB
        0x6573_5546, // FUSE
        0x0102_1997, // 9P
        0x00C3_6400, // Ceph
        0x0BD0_0BD0, // Lustre
        0x5346_414F, // AFS
    ];
    let Ok(file) = File::open(folder) else { return false };
    let mut facts = std::mem::MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the descriptor is open and the buffer is one statfs long.
    if unsafe { libc::fstatfs(file.as_raw_fd(), facts.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: fstatfs filled it.
    let kind = unsafe { facts.assume_init() }.f_type;
    REMOTE.contains(&(kind as u32))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn is_remote(_: &Path) -> bool {
    false
}
