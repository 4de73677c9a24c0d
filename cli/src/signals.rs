//! While a command runs, the terminal's signals are its own: it is the command that decides what they mean.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

/// The command's process; 0 while there is none.
static COMMAND: AtomicI32 = AtomicI32::new(0);
/// A bit for each signal that the command is still to get: it may come before we know the command's number.
static WAITING: AtomicU64 = AtomicU64::new(0);

const LEFT: [libc::c_int; 4] = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP];

extern "C" fn leave_to_the_command(signal: libc::c_int) {
    // The terminal sends these two to the command by itself.
    if !matches!(signal, libc::SIGINT | libc::SIGQUIT) {
        WAITING.fetch_or(1 << signal, Ordering::SeqCst);
        pass_on();
    }
}

fn pass_on() {
    let command = COMMAND.load(Ordering::SeqCst);
    if command > 0 {
        let waiting = WAITING.swap(0, Ordering::SeqCst);
        for signal in LEFT.into_iter().filter(|signal| waiting & (1 << signal) != 0) {
            // SAFETY: kill may be called in a signal handler; the command has not been waited for, so the number is its.
            unsafe { libc::kill(command, signal) };
        }
    }
}

/// From here on signals that would end this program are left to the command. A handler, because unlike
/// "ignore" it is not handed down to the command.
pub(crate) fn leave_to_command() {
    for signal in LEFT {
        let handler = leave_to_the_command as *const () as libc::sighandler_t;
        // SAFETY: the handler calls nothing that a signal handler must not.
        unsafe { libc::signal(signal, handler) };
    }
}

/// Tells which process signals are passed on to; 0 for none.
pub(crate) fn set_command(pid: u32) {
    COMMAND.store(i32::try_from(pid).unwrap_or(0), Ordering::SeqCst);
    pass_on();
}

/// Whether somebody wants this program to end.
static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_: libc::c_int) {
    IS_INTERRUPTED.store(true, Ordering::SeqCst);
}

/// From here on signals that would end this program are only noted. A second Ctrl-C is not: it ends it at once.
pub(crate) fn note_interrupts() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: zeros are a valid action; the handler only stores a flag.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = note as *const () as libc::sighandler_t;
            action.sa_flags = libc::SA_RESETHAND;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

/// Whether such a signal came.
pub(crate) fn is_interrupted() -> bool {
    IS_INTERRUPTED.load(Ordering::SeqCst)
}

/// Lets processes whose parents have ended become children of this one, so that they are still found.
#[cfg(target_os = "linux")]
pub(crate) fn adopt_orphans() {
    // SAFETY: a plain call. Where it fails, orphans are not found.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
}
