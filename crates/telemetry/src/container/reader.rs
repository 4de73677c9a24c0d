//! Reading the container of this process, again and again.

use super::{Container, ContainerNumbers};
use crate::root::Root;

#[cfg(not(target_os = "linux"))]
use elsewhere as system;
#[cfg(target_os = "linux")]
use linux as system;

use system::{Files, Limits};

/// Reads the control group of this process. Its files are found once and held open, so that a reading is a few `pread`s.
///
/// Limits that are changed are seen at the next reading; one that is set where there was none before is seen if it is on
/// the group itself, and otherwise after [`forget`](Self::forget).
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
pub struct ContainerReader(system::Reader);

impl ContainerReader {
    /// Finds the container of this process.
    ///
    /// A process is in one if its control group is not the root, if a limit is set on any group around it that it can see,
    /// or if a container manager left its mark.
    ///
    /// # Errors
    ///
    /// The reason, in a sentence, if the process is in none or nobody can tell.
    pub fn open() -> Result<Self, String> {
        Self::below(Root::live())
    }

    /// The same, in a folder that looks like a machine.
    pub(crate) fn below(root: Root) -> Result<Self, String> {
        system::Reader::below(root).map(Self)
    }

    /// What the container uses and may use now. The buffer is for the files' text; give the same one again.
    pub fn read(&self, buffer: &mut Vec<u8>) -> Container {
        let numbers = self.numbers(buffer);
        self.describe(numbers, buffer)
    }

    /// Only the numbers, without a memory allocation.
    pub fn numbers(&self, buffer: &mut Vec<u8>) -> ContainerNumbers {
        let limits = self.limits(buffer);
        self.numbers_within(&limits, buffer)
    }

    /// What is limited, for those who read more often than anybody sets limits.
    pub(crate) fn limits(&self, buffer: &mut Vec<u8>) -> Limits {
        self.0.with_files(buffer, Files::limits)
    }

    /// As [`numbers`](Self::numbers), with limits that were read before.
    pub(crate) fn numbers_within(&self, limits: &Limits, buffer: &mut Vec<u8>) -> ContainerNumbers {
        let (numbers, lost) = self.0.with_files(buffer, |files, buffer| {
            let numbers = files.numbers_within(limits, buffer);
            (numbers, files.have_lost(&numbers))
        });
        if lost {
            self.forget();
        }
        numbers
    }

    /// Only the memory that is used: one `pread`.
    #[cfg(target_os = "linux")]
    pub(crate) fn memory_used(&self, buffer: &mut Vec<u8>) -> Option<u64> {
        self.0.with_files(buffer, Files::memory_used)
    }

    /// Only the file cache that nobody has used lately, and that goes first when memory is needed.
    #[cfg(target_os = "linux")]
    pub(crate) fn memory_cache(&self, buffer: &mut Vec<u8>) -> Option<u64> {
        self.0.with_files(buffer, Files::memory_cache)
    }

    /// Numbers read before, as [`read`](Self::read) would have told them.
    pub fn describe(&self, numbers: ContainerNumbers, buffer: &mut Vec<u8>) -> Container {
        self.0.with_files(buffer, |files, buffer| files.describe(numbers, buffer))
    }

    /// How many descriptors are held open.
    pub fn descriptors(&self) -> usize {
        let mut count = 0;
        self.each_descriptor(|_| count += 1);
        count
    }

    /// Shows each descriptor that is held open.
    pub(crate) fn each_descriptor(&self, see: impl FnMut(i32)) {
        self.0.each_descriptor(see);
    }

    /// Lets the next reading find the files anew: after a `fork`, or when the process has moved to another group. It only
    /// sets a mark, and may be called where locks may not be taken.
    pub fn forget(&self) {
        self.0.forget();
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::sync::RwLock;
    use std::sync::atomic::{AtomicBool, Ordering};

    pub(super) use crate::container::files::Files;
    pub(super) use crate::container::files::Limits;
    use crate::root::Root;

    #[derive(Debug)]
    pub(super) struct Reader {
        root: Root,
        files: RwLock<Files>,
        is_stale: AtomicBool,
    }

    impl Reader {
        pub(super) fn below(root: Root) -> Result<Self, String> {
            let files = RwLock::new(Files::open(&root)?);
            Ok(Self { root, files, is_stale: AtomicBool::new(false) })
        }

        /// Shows the files. It never waits: a lock that another thread held during a fork stays locked in the child.
        pub(super) fn with_files<R>(
            &self,
            buffer: &mut Vec<u8>,
            see: impl Fn(&Files, &mut Vec<u8>) -> R,
        ) -> R {
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

        pub(super) fn each_descriptor(&self, see: impl FnMut(i32)) {
            if let Ok(files) = self.files.try_read() {
                files.each_descriptor(see);
            }
        }

        pub(super) fn forget(&self) {
            self.is_stale.store(true, Ordering::Release);
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use crate::container::{Container, ContainerNumbers};
    use crate::root::Root;

    /// There is none: opening one always fails.
    #[derive(Debug)]
    pub(super) enum Reader {}

    #[derive(Debug)]
    pub(super) enum Files {}

    impl Reader {
        pub(super) fn below(_: Root) -> Result<Self, String> {
            Err("control groups are known on Linux only".to_owned())
        }

        pub(super) fn with_files<R>(
            &self,
            _: &mut Vec<u8>,
            _: impl Fn(&Files, &mut Vec<u8>) -> R,
        ) -> R {
            match *self {}
        }

        pub(super) fn each_descriptor(&self, _: impl FnMut(i32)) {
            match *self {}
        }

        pub(super) fn forget(&self) {
            match *self {}
        }
    }

    #[derive(Debug)]
    pub(crate) struct Limits;

    impl Files {
        pub(super) fn limits(&self, _: &mut Vec<u8>) -> Limits {
            match *self {}
        }

        pub(super) fn numbers_within(&self, _: &Limits, _: &mut Vec<u8>) -> ContainerNumbers {
            match *self {}
        }

        pub(super) fn have_lost(&self, _: &ContainerNumbers) -> bool {
            match *self {}
        }

        pub(super) fn describe(&self, _: ContainerNumbers, _: &mut Vec<u8>) -> Container {
            match *self {}
        }
    }
}
