//! Memory of the process, the machine and the container, as often as somebody wants to know: a few microseconds a reading.

/// What is read. What cannot be read is none.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MemoryNow {
    /// Resident memory of this process.
    pub rss: Option<u64>,
    /// The machine's memory, and what programs could get of it.
    pub total: Option<u64>,
    pub available: Option<u64>,
    pub swap_total: Option<u64>,
    pub swap_free: Option<u64>,
    /// What the container uses and may use, where it is limited; and what of the first is file cache that can go at once.
    pub container_used: Option<u64>,
    pub container_cache: Option<u64>,
    pub container_limit: Option<u64>,
    /// The share of the last ten seconds in which some task waited for memory, in percent.
    pub pressure: Option<f64>,
}

/// All of it; the pressure, which changes slowly, only where it is wanted, and the container's cache, which the kernel has to add up,
/// only from this part of its limit on.
#[cfg(target_os = "linux")]
pub fn memory_now(with_pressure: bool, cache_from: f64) -> MemoryNow {
    super::linux::of_this_process().memory_now(with_pressure, cache_from)
}

/// Resident memory of this process.
#[cfg(target_os = "linux")]
#[inline]
pub fn resident_now() -> Option<u64> {
    super::linux::of_this_process().resident_now()
}

/// Resident memory of this process.
#[cfg(not(target_os = "linux"))]
pub fn resident_now() -> Option<u64> {
    memory_now(false, f64::INFINITY).rss
}

/// All of it that this system tells, to which neither the pressure nor containers belong.
#[cfg(not(target_os = "linux"))]
pub fn memory_now(_with_pressure: bool, _cache_from: f64) -> MemoryNow {
    use super::{TelemetryCapture, TelemetryType, Types};
    use runlore_core::once::Once;

    static CAPTURE: Once<TelemetryCapture> = Once::new();
    let types = Types::from([TelemetryType::Mem, TelemetryType::ProcessInfo]);
    let found = CAPTURE.get_or_init(|| TelemetryCapture::new(types)).capture();
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
