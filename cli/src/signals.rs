//! While a command runs, the terminal's signals are its own: it is the command that decides what they mean.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicI32, Ordering};

static COMMAND: AtomicI32 = AtomicI32::new(0);

extern "C" fn leave_to_the_command(signal: libc::c_int) {
    let command = COMMAND.load(Ordering::Relaxed);
    // The terminal sends these two to the command by itself.
    if command > 0 && !matches!(signal, libc::SIGINT | libc::SIGQUIT) {
        // SAFETY: kill may be called in a signal handler; the command has not been waited for, so the number is its.
        unsafe { libc::kill(command, signal) };
    }
}

/// From here on signals that would end this program are left to the command. A handler, because unlike
/// "ignore" it is not handed down to the command.
pub(crate) fn leave_to_command() {
    for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP] {
        let handler = leave_to_the_command as *const () as libc::sighandler_t;
        // SAFETY: the handler calls nothing that a signal handler must not.
        unsafe { libc::signal(signal, handler) };
    }
}

/// Tells which process signals are passed on to; 0 for none.
pub(crate) fn set_command(pid: u32) {
    COMMAND.store(i32::try_from(pid).unwrap_or(0), Ordering::Relaxed);
}
