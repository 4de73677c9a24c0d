//! The system calls of a capture and nothing else: files held open and read into one buffer, and not looked at.
#![allow(unsafe_code)]

use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

pub(crate) struct Calls {
    files: Vec<File>,
    /// Folders of which `fstat` tells the number of entries.
    folders: Vec<File>,
    /// Descriptors that are not ours: the standard streams.
    others: std::ops::Range<i32>,
    buffer: Vec<u8>,
}

impl Calls {
    /// The sources that a capture reads here.
    pub(crate) fn same() -> Self {
        let paths = [
            "/proc/stat",
            "/proc/meminfo",
            "/proc/diskstats",
            "/proc/net/dev",
            "/proc/self/statm",
            "/proc/self/io",
        ];
        let has_swap =
            std::fs::read_to_string("/proc/swaps").is_ok_and(|text| text.lines().count() > 1);
        let swap = has_swap.then_some("/proc/vmstat");
        let paths = paths.into_iter().chain(swap).map(PathBuf::from);
        Self::of(paths.chain(of_container()))
    }

    /// Those, and the ones that a capture knows to be constant.
    pub(crate) fn naive() -> Self {
        let mut calls = Self::same();
        for path in ["/proc/cpuinfo", "/proc/vmstat"] {
            calls.files.push(File::open(path).expect(path));
        }
        calls
    }

    fn of(paths: impl Iterator<Item = PathBuf>) -> Self {
        let open = |path: PathBuf| File::open(path).expect("a file of the kernel's");
        let folders = ["/proc/self/task", "/proc/self/fd"].into_iter().map(PathBuf::from);
        Self {
            files: paths.map(open).collect(),
            folders: folders.map(open).collect(),
            others: 0..3,
            buffer: vec![0; 16 * 1024],
        }
    }

    pub(crate) fn make(&mut self) {
        for file in &self.files {
            // As often as the kernel needs to tell all.
            let mut at = 0;
            loop {
                let read =
                    file.read_at(&mut self.buffer, at).expect("the kernel's files can be read");
                at += read as u64;
                if read < 3584 {
                    break;
                }
            }
        }
        for folder in &self.folders {
            status(folder.as_raw_fd());
        }
        for number in self.others.clone() {
            status(number);
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

/// Where the process is in a container, its files: those that a capture opens.
fn of_container() -> Vec<PathBuf> {
    super::telemetry::complete();
    let entries = std::fs::read_dir("/proc/self/fd").expect("a folder of the kernel's");
    let paths = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    paths.filter(|path| path.starts_with("/sys/fs/cgroup")).collect()
}

fn status(descriptor: i32) {
    let mut place = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: there is room for a `stat`, which nobody looks at.
    unsafe { libc::fstat(descriptor, place.as_mut_ptr()) };
}
