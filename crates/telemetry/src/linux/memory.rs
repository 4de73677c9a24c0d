//! Memory and swap, from `/proc/meminfo` and `/proc/vmstat`.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::{Host, Scratch};
use crate::meminfo::{Meminfo, swapped_pages};
use crate::parts::{Memory, Swap, VirtualMemory, percent};
use crate::reasons::Missing;
use crate::snapshot::Code;
use crate::system_calls::page_size;

/// Parses `/proc/meminfo`. `None` if the total is missing, which every kernel reports.
pub(super) fn parse(text: &[u8]) -> Option<Meminfo> {
    Some(Meminfo::parse(text)).filter(|found| found.total.is_some())
}

pub(super) fn capture(host: &Host, scratch: &mut Scratch, out: &mut Vec<u8>) {
    let Scratch { buffer, missing, .. } = scratch;
    let read = host.meminfo.read(buffer, parse);
    let Some(found) = missing.or("memory", host.meminfo.path(), read) else {
        Memory::put(&Memory::default(), out);
        return;
    };
    host.memory_total.store(found.total.unwrap_or(0), Ordering::Relaxed);
    let virtual_memory = virtual_memory(&found);
    if virtual_memory.is_none() {
        missing.add("memory.virtual", "the kernel tells no MemFree or no MemAvailable");
    }
    let swap = match found.swap_total.zip(found.swap_free) {
        Some((total, free)) => {
            let pages = swapped(host, total == 0, buffer, missing);
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

/// Returns the numbers of pages swapped in and out. They are read once while there is no swap,
/// because they cannot change then.
fn swapped(
    host: &Host,
    is_without_swap: bool,
    buffer: &mut Vec<u8>,
    missing: &mut Missing,
) -> Option<(u64, u64)> {
    let mut known = host.swapped.lock().unwrap_or_else(PoisonError::into_inner);
    if is_without_swap && known.is_some() {
        return *known;
    }
    let read = host.vmstat.read(buffer, swapped_pages);
    let pages = missing.or("memory.swap.sin", host.vmstat.path(), read);
    if pages.is_none() {
        missing.add("memory.swap.sout", "see memory.swap.sin");
    }
    *known = pages.filter(|_| is_without_swap);
    if known.is_some() {
        host.vmstat.release();
    }
    pages
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
