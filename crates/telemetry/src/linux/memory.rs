//! Memory and swap, from `/proc/meminfo` and `/proc/vmstat`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::held::Shape;
use super::process::page_size;
use super::{Host, Scratch};
use crate::meminfo::{Meminfo, swapped_pages};
use crate::parts::{Memory, Swap, VirtualMemory, percent};
use crate::snapshot::Code;

/// State that is kept between captures.
#[derive(Debug, Default)]
pub(super) struct Swapped {
    memory_total: AtomicU64,
    /// Whether the counters were read while there was no swap. They have not changed since then.
    is_known: AtomicBool,
    pages_in: AtomicU64,
    pages_out: AtomicU64,
}

impl Swapped {
    pub(super) fn memory_total(&self) -> u64 {
        self.memory_total.load(Ordering::Relaxed)
    }

    pub(super) fn set_memory_total(&self, total: u64) {
        self.memory_total.store(total, Ordering::Relaxed);
    }

    fn known(&self) -> Option<(u64, u64)> {
        let load = |pages: &AtomicU64| pages.load(Ordering::Relaxed);
        self.is_known.load(Ordering::Acquire).then(|| (load(&self.pages_in), load(&self.pages_out)))
    }

    fn remember(&self, (pages_in, pages_out): (u64, u64)) {
        self.pages_in.store(pages_in, Ordering::Relaxed);
        self.pages_out.store(pages_out, Ordering::Relaxed);
        self.is_known.store(true, Ordering::Release);
    }

    fn forget(&self) {
        self.is_known.store(false, Ordering::Relaxed);
    }
}

/// Parses `/proc/meminfo`. `None` if the total is missing, which every kernel reports.
pub(super) fn parse(text: &[u8]) -> Option<Meminfo> {
    Some(Meminfo::parse(text)).filter(|found| found.total.is_some())
}

pub(super) fn capture(host: &Host, scratch: &mut Scratch, out: &mut Vec<u8>) {
    let Scratch { buffer, missing, .. } = scratch;
    let read = host.meminfo.read(Shape::Whole, buffer, parse);
    let Some(found) = missing.or("memory", host.meminfo.path(), read) else {
        Memory::put(&Memory::default(), out);
        return;
    };
    host.swapped.set_memory_total(found.total.unwrap_or(0));
    let virtual_memory = virtual_memory(&found);
    if virtual_memory.is_none() {
        missing.add("memory.virtual", "the kernel tells no MemFree or no MemAvailable");
    }
    let swap = match found.swap_total.zip(found.swap_free) {
        Some((total, free)) => {
            let pages = if total == 0 { host.swapped.known() } else { None };
            let pages = pages.or_else(|| {
                let read = host.vmstat.read(Shape::Whole, buffer, swapped_pages);
                let pages = missing.or("memory.swap.sin", host.vmstat.path(), read);
                match pages {
                    Some(pages) if total == 0 => {
                        host.swapped.remember(pages);
                        host.vmstat.release();
                    }
                    Some(_) => host.swapped.forget(),
                    None => missing.add("memory.swap.sout", "see memory.swap.sin"),
                }
                pages
            });
            let used = total.saturating_sub(free);
            Some(Swap {
                total,
                used,
                free,
                percent: percent(used, total),
                sin: pages.map(|(pages_in, _)| pages_in.saturating_mul(page_size())),
                sout: pages.map(|(_, pages_out)| pages_out.saturating_mul(page_size())),
            })
        }
        None => {
            missing.add("memory.swap", "the kernel tells no SwapTotal");
            None
        }
    };
    Memory::put(&Memory { r#virtual: virtual_memory, swap }, out);
}

fn virtual_memory(found: &Meminfo) -> Option<VirtualMemory> {
    let Meminfo { active, inactive, buffers, cached, shared, slab, .. } = *found;
    let (total, free, available) = (found.total?, found.free?, found.available?);
    // In a container, the total may be that of the container and the rest that of the machine.
    let available = if available > total { free } else { available };
    let used = total.saturating_sub(available);
    Some(VirtualMemory {
        total,
        available,
        percent: percent(used, total),
        used,
        free,
        active,
        inactive,
        buffers,
        cached,
        shared,
        slab,
    })
}
