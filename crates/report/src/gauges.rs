//! Draws the gauges that trackers read in addition to memory.

use std::collections::HashSet;

use super::picture::{Line, Panel, Point, Unit};
use runlore_events::analyze::{Gauge, Series};

/// Titles of panels that other modules look up.
pub(super) const PROCESSORS: &str = "Processors (of a process, 100 % is one)";
pub(super) const WAITING: &str = "Waiting for memory";
pub(super) const SWAP: &str = "Swap";
/// Maximum number of curves of a panel.
const LINES: usize = 12;

/// Returns the panel's title, the unit, the curve's name, and whether the gauge is of the whole
/// machine.
fn drawn(gauge: Gauge) -> (&'static str, Unit, &'static str, bool) {
    match gauge {
        Gauge::CpuPercent => (PROCESSORS, Unit::Percent, "machine", true),
        Gauge::ProcessCpuPercent => (PROCESSORS, Unit::Percent, "processes", false),
        Gauge::ReadRate => ("Disks", Unit::BytesPerSecond, "processes, read", false),
        Gauge::WriteRate => ("Disks", Unit::BytesPerSecond, "processes, written", false),
        Gauge::SendRate => ("Network", Unit::BytesPerSecond, "sent", true),
        Gauge::ReceiveRate => ("Network", Unit::BytesPerSecond, "received", true),
        Gauge::GpuPercent => ("GPU load", Unit::Percent, "load", false),
        Gauge::PowerWatts => ("GPU power", Unit::Watts, "power", false),
        Gauge::TemperatureCelsius => ("GPU temperature", Unit::Celsius, "temperature", false),
        Gauge::MemoryPressure => (WAITING, Unit::Percent, "of the time", true),
        Gauge::SwapUsed => (SWAP, Unit::Bytes, "in use", true),
        Gauge::ContainerUsed => ("Memory of the container", Unit::Bytes, "in use", true),
    }
}

/// Returns the least value that makes a gauge worth drawing. For loads this is any value, because
/// zero is informative, too.
fn least(gauge: Gauge) -> f64 {
    match gauge {
        Gauge::CpuPercent | Gauge::ProcessCpuPercent | Gauge::GpuPercent => f64::MIN,
        // The kernel's ten-second average is rarely exactly zero.
        Gauge::MemoryPressure => 1.0,
        _ => f64::MIN_POSITIVE,
    }
}

/// Whether values of the unit hold for the time since the previous reading.
pub(super) fn is_step(unit: Unit) -> bool {
    matches!(unit, Unit::Percent | Unit::BytesPerSecond)
}

/// Returns the panels. `at` converts a time of a series to the picture's clock. Gauges that are
/// zero all the time are left out, and so are machine-wide gauges that another series of the same
/// host already shows.
pub(super) fn panels(all: &[Series], at: &dyn Fn(&Series, u64) -> u64) -> Vec<Panel> {
    let mut panels: Vec<Panel> = Vec::new();
    let mut seen = HashSet::new();
    for &gauge in Gauge::ALL {
        let (title, unit, name, is_machine) = drawn(gauge);
        for series in all {
            let Some(points) = series.gauge(gauge) else { continue };
            let is_quiet = points.iter().all(|(_, value)| *value < least(gauge));
            if is_quiet || (is_machine && !seen.insert((gauge, series.place.host.clone()))) {
                continue;
            }
            let of = match all {
                [_] => name.to_owned(),
                _ if is_machine => {
                    let host = series.place.host.as_deref().unwrap_or_default();
                    format!("{name} ({host})")
                }
                _ => format!("{name} ({})", series.place),
            };
            let point = |&(ns, value): &(u64, f64)| Point { at_ns: at(series, ns), value };
            let mut points: Vec<Point> = points.iter().map(point).collect();
            // The first reading covers the time since the collector began.
            let began = series.samples.first().map(|sample| at(series, sample.timestamp_ns));
            if let (true, Some(at_ns), Some(first)) =
                (is_step(unit), began, points.first().copied())
                && at_ns < first.at_ns
            {
                points.insert(0, Point { at_ns, ..first });
            }
            let line = Line { name: of, is_step: is_step(unit), points, ..Line::default() };
            match panels.iter_mut().find(|panel| panel.title == title) {
                Some(panel) if panel.lines.len() < LINES => panel.lines.push(line),
                Some(_) => {}
                None => panels.push(Panel {
                    title: title.to_owned(),
                    unit,
                    lines: vec![line],
                    limit: None,
                }),
            }
        }
    }
    panels
}
