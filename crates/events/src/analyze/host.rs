//! Finds machines that were short of memory: processes that waited for memory, and swapping.

use super::finding::{Finding, Severity, Window};
use super::gauge::Gauge;
use super::kind::Kind;
use super::series::Series;
use super::text::{bytes, percent};
use super::thresholds::Thresholds;

pub(super) fn find(series: &Series, thresholds: &Thresholds) -> Vec<Finding> {
    [waiting(series, thresholds), swapping(series, thresholds)].into_iter().flatten().collect()
}

/// Finds memory pressure above the threshold.
fn waiting(series: &Series, thresholds: &Thresholds) -> Option<Finding> {
    let points = series.gauge(Gauge::MemoryPressure)?;
    let limit = thresholds.pressure_ratio * 100.0;
    let over: Vec<&(u64, f64)> = points.iter().filter(|(_, percent)| *percent >= limit).collect();
    let (first, last) = (over.first()?, over.last()?);
    let most = points.iter().map(|(_, percent)| *percent).fold(0.0, f64::max);
    let share = over.len() as f64 / points.len() as f64;
    let what = format!(
        "something waited for memory for up to {} of the time, and for {} or more in {} of the samples",
        percent(most / 100.0),
        percent(thresholds.pressure_ratio),
        percent(share)
    );
    let severity = match most >= thresholds.pressure_critical_ratio * 100.0 {
        true => Severity::Critical,
        false => Severity::Warning,
    };
    let window = Window { start_ns: first.0, end_ns: last.0 };
    let finding = Finding::new(Kind::MemoryPressure, severity, 0.9, what)
        .with("max_pressure_ratio", most / 100.0)
        .with("over_threshold_ratio", share)
        .with("samples_count", points.len());
    Some(finding.at(&series.place, Some(window)))
}

/// Finds growing use of swap.
fn swapping(series: &Series, thresholds: &Thresholds) -> Option<Finding> {
    let points = series.gauge(Gauge::SwapUsed)?;
    let (first, last) = (points.first()?, points.last()?);
    let most = points.iter().max_by(|one, other| one.1.total_cmp(&other.1))?;
    let grown = most.1 - first.1;
    if grown < thresholds.min_bytes as f64 {
        return None;
    }
    let what = format!(
        "swap in use grew by {}, from {} to {}",
        bytes(grown),
        bytes(first.1),
        bytes(most.1)
    );
    let window = Window { start_ns: first.0, end_ns: most.0 };
    let finding = Finding::new(Kind::Swapping, Severity::Warning, 0.8, what)
        .with("grown_bytes", grown)
        .with("max_swap_bytes", most.1)
        .with("last_swap_bytes", last.1);
    Some(finding.at(&series.place, Some(window)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::analyze::Timelines;
    use crate::events::TelemetryEvent;

    fn found(samples: &[(f64, u64)]) -> Vec<Finding> {
        let event = |(at, (pressure, swap)): (usize, &(f64, u64))| {
            let metadata = json!({"memory_pressure_percent": pressure, "swap_used_bytes": swap});
            TelemetryEvent {
                timestamp_ns: at as u64 * 1_000_000_000,
                metadata: metadata.as_object().unwrap().clone().into(),
                ..TelemetryEvent::default()
            }
        };
        let timelines: Timelines = samples.iter().enumerate().map(event).collect();
        find(&timelines.series()[0], &Thresholds::default())
    }

    #[test]
    fn waiting_and_swapping_are_told_with_when() {
        let all = found(&[(0.0, 1 << 20), (12.0, 1 << 20), (55.0, 1 << 30), (3.0, 1 << 29)]);
        assert_eq!(
            all.iter().map(|it| it.kind).collect::<Vec<_>>(),
            [Kind::MemoryPressure, Kind::Swapping]
        );
        assert_eq!(all[0].severity, Severity::Critical);
        assert_eq!(
            all[0].place.window,
            Some(Window { start_ns: 1_000_000_000, end_ns: 2_000_000_000 })
        );
        assert_eq!(all[1].what, "swap in use grew by 1023 MiB, from 1 MiB to 1 GiB");
    }

    #[test]
    fn a_machine_with_room_is_not_told_of() {
        assert_eq!(found(&[(0.0, 5 << 20), (9.9, 6 << 20), (1.0, 5 << 20)]), []);
    }
}
