//! Measures how long a reading takes.

use std::time::{Duration, Instant};

/// Number of measurements. The first ones are slower, because they open files.
const TIMES: usize = 9;

/// Returns the median duration of several runs of `work`.
pub(super) fn of(mut work: impl FnMut()) -> Duration {
    let mut times = [(); TIMES].map(|()| {
        let before = Instant::now();
        work();
        before.elapsed()
    });
    times.sort_unstable();
    times[TIMES / 2]
}
