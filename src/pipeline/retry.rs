//! The delay before a retry: longer each time, with jitter.

use std::time::Duration;

use runlore_core::record::Id;

/// The first delay and the longest.
const WAITS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Computes the delays before retries. Each is twice as long as the previous one, plus up to a
/// quarter of random jitter, so that many processes do not return to a server at once.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Backoff {
    last: Option<Duration>,
}

impl Backoff {
    pub(super) fn next(&mut self) -> Duration {
        let wait = self.last.map_or(WAITS.0, |last| (last * 2).min(WAITS.1));
        self.last = Some(wait);
        let chance = f64::from(Id::new().to_bits() as u16) / f64::from(u16::MAX);
        wait.mul_f64(1.0 + chance / 4.0)
    }

    /// Resets the delay, after a success or before an immediate retry.
    pub(super) fn reset(&mut self) {
        self.last = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_differ_by_chance() {
        let mut backoff = Backoff::default();
        let waits: Vec<_> = (0..10).map(|_| backoff.next()).collect();
        assert!(waits[0] >= WAITS.0 && waits[0] <= WAITS.0 * 5 / 4);
        assert!(waits[2] >= WAITS.0 * 4 && waits[2] <= WAITS.0 * 5);
        assert!(waits[9] >= WAITS.1 && waits[9] <= WAITS.1 * 5 / 4);
        let last: std::collections::HashSet<_> = (0..20).map(|_| backoff.next()).collect();
        assert!(last.len() > 1);
        backoff.reset();
        assert!(backoff.next() <= WAITS.0 * 5 / 4);
    }
}
