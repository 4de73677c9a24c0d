//! Resource usage of a thread or of the process so far, read with one or two system calls.
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

/// Resource usage of the process. A value that cannot be read is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ProcessUsage {
    /// Bytes read from disks.
    pub read_bytes: Option<u64>,
    /// Bytes written to disks.
    pub write_bytes: Option<u64>,
    /// Resident memory in bytes.
    pub rss: Option<u64>,
    /// Peak resident memory of this program, in bytes. The peak of the program that this process
    /// ran before an `exec` is not included.
    pub peak_rss: Option<u64>,
}

/// Resource usage of a child process that has ended, as reported to the process that waited for it.
/// It includes the child's own children that the child waited for.
///
/// A value that is not known is missing, and `unavailable` has the reason.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ChildUsage {
    /// CPU time in user mode, in nanoseconds.
    pub user_ns: u64,
    /// CPU time in the kernel, in nanoseconds.
    pub system_ns: u64,
    /// The largest peak of resident memory among its processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_rss_bytes: Option<u64>,
    /// Page faults that needed no disk access.
    pub minor_faults: u64,
    /// Page faults that had to read from a disk.
    pub major_faults: u64,
    /// Context switches because a thread had to wait.
    pub voluntary_switches: u64,
    /// Context switches because the scheduler ran another thread.
    pub involuntary_switches: u64,
    /// Transfers from disks, in the system's unit: 512 bytes on Linux.
    pub read_blocks: u64,
    /// Transfers to disks, in the same unit.
    pub write_blocks: u64,
    /// Bytes read from disks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<u64>,
    /// Bytes written to disks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_bytes: Option<u64>,
    /// Bytes read from any source: files, pipes, sockets, the page cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_chars: Option<u64>,
    /// Bytes written to any destination.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_chars: Option<u64>,
    /// The values that are not known, each with the reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unavailable: BTreeMap<String, String>,
}

impl ChildUsage {
    /// Converts to the [`Usage`] of a thread that had done the same work.
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

/// Returns the resource usage of the process so far.
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

/// Returns an empty usage: this system does not report it.
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
        // Not `>= rss`: other tests may allocate more between the two readings.
        assert!(process.peak_rss.unwrap() >= pages.len() as u64, "{process:?}");
        assert!(process.read_bytes.is_some() && process.write_bytes.is_some());
    }

    /// `getrusage` reports the peak of the program that this process ran before `exec`.
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
