//! [`ContainerReader`], which reads the container of this process repeatedly.

use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::files::{Files, Limits};
use super::{Container, ContainerNumbers};
use crate::root::Root;

/// Reads the cgroup of this process. It finds the files once and keeps them open, so a reading
/// takes a few `pread` calls.
///
/// Changed limits are visible in the next reading. A new limit, where there was none, is visible if
/// it is set on the cgroup itself; on an ancestor it is visible only after
/// [`forget`](Self::forget).
///
/// ```
/// # use runlore::telemetry::ContainerReader;
/// let mut buffer = Vec::new();
/// if let Ok(reader) = ContainerReader::open() {
///     let before = reader.numbers(&mut buffer);
///     let after = reader.numbers(&mut buffer);
///     assert!(after.cpu.usage_us >= before.cpu.usage_us);
/// }
/// ```
#[derive(Debug)]
pub struct ContainerReader {
    root: Root,
    files: RwLock<Files>,
    is_stale: AtomicBool,
}

impl ContainerReader {
    /// Finds the container of this process.
    ///
    /// A process is in a container if its cgroup is not the root, if it or a visible ancestor has a
    /// limit, or if a container manager left its files.
    ///
    /// # Errors
    ///
    /// Returns the reason, as a sentence, if the process is in no container or that cannot be
    /// determined.
    pub fn open() -> Result<Self, String> {
        Self::below(Root::live())
    }

    /// Like [`open`](Self::open), below a directory that imitates a machine.
    pub(crate) fn below(root: Root) -> Result<Self, String> {
        let files = RwLock::new(Files::open(&root)?);
        Ok(Self { root, files, is_stale: AtomicBool::new(false) })
    }

    /// Reads usage and limits. `buffer` holds the text of the files; pass the same one each time.
    pub fn read(&self, buffer: &mut Vec<u8>) -> Container {
        let numbers = self.numbers(buffer);
        self.describe(numbers, buffer)
    }

    /// Reads only the numbers, without allocating memory.
    pub fn numbers(&self, buffer: &mut Vec<u8>) -> ContainerNumbers {
        let limits = self.limits(buffer);
        self.numbers_within(&limits, buffer)
    }

    /// Reads only the limits. They change seldom, so frequent readers can cache them.
    pub(crate) fn limits(&self, buffer: &mut Vec<u8>) -> Limits {
        self.with_files(buffer, Files::limits)
    }

    /// Like [`numbers`](Self::numbers), with limits that were read before.
    pub(crate) fn numbers_within(&self, limits: &Limits, buffer: &mut Vec<u8>) -> ContainerNumbers {
        let (numbers, lost) = self.with_files(buffer, |files, buffer| {
            let numbers = files.numbers_within(limits, buffer);
            (numbers, files.have_lost(&numbers))
        });
        if lost {
            self.forget();
        }
        numbers
    }

    /// Reads only the memory in use, with one `pread`.
    pub(crate) fn memory_used(&self, buffer: &mut Vec<u8>) -> Option<u64> {
        self.with_files(buffer, Files::memory_used)
    }

    /// Reads only the inactive file cache, which the kernel reclaims first.
    pub(crate) fn memory_cache(&self, buffer: &mut Vec<u8>) -> Option<u64> {
        self.with_files(buffer, Files::memory_cache)
    }

    /// Adds the description to numbers that were read before. The result is what
    /// [`read`](Self::read) would have returned.
    pub fn describe(&self, numbers: ContainerNumbers, buffer: &mut Vec<u8>) -> Container {
        self.with_files(buffer, |files, buffer| files.describe(numbers, buffer))
    }

    /// Returns the number of open file descriptors.
    pub fn descriptors(&self) -> usize {
        let mut count = 0;
        self.each_descriptor(|_| count += 1);
        count
    }

    /// Calls `see` with each open file descriptor.
    pub(crate) fn each_descriptor(&self, see: impl FnMut(i32)) {
        if let Ok(files) = self.files.try_read() {
            files.each_descriptor(see);
        }
    }

    /// Makes the next reading find the files again: after a `fork`, or when the process has moved
    /// to another cgroup.
    ///
    /// It only sets a flag, so it may be called where locks are not allowed.
    pub fn forget(&self) {
        self.is_stale.store(true, Ordering::Release);
    }

    /// Calls `see` with the files. It never blocks: a lock that another thread held during a fork
    /// stays locked in the child.
    fn with_files<R>(&self, buffer: &mut Vec<u8>, see: impl Fn(&Files, &mut Vec<u8>) -> R) -> R {
        if self.is_stale.load(Ordering::Acquire)
            && let Ok(mut files) = self.files.try_write()
        {
            *files = Files::open(&self.root).unwrap_or_else(Files::gone);
            self.is_stale.store(false, Ordering::Release);
        }
        if !self.is_stale.load(Ordering::Acquire)
            && let Ok(files) = self.files.try_read()
        {
            return see(&files, buffer);
        }
        see(&Files::open(&self.root).unwrap_or_else(Files::gone), buffer)
    }
}
