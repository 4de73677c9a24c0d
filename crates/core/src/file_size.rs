//! Keeps a limit on file sizes (`ulimit -f`) from ending the program because of our writes.
//!
//! A write past the limit sends SIGXFSZ to the writing thread, which ends the process unless the
//! signal is ignored. Here the write only fails.
#![allow(unsafe_code)]

/// Blocks the signal on a thread of the recorder: from now on writes past the limit only fail.
pub fn never_signal_thread() {
    #[cfg(target_os = "linux")]
    block();
}

/// Runs `work`, which writes files, on a thread of the program. Blocks the signal meanwhile.
pub fn without_signal<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(target_os = "linux")]
    let _unblock = Unblock { before: block(), was_pending: is_pending() };
    work()
}

/// Restores the signal mask, however the work ends.
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
            // SAFETY: takes the signal that our own write caused; it does not wait.
            unsafe { libc::sigtimedwait(&only_ours(), std::ptr::null_mut(), &raw const now) };
        }
        // SAFETY: the mask is the thread's previous one.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut())
        };
    }
}

#[cfg(target_os = "linux")]
fn only_ours() -> libc::sigset_t {
    // SAFETY: a zeroed set is valid memory for `sigemptyset`, which initialises it.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGXFSZ);
        set
    }
}

/// Blocks the signal on the calling thread. Returns the previous mask.
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
    // SAFETY: `pending` is valid memory for `sigpending`, which fills it before it is read.
    unsafe {
        libc::sigpending(&raw mut pending);
        libc::sigismember(&raw const pending, libc::SIGXFSZ) == 1
    }
}
