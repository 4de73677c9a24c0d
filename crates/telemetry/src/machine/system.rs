//! Information from system calls rather than files.

use crate::root::Root;
use crate::system_calls::{self, Names};

/// Calls `uname`. In a test fixture, reads the same fields from files.
pub(super) fn uname(root: &Root) -> Names {
    if root.is_live() {
        return system_calls::uname();
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
