//! What a thread or the process has used so far, at the price of one or two system calls.
//!
//! ```
//! use runlore::telemetry::usage;
//!
//! let before = usage::thread();
//! let sum: u64 = (0..100_000).sum();
//! let used = usage::thread().unwrap_or_default().since(before.unwrap_or_default());
//! println!("{sum} took {} ns of this thread", used.cpu_ns);
//! ```

pub use crate::usage::{UNAVAILABLE, Usage, thread};

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
        let pages = std::hint::black_box(vec![1_u8; 8 << 20]);
        let process = process();
        assert!(process.rss.unwrap() >= pages.len() as u64, "{process:?}");
        assert!(process.peak_rss >= process.rss, "{process:?}");
        assert!(process.read_bytes.is_some() && process.write_bytes.is_some());
    }
}
