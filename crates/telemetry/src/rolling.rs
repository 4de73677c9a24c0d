//! Earlier samples of a counter, from which percentages are computed.
//!
//! The kernel counts CPU time in ticks of 10 ms, so a percentage over a shorter interval is
//! meaningless. Two samples are kept, at least one tick apart. A reading is compared with the newer
//! one if that is at least one tick old, and otherwise with the older one.

use std::sync::{Arc, Mutex, PoisonError, TryLockError};

/// One tick of the kernel's clock.
pub(super) const TICK_NS: u64 = 10_000_000;

/// A reading and the time it was taken.
#[derive(Debug)]
pub(super) struct Sample<T> {
    pub(super) at_ns: u64,
    pub(super) value: T,
}

/// The last two samples of a counter, shared by all threads.
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
    /// Returns the sample to compare the next reading with. `None` until one tick has passed since
    /// the first sample.
    ///
    /// Call it before the reading. After it, other threads may have replaced both samples with
    /// newer ones.
    pub(super) fn base(&self, now_ns: impl FnOnce() -> u64) -> Option<Arc<Sample<T>>> {
        // Held only while a pointer is copied.
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let now_ns = now_ns();
        let is_old = |sample: &&Arc<Sample<T>>| now_ns.saturating_sub(sample.at_ns) >= TICK_NS;
        [&samples.newer, &samples.older].into_iter().flatten().find(is_old).cloned()
    }

    /// Offers a reading as a sample. It is kept if the newest sample is at least one tick old and
    /// no other thread holds the lock.
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
