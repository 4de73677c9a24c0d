//! What percentages are measured against: an earlier sample of the same counter.
//!
//! The kernel counts processor time in ticks of 10 ms, so that a percentage over less means nothing. Two samples are kept, at
//! least a tick apart: a reading is compared with the newer one if that is a tick old, or else with the older.

use std::sync::{Arc, Mutex, PoisonError, TryLockError};

/// The kernel's tick.
pub(super) const TICK_NS: u64 = 10_000_000;

/// A reading and when it was taken.
#[derive(Debug)]
pub(super) struct Sample<T> {
    pub(super) at_ns: u64,
    pub(super) value: T,
}

/// The last two samples of a counter, for all threads.
#[derive(Debug)]
pub(super) struct Rolling<T> {
    samples: Mutex<Samples<T>>,
}

#[derive(Debug)]
struct Samples<T> {
    newer: Option<Arc<Sample<T>>>,
    older: Option<Arc<Sample<T>>>,
}

impl<T> Default for Rolling<T> {
    fn default() -> Self {
        Self { samples: Mutex::new(Samples { newer: None, older: None }) }
    }
}

impl<T> Rolling<T> {
    /// The sample to compare a reading with that is taken next; none before a tick has passed since the first. To be
    /// asked for before the reading: after it, others may have replaced both samples by newer ones.
    pub(super) fn base(&self, now_ns: impl FnOnce() -> u64) -> Option<Arc<Sample<T>>> {
        // Held for no longer than it takes to copy a pointer.
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let now_ns = now_ns();
        let is_old = |sample: &&Arc<Sample<T>>| now_ns.saturating_sub(sample.at_ns) >= TICK_NS;
        [&samples.newer, &samples.older].into_iter().flatten().find(is_old).cloned()
    }

    /// Offers a reading as a sample. It is kept if the last one is a tick old and nobody else is here.
    pub(super) fn offer(&self, at_ns: u64, value: impl FnOnce() -> T) {
        let mut samples = match self.samples.try_lock() {
            Ok(samples) => samples,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let last = samples.newer.as_ref().map(|sample| sample.at_ns);
        if last.is_none_or(|last| at_ns.saturating_sub(last) >= TICK_NS) {
            let sample = Arc::new(Sample { at_ns, value: value() });
            samples.older = samples.newer.replace(sample);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_is_compared_with_one_that_is_a_tick_old() {
        let rolling = Rolling::default();
        let base = |now| rolling.base(|| now).map(|sample| sample.value);
        assert_eq!(base(0), None);
        let ms = 1_000_000;
        for (now, expected) in [
            (0, None),
            (4, None),
            (10, Some(0)),
            (11, Some(0)),
            (19, Some(0)),
            (20, Some(10)),
            (21, Some(10)),
            (90, Some(20)),
        ] {
            assert_eq!(base(now * ms), expected, "at {now} ms");
            rolling.offer(now * ms, || now);
        }
    }
}
