//! Time a thread or the process spent on a processor.
#![allow(unsafe_code)]

/// Nanoseconds that the calling thread spent on a processor: others that run at the same time do not count.
pub(crate) fn thread_cpu_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Nanoseconds that all threads of the process spent on processors.
pub(crate) fn process_cpu_ns() -> u64 {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid place for a timespec.
    let result = unsafe { libc::clock_gettime(clock, &raw mut now) };
    assert_eq!(result, 0, "this system has no clock of processor time");
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A system call that nothing else makes, to mark a place in a trace of system calls.
pub(crate) fn mark() {
    // SAFETY: getppid has no preconditions.
    unsafe { libc::getppid() };
}

/// The name of that call in a trace.
pub(crate) const MARK: &str = "getppid(";
