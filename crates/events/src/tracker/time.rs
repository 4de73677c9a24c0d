//! Timestamps that never go back: the monotonic clock plus the wall time at the start of tracking.

use runlore_core::clock;

/// A larger difference between the two clocks means that the wall clock was set. A smaller one may
/// be imprecision.
const STEP_NS: i64 = 1_000_000_000;

/// The minimum time between two checks of the wall clock.
const LOOK_NS: u64 = 500_000_000;

/// The clock of a tracker.
pub(super) struct Clock {
    /// Both clocks return nanoseconds.
    monotonic: Box<dyn Fn() -> u64 + Send>,
    wall: Box<dyn Fn() -> u64 + Send>,
    offset: i64,
    /// The difference between the wall clock and the timestamps.
    apart: i64,
    /// When to check the wall clock next.
    due_ns: u64,
}

impl Clock {
    pub(super) fn system() -> Self {
        Self::new(clock::monotonic_ns, || {
            let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            wall.map_or(0, |wall| wall.as_nanos() as u64)
        })
    }

    pub(super) fn new(
        monotonic: impl Fn() -> u64 + Send + 'static,
        wall: impl Fn() -> u64 + Send + 'static,
    ) -> Self {
        let offset = wall() as i64 - monotonic() as i64;
        Self { offset, monotonic: Box::new(monotonic), wall: Box::new(wall), apart: 0, due_ns: 0 }
    }

    /// Returns Unix nanoseconds that never go back.
    pub(super) fn now(&self) -> u64 {
        (self.monotonic)().saturating_add_signed(self.offset)
    }

    /// Returns by how much the wall clock was set since the last check. `None` if it was not set.
    /// Checks at most twice a second.
    ///
    /// The timestamps follow a clock that was set forward. They ignore one that was set back,
    /// because later events must have later timestamps.
    pub(super) fn step(&mut self) -> Option<i64> {
        let now = self.now();
        if now < self.due_ns {
            return None;
        }
        self.due_ns = now + LOOK_NS;
        let apart = (self.wall)() as i64 - now as i64;
        let step = apart - self.apart;
        if step.abs() < STEP_NS {
            return None;
        }
        if apart > 0 {
            self.offset += apart;
            self.apart = 0;
        } else {
            self.apart = apart;
        }
        Some(step)
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clock").field("offset", &self.offset).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn stamps_follow_a_clock_that_is_set_forward_and_never_go_back() {
        const S: u64 = 1_000_000_000;
        let (monotonic, wall) =
            (Arc::new(AtomicU64::new(5 * S)), Arc::new(AtomicU64::new(1000 * S)));
        let clocks = (Arc::clone(&monotonic), Arc::clone(&wall));
        let mut clock = Clock::new(
            move || clocks.0.load(Ordering::Relaxed),
            move || clocks.1.load(Ordering::Relaxed),
        );
        let mut at = |passed: u64, set: i64| {
            monotonic.fetch_add(passed * S, Ordering::Relaxed);
            let wall_then = wall.load(Ordering::Relaxed) + passed * S;
            wall.store(wall_then.saturating_add_signed(set * S as i64), Ordering::Relaxed);
            (clock.step().map(|step| step / S as i64), clock.now() / S)
        };
        assert_eq!(at(1, 0), (None, 1001));
        assert_eq!(at(1, -600), (Some(-600), 1002));
        assert_eq!(at(1, 0), (None, 1003));
        assert_eq!(at(1, 600), (Some(600), 1004));
        assert_eq!(at(1, 60), (Some(60), 1065));
        assert_eq!(at(1, 0), (None, 1066));
    }
}
