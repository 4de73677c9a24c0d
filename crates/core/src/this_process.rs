//! The id of the calling process, also correct in a forked child. Cheap enough to read for each
//! event.

#[cfg(target_os = "linux")]
pub use kept::id;
#[cfg(not(target_os = "linux"))]
pub use std::process::id;

/// Caches the id in a page that the kernel clears in every forked child, even if no fork handler
/// runs (`MADV_WIPEONFORK`, since Linux 4.14).
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
mod kept {
    use std::ptr;
    use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

    /// The page. Null until it is created. Never unmapped, because another thread may be reading
    /// it.
    static PAGE: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());

    /// Returns the id of the process.
    #[inline]
    pub fn id() -> u32 {
        // SAFETY: the pointer is null or points to a page that was made below.
        let kept = unsafe { PAGE.load(Ordering::Acquire).as_ref() };
        match kept.map_or(0, |kept| kept.load(Ordering::Relaxed)) {
            0 => ask(),
            known => known,
        }
    }

    #[cold]
    fn ask() -> u32 {
        let id = std::process::id();
        // SAFETY: as above.
        if let Some(kept) = unsafe { PAGE.load(Ordering::Acquire).as_ref().or_else(make) } {
            kept.store(id, Ordering::Relaxed);
        }
        id
    }

    /// Creates the page. `None` if the kernel cannot clear it on fork.
    fn make() -> Option<&'static AtomicU32> {
        const LENGTH: usize = 4096;
        let (access, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new memory that nobody else knows yet.
        let page = unsafe { libc::mmap(ptr::null_mut(), LENGTH, access, kind, -1, 0) };
        if page == libc::MAP_FAILED {
            return None;
        }
        let new = page.cast::<AtomicU32>();
        // SAFETY: the page was mapped just now.
        let is_emptied = unsafe { libc::madvise(page, LENGTH, libc::MADV_WIPEONFORK) } == 0;
        let published = is_emptied
            && PAGE
                .compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok();
        if !published {
            // SAFETY: nobody else has seen the page.
            unsafe { libc::munmap(page, LENGTH) };
        }
        // SAFETY: the pointer is null or points to a page that was made here.
        unsafe { PAGE.load(Ordering::Acquire).as_ref() }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_forked_child_has_its_own() {
            assert_eq!(id(), std::process::id());
            assert_eq!(id(), std::process::id(), "as it was kept");
            // Forks without the C library, so that no fork handler runs.
            // SAFETY: the child only compares numbers and exits.
            let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
            if child == 0 {
                // SAFETY: plain calls. `getpid` is called directly, so the kernel's answer is not a
                // cached one.
                unsafe {
                    libc::_exit(i32::from(i64::from(id()) != libc::syscall(libc::SYS_getpid)))
                };
            }
            let mut status = 0;
            // SAFETY: `status` has room for the status of our child.
            assert_eq!(unsafe { libc::waitpid(child as i32, &raw mut status, 0) }, child as i32);
            assert_eq!(status, 0, "the child knows its own number");
        }
    }
}
