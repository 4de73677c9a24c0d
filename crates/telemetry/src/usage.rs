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

use std::collections::BTreeMap;

pub use runlore_core::usage::{UNAVAILABLE, Usage, thread};

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
    /// The most resident memory of this program so far, in bytes; not that of the one that started it.
    pub peak_rss: Option<u64>,
}

/// What another process used that has ended, as whoever waited for it learns; its own children that it waited for are
/// part of it. What is not known is missing, with the reason in `unavailable`.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
#[non_exhaustive]
pub struct ChildUsage {
    /// Nanoseconds on processors, in the program.
    pub user_ns: u64,
    /// Nanoseconds on processors, in the kernel.
    pub system_ns: u64,
    /// The most resident memory of any of its processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_rss_bytes: Option<u64>,
    /// Pages that were mapped without a disk.
    pub minor_faults: u64,
    /// Pages that had to be read from a disk.
    pub major_faults: u64,
    /// How often a thread waited for something.
    pub voluntary_switches: u64,
    /// How often a thread made room for others.
    pub involuntary_switches: u64,
    /// Transfers from disks, in the system's own unit: 512 bytes on Linux.
    pub read_blocks: u64,
    /// Transfers to disks, in the same unit.
    pub write_blocks: u64,
    /// Bytes that came from disks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<u64>,
    /// Bytes that went to disks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_bytes: Option<u64>,
    /// Bytes that were read, wherever they came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_chars: Option<u64>,
    /// Bytes that were written, wherever they went.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_chars: Option<u64>,
    /// What is not known, and why.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unavailable: BTreeMap<String, String>,
}

impl ChildUsage {
    /// What a thread would have used that did the same.
    pub fn as_threads(&self) -> Usage {
        let mut usage = Usage::NONE;
        usage.cpu_ns = self.user_ns.saturating_add(self.system_ns);
        usage.minor_faults = self.minor_faults;
        usage.major_faults = self.major_faults;
        usage.voluntary_switches = self.voluntary_switches;
        usage.involuntary_switches = self.involuntary_switches;
        usage
    }
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
    super::linux::of_this_process().process_usage()
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
        // Not at least the memory now: other tests may take more between the two readings.
        assert!(process.peak_rss.unwrap() >= pages.len() as u64, "{process:?}");
        assert!(process.read_bytes.is_some() && process.write_bytes.is_some());
    }

    /// `getrusage` tells the peak of the process that this one was, before it became another program.
    #[test]
    fn the_peak_of_the_starter_is_not_ours() {
        const LARGE: u64 = 256 << 20;
        let test = "usage::tests::the_peak_of_the_starter_is_not_ours";
        match std::env::var("RUNLORE_TEST_PEAK").as_deref() {
            Ok("begin") => {
                drop(std::hint::black_box(vec![1_u8; LARGE as usize]));
                assert!(process().peak_rss.unwrap() >= LARGE);
                let error = std::os::unix::process::CommandExt::exec(&mut again(test, "exec"));
                panic!("{error}");
            }
            Ok(_) => assert!(process().peak_rss.unwrap() < LARGE / 2, "{:?}", process()),
            Err(_) => {
                let output = again(test, "begin").output().unwrap();
                let said = String::from_utf8_lossy(&output.stdout);
                assert!(output.status.success() && said.contains("1 passed"), "{said}");
            }
        }
    }

    fn again(test: &str, step: &str) -> std::process::Command {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--test-threads=1"]).env("RUNLORE_TEST_PEAK", step);
        command
    }
}
