//! Properties of file systems: whether a queue may be memory-mapped on them, and whether their
//! locks work.
//!
//! A write into a shared mapping ends the program if the disk is full. So the space is allocated
//! when a queue is created, and queues are mapped only on file systems that keep this space for
//! them: those that write a page back to its place.

use std::fs::File;
use std::io;
use std::path::Path;

/// The properties of a kind of file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Writes a page back to its place.
    InPlace,
    /// Shows the files of another file system, which may be of any kind.
    Layered,
    /// Writes a page to a new place. Some do not if a file was marked while it was empty.
    CopyOnWrite { can_be_marked: bool },
    /// The files are on another machine. Mappings are slow or unreliable, and so may locks be.
    Remote,
}

/// How an empty file must be prepared to hold a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    None,
    /// Mark it to be written in place, if that is possible.
    TryToMark,
    /// Mark it to be written in place. If that fails, do not map it.
    Mark,
}

/// The known file systems, by their number in `statfs`.
const KNOWN: [(u32, &str, Kind); 20] = [
    (0xEF53, "ext4", Kind::InPlace),
    (0x5846_5342, "XFS", Kind::InPlace),
    (0x0102_1994, "tmpfs", Kind::InPlace),
    (0x8584_58F6, "ramfs", Kind::InPlace),
    (0xF2F5_2010, "F2FS", Kind::InPlace),
    (0x3153_464A, "JFS", Kind::InPlace),
    (0x794C_7630, "overlayfs", Kind::Layered),
    (0x9123_683E, "Btrfs", Kind::CopyOnWrite { can_be_marked: true }),
    (0x2FC1_2FC1, "ZFS", Kind::CopyOnWrite { can_be_marked: false }),
    (0xCA45_1A4E, "bcachefs", Kind::CopyOnWrite { can_be_marked: false }),
    (0x6969, "NFS", Kind::Remote),
    (0xFF53_4D42, "CIFS", Kind::Remote),
    (0xFE53_4D42, "SMB2", Kind::Remote),
    (0x517B, "SMB", Kind::Remote),
    (0x6573_5546, "FUSE", Kind::Remote),
    (0x0102_1997, "9P", Kind::Remote),
    (0x00C3_6400, "Ceph", Kind::Remote),
    (0x0BD0_0BD0, "Lustre", Kind::Remote),
    (0x5346_414F, "AFS", Kind::Remote),
    (0x4750_4653, "GPFS", Kind::Remote),
];

/// The first Linux version on which writing to a page of a marked Btrfs file needs no new space.
const MARKS_HOLD_SINCE: (u32, u32) = (6, 17);

/// Returns how files in a folder must be prepared to hold queues. An error if they cannot.
pub fn treatment(folder: &Path) -> io::Result<Treatment> {
    match system::number(folder)? {
        Some(number) => treatment_on(number, system::release()).map_err(io::Error::other),
        None => Ok(Treatment::None),
    }
}

fn treatment_on(number: u32, release: Option<(u32, u32)>) -> Result<Treatment, String> {
    let Some((_, name, kind)) = KNOWN.iter().find(|(known, ..)| *known == number) else {
        return Err(format!("its file system, of type {number:#x}, is not known to keep its room"));
    };
    match kind {
        Kind::InPlace => Ok(Treatment::None),
        Kind::Layered => Ok(Treatment::TryToMark),
        Kind::CopyOnWrite { can_be_marked: true } if release >= Some(MARKS_HOLD_SINCE) => {
            Ok(Treatment::Mark)
        }
        Kind::CopyOnWrite { can_be_marked: true } => Err(too_old()),
        Kind::CopyOnWrite { .. } => Err(format!("on {name} a full disk would end the program")),
        Kind::Remote => Err(format!("it is on {name}, a file system of another machine")),
    }
}

fn too_old() -> String {
    let (major, minor) = MARKS_HOLD_SINCE;
    format!("on Btrfs before Linux {major}.{minor} a full disk would end the program")
}

/// Returns whether a folder is on a local disk or in memory.
pub fn is_local(folder: &Path) -> bool {
    match system::number(folder) {
        Ok(Some(number)) => KNOWN
            .iter()
            .find(|(known, ..)| *known == number)
            .is_some_and(|(.., kind)| *kind != Kind::Remote),
        Ok(None) => true,
        Err(_) => false,
    }
}

impl Treatment {
    /// Prepares an empty file.
    pub fn apply(self, file: &File) -> io::Result<()> {
        match self {
            Self::None => Ok(()),
            // The file system below rejects the mark if it does not need it.
            Self::TryToMark => match system::mark(file) {
                Ok(()) if system::release() < Some(MARKS_HOLD_SINCE) => {
                    Err(io::Error::other(too_old()))
                }
                _ => Ok(()),
            },
            Self::Mark => system::mark(file).map_err(|error| {
                io::Error::other(format!("copy-on-write cannot be turned off for a file: {error}"))
            }),
        }
    }
}

/// Returns the `stat` of the file behind any descriptor.
#[cfg(target_os = "linux")]
pub use self::system::status;

#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
mod system {
    use std::fs::File;
    use std::io;
    use std::mem::MaybeUninit;
    use std::os::fd::AsRawFd as _;
    use std::path::Path;

    #[inline]
    pub fn status(descriptor: i32) -> io::Result<libc::stat> {
        let mut place = MaybeUninit::<libc::stat>::uninit();
        // SAFETY: `place` has room for a `stat`.
        if unsafe { fstat(descriptor, place.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fstat` succeeded and filled it.
        Ok(unsafe { place.assume_init() })
    }

    /// Calls the kernel's `fstat`, which fills the same structure on these platforms. The function
    /// of newer C libraries goes through a path and costs a quarter more.
    #[cfg(all(target_pointer_width = "64", any(target_arch = "x86_64", target_arch = "aarch64")))]
    #[inline]
    unsafe fn fstat(descriptor: i32, place: *mut libc::stat) -> libc::c_long {
        // SAFETY: the caller provides room for a `stat`.
        unsafe { libc::syscall(libc::SYS_fstat, descriptor, place) }
    }

    #[cfg(not(all(
        target_pointer_width = "64",
        any(target_arch = "x86_64", target_arch = "aarch64")
    )))]
    use libc::fstat;

    /// The flag that turns off copy-on-write.
    const FS_NOCOW_FL: libc::c_int = 0x0080_0000;

    /// Returns the number of a folder's file system.
    pub(super) fn number(folder: &Path) -> io::Result<Option<u32>> {
        let file = File::open(folder)?;
        let mut facts = MaybeUninit::<libc::statfs>::uninit();
        // SAFETY: the descriptor is open and the buffer is one statfs long.
        if unsafe { libc::fstatfs(file.as_raw_fd(), facts.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: fstatfs filled it.
        let kind = unsafe { facts.assume_init() }.f_type;
        Ok(Some(kind as u32))
    }

    /// Returns the kernel's version.
    pub(super) fn release() -> Option<(u32, u32)> {
        let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
        let mut numbers = text.split('.').map(|part| part.trim().parse().ok());
        Some((numbers.next()??, numbers.next()??))
    }

    /// Marks an empty file to be written in place.
    pub(super) fn mark(file: &File) -> io::Result<()> {
        let mut flags: libc::c_int = 0;
        // SAFETY: the descriptor is open, and the call writes one int.
        let got = unsafe { libc::ioctl(file.as_raw_fd(), libc::FS_IOC_GETFLAGS, &raw mut flags) };
        if got != 0 {
            return Err(io::Error::last_os_error());
        }
        flags |= FS_NOCOW_FL;
        // SAFETY: the descriptor is open, and the call reads one int.
        let set = unsafe { libc::ioctl(file.as_raw_fd(), libc::FS_IOC_SETFLAGS, &raw const flags) };
        if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// On other systems nothing is known about file systems.
#[cfg(not(target_os = "linux"))]
mod system {
    use std::fs::File;
    use std::io;
    use std::path::Path;

    pub(super) fn number(_: &Path) -> io::Result<Option<u32>> {
        Ok(None)
    }

    pub(super) fn release() -> Option<(u32, u32)> {
        None
    }

    pub(super) fn mark(_: &File) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_mapped_only_where_a_page_keeps_its_place() {
        let (old, new) = (Some((6, 16)), Some((6, 17)));
        for (release, number, expected) in [
            (old, 0xEF53, Ok(Treatment::None)),
            (old, 0x0102_1994, Ok(Treatment::None)),
            (old, 0x794C_7630, Ok(Treatment::TryToMark)),
            (new, 0x9123_683E, Ok(Treatment::Mark)),
            (Some((10, 0)), 0x9123_683E, Ok(Treatment::Mark)),
            (old, 0x9123_683E, Err("on Btrfs before Linux 6.17 a full disk would end the program")),
            (
                None,
                0x9123_683E,
                Err("on Btrfs before Linux 6.17 a full disk would end the program"),
            ),
            (new, 0x2FC1_2FC1, Err("on ZFS a full disk would end the program")),
            (new, 0x6969, Err("it is on NFS, a file system of another machine")),
            (
                new,
                0x1234_5678,
                Err("its file system, of type 0x12345678, is not known to keep its room"),
            ),
        ] {
            let found = treatment_on(number, release);
            assert_eq!(found.as_ref().map_err(String::as_str), expected.as_ref().map_err(|e| *e));
        }
    }

    #[test]
    fn no_number_has_two_meanings() {
        for (at, (number, ..)) in KNOWN.iter().enumerate() {
            assert!(KNOWN[at + 1..].iter().all(|(other, ..)| other != number), "{number:#x}");
        }
    }
}
