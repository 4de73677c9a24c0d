//! The state of one device from sample to sample.

use std::sync::Arc;

use super::collector::{About, Reading};
use super::entry::{DeviceFacts, State};
use super::health::{self, Change, Health};
use super::watch::Watch;

#[derive(Debug)]
pub(super) struct Device {
    pub(super) facts: Arc<DeviceFacts>,
    pub(super) health: Arc<Health>,
    pub(super) watch: Watch,
    pub(super) last: Arc<Reading>,
    /// The state of the last event about the device.
    pub(super) state: Option<Arc<State>>,
    last_allocated: Option<u64>,
    pub(super) total: Option<u64>,
    pub(super) peak: u64,
    pub(super) peak_used: u64,
    pub(super) allocations: u64,
    pub(super) allocated_bytes: u64,
    pub(super) deallocations: u64,
    pub(super) deallocated_bytes: u64,
    pub(super) samples: u64,
    pub(super) last_check_ns: Option<u64>,
}

/// The result of a sample.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) health: Change,
    /// `None` if there is no earlier value to compare with.
    pub(super) change: Option<i64>,
    pub(super) is_peak: bool,
}

impl Device {
    pub(super) fn new(about: About) -> Self {
        Self {
            facts: Arc::new(DeviceFacts::new(about)),
            health: Arc::default(),
            watch: Watch::default(),
            last: Arc::default(),
            state: None,
            last_allocated: None,
            total: None,
            peak: 0,
            peak_used: 0,
            allocations: 0,
            allocated_bytes: 0,
            deallocations: 0,
            deallocated_bytes: 0,
            samples: 0,
            last_check_ns: None,
        }
    }

    pub(super) fn id(&self) -> i64 {
        self.facts.about.device_id
    }

    /// Makes the first reading the baseline for changes.
    pub(super) fn begin(&mut self, reading: &Reading) {
        if self.samples > 0 {
            return;
        }
        let reading = reading.within(self.facts.about.supported);
        self.total = reading.total;
        self.last_allocated = reading.allocated;
        self.last = Arc::new(reading);
    }

    /// Handles a reading that equals the previous one, and returns the change in allocated bytes.
    /// Such a reading causes no event except its sample: no peak, no new alert, and no change in
    /// health. `None` if the reading differs.
    pub(super) fn take_again(&mut self, reading: &Reading, now_ns: u64) -> Option<Option<i64>> {
        if self.samples == 0 || self.health.status != health::HEALTHY || *self.last != *reading {
            return None;
        }
        self.last_check_ns = Some(now_ns);
        self.samples += 1;
        Some(reading.allocated.map(|_| 0))
    }

    /// Handles a reading.
    pub(super) fn take(&mut self, reading: Reading, now_ns: u64) -> Step {
        let supported = self.facts.about.supported;
        let reading = reading.within(supported);
        let health = Health::read(&mut self.health, supported.missing(&reading));
        if *self.last != reading {
            self.last = Arc::new(reading);
        }
        self.last_check_ns = Some(now_ns);
        self.samples += 1;
        self.total = reading.total.or(self.total);
        self.peak_used = self.peak_used.max(reading.used.unwrap_or(0));
        let change = reading.allocated.zip(self.last_allocated).map(|(now, before)| {
            let grown = i128::from(now) - i128::from(before);
            i64::try_from(grown).unwrap_or(if grown > 0 { i64::MAX } else { i64::MIN })
        });
        self.last_allocated = reading.allocated.or(self.last_allocated);
        let is_peak = reading.allocated.is_some_and(|allocated| allocated > self.peak);
        self.peak = self.peak.max(reading.allocated.unwrap_or(0));
        let bytes = change.map_or(0, i64::unsigned_abs);
        if change > Some(0) {
            self.allocations += 1;
            self.allocated_bytes = self.allocated_bytes.saturating_add(bytes);
        } else if bytes > 0 {
            self.deallocations += 1;
            self.deallocated_bytes = self.deallocated_bytes.saturating_add(bytes);
        }
        Step { health, change, is_peak }
    }

    /// Handles a failed reading.
    pub(super) fn fail(&mut self, error: String, now_ns: u64) -> Change {
        Health::failed(&mut self.health, error, now_ns)
    }

    pub(super) fn is_partial(&self) -> bool {
        self.health.status == health::DEGRADED
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tracker::Alerts;
    use crate::tracker::host_memory;

    fn reading() -> impl Strategy<Value = Reading> {
        let bytes = || proptest::option::of(0..100_u64);
        (bytes(), bytes(), bytes()).prop_map(|(allocated, used, free)| Reading {
            allocated,
            reserved: allocated,
            used,
            free,
            total: Some(100),
            ..Reading::default()
        })
    }

    proptest! {
        #[test]
        fn a_reading_that_comes_again_brings_nothing_new(readings in proptest::collection::vec(reading(), 1..20)) {
            let mut device = Device::new(host_memory::about("process"));
            let alerts = Alerts::default();
            for (now, reading) in (0..).step_by(2).zip(readings) {
                let step = device.take(reading, now);
                device.watch.judge(&alerts, &reading, step.change, now);
                let before = format!("{device:?}");
                let Some(change) = device.take_again(&reading, now + 1) else {
                    prop_assert!(device.is_partial());
                    continue;
                };
                let after = format!("{device:?}");
                // Compare with the slow path.
                (device.samples, device.last_check_ns) = (device.samples - 1, Some(now));
                prop_assert_eq!(format!("{device:?}"), before);
                let step = device.take(reading, now + 1);
                prop_assert_eq!((step.change, step.is_peak, step.health), (change, false, Change::Nothing));
                prop_assert!(device.watch.judge(&alerts, &reading, step.change, now + 1).is_empty());
                prop_assert_eq!(format!("{device:?}"), after);
            }
        }
    }
}
