//! What a reading costs.

use std::time::{Duration, Instant};

/// How often it is tried: the first ones open files.
const TIMES: usize = 9;

/// How long the work takes: the middle one of several times.
pub(super) fn of(mut work: impl FnMut()) -> Duration {
    let mut times = [(); TIMES].map(|()| {
        let before = Instant::now();
        work();
        before.elapsed()
    });
    times.sort_unstable();
    times[TIMES / 2]
}
