//! Zeroed, page-aligned memory: private to the process, or a mapped file that outlives it.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;

/// How much of a file is written before its use: all of a ring of the default size, but only a part
/// of one that was deliberately made larger.
#[cfg(all(unix, not(target_vendor = "apple")))]
const WRITTEN: usize = 1 << 20;

/// The size of one write. Larger writes are not faster.
#[cfg(unix)]
const ZEROS: usize = 64 << 10;

/// A block of memory that lives as long as its owner.
pub(crate) struct Memory {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: only its owner has the block, and decides who accesses it.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    pub(crate) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Prepares pages for writing, if the system supports that. Otherwise the first write to a page
    /// waits until the page is created, which for a file takes fifty times as long as recording a
    /// task.
    pub(crate) fn prepare(&self, bytes: Range<usize>) {
        #[cfg(target_os = "linux")]
        {
            // SAFETY: `sysconf` has no preconditions.
            let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
            let page = usize::try_from(page).map_or(4096, |page| page.max(1));
            let start = bytes.start.min(self.length) / page * page;
            let length = bytes.end.min(self.length).saturating_sub(start);
            // SAFETY: the pages are inside the block, and preparing them does not change their
            // content.
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
    /// Returns `length` zeroed bytes. `None` if the system refuses.
    pub(crate) fn new(length: usize) -> Option<Self> {
        Self::map(length, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1).ok()
    }

    /// Maps the first `length` bytes of an empty file. Data written there survives the process.
    pub(crate) fn of_file(file: &File, length: usize) -> io::Result<Self> {
        use std::os::fd::AsRawFd as _;
        // Reserve the disk space now: otherwise the first write to a page on a full disk would kill
        // the program. Apple has no call that reserves space reliably, so all of the file is
        // written with zeros.
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
        // SAFETY: a new mapping at an address that the system chooses touches no existing memory.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, file, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(io::Error::last_os_error)?;
        Ok(Self { start, length })
    }
}

/// Makes the system create the pages of a file in large batches. Later writes then take a tenth of
/// the time that they take if each page is created, and looked up on disk, individually.
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
        // SAFETY: exactly this block was mapped, and only its owner refers to it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

#[cfg(not(unix))]
impl Memory {
    const PAGE: usize = 4096;

    /// Returns `length` zeroed bytes. `None` if the system refuses.
    pub(crate) fn new(length: usize) -> Option<Self> {
        let layout = std::alloc::Layout::from_size_align(length, Self::PAGE).ok()?;
        // SAFETY: the layout's size is not zero.
        let start = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })?;
        Some(Self { start, length })
    }

    /// Not supported on this system.
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

    /// Returns the number of page faults of the thread so far.
    fn faults() -> i64 {
        // SAFETY: all zeros is a valid `rusage`, and the call fills it in.
        unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
            usage.ru_minflt
        }
    }

    fn write_to_each_page(memory: &Memory) -> i64 {
        let before = faults();
        for page in 1..PAGES {
            // SAFETY: the block has this many pages, and no other code uses it.
            unsafe { memory.start().add(page * 4096).write(1) };
        }
        faults() - before
    }

    #[test]
    fn the_pages_of_a_file_are_there_before_they_are_used() {
        let file = tempfile::tempfile().unwrap();
        // Not a multiple of the write size.
        let length = 2 * ZEROS + 4096;
        let memory = Memory::of_file(&file, length).unwrap();
        let mut pages = vec![0_u8; length / 4096];
        // SAFETY: there is one byte for each page of the block, or more if pages are larger.
        let told =
            unsafe { libc::mincore(memory.start().cast(), length, pages.as_mut_ptr().cast()) };
        assert_eq!(told, 0);
        // SAFETY: `sysconf` has no preconditions.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        pages.truncate(length.div_ceil(page));
        assert!(pages.iter().all(|page| page & 1 == 1), "{pages:?}");
        assert_eq!(file.metadata().unwrap().len(), length as u64);
    }

    #[test]
    fn nobody_waits_for_pages_that_were_made_ready() {
        let memory = Memory::new(LENGTH).unwrap();
        // SAFETY: these pages belong to the block.
        let known =
            unsafe { libc::madvise(memory.start().cast(), LENGTH, libc::MADV_POPULATE_WRITE) };
        if known != 0 {
            // The system does not support this; recording works without it.
            return;
        }
        let file = tempfile::tempfile().unwrap();
        for memory in [Memory::new(LENGTH).unwrap(), Memory::of_file(&file, LENGTH).unwrap()] {
            // SAFETY: the block is longer than this offset.
            unsafe { memory.start().add(5000).write(7) };
            memory.prepare(4097..usize::MAX);
            let waited = write_to_each_page(&memory);
            assert!(waited < PAGES as i64 / 8, "{waited} pages were not there");
            // SAFETY: as above.
            assert_eq!(unsafe { memory.start().add(5000).read() }, 7);
        }
    }
}
