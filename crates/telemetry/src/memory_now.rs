//! Memory of the process, the machine and the container, cheap enough for frequent sampling: a few
//! microseconds per reading.

/// One reading of the memory. A value that cannot be read is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MemoryNow {
    /// Resident memory of this process.
    pub rss: Option<u64>,
    /// The machine's memory, and how much of it programs could still allocate.
    pub total: Option<u64>,
    pub available: Option<u64>,
    pub swap_total: Option<u64>,
    pub swap_free: Option<u64>,
    /// Memory that the container uses, the part of it that is reclaimable file cache, and the
    /// container's limit, if it has one.
    pub container_used: Option<u64>,
    pub container_cache: Option<u64>,
    pub container_limit: Option<u64>,
    /// The share of the last ten seconds in which some task waited for memory, in percent.
    pub pressure: Option<f64>,
}

/// Reads all values.
///
/// The pressure changes slowly, so it is read only if `with_pressure` is set. The kernel has to sum
/// up the container's file cache, so that is read only if the container uses at least the fraction
/// `cache_from` of its limit.
#[cfg(target_os = "linux")]
pub fn memory_now(with_pressure: bool, cache_from: f64) -> MemoryNow {
    super::linux::of_this_process().memory_now(with_pressure, cache_from)
}

/// Reads the resident memory of this process.
#[cfg(target_os = "linux")]
#[inline]
pub fn resident_now() -> Option<u64> {
    super::linux::of_this_process().resident_now()
}

/// Reads the resident memory of this process.
#[cfg(not(target_os = "linux"))]
pub fn resident_now() -> Option<u64> {
    memory_now(false, f64::INFINITY).rss
}

/// Reads the values that this system provides. It provides neither the pressure nor those of
/// containers.
#[cfg(not(target_os = "linux"))]
pub fn memory_now(_with_pressure: bool, _cache_from: f64) -> MemoryNow {
    use super::{TelemetryCapture, TelemetryType, Types};
    use runlore_core::fork::get_or_make;
    use std::sync::OnceLock;

    static CAPTURE: OnceLock<TelemetryCapture> = OnceLock::new();
    let types = Types::from([TelemetryType::Mem, TelemetryType::ProcessInfo]);
    let found = get_or_make(&CAPTURE, || TelemetryCapture::new(types)).capture();
    let process = found.process.and_then(|process| process.memory);
    let memory = found.memory.unwrap_or_default();
    MemoryNow {
        rss: process.map(|memory| memory.rss),
        total: memory.r#virtual.as_ref().map(|memory| memory.total),
        available: memory.r#virtual.as_ref().map(|memory| memory.available),
        swap_total: memory.swap.as_ref().map(|swap| swap.total),
        swap_free: memory.swap.as_ref().map(|swap| swap.free),
        ..MemoryNow::default()
    }
}
