//! Decides which alerts a reading raises.

use std::collections::{BTreeMap, VecDeque};

use super::alerts::{AlertKind, Alerts, Level, Thresholds};
use super::collector::Reading;
use super::words::{bytes, percent};

/// An alert before it becomes an event.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct NewAlert {
    pub(super) kind: AlertKind,
    pub(super) level: Level,
    pub(super) value: f64,
    pub(super) message: String,
    pub(super) suppressed: u64,
}

/// A kind of alert with its value and its thresholds.
type Watched = (AlertKind, Option<f64>, Option<Thresholds>);

/// The alert state of one device.
#[derive(Debug, Default)]
pub(super) struct Watch {
    levels: BTreeMap<AlertKind, Level>,
    told: BTreeMap<(AlertKind, Level), RaisedAlerts>,
    /// The size of the device's memory. Kept for readings that lack it.
    total: Option<u64>,
}

/// When alerts of one kind and level were raised.
#[derive(Debug, Default)]
struct RaisedAlerts {
    at_ns: VecDeque<u64>,
    suppressed: u64,
}

impl Watch {
    /// Returns the alerts of a reading, ordered by kind.
    pub(super) fn judge(
        &mut self,
        alerts: &Alerts,
        reading: &Reading,
        change: Option<i64>,
        now_ns: u64,
    ) -> Vec<NewAlert> {
        self.total = reading.total.or(self.total);
        let mut found: Vec<NewAlert> = self
            .values(alerts, reading)
            .into_iter()
            .filter_map(|(kind, value, thresholds)| {
                self.risen(alerts.hysteresis, kind, value?, thresholds?)
            })
            .collect();
        if let (Some(jump), Some(change)) = (alerts.jump, change)
            && u64::try_from(change).is_ok_and(|change| change > jump)
        {
            found.push(NewAlert::new(AlertKind::Jump, Level::Warning, change as f64));
            found.sort_by_key(|alert| alert.kind);
        }
        found.retain_mut(|alert| self.may_tell(alerts, alert, now_ns));
        found
    }

    /// Returns the watched values with their thresholds. Unknown values are `None`.
    fn values(&self, alerts: &Alerts, reading: &Reading) -> [Watched; 6] {
        let share = |part: Option<u64>, whole: Option<u64>| {
            let whole = whole.filter(|whole| *whole > 0)?;
            Some(part? as f64 / whole as f64)
        };
        let percent = |part, whole| share(part, whole).map(|share| share * 100.0);
        let host = reading.host.unwrap_or_default();
        let used = reading.used.or(reading.allocated);
        // The kernel reclaims file cache before it kills processes.
        let held =
            host.container_used.map(|used| used.saturating_sub(host.container_cache.unwrap_or(0)));
        let fragmented = alerts.fragmentation.map(|part| (part, f64::INFINITY));
        [
            (AlertKind::Memory, percent(used, self.total), alerts.memory),
            (AlertKind::Container, percent(held, host.container_limit), alerts.container),
            (AlertKind::Resident, host.rss.map(|rss| rss as f64), alerts.resident),
            (AlertKind::Swap, percent(host.swap_used, host.swap_total), alerts.swap),
            (AlertKind::Pressure, host.pressure, alerts.pressure),
            (AlertKind::Fragmentation, share(reading.inactive, reading.reserved), fragmented),
        ]
    }

    /// Returns an alert if a value has risen to a higher level.
    fn risen(
        &mut self,
        hysteresis: f64,
        kind: AlertKind,
        value: f64,
        (warning, critical): Thresholds,
    ) -> Option<NewAlert> {
        let before = self.levels.get(&kind).copied();
        let risen = [(critical, Level::Critical), (warning, Level::Warning)]
            .into_iter()
            .find(|(threshold, level)| {
                let is_at = before.is_some_and(|before| before >= *level);
                let held = threshold * (1.0 - hysteresis);
                value >= *threshold || is_at && value >= held
            })
            .map(|(_, level)| level);
        match risen {
            Some(level) => _ = self.levels.insert(kind, level),
            None => _ = self.levels.remove(&kind),
        }
        let is_new = |level: &Level| before.is_none_or(|before| *level > before);
        risen.filter(is_new).map(|level| NewAlert::new(kind, level, value))
    }

    /// Whether the rate limit allows an alert. Counts it as suppressed if not.
    fn may_tell(&mut self, alerts: &Alerts, alert: &mut NewAlert, now_ns: u64) -> bool {
        let (most, period) = alerts.rate;
        let period_ns = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
        let told = self.told.entry((alert.kind, alert.level)).or_default();
        while told.at_ns.front().is_some_and(|at| now_ns.saturating_sub(*at) >= period_ns) {
            told.at_ns.pop_front();
        }
        if told.at_ns.len() >= most {
            told.suppressed += 1;
            return false;
        }
        told.at_ns.push_back(now_ns);
        alert.suppressed = std::mem::take(&mut told.suppressed);
        true
    }

    /// Returns the number of suppressed alerts that no later alert has reported yet.
    pub(super) fn suppressed(&self) -> u64 {
        self.told.values().map(|told| told.suppressed).sum()
    }
}

impl NewAlert {
    fn new(kind: AlertKind, level: Level, value: f64) -> Self {
        Self { kind, level, value, message: message(kind, level, value), suppressed: 0 }
    }

    /// Returns the name of the value in the event's metadata.
    pub(super) fn value_name(&self) -> &'static str {
        match self.kind {
            AlertKind::Resident => "rss_bytes",
            AlertKind::Jump => "jump_bytes",
            AlertKind::Fragmentation => "fragmentation",
            AlertKind::Pressure => "memory_pressure_percent",
            _ => "usage_percent",
        }
    }
}

fn message(kind: AlertKind, level: Level, value: f64) -> String {
    match kind {
        AlertKind::Memory => {
            format!("{}: Memory usage at {}", level.as_str().to_uppercase(), percent(value))
        }
        AlertKind::Container => {
            format!("The container uses {} of the memory it may use", percent(value))
        }
        AlertKind::Resident => format!("Resident memory at {}", bytes(value as u64)),
        AlertKind::Swap => format!("Swap usage at {}", percent(value)),
        AlertKind::Pressure => {
            format!("Something waited for memory in {} of the last 10 s", percent(value))
        }
        AlertKind::Jump => format!("Large allocation detected: {}", bytes(value as u64)),
        AlertKind::Fragmentation => format!("High fragmentation: {}", percent(value * 100.0)),
        AlertKind::Failure => "Something failed for want of memory".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::tracker::HostMemory;

    fn used(percent: u64) -> Reading {
        Reading { used: Some(percent), total: Some(100), ..Reading::default() }
    }

    fn told(watch: &mut Watch, alerts: &Alerts, reading: &Reading, second: u64) -> Vec<String> {
        let found = watch.judge(alerts, reading, None, second * 1_000_000_000);
        found.into_iter().map(|alert| alert.message).collect()
    }

    #[test]
    fn an_alert_is_told_once_until_it_is_over() {
        let (mut watch, alerts) = (Watch::default(), Alerts::default());
        let steps: [(u64, &[&str]); 9] = [
            (79, &[]),
            (80, &["WARNING: Memory usage at 80.0%"]),
            (81, &[]),
            (77, &[]),
            (96, &["CRITICAL: Memory usage at 96.0%"]),
            (91, &[]),
            (75, &[]),
            (99, &["CRITICAL: Memory usage at 99.0%"]),
            (85, &[]),
        ];
        for (second, (percent, expected)) in steps.into_iter().enumerate() {
            assert_eq!(
                told(&mut watch, &alerts, &used(percent), second as u64),
                expected,
                "{percent}"
            );
        }
    }

    #[test]
    fn a_value_that_is_not_known_is_as_it_was() {
        let (mut watch, alerts) = (Watch::default(), Alerts::default());
        assert_eq!(told(&mut watch, &alerts, &used(90), 0).len(), 1);
        assert!(told(&mut watch, &alerts, &Reading::default(), 1).is_empty());
        assert!(told(&mut watch, &alerts, &used(90), 2).is_empty());
        // A missing size must not reset the known size of the device.
        let partial = Reading { used: Some(96), ..Reading::default() };
        assert_eq!(told(&mut watch, &alerts, &partial, 3), ["CRITICAL: Memory usage at 96.0%"]);
    }

    #[test]
    fn the_host_is_watched_too() {
        let host = HostMemory {
            rss: Some(5 << 30),
            swap_used: Some(90),
            swap_total: Some(100),
            container_used: Some(97),
            container_cache: None,
            container_limit: Some(100),
            pressure: Some(50.0),
            processes: None,
        };
        let reading = Reading { host: Some(host), ..Reading::default() };
        let alerts = Alerts::default().resident(4 << 30, 6 << 30);
        let found = Watch::default().judge(&alerts, &reading, None, 0);
        let found: Vec<_> = found.iter().map(|alert| (alert.kind, alert.level)).collect();
        let expected = [
            (AlertKind::Container, Level::Critical),
            (AlertKind::Resident, Level::Warning),
            (AlertKind::Swap, Level::Warning),
            (AlertKind::Pressure, Level::Critical),
        ];
        assert_eq!(found, expected);
    }

    /// A program that reads files fills its container with cache. It may still come close to the
    /// limit.
    #[test]
    fn cache_does_not_hide_that_a_container_fills_up() {
        let (mut watch, alerts) = (Watch::default(), Alerts::default());
        let mut found = |used, cache| {
            let host = HostMemory {
                container_used: Some(used),
                container_cache: cache,
                container_limit: Some(100),
                ..HostMemory::default()
            };
            let reading = Reading { host: Some(host), ..Reading::default() };
            let found = watch.judge(&alerts, &reading, None, 0);
            found.into_iter().map(|alert| (alert.level, alert.value)).collect::<Vec<_>>()
        };
        assert_eq!(found(99, Some(60)), []);
        assert_eq!(found(99, Some(15)), [(Level::Warning, 84.0)]);
        assert_eq!(found(99, Some(1)), [(Level::Critical, 98.0)]);
        assert_eq!(found(70, None), [], "below what it is read from");
        assert_eq!(found(99, Some(1)), [(Level::Critical, 98.0)], "and risen again");
    }

    #[test]
    fn what_is_not_to_be_watched_is_not() {
        let host = HostMemory {
            rss: Some(5 << 30),
            swap_used: Some(90),
            swap_total: Some(100),
            container_used: Some(97),
            container_cache: None,
            container_limit: Some(100),
            pressure: Some(50.0),
            processes: None,
        };
        let reading = Reading {
            used: Some(99),
            total: Some(100),
            inactive: Some(9),
            reserved: Some(10),
            host: Some(host),
            ..Reading::default()
        };
        let kinds = |alerts: &Alerts| -> Vec<AlertKind> {
            let found = Watch::default().judge(alerts, &reading, Some(1 << 30), 0);
            found.into_iter().map(|alert| alert.kind).collect()
        };
        let all = Alerts::default().resident(4 << 30, 6 << 30);
        let told = [
            AlertKind::Memory,
            AlertKind::Container,
            AlertKind::Resident,
            AlertKind::Swap,
            AlertKind::Pressure,
            AlertKind::Jump,
            AlertKind::Fragmentation,
        ];
        assert_eq!(kinds(&all), told);
        for kind in told {
            let others: Vec<_> = told.into_iter().filter(|other| *other != kind).collect();
            assert_eq!(kinds(&all.clone().without(kind)), others);
        }
        assert_eq!(kinds(&Alerts::none()), []);
        assert_eq!(kinds(&Alerts::none().jump(1)), [AlertKind::Jump]);
    }

    #[test]
    fn no_more_are_told_than_the_rate_allows_and_the_rest_is_counted() {
        let alerts = Alerts::default().rate(2, Duration::from_secs(10));
        let mut watch = Watch::default();
        let mut counts = Vec::new();
        for second in 0..14 {
            let found =
                watch.judge(&alerts, &Reading::default(), Some(1 << 30), second * 1_000_000_000);
            counts.extend(found.iter().map(|alert| (second, alert.suppressed)));
        }
        assert_eq!(counts, [(0, 0), (1, 0), (10, 8), (11, 0)]);
        assert_eq!(watch.suppressed(), 2);
    }
}
