//! The end of the process: whatever is recorded by then must reach its store.
#![allow(unsafe_code)]

/// Sees to it that a normal exit of the process ends all runs.
pub(super) fn watch() {
    #[cfg(unix)]
    {
        // SAFETY: `at_exit` is a plain function that neither unwinds nor needs anything that is gone by then.
        unsafe { libc::atexit(at_exit) };
    }
}

#[cfg(unix)]
extern "C" fn at_exit() {
    // A panic must not cross into C.
    _ = std::panic::catch_unwind(super::writer::end_process);
}
