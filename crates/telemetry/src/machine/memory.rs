//! Memory and swap of the machine.

use super::facts::{Reasons, facts};
use super::system;
use crate::meminfo::{Meminfo, swapped_pages};
use crate::root::Root;

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
    /// Memory in bytes, as psutil counts it.
    pub struct Virtual {
        /// What the machine has.
        pub total: u64,
        /// What programs could get without swapping.
        pub available: u64,
        /// The share that is not available.
        pub percent: f64,
        /// What is not available.
        pub used: u64,
        /// What nothing uses at all.
        pub free: u64,
        /// Used lately.
        pub active: u64,
        /// Not used lately.
        pub inactive: u64,
        /// Blocks of disks.
        pub buffers: u64,
        /// Files, and what the kernel can give back of its own.
        pub cached: u64,
        /// Shared between processes.
        pub shared: u64,
        /// The kernel's own structures.
        pub slab: u64,
    }
}

facts! {
    /// Swap in bytes.
    pub struct Swap {
        /// What the machine has.
        pub total: u64,
        /// What is used.
        pub used: u64,
        /// What is free.
        pub free: u64,
        /// The share that is used.
        pub percent: f64,
        /// What was read from it since the start.
        pub sin: u64,
        /// What was written to it since the start.
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

/// Where the kernel has no such files, it tells at least how much there is.
fn without_files(root: &Root, why: String, reasons: &mut Reasons) -> Memory {
    let mut memory = Memory::default();
    memory.virtual_memory.total = root.is_live().then(system::memory_total).flatten();
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
    let bytes = |pages: u64| pages.checked_mul(system::page_size()?);
    Swap {
        total,
        used,
        free,
        // A machine without swap uses none of it.
        percent: used.zip(total).map(|(used, total)| percent(used, total).unwrap_or(0.0)),
        sin: pages.and_then(|(pages_in, _)| bytes(pages_in)),
        sout: pages.and_then(|(_, pages_out)| bytes(pages_out)),
    }
}

/// A share to one decimal; none of nothing.
pub(super) fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| (part as f64 / whole as f64 * 1000.0).round() / 10.0)
}
