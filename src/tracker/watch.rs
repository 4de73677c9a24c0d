//! Which alerts a reading gives rise to: thresholds, with what they remember.

use std::collections::{BTreeMap, VecDeque};

use super::alerts::{AlertKind, Alerts, Level, Thresholds};
use super::collector::Reading;
use super::words::{bytes, percent};

/// An alert before it is an event.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    pub(super) kind: AlertKind,
    pub(super) level: Level,
    pub(super) value: f64,
    pub(super) message: String,
    pub(super) suppressed: u64,
}

/// What is remembered of one device.
#[derive(Debug, Default)]
pub(super) struct Watch {
    levels: BTreeMap<AlertKind, Level>,
    told: BTreeMap<(AlertKind, Level), Told>,
    /// What the device has, also where a reading lacks it.
    total: Option<u64>,
}

/// When alerts of a kind were told.
#[derive(Debug, Default)]
struct Told {
    at_ns: VecDeque<u64>,
    suppressed: u64,
}

impl Watch {
    /// The alerts of a reading, in the order in which they are told.
    pub(super) fn judge(
        &mut self,
        alerts: &Alerts,
        reading: &Reading,
        change: Option<i64>,
        now_ns: u64,
    ) -> Vec<Found> {
        let mut found = Vec::new();
        self.total = reading.total.or(self.total);
        let share = |part: Option<u64>, whole: Option<u64>| {
            let whole = whole.filter(|whole| *whole > 0)?;
            Some(part? as f64 / whole as f64 * 100.0)
        };
        let usage = share(reading.used.or(reading.allocated), self.total);
        self.level(
            alerts,
            AlertKind::Memory,
            usage,
            Some(alerts.memory),
            &mut found,
            |level, value| {
                format!("{}: Memory usage at {}", level.as_str().to_uppercase(), percent(value))
            },
        );
        if let Some(host) = &reading.host {
            let container = share(host.container_used, host.container_limit);
            let thresholds = Some(alerts.container);
            self.level(
                alerts,
                AlertKind::Container,
                container,
                thresholds,
                &mut found,
                |_, value| {
                    format!("The container uses {} of the memory it may use", percent(value))
                },
            );
            let rss = host.rss.map(|rss| rss as f64);
            self.level(
                alerts,
                AlertKind::Resident,
                rss,
                alerts.resident,
                &mut found,
                |_, value| format!("Resident memory at {}", bytes(value as u64)),
            );
            let swap = share(host.swap_used, host.swap_total);
            self.level(alerts, AlertKind::Swap, swap, alerts.swap, &mut found, |_, value| {
                format!("Swap usage at {}", percent(value))
            });
            let pressure = host.pressure;
            self.level(
                alerts,
                AlertKind::Pressure,
                pressure,
                alerts.pressure,
                &mut found,
                |_, value| {
                    format!("Something waited for memory in {} of the last 10 s", percent(value))
                },
            );
        }
        if let (Some(jump), Some(change)) = (alerts.jump, change)
            && u64::try_from(change).is_ok_and(|change| change > jump)
        {
            let message = format!("Large allocation detected: {}", bytes(change.unsigned_abs()));
            found.push(Found::new(AlertKind::Jump, Level::Warning, change as f64, message));
        }
        let fragmentation =
            share(reading.inactive, reading.reserved).map(|percent| percent / 100.0);
        let thresholds = alerts.fragmentation.map(|part| (part, f64::INFINITY));
        self.level(
            alerts,
            AlertKind::Fragmentation,
            fragmentation,
            thresholds,
            &mut found,
            |_, part| format!("High fragmentation: {}", percent(part * 100.0)),
        );
        found.retain_mut(|alert| self.may_tell(alerts, alert, now_ns));
        found
    }

    /// Adds an alert if a value has risen to a level. One that is not known is as it was.
    fn level(
        &mut self,
        alerts: &Alerts,
        kind: AlertKind,
        value: Option<f64>,
        thresholds: Option<Thresholds>,
        found: &mut Vec<Found>,
        message: impl FnOnce(Level, f64) -> String,
    ) {
        let (Some(value), Some((warning, critical))) = (value, thresholds) else { return };
        let before = self.levels.get(&kind).copied();
        let risen = [(critical, Level::Critical), (warning, Level::Warning)]
            .into_iter()
            .find(|(threshold, level)| {
                let is_at = before.is_some_and(|before| before >= *level);
                let held = threshold * (1.0 - alerts.hysteresis);
                value >= *threshold || is_at && value >= held
            })
            .map(|(_, level)| level);
        match risen {
            Some(level) => _ = self.levels.insert(kind, level),
            None => _ = self.levels.remove(&kind),
        }
        if let Some(level) = risen.filter(|level| before.is_none_or(|before| *level > before)) {
            found.push(Found::new(kind, level, value, message(level, value)));
        }
    }

    /// Whether the rate allows an alert; one that it does not is counted.
    fn may_tell(&mut self, alerts: &Alerts, alert: &mut Found, now_ns: u64) -> bool {
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

    /// How many alerts wait to be counted with the next one of their kind.
    pub(super) fn suppressed(&self) -> u64 {
        self.told.values().map(|told| told.suppressed).sum()
    }
}

impl Found {
    fn new(kind: AlertKind, level: Level, value: f64, message: String) -> Self {
        Self { kind, level, value, message, suppressed: 0 }
    }

    /// The name of the value in the event's metadata.
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
        // The device has not shrunk because nobody knows its size.
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
