//! Information from system calls rather than files.

use crate::root::Root;

/// The fields of `uname`.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) system: Option<String>,
    pub(super) node: Option<String>,
    pub(super) release: Option<String>,
    pub(super) version: Option<String>,
    pub(super) machine: Option<String>,
}

/// Calls `uname`. In a test fixture, reads the same fields from files.
pub(super) fn uname(root: &Root) -> Names {
    if root.is_live() {
        return ask_names();
    }
    let name = |file: &str| root.read(&format!("/proc/sys/kernel/{file}")).ok();
    let name = |file: &str| name(file).map(|text| text.trim().to_owned());
    Names {
        system: name("ostype"),
        node: name("hostname"),
        release: name("osrelease"),
        version: name("version"),
        machine: name("arch"),
    }
}

/// Returns the system's name of the architecture.
pub(super) fn machine(root: &Root) -> Option<String> {
    uname(root).machine
}

#[cfg(unix)]
#[allow(unsafe_code)]
fn ask_names() -> Names {
    fn text(field: &[libc::c_char]) -> Option<String> {
        let bytes: Vec<u8> =
            field.iter().map(|&byte| byte as u8).take_while(|&byte| byte != 0).collect();
        (!bytes.is_empty()).then(|| String::from_utf8_lossy(&bytes).into_owned())
    }
    // SAFETY: the struct is made of arrays of bytes, for which zeros are valid.
    let mut names: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: `names` is a valid place for what the call writes.
    if unsafe { libc::uname(&raw mut names) } < 0 {
        return Names::default();
    }
    Names {
        system: text(&names.sysname),
        node: text(&names.nodename),
        release: text(&names.release),
        version: text(&names.version),
        machine: text(&names.machine),
    }
}

#[cfg(not(unix))]
fn ask_names() -> Names {
    let known = |text: &str| Some(text.to_owned());
    Names {
        system: known(std::env::consts::OS),
        node: Some(runlore_core::host::name()),
        machine: known(std::env::consts::ARCH),
        ..Names::default()
    }
}

/// Returns the space of the file system that contains `/`, in bytes: total, free, and free for this
/// user.
#[cfg(unix)]
#[allow(unsafe_code, clippy::unnecessary_cast, reason = "the types differ between systems")]
pub(super) fn space_of_root() -> Result<(u64, u64, u64), String> {
    // SAFETY: the struct is made of numbers, for which zeros are valid.
    let mut told: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path is NUL-terminated, and `told` is a valid place for what the call writes.
    if unsafe { libc::statvfs(c"/".as_ptr(), &raw mut told) } != 0 {
        return Err(format!("statvfs: {}", std::io::Error::last_os_error()));
    }
    let block = told.f_frsize as u64;
    let bytes = |blocks: u64| blocks.saturating_mul(block);
    Ok((bytes(told.f_blocks as u64), bytes(told.f_bfree as u64), bytes(told.f_bavail as u64)))
}

#[cfg(not(unix))]
pub(super) fn space_of_root() -> Result<(u64, u64, u64), String> {
    Err("the room of a disk is read on Unix only".to_owned())
}

/// Returns the machine's memory, in bytes.
pub(super) fn memory_total() -> Option<u64> {
    configured(Configured::PhysicalPages)?.checked_mul(page_size()?)
}

/// Returns the size of a memory page, in bytes.
pub(super) fn page_size() -> Option<u64> {
    configured(Configured::PageSize)
}

/// Returns the number of clock ticks per second, the unit of times in the kernel's files.
pub fn ticks_per_second() -> Option<u64> {
    configured(Configured::Ticks)
}

#[derive(Clone, Copy)]
enum Configured {
    PhysicalPages,
    PageSize,
    Ticks,
}

#[cfg(unix)]
#[allow(unsafe_code)]
fn configured(what: Configured) -> Option<u64> {
    let name = match what {
        Configured::PhysicalPages => libc::_SC_PHYS_PAGES,
        Configured::PageSize => libc::_SC_PAGESIZE,
        Configured::Ticks => libc::_SC_CLK_TCK,
    };
    // SAFETY: the call has no preconditions; for an unknown name it returns -1.
    u64::try_from(unsafe { libc::sysconf(name) }).ok().filter(|value| *value > 0)
}

#[cfg(not(unix))]
fn configured(_: Configured) -> Option<u64> {
    None
}

/// Parses a CPU list such as `0-3,8` to sorted numbers. Invalid items are skipped.
pub(super) fn cpus_in_list(list: &str) -> Vec<u32> {
    /// More CPUs than any kernel supports.
    const MOST: u32 = 1 << 16;
    let mut cpus = Vec::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.trim().parse::<u32>(), last.trim().parse::<u32>())
            && last < MOST
        {
            cpus.extend(first..=last);
        }
    }
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}
