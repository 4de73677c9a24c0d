//! The monotonic clock, and wall time derived from it.
//!
//! Reading a clock is most of a task's cost, so a task reads only the monotonic clock, twice. Wall
//! time is that reading plus an offset, which the writer thread refreshes.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

static WALL_MINUS_MONOTONIC: AtomicI64 = AtomicI64::new(0);

/// Reads the monotonic clock, in nanoseconds.
#[cfg(unix)]
#[inline]
#[allow(unsafe_code)]
pub fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid place for a timespec; CLOCK_MONOTONIC always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Reads the monotonic clock, in nanoseconds.
#[cfg(not(unix))]
pub(crate) fn monotonic_ns() -> u64 {
    use std::sync::OnceLock;
    use std::time::Instant;
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    ORIGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Returns the processor time of the calling thread in nanoseconds. 0 if the system does not count
/// it.
pub fn thread_cpu_ns() -> u64 {
    #[cfg(unix)]
    return cpu_ns(libc::CLOCK_THREAD_CPUTIME_ID);
    #[cfg(not(unix))]
    return 0;
}

/// Returns the processor time of all threads of the process in nanoseconds. 0 if the system does
/// not count it.
pub fn process_cpu_ns() -> u64 {
    #[cfg(unix)]
    return cpu_ns(libc::CLOCK_PROCESS_CPUTIME_ID);
    #[cfg(not(unix))]
    return 0;
}

/// Returns how many nanoseconds the process's main thread was ready to run but waited for a
/// processor. 0 if the system does not count it.
pub fn run_delay_ns() -> u64 {
    let counted = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    counted.split_whitespace().nth(1).and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

#[cfg(unix)]
#[allow(unsafe_code)]
fn cpu_ns(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid place for a timespec. If the clock does not exist, it stays zero.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Refreshes the offset between the two clocks, which drifts as the system adjusts its wall clock.
pub fn anchor() {
    let before = monotonic_ns();
    let wall = system_ns();
    let after = monotonic_ns();
    let middle = before + (after - before) / 2;
    WALL_MINUS_MONOTONIC.store(wall as i64 - middle as i64, Ordering::Relaxed);
}

/// Returns the system's wall time in nanoseconds since 1970. Needs no call of [`anchor`].
pub(crate) fn system_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// Converts a monotonic reading to wall time, in nanoseconds since 1970.
#[inline]
pub fn wall_ns(monotonic: u64) -> u64 {
    (monotonic as i64 + WALL_MINUS_MONOTONIC.load(Ordering::Relaxed)) as u64
}

/// Converts nanoseconds to seconds, as records store them.
pub fn seconds(ns: u64) -> f64 {
    // Dividing the whole number loses no precision that a float of this size could have.
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_time_follows_the_system_clock() {
        anchor();
        let before = system_ns();
        let ours = wall_ns(monotonic_ns());
        let after = system_ns();
        // The system may slow down or speed up its own clock a little to correct it.
        const SLEW: u64 = 1_000_000_000;
        assert!((before - SLEW..=after + SLEW).contains(&ours), "{before} {ours} {after}");
    }
}
