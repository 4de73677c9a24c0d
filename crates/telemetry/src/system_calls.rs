//! Safe wrappers of the system calls that the standard library does not have.
#![cfg_attr(unix, allow(unsafe_code))]

use std::io;
use std::path::Path;

use super::parts::DiskUsage;

/// The fields of `uname`.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) system: Option<String>,
    pub(super) node: Option<String>,
    pub(super) release: Option<String>,
    pub(super) version: Option<String>,
    pub(super) machine: Option<String>,
}

#[cfg(not(unix))]
pub use elsewhere::ticks_per_second;
#[cfg(not(unix))]
pub(super) use elsewhere::{disk_usage, memory_total, page_size, uname};
#[cfg(target_os = "linux")]
pub(super) use linux::{current_cpu, is_connection, rusage};
#[cfg(unix)]
pub use unix::ticks_per_second;
#[cfg(unix)]
pub(super) use unix::{disk_usage, memory_total, page_size, uname};

#[cfg(unix)]
mod unix {
    use std::ffi::CString;
    use std::mem::MaybeUninit;
    use std::os::unix::ffi::OsStrExt as _;

    use super::{DiskUsage, Names, Path, io};
    use crate::parts::percent;

    pub(crate) fn uname() -> Names {
        fn text(field: &[libc::c_char]) -> Option<String> {
            let bytes: Vec<u8> =
                field.iter().map(|&byte| byte as u8).take_while(|&byte| byte != 0).collect();
            (!bytes.is_empty()).then(|| String::from_utf8_lossy(&bytes).into_owned())
        }
        let mut place = MaybeUninit::<libc::utsname>::zeroed();
        // SAFETY: there is room for a `utsname`. It is made of arrays of bytes, so zeros are valid.
        let names = unsafe {
            libc::uname(place.as_mut_ptr());
            place.assume_init()
        };
        Names {
            system: text(&names.sysname),
            node: text(&names.nodename),
            release: text(&names.release),
            version: text(&names.version),
            machine: text(&names.machine),
        }
    }

    /// Returns the space of the file system of `path`, counted as `df` does: space reserved for
    /// root is not free, and the percentage ignores it.
    #[allow(clippy::unnecessary_cast, reason = "these types differ between platforms")]
    pub(crate) fn disk_usage(path: &Path) -> io::Result<DiskUsage> {
        let path = CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)?;
        let mut place = MaybeUninit::<libc::statvfs>::zeroed();
        // SAFETY: the path is NUL-terminated, and there is room for a `statvfs`.
        if unsafe { libc::statvfs(path.as_ptr(), place.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it is made of numbers, and the call succeeded.
        let found = unsafe { place.assume_init() };
        let unit = if found.f_frsize > 0 { found.f_frsize as u64 } else { found.f_bsize as u64 };
        let bytes = |blocks: u64| blocks.saturating_mul(unit);
        let (blocks, unused) = (found.f_blocks as u64, found.f_bfree as u64);
        let used = bytes(blocks.saturating_sub(unused));
        let free = bytes(found.f_bavail as u64);
        let percent = percent(used, used.saturating_add(free));
        Ok(DiskUsage { total: bytes(blocks), used, free, percent })
    }

    pub(crate) fn memory_total() -> Option<u64> {
        configured(libc::_SC_PHYS_PAGES)?.checked_mul(page_size())
    }

    pub(crate) fn page_size() -> u64 {
        configured(libc::_SC_PAGESIZE).unwrap_or(4096)
    }

    /// Returns the number of clock ticks per second, the unit of times in the kernel's files.
    pub fn ticks_per_second() -> Option<u64> {
        configured(libc::_SC_CLK_TCK)
    }

    fn configured(name: libc::c_int) -> Option<u64> {
        // SAFETY: the call has no preconditions; for an unknown name it returns -1.
        u64::try_from(unsafe { libc::sysconf(name) }).ok().filter(|value| *value > 0)
    }
}

#[cfg(not(unix))]
mod elsewhere {
    use std::env::consts::{ARCH, OS};

    use super::{DiskUsage, Names, Path, io};

    pub(crate) fn uname() -> Names {
        Names {
            system: Some(OS.to_owned()),
            node: Some(runlore_core::host::name()),
            machine: Some(ARCH.to_owned()),
            ..Names::default()
        }
    }

    pub(crate) fn disk_usage(_: &Path) -> io::Result<DiskUsage> {
        Err(io::Error::other("disk space is read on Unix only"))
    }

    pub(crate) fn memory_total() -> Option<u64> {
        None
    }

    pub(crate) fn page_size() -> u64 {
        4096
    }

    /// Returns `None`: this system has no ticks.
    pub fn ticks_per_second() -> Option<u64> {
        None
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::mem::MaybeUninit;

    /// CPU times in microseconds, and context switches.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Rusage {
        pub(crate) user_us: u64,
        pub(crate) system_us: u64,
        pub(crate) voluntary: u64,
        pub(crate) involuntary: u64,
    }

    /// Returns the usage of the process, its children or the thread. The call cannot fail for
    /// these.
    pub(crate) fn rusage(who: libc::c_int) -> Rusage {
        let mut place = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: there is room for a `rusage`. It is made of numbers, so zeros are valid.
        let found = unsafe {
            libc::getrusage(who, place.as_mut_ptr());
            place.assume_init()
        };
        let micros = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
        Rusage {
            user_us: micros(found.ru_utime),
            system_us: micros(found.ru_stime),
            voluntary: found.ru_nvcsw as u64,
            involuntary: found.ru_nivcsw as u64,
        }
    }

    /// Returns the CPU that the calling thread runs on. `None` if that is not known.
    pub(crate) fn current_cpu() -> Option<u64> {
        // SAFETY: a plain call.
        u64::try_from(unsafe { libc::sched_getcpu() }).ok()
    }

    /// Whether a socket is one that `/proc/net/{tcp,udp}{,6}` lists: TCP that is connected or
    /// listening, or UDP with a port.
    pub(crate) fn is_connection(socket: i32) -> bool {
        // Other address families use the same protocol numbers; `has_port` excludes them.
        match option::<libc::c_int>(socket, libc::SOL_SOCKET, libc::SO_PROTOCOL) {
            Some(libc::IPPROTO_UDP) => has_port(socket, libc::getsockname),
            // A socket with a peer is not closed. Most have one, so this is checked first.
            Some(libc::IPPROTO_TCP) => {
                const CLOSED: u8 = 7;
                has_port(socket, libc::getpeername)
                    || has_port(socket, libc::getsockname)
                        && option::<u8>(socket, libc::IPPROTO_TCP, libc::TCP_INFO)
                            .is_some_and(|state| state != CLOSED)
            }
            _ => false,
        }
    }

    /// `getsockname` or `getpeername`.
    type AddressOf =
        unsafe extern "C" fn(libc::c_int, *mut libc::sockaddr, *mut libc::socklen_t) -> libc::c_int;

    /// Whether the address is an internet address with a port.
    fn has_port(socket: i32, address_of: AddressOf) -> bool {
        let mut place = MaybeUninit::<libc::sockaddr_storage>::zeroed();
        let mut length = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        // SAFETY: there is room for the given length.
        if unsafe { address_of(socket, place.as_mut_ptr().cast(), &raw mut length) } != 0 {
            return false;
        }
        // SAFETY: it was zeroed, and written in part.
        let address = unsafe { place.assume_init() };
        // The port is at the same offset in both families.
        // SAFETY: the storage is larger than either address and aligned for both.
        let port = unsafe { (*(&raw const address).cast::<libc::sockaddr_in>()).sin_port };
        matches!(libc::c_int::from(address.ss_family), libc::AF_INET | libc::AF_INET6) && port != 0
    }

    fn option<T: Default>(socket: i32, level: libc::c_int, name: libc::c_int) -> Option<T> {
        let mut value = T::default();
        let mut length = size_of::<T>() as libc::socklen_t;
        // SAFETY: there is room for the given length, and the types used are plain numbers.
        let result = unsafe {
            libc::getsockopt(socket, level, name, (&raw mut value).cast(), &raw mut length)
        };
        (result == 0).then_some(value)
    }
}
