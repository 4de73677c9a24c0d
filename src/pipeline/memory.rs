//! Zeroed, page-aligned memory that the system hands out page by page as it is touched.
#![allow(unsafe_code)]

use std::ptr::NonNull;

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
}

#[cfg(unix)]
impl Memory {
    /// `length` zeroed bytes, or nothing where the system refuses.
    pub(crate) fn new(length: usize) -> Option<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a fresh anonymous mapping touches no memory that exists.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return None;
        }
        Some(Self { start: NonNull::new(start.cast())?, length })
    }
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
