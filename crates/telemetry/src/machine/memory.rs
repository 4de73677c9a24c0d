//! Memory and swap of the machine.

use super::facts::{Reasons, facts};
use crate::meminfo::{Meminfo, swapped_pages};
use crate::root::Root;
use crate::system_calls;

/// Memory and swap of the machine.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Memory {
    /// Memory.
    #[serde(rename = "virtual")]
    pub virtual_memory: Virtual,
    /// Swap.
    pub swap: Swap,
}

facts! {
    /// Memory in bytes, counted as psutil does.
    pub struct Virtual {
        /// Total memory.
        pub total: u64,
        /// Memory that programs could allocate without swapping.
        pub available: u64,
        /// `used` in percent of `total`.
        pub percent: f64,
        /// `total` minus `available`.
        pub used: u64,
        /// Memory that is not used for anything.
        pub free: u64,
        /// Recently used.
        pub active: u64,
        /// Not recently used.
        pub inactive: u64,
        /// Buffers of block devices.
        pub buffers: u64,
        /// The page cache and reclaimable memory of the kernel.
        pub cached: u64,
        /// Shared between processes.
        pub shared: u64,
        /// Data structures of the kernel.
        pub slab: u64,
    }
}

facts! {
    /// Swap in bytes.
    pub struct Swap {
        /// Total swap space.
        pub total: u64,
        /// In use.
        pub used: u64,
        /// Not in use.
        pub free: u64,
        /// `used` in percent of `total`.
        pub percent: f64,
        /// Bytes swapped in since boot.
        pub sin: u64,
        /// Bytes swapped out since boot.
        pub sout: u64,
    }
}

pub(super) fn read(root: &Root, reasons: &mut Reasons) -> Memory {
    let text = match root.read("/proc/meminfo") {
        Ok(text) => text,
        Err(why) => return without_files(root, why, reasons),
    };
    let found = Meminfo::parse(text.as_bytes());
    let memory = Memory { virtual_memory: virtual_memory(&found), swap: swap(&found, root) };
    let why = |_: &str| "/proc/meminfo or /proc/vmstat does not tell it";
    memory.virtual_memory.explain("memory.virtual", reasons, why);
    memory.swap.explain("memory.swap", reasons, why);
    memory
}

/// Reads only the total memory, for kernels without these files.
fn without_files(root: &Root, why: String, reasons: &mut Reasons) -> Memory {
    let mut memory = Memory::default();
    memory.virtual_memory.total = root.is_live().then(system_calls::memory_total).flatten();
    if memory.virtual_memory.total.is_none() {
        reasons.note("memory", why);
        return memory;
    }
    memory.virtual_memory.explain("memory.virtual", reasons, |_| "it is read on Linux only");
    reasons.note("memory.swap", why);
    memory
}

fn virtual_memory(found: &Meminfo) -> Virtual {
    let Meminfo { total, free, available, active, inactive, buffers, cached, shared, slab, .. } =
        *found;
    let used = total.zip(available).map(|(total, available)| total.saturating_sub(available));
    Virtual {
        total,
        available,
        percent: used.zip(total).and_then(|(used, total)| percent(used, total)),
        used,
        free,
        active,
        inactive,
        buffers,
        cached,
        shared,
        slab,
    }
}

fn swap(found: &Meminfo, root: &Root) -> Swap {
    let Meminfo { swap_total: total, swap_free: free, .. } = *found;
    let used = total.zip(free).map(|(total, free)| total.saturating_sub(free));
    let counters = root.read("/proc/vmstat").unwrap_or_default();
    let pages = swapped_pages(counters.as_bytes());
    let bytes = |pages: u64| pages.checked_mul(system_calls::page_size());
    Swap {
        total,
        used,
        free,
        // A machine without swap uses 0 %.
        percent: used.zip(total).map(|(used, total)| percent(used, total).unwrap_or(0.0)),
        sin: pages.and_then(|(pages_in, _)| bytes(pages_in)),
        sout: pages.and_then(|(_, pages_out)| bytes(pages_out)),
    }
}

/// Returns the percentage, rounded to a tenth. `None` if `whole` is 0.
pub(super) fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| (part as f64 / whole as f64 * 1000.0).round() / 10.0)
}
