//! Signal handling while a command runs: the command decides how to react to the terminal's
//! signals.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

/// The command's process id. 0 until the command has started.
static COMMAND: AtomicI32 = AtomicI32::new(0);
/// One bit for each signal to pass on to the command. A signal may arrive before its process id is
/// known.
static WAITING: AtomicU64 = AtomicU64::new(0);

const LEFT: [libc::c_int; 4] = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP];

extern "C" fn leave_to_the_command(signal: libc::c_int) {
    // The terminal already sends these two to the command.
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
            // SAFETY: `kill` may be called in a signal handler. The command has not been waited
            // for, so the process id is still its own.
            unsafe { libc::kill(command, signal) };
        }
    }
}

/// From now on, leaves signals that would end this program to the command. Installs handlers,
/// because the command would inherit ignored signals, but not handlers.
pub(crate) fn leave_to_command() {
    for signal in LEFT {
        let handler = leave_to_the_command as *const () as libc::sighandler_t;
        // SAFETY: the handler calls only functions that are allowed in a signal handler.
        unsafe { libc::signal(signal, handler) };
    }
}

/// Sets the process that signals are passed on to. 0 means none.
pub(crate) fn set_command(pid: u32) {
    COMMAND.store(i32::try_from(pid).unwrap_or(0), Ordering::SeqCst);
    pass_on();
}

/// Whether a signal has asked this program to end.
static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_: libc::c_int) {
    IS_INTERRUPTED.store(true, Ordering::SeqCst);
}

/// From now on, signals that would end this program only set a flag. A second Ctrl-C ends it
/// immediately.
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

/// Whether such a signal was received.
pub(crate) fn is_interrupted() -> bool {
    IS_INTERRUPTED.load(Ordering::SeqCst)
}

/// Makes orphaned descendants children of this process, so that they can still be found.
#[cfg(target_os = "linux")]
pub(crate) fn adopt_orphans() {
    // SAFETY: the call takes no pointers. If it fails, orphans are not found.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
}
