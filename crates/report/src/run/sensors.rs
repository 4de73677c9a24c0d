//! Draws the sensor readings at the starts and ends of tasks as curves.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::buckets::thinned;
use crate::gauges::{PROCESSORS, is_step};
use crate::picture::{Line, Panel, Point, Unit};
use runlore_core::record::TaskObject;
use runlore_query::engine::path::value_at;

/// Maximum number of machines, and of processes, with a curve of their own.
const SOURCES: usize = 6;
/// Maximum number of values of a rate (`STEPS`) and of intervals of a curve (`STRETCHES`).
const STEPS: u64 = 400;
const STRETCHES: usize = 2_000;

/// Whether a value belongs to the machine or to the process.
#[derive(Clone, Copy, PartialEq)]
enum Of {
    Machine,
    Process,
}

/// A value of the telemetry to draw.
struct Sensor {
    panel: &'static str,
    unit: Unit,
    name: &'static str,
    path: &'static str,
    of: Of,
    /// Whether the value is a counter, of which the rate is drawn.
    is_counter: bool,
}

const fn gauge(
    panel: &'static str,
    unit: Unit,
    name: &'static str,
    path: &'static str,
    of: Of,
) -> Sensor {
    Sensor { panel, unit, name, path, of, is_counter: false }
}

const fn rate(panel: &'static str, name: &'static str, path: &'static str, of: Of) -> Sensor {
    Sensor { panel, unit: Unit::BytesPerSecond, name, path, of, is_counter: true }
}

const SENSORS: [Sensor; 10] = [
    gauge(PROCESSORS, Unit::Percent, "machine", "cpu.percent_all", Of::Machine),
    gauge(PROCESSORS, Unit::Percent, "process", "process.cpu_percent", Of::Process),
    gauge(
        "Memory of the process",
        Unit::Bytes,
        "process, resident",
        "process.memory.rss",
        Of::Process,
    ),
    gauge(
        "Memory of the machine",
        Unit::Bytes,
        "in use, by whomever",
        "memory.virtual.used",
        Of::Machine,
    ),
    rate("Disks", "process, read", "process.io_counters.read_bytes", Of::Process),
    rate("Disks", "process, written", "process.io_counters.write_bytes", Of::Process),
    rate("Disks", "machine, read", "disk.io_sum.read_bytes", Of::Machine),
    rate("Disks", "machine, written", "disk.io_sum.write_bytes", Of::Machine),
    rate("Network", "sent", "network.netio_sum.bytes_sent", Of::Machine),
    rate("Network", "received", "network.netio_sum.bytes_recv", Of::Machine),
];

type Readings = Vec<(u64, f64)>;

/// Collects the sensor readings.
#[derive(Debug, Default)]
pub(super) struct Sensors {
    /// Keyed by the sensor's index, then by machine or process.
    readings: BTreeMap<usize, BTreeMap<String, Readings>>,
    /// Keyed by the quantity and the device.
    gpus: BTreeMap<(&'static str, String), Readings>,
}

impl Sensors {
    /// Returns the fields to read of each task.
    pub(super) fn fields() -> impl Iterator<Item = String> {
        SENSORS.iter().map(|sensor| sensor.path).chain(["gpu"]).flat_map(|path| {
            ["telemetry_at_start", "telemetry_at_end"].map(|edge| format!("{edge}.{path}"))
        })
    }

    /// Adds one capture of a task, taken at a time in Unix nanoseconds.
    pub(super) fn add(
        &mut self,
        at_ns: Option<u64>,
        telemetry: Option<&Map<String, Value>>,
        task: &TaskObject,
    ) {
        let (Some(at_ns), Some(telemetry)) = (at_ns, telemetry) else { return };
        let host = task.hostname.as_deref().unwrap_or_default();
        let process =
            task.pid.map_or_else(|| host.to_owned(), |pid| format!("process {pid} of {host}"));
        for (number, sensor) in SENSORS.iter().enumerate() {
            let value = value_at(telemetry, sensor.path).and_then(Value::as_f64);
            let Some(value) = value else { continue };
            let by_source = self.readings.entry(number).or_default();
            let source = match sensor.of {
                Of::Process => &*process,
                Of::Machine => host,
            };
            let has_room = by_source.len() < SOURCES;
            match by_source.get_mut(source) {
                Some(readings) => readings.push((at_ns, value)),
                None if has_room => {
                    by_source.insert(source.to_owned(), vec![(at_ns, value)]);
                }
                None => {}
            }
        }
        for (device, gpu) in telemetry.get("gpu").and_then(Value::as_object).into_iter().flatten() {
            let Some(gpu) = gpu.as_object() else { continue };
            let number = |path: &str| value_at(gpu, path).and_then(Value::as_f64);
            // The vendors name the same quantity differently, and one reports milliwatts.
            let readings = [
                ("GPU load", number("utilization.gpu").or_else(|| number("activity.gfx_activity"))),
                ("GPU memory", number("used")),
                (
                    "GPU power",
                    number("power")
                        .map(|milliwatts| milliwatts / 1e3)
                        .or_else(|| number("power.average_socket_power")),
                ),
                ("GPU temperature", number("temperature").or_else(|| number("temperature.edge"))),
            ];
            for (what, value) in readings {
                if let Some(value) = value {
                    self.gpus.entry((what, device.clone())).or_default().push((at_ns, value));
                }
            }
        }
    }

    /// Returns the curves, with times relative to `start_ns`.
    pub(super) fn panels(self, start_ns: u64, length_ns: u64) -> Vec<Panel> {
        let mut panels: Vec<Panel> = Vec::new();
        let mut add = |panel: &str, unit: Unit, line: Line| {
            if line.points.is_empty() {
                return;
            }
            match panels.iter_mut().find(|known| known.title == panel) {
                Some(known) => known.lines.push(line),
                None => panels.push(Panel {
                    title: panel.to_owned(),
                    unit,
                    lines: vec![line],
                    limit: None,
                }),
            }
        };
        for (number, by_source) in self.readings {
            let sensor = &SENSORS[number];
            let many = by_source.len() > 1;
            for (source, readings) in by_source {
                let mut points = points(readings, start_ns);
                if sensor.is_counter {
                    points = rates(&points, length_ns);
                }
                let name = match (sensor.of, many) {
                    (_, false) => sensor.name.to_owned(),
                    (Of::Process, _) => sensor.name.replacen("process", &source, 1),
                    (Of::Machine, _) => format!("{} ({source})", sensor.name),
                };
                let points = thinned(&points, length_ns, STRETCHES);
                let is_step = is_step(sensor.unit);
                add(sensor.panel, sensor.unit, Line { name, points, is_step, ..Line::default() });
            }
        }
        for ((what, device), readings) in self.gpus {
            let unit = match what {
                "GPU memory" => Unit::Bytes,
                "GPU power" => Unit::Watts,
                "GPU temperature" => Unit::Celsius,
                _ => Unit::Percent,
            };
            let points = thinned(&points(readings, start_ns), length_ns, STRETCHES);
            add(
                what,
                unit,
                Line { name: device, points, is_step: is_step(unit), ..Line::default() },
            );
        }
        panels
    }
}

fn points(mut readings: Readings, start_ns: u64) -> Vec<Point> {
    readings.sort_by_key(|reading| reading.0);
    let point = |(at_ns, value): (u64, f64)| Point { at_ns: at_ns.saturating_sub(start_ns), value };
    readings.into_iter().map(point).collect()
}

/// Returns the growth of a counter per second, over intervals that are long enough for a meaningful
/// rate.
fn rates(points: &[Point], length_ns: u64) -> Vec<Point> {
    let step = (length_ns / STEPS).max(1_000_000);
    let mut rates = Vec::new();
    let mut before = match points.first() {
        Some(first) => *first,
        None => return rates,
    };
    for point in points {
        let passed = point.at_ns - before.at_ns;
        if passed >= step {
            let grown = (point.value - before.value).max(0.0);
            let value = (grown / (passed as f64 / 1e9)).round();
            if rates.is_empty() {
                // The first rate holds from the first reading on.
                rates.push(Point { at_ns: before.at_ns, value });
            }
            rates.push(Point { at_ns: point.at_ns, value });
            before = *point;
        }
    }
    rates
}
