//! The health of a collector: whether it reads all its counters, and when to retry if it reads
//! nothing.

use std::sync::Arc;

use serde_json::{Map, Value, json};

const FIRST_WAIT_NS: u64 = 1_000_000_000;
const LONGEST_WAIT_NS: u64 = 30_000_000_000;

/// The health of a collector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Health {
    pub(super) status: &'static str,
    pub(super) missing: Vec<&'static str>,
    pub(super) last_error: Option<String>,
    pub(super) failures: u64,
    /// When to retry, on the tracker's clock.
    pub(super) retry_at_ns: Option<u64>,
}

pub(super) const HEALTHY: &str = "healthy";
pub(super) const DEGRADED: &str = "degraded";
pub(super) const UNHEALTHY: &str = "unhealthy";

/// A change in the health of a collector.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    Nothing,
    /// The collector lacks counters or fails, and did not before.
    Worse,
    /// The collector reads all counters again.
    Better {
        from: &'static str,
        error: Option<String>,
        failures: u64,
    },
}

impl Default for Health {
    fn default() -> Self {
        Self {
            status: HEALTHY,
            missing: Vec::new(),
            last_error: None,
            failures: 0,
            retry_at_ns: None,
        }
    }
}

impl Health {
    /// Whether it is time to read.
    pub(super) fn is_due(&self, now_ns: impl FnOnce() -> u64) -> bool {
        self.retry_at_ns.is_none_or(|at| now_ns() >= at)
    }

    /// Records a successful read that lacks these counters.
    pub(super) fn read(this: &mut Arc<Self>, missing: Vec<&'static str>) -> Change {
        if missing.is_empty() {
            if this.status == HEALTHY {
                return Change::Nothing;
            }
            let before = std::mem::take(this);
            let Self { status, ref last_error, failures, .. } = *before;
            return Change::Better { from: status, error: last_error.clone(), failures };
        }
        let change = if this.status == HEALTHY { Change::Worse } else { Change::Nothing };
        if this.status != DEGRADED || this.missing != missing {
            let error = format!("not known: {}", missing.join(", "));
            *this = Arc::new(Self {
                status: DEGRADED,
                missing,
                last_error: Some(error),
                failures: 0,
                retry_at_ns: None,
            });
        }
        change
    }

    /// Records a failed read.
    pub(super) fn failed(this: &mut Arc<Self>, error: String, now_ns: u64) -> Change {
        let change = if this.status == UNHEALTHY { Change::Nothing } else { Change::Worse };
        let failures = this.failures + 1;
        let wait = FIRST_WAIT_NS.saturating_mul(1 << (failures - 1).min(8)).min(LONGEST_WAIT_NS);
        *this = Arc::new(Self {
            status: UNHEALTHY,
            missing: Vec::new(),
            last_error: Some(error),
            failures,
            retry_at_ns: Some(now_ns + wait),
        });
        change
    }

    /// The keys in the metadata of events.
    pub(super) const NAMES: [&str; 6] = [
        "collector_health_status",
        "telemetry_partial",
        "collector_partial_fields",
        "collector_last_error",
        "collector_consecutive_failures",
        "collector_next_retry_epoch_s",
    ];

    /// Adds the health to the metadata of an event.
    pub(super) fn put(&self, metadata: &mut Map<String, Value>) {
        let partial = self.status == DEGRADED;
        let retry = self.retry_at_ns.map(|at| at as f64 / 1e9);
        let values = [
            json!(self.status),
            json!(partial),
            json!(self.missing),
            json!(self.last_error),
            json!(self.failures),
            json!(retry),
        ];
        for (name, value) in Self::NAMES.into_iter().zip(values) {
            metadata.insert(name.to_owned(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_that_fails_is_tried_again_later_and_later() {
        let mut health = Arc::new(Health::default());
        let mut now = 0;
        let mut waits = Vec::new();
        for at in 0..7 {
            let change = Health::failed(&mut health, "gone".to_owned(), now);
            assert_eq!(change == Change::Worse, at == 0, "it is told once");
            assert!(!health.is_due(|| now));
            let next = health.retry_at_ns.unwrap();
            waits.push((next - now) / 1_000_000_000);
            now = next;
            assert!(health.is_due(|| now));
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30]);
        let better = Health::read(&mut health, Vec::new());
        let expected =
            Change::Better { from: UNHEALTHY, error: Some("gone".to_owned()), failures: 7 };
        assert_eq!(better, expected);
        assert_eq!(*health, Health::default());
    }
}
