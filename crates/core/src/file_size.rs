//! A limit on the size of files (`ulimit -f`) must not end the program because of us.
//!
//! A write past the limit sends SIGXFSZ to the thread that writes, and that ends a process which does not ignore it. Here the
//! write only fails.
#![allow(unsafe_code)]

/// For a thread of the recorder's own: from here on such writes only fail.
pub fn never_signal_thread() {
    #[cfg(target_os = "linux")]
    block();
}

/// Runs work that writes files on the program's own thread.
pub fn without_signal<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(target_os = "linux")]
    let _unblock = Unblock { before: block(), was_pending: is_pending() };
    work()
}

/// Puts things back as they were, however the work ends.
#[cfg(target_os = "linux")]
struct Unblock {
    before: libc::sigset_t,
    was_pending: bool,
}

#[cfg(target_os = "linux")]
impl Drop for Unblock {
    fn drop(&mut self) {
        if !self.was_pending && is_pending() {
            let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: takes the signal that our own write caused; it waits for none.
            unsafe { libc::sigtimedwait(&only_ours(), std::ptr::null_mut(), &raw const now) };
        }
        // SAFETY: the mask is the one that the thread had.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut())
        };
    }
}

#[cfg(target_os = "linux")]
fn only_ours() -> libc::sigset_t {
    // SAFETY: a zeroed set is a place for `sigemptyset`, which makes it a set.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGXFSZ);
        set
    }
}

/// Holds the signal back from the calling thread; returns the mask before.
#[cfg(target_os = "linux")]
fn block() -> libc::sigset_t {
    let mut before = only_ours();
    // SAFETY: two valid sets; only the calling thread's mask changes.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &only_ours(), &raw mut before) };
    before
}

#[cfg(target_os = "linux")]
fn is_pending() -> bool {
    let mut pending = only_ours();
    // SAFETY: a place for the answer, and a set that it filled.
    unsafe {
        libc::sigpending(&raw mut pending);
        libc::sigismember(&raw const pending, libc::SIGXFSZ) == 1
    }
}
