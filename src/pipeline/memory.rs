//! Zeroed, page-aligned memory: the process's own, or a file that outlives it.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;

/// How much of a file is written ahead of its use: a queue as it is by default, and not all of one that was made larger on purpose.
#[cfg(all(unix, not(target_vendor = "apple")))]
const WRITTEN: usize = 1 << 20;

/// As much as is written at once: more makes it no faster.
#[cfg(unix)]
const ZEROS: usize = 64 << 10;

/// A block of memory that lives as long as its owner.
pub(crate) struct Memory {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the block belongs to nobody but its owner, which decides who touches it.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    pub(crate) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Has pages made ready to be written to, as far as the system does that: whoever first writes to one that is not waits while it is
    /// made, which in a file takes fifty times as long as to write down a task.
    pub(crate) fn prepare(&self, bytes: Range<usize>) {
        #[cfg(target_os = "linux")]
        {
            // SAFETY: to ask for the size of a page has no preconditions.
            let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
            let page = usize::try_from(page).map_or(4096, |page| page.max(1));
            let start = bytes.start.min(self.length) / page * page;
            let length = bytes.end.min(self.length).saturating_sub(start);
            // SAFETY: the pages lie inside the block, and making them ready changes nothing in them.
            unsafe {
                let first = self.start.as_ptr().add(start);
                libc::madvise(first.cast(), length, libc::MADV_POPULATE_WRITE);
            }
        }
        #[cfg(not(target_os = "linux"))]
        drop(bytes);
    }
}

#[cfg(unix)]
impl Memory {
    /// `length` zeroed bytes, or nothing where the system refuses.
    pub(crate) fn new(length: usize) -> Option<Self> {
        Self::map(length, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1).ok()
    }

    /// The first `length` bytes of an empty file: what is written there survives the process.
    pub(crate) fn of_file(file: &File, length: usize) -> io::Result<Self> {
        use std::os::fd::AsRawFd as _;
        // Room is taken now: a page that the disk has no room for would otherwise end the program when it is
        // first written to. Apple has no call that takes room for sure; zeros that were written have it.
        #[cfg(not(target_vendor = "apple"))]
        let written = {
            let size = libc::off_t::try_from(length).map_err(io::Error::other)?;
            // SAFETY: the descriptor is open for writing.
            let refused = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, size) };
            if refused != 0 {
                return Err(io::Error::from_raw_os_error(refused));
            }
            length.min(WRITTEN)
        };
        #[cfg(target_vendor = "apple")]
        let written = length;
        write_zeros(file, written)?;
        Self::map(length, libc::MAP_SHARED, file.as_raw_fd())
    }

    fn map(length: usize, flags: libc::c_int, file: libc::c_int) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh mapping at a place of the system's choice touches no memory that exists.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, file, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(io::Error::last_os_error)?;
        Ok(Self { start, length })
    }
}

/// Has the system make the pages of a file many at a time. To write to them afterwards takes a tenth of the time that it takes where
/// each is made, and looked for on the disk, on its own.
#[cfg(unix)]
fn write_zeros(file: &File, length: usize) -> io::Result<()> {
    use std::os::unix::fs::FileExt as _;
    let zeros = vec![0; ZEROS.min(length)];
    for at in (0..length).step_by(ZEROS) {
        file.write_all_at(&zeros[..ZEROS.min(length - at)], at as u64)?;
    }
    Ok(())
}

#[cfg(unix)]
impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: exactly this block was mapped, and nobody but its owner refers to it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

#[cfg(not(unix))]
impl Memory {
    const PAGE: usize = 4096;

    /// `length` zeroed bytes, or nothing where the system refuses.
    pub(crate) fn new(length: usize) -> Option<Self> {
        let layout = std::alloc::Layout::from_size_align(length, Self::PAGE).ok()?;
        // SAFETY: the layout's size is not zero.
        let start = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })?;
        Some(Self { start, length })
    }

    /// Not on this system.
    pub(crate) fn of_file(_: &File, _: usize) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(not(unix))]
impl Drop for Memory {
    fn drop(&mut self) {
        if let Ok(layout) = std::alloc::Layout::from_size_align(self.length, Self::PAGE) {
            // SAFETY: the block was allocated with this layout and is freed once.
            unsafe { std::alloc::dealloc(self.start.as_ptr(), layout) };
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    const PAGES: usize = 64;
    const LENGTH: usize = PAGES * 4096;

    /// How many times the thread had to wait for a page so far.
    fn faults() -> i64 {
        // SAFETY: zeros are a valid usage, which is filled in.
        unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
            usage.ru_minflt
        }
    }

    fn write_to_each_page(memory: &Memory) -> i64 {
        let before = faults();
        for page in 1..PAGES {
            // SAFETY: the block has so many pages, and nobody else has it.
            unsafe { memory.start().add(page * 4096).write(1) };
        }
        faults() - before
    }

    #[test]
    fn the_pages_of_a_file_are_there_before_they_are_used() {
        let file = tempfile::tempfile().unwrap();
        // Not a whole number of what is written at once.
        let length = 2 * ZEROS + 4096;
        let memory = Memory::of_file(&file, length).unwrap();
        let mut pages = vec![0_u8; length / 4096];
        // SAFETY: there is a byte for each page of the block, or more where pages are larger.
        let told =
            unsafe { libc::mincore(memory.start().cast(), length, pages.as_mut_ptr().cast()) };
        assert_eq!(told, 0);
        // SAFETY: to ask for the size of a page has no preconditions.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        pages.truncate(length.div_ceil(page));
        assert!(pages.iter().all(|page| page & 1 == 1), "{pages:?}");
        assert_eq!(file.metadata().unwrap().len(), length as u64);
    }

    #[test]
    fn nobody_waits_for_pages_that_were_made_ready() {
        let memory = Memory::new(LENGTH).unwrap();
        // SAFETY: these pages are the block's own.
        let known =
            unsafe { libc::madvise(memory.start().cast(), LENGTH, libc::MADV_POPULATE_WRITE) };
        if known != 0 {
            // The system cannot, and does not: everything works as before.
            return;
        }
        let file = tempfile::tempfile().unwrap();
        for memory in [Memory::new(LENGTH).unwrap(), Memory::of_file(&file, LENGTH).unwrap()] {
            // SAFETY: the block is longer than that.
            unsafe { memory.start().add(5000).write(7) };
            memory.prepare(4097..usize::MAX);
            let waited = write_to_each_page(&memory);
            assert!(waited < PAGES as i64 / 8, "{waited} pages were not there");
            // SAFETY: as above.
            assert_eq!(unsafe { memory.start().add(5000).read() }, 7);
        }
    }
}
