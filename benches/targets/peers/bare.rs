//! The system calls of a capture and nothing else: files held open and read into one buffer, and not looked at.
#![allow(unsafe_code)]

use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::IntoRawFd;
use std::path::Path;

/// The calls. The descriptors are those that captures of this process hold, so that both are measured in one process
/// and neither sees files of the other.
#[derive(Clone)]
pub(crate) struct Calls {
    files: Vec<i32>,
    /// Folders of which `fstat` tells the number of entries.
    folders: Vec<i32>,
    /// Descriptors that captures count: all but their own.
    others: Vec<i32>,
    buffer: Vec<u8>,
}

/// What a container is limited by: captures hold these files too, but read them once a second.
const LIMITS: [&str; 7] = [
    "memory.max",
    "memory.high",
    "memory.limit_in_bytes",
    "cpu.max",
    "cpu.cfs_quota_us",
    "cpu.cfs_period_us",
    "pids.max",
];

impl Calls {
    /// The sources that a capture reads here, and those with the ones that are constant or seldom change.
    pub(crate) fn same_and_naive() -> (Self, Self) {
        let mut same = Self {
            files: Vec::new(),
            folders: Vec::new(),
            others: vec![0, 1, 2],
            buffer: vec![0; 16 * 1024],
        };
        let mut limits = Vec::new();
        for number in 3..100 {
            let Ok(path) = std::fs::read_link(format!("/proc/self/fd/{number}")) else { continue };
            let is_folder = path.ends_with("task") || path.ends_with("fd");
            if is_folder {
                same.folders.push(number);
            } else if LIMITS.iter().any(|name| path.ends_with(name)) {
                limits.push(number);
            } else if path.starts_with("/proc") || path.starts_with("/sys") {
                same.files.push(number);
            }
        }
        let constant = ["/proc/cpuinfo", "/proc/vmstat"]
            .map(|path| File::open(Path::new(path)).expect("a file of the kernel's").into_raw_fd());
        same.others.extend(constant);
        let mut naive = same.clone();
        naive.files.extend(limits.into_iter().chain(constant));
        (same, naive)
    }

    pub(crate) fn make(&mut self) {
        for file in &self.files {
            // As often as the kernel needs to tell all.
            let mut at = 0;
            loop {
                let room = self.buffer.len();
                // SAFETY: the buffer is writable for its whole length.
                let read = unsafe { libc::pread(*file, self.buffer.as_mut_ptr().cast(), room, at) };
                assert!(read > 0 || at > 0, "the kernel's files can be read");
                at += read as libc::off_t;
                if read < 3584 {
                    break;
                }
            }
        }
        for number in self.folders.iter().chain(&self.others) {
            status(*number);
        }
        let mut space = MaybeUninit::<libc::statvfs>::uninit();
        let mut usage = MaybeUninit::<libc::rusage>::uninit();
        let mut now = MaybeUninit::<libc::timespec>::uninit();
        // SAFETY: each has room for what it is told, and none is looked at.
        unsafe {
            libc::statvfs(c"/".as_ptr(), space.as_mut_ptr());
            libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
            libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
            libc::clock_gettime(libc::CLOCK_MONOTONIC, now.as_mut_ptr());
            libc::clock_gettime(libc::CLOCK_MONOTONIC, now.as_mut_ptr());
            libc::getpid();
            libc::sched_getcpu();
        }
    }
}

fn status(descriptor: i32) {
    let mut place = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: there is room for a `stat`, which nobody looks at.
    unsafe { libc::fstat(descriptor, place.as_mut_ptr()) };
}
