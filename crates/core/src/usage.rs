//! The resource usage of a thread, read with two system calls.

use std::ops::{Add, AddAssign};

#[cfg(target_os = "linux")]
use crate::alloc;

/// The resource usage of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Usage {
    /// Nanoseconds of processor time.
    pub cpu_ns: u64,
    /// Page faults that needed no disk access.
    pub minor_faults: u64,
    /// Page faults that needed a disk access.
    pub major_faults: u64,
    /// Context switches because the thread waited for something.
    pub voluntary_switches: u64,
    /// Context switches because another thread got the processor.
    pub involuntary_switches: u64,
    /// Bytes allocated, if the [counting allocator](crate::alloc) is installed.
    pub allocated_bytes: u64,
    /// Bytes freed, if the counting allocator is installed.
    pub freed_bytes: u64,
    /// Number of allocations, if the counting allocator is installed.
    pub allocations: u64,
}

impl Usage {
    pub const NONE: Self = Self {
        cpu_ns: 0,
        minor_faults: 0,
        major_faults: 0,
        voluntary_switches: 0,
        involuntary_switches: 0,
        allocated_bytes: 0,
        freed_bytes: 0,
        allocations: 0,
    };

    /// Returns the difference to an earlier reading of the same thread.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        self.with(before, u64::saturating_sub)
    }

    fn with(self, other: Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            cpu_ns: combine(self.cpu_ns, other.cpu_ns),
            minor_faults: combine(self.minor_faults, other.minor_faults),
            major_faults: combine(self.major_faults, other.major_faults),
            voluntary_switches: combine(self.voluntary_switches, other.voluntary_switches),
            involuntary_switches: combine(self.involuntary_switches, other.involuntary_switches),
            allocated_bytes: combine(self.allocated_bytes, other.allocated_bytes),
            freed_bytes: combine(self.freed_bytes, other.freed_bytes),
            allocations: combine(self.allocations, other.allocations),
        }
    }
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.with(other, u64::saturating_add)
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// The reason if [`thread`] returns `None`.
pub const UNAVAILABLE: &str = "this system does not count what a thread uses";

/// Returns the usage of the calling thread so far. `None` if the system does not count it.
///
/// The processor time comes from the thread's own clock, which is exact. `getrusage` updates its
/// time only at a tick or a context switch.
pub fn thread() -> Option<Usage> {
    read(false)
}

/// Like [`thread`], for the beginning of a measurement: the clock is read last, so that the other
/// reading is not measured.
pub fn thread_at_begin() -> Option<Usage> {
    read(true)
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
fn read(is_clock_last: bool) -> Option<Usage> {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let mut used = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `now` is valid for the write.
    let mut read_clock =
        || unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut now) };
    let is_read = is_clock_last || read_clock() == 0;
    // SAFETY: as above.
    let is_used_read = unsafe { libc::getrusage(libc::RUSAGE_THREAD, used.as_mut_ptr()) } == 0;
    if !is_read || !is_used_read || (is_clock_last && read_clock() != 0) {
        return None;
    }
    // SAFETY: zeros are a valid `rusage`, and the call filled it.
    let used = unsafe { used.assume_init() };
    let counted = alloc::thread_counts();
    Some(Usage {
        cpu_ns: now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64,
        minor_faults: used.ru_minflt as u64,
        major_faults: used.ru_majflt as u64,
        voluntary_switches: used.ru_nvcsw as u64,
        involuntary_switches: used.ru_nivcsw as u64,
        allocated_bytes: counted.allocated_bytes,
        freed_bytes: counted.freed_bytes,
        allocations: counted.allocations,
    })
}

/// Other systems do not count the usage of a thread.
#[cfg(not(target_os = "linux"))]
fn read(_: bool) -> Option<Usage> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn work_shows() {
        let before = thread().unwrap();
        // More memory than the C library ever keeps from earlier frees.
        let pages = std::hint::black_box(vec![1_u8; 40 << 20]);
        let used = thread().unwrap().since(before);
        assert!(used.cpu_ns > 0, "{used:?}");
        assert!(used.minor_faults > 0, "{used:?} for {} bytes", pages.len());
    }
}
