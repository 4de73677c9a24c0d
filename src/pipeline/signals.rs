//! Handles signals that would end the process: the records are stored first.
//!
//! A signal is only handled if the program has no handler for it. Our handler notes the signal and
//! wakes a thread. The thread stores everything, restores the default handler and sends the signal
//! again, so that the process ends as it would have without us. This uses no descriptor, because
//! the program may close any.
#![allow(unsafe_code)]

#[cfg(unix)]
use runlore_core::config;

/// Returns the name of a signal.
pub(super) fn name(signal: i32) -> String {
    match signal {
        2 => "SIGINT".to_owned(),
        15 => "SIGTERM".to_owned(),
        other => format!("signal {other}"),
    }
}

/// Installs handlers for signals that would end the process, unless the settings forbid it. Called
/// when the writer starts, which in a forked child happens again.
pub(super) fn watch_where_asked() {
    #[cfg(unix)]
    if config::settings().instrumentation.signals {
        unix::watch();
    }
}

#[cfg(unix)]
mod unix {
    use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
    use std::thread;
    use std::time::Duration;

    use crate::pipeline::signal::change;
    use crate::pipeline::{exit, recorder, rings};

    /// How long the end of the process may be delayed.
    const PATIENCE: Duration = Duration::from_secs(1);

    /// How often the thread checks for signals. A signal wakes it at once.
    const LOOK_AGAIN: Duration = Duration::from_secs(60);

    /// The pending signals, one bit each.
    static PENDING: AtomicU32 = AtomicU32::new(0);
    /// The process that the thread belongs to: a forked child has the handler but not the thread.
    static OWNER: AtomicI32 = AtomicI32::new(0);

    /// Installs handlers for SIGINT and SIGTERM if these would end the process.
    pub(in crate::pipeline) fn watch() {
        let ours: Vec<i32> = [libc::SIGINT, libc::SIGTERM]
            .into_iter()
            .filter(|signal| is_default(*signal) || is_ours(*signal))
            .collect();
        if ours.is_empty() {
            return;
        }
        let spawned = thread::Builder::new().name("runlore-signals".to_owned()).spawn(move || {
            rings::silence_thread();
            wait();
        });
        if spawned.is_err() {
            return;
        }
        // SAFETY: getpid has no preconditions.
        OWNER.store(unsafe { libc::getpid() }, Ordering::Relaxed);
        for signal in ours {
            set(signal, handler());
        }
    }

    fn handler() -> libc::sighandler_t {
        on_signal as *const () as libc::sighandler_t
    }

    extern "C" fn on_signal(signal: libc::c_int) {
        // SAFETY: only functions that a signal handler may call: atomics, getpid, a wake-up by the
        // kernel, signal, raise.
        unsafe {
            let error = *errno();
            if libc::getpid() == OWNER.load(Ordering::Relaxed) {
                PENDING.fetch_or(1 << signal, Ordering::Release);
                change::tell(&PENDING);
            } else {
                libc::signal(signal, libc::SIG_DFL);
                libc::raise(signal);
            }
            *errno() = error;
        }
    }

    /// Returns the address of the thread's `errno`, which a handler must preserve.
    ///
    /// # Safety
    /// It has no preconditions. The pointer is valid for the calling thread.
    unsafe fn errno() -> *mut libc::c_int {
        // SAFETY: each of these returns an address that is valid as long as the thread lives.
        unsafe {
            #[cfg(any(target_os = "linux", target_os = "emscripten", target_os = "hurd"))]
            return libc::__errno_location();
            #[cfg(any(target_vendor = "apple", target_os = "freebsd", target_os = "dragonfly"))]
            return libc::__error();
            #[cfg(any(target_os = "android", target_os = "netbsd", target_os = "openbsd"))]
            return libc::__errno();
        }
    }

    fn wait() {
        loop {
            change::wait(&PENDING, 0, LOOK_AGAIN);
            let pending = PENDING.swap(0, Ordering::Acquire);
            let signals = [libc::SIGINT, libc::SIGTERM].into_iter();
            for signal in signals.filter(|signal| pending & 1 << signal != 0) {
                if !is_ours(signal) {
                    // Another handler replaced ours and called it. That handler decides what the signal means.
                    _ = recorder::flush();
                    continue;
                }
                exit::end_by_signal(signal, PATIENCE);
                set(signal, libc::SIG_DFL);
                // SAFETY: this sends a signal to our own process.
                unsafe { libc::kill(libc::getpid(), signal) };
            }
        }
    }

    fn disposition(signal: i32) -> Option<libc::sighandler_t> {
        // SAFETY: a zeroed `sigaction` is a valid output buffer.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: this only queries the current action.
        let failed = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) } != 0;
        (!failed).then_some(action.sa_sigaction)
    }

    fn is_default(signal: i32) -> bool {
        disposition(signal) == Some(libc::SIG_DFL)
    }

    fn is_ours(signal: i32) -> bool {
        disposition(signal) == Some(handler())
    }

    fn set(signal: i32, handler: libc::sighandler_t) {
        // SAFETY: a zeroed `sigaction` is valid, and has an empty mask.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_RESTART;
        // SAFETY: the handler is SIG_DFL, or a function that follows the rules for signal handlers.
        unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    }
}
