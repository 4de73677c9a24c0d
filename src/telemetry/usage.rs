//! What a thread or the process has used so far, at the price of one or two system calls.
//!
//! ```
//! use runlore::telemetry::usage;
//!
//! let before = usage::thread();
//! let sum: u64 = (0..100_000).sum();
//! let used = usage::thread().unwrap_or_default().since(&before.unwrap_or_default());
//! println!("{sum} took {} ns of this thread", used.cpu_ns);
//! ```

/// What a thread used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Usage {
    /// Nanoseconds on a processor.
    pub cpu_ns: u64,
    /// Pages that were mapped without a disk.
    pub minor_faults: u64,
    /// Pages that had to be read from a disk.
    pub major_faults: u64,
    /// How often it waited for something.
    pub voluntary_switches: u64,
    /// How often it made room for others.
    pub involuntary_switches: u64,
}

impl Usage {
    /// What was used since an earlier reading of the same thread.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            minor_faults: self.minor_faults.saturating_sub(before.minor_faults),
            major_faults: self.major_faults.saturating_sub(before.major_faults),
            voluntary_switches: self.voluntary_switches.saturating_sub(before.voluntary_switches),
            involuntary_switches: self
                .involuntary_switches
                .saturating_sub(before.involuntary_switches),
        }
    }
}

/// What the process used and holds. What cannot be read is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ProcessUsage {
    /// Bytes that came from disks.
    pub read_bytes: Option<u64>,
    /// Bytes that went to disks.
    pub write_bytes: Option<u64>,
    /// Resident memory in bytes.
    pub rss: Option<u64>,
    /// The most resident memory so far, in bytes.
    pub peak_rss: Option<u64>,
}

/// Why [`thread`] gives nothing.
pub const UNAVAILABLE: &str = "this system does not count what a thread uses";

/// What the calling thread has used so far; none where the system does not count it.
///
/// The time is that of the thread's own clock, which is exact. `getrusage` alone would be cheaper by two thirds, but its time
/// is brought up to date only at a tick or a switch.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub fn thread() -> Option<Usage> {
    use super::linux::rusage;

    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid place for a timespec.
    if unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut now) } != 0 {
        return None;
    }
    let used = rusage(libc::RUSAGE_THREAD);
    Some(Usage {
        cpu_ns: now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64,
        minor_faults: used.minor_faults,
        major_faults: used.major_faults,
        voluntary_switches: used.voluntary,
        involuntary_switches: used.involuntary,
    })
}

/// What the calling thread has used so far; none, because this system does not count it.
#[cfg(not(target_os = "linux"))]
pub fn thread() -> Option<Usage> {
    None
}

/// What the process has used so far.
///
/// ```
/// let used = runlore::telemetry::usage::process();
/// if let Some(bytes) = used.rss {
///     println!("{} MiB", bytes >> 20);
/// }
/// ```
#[cfg(target_os = "linux")]
pub fn process() -> ProcessUsage {
    super::linux::host().process_usage()
}

/// What the process has used so far; nothing is known on this system.
#[cfg(not(target_os = "linux"))]
pub fn process() -> ProcessUsage {
    ProcessUsage::default()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn work_shows() {
        let before = thread().unwrap();
        let pages = std::hint::black_box(vec![1_u8; 8 << 20]);
        let used = thread().unwrap().since(&before);
        assert!(used.cpu_ns > 0, "{used:?}");
        assert!(used.minor_faults > 0, "{used:?}");
        let process = process();
        assert!(process.rss.unwrap() >= pages.len() as u64, "{process:?}");
        assert!(process.peak_rss >= process.rss, "{process:?}");
        assert!(process.read_bytes.is_some() && process.write_bytes.is_some());
    }
}
