//! Activity of the machine and its processes besides memory: CPU, disk, network and GPU.
//!
//! Counters are read about once a second, even if memory is sampled more often. They cost more to
//! read, and rates over a shorter time are noise. Samples in between have no activity.

use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use runlore_telemetry::{Telemetry, TelemetryCapture, TelemetryType, Types};

/// The time between two reads of the counters.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);

/// Activity since the previous reading. Unknown values are `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Activity {
    /// The utilisation of all CPUs of the machine together, in percent.
    pub cpu_percent: Option<f64>,
    /// CPU time of the process, or of the tracked processes. 100 is one CPU.
    pub process_cpu_percent: Option<f64>,
    /// Bytes that the process, or the tracked processes, read from disk per second.
    pub read_bytes_per_sec: Option<f64>,
    /// Bytes that they wrote to disk per second.
    pub write_bytes_per_sec: Option<f64>,
    /// Bytes that the machine sent per second.
    pub sent_bytes_per_sec: Option<f64>,
    /// Bytes that the machine received per second.
    pub received_bytes_per_sec: Option<f64>,
    /// The utilisation of the GPU, in percent.
    pub gpu_percent: Option<f64>,
    /// The power draw of the GPU, in watts.
    pub power_watts: Option<f64>,
    /// The temperature of the GPU, in degrees Celsius.
    pub temperature_celsius: Option<f64>,
}

impl Activity {
    /// The names of the values in the metadata of events.
    pub(super) const NAMES: [&str; 9] = [
        "cpu_percent",
        "process_cpu_percent",
        "read_bytes_per_sec",
        "write_bytes_per_sec",
        "sent_bytes_per_sec",
        "received_bytes_per_sec",
        "gpu_percent",
        "power_watts",
        "temperature_celsius",
    ];

    /// Returns the known values with their names.
    pub(super) fn numbers(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let numbers = [
            self.cpu_percent,
            self.process_cpu_percent,
            self.read_bytes_per_sec,
            self.write_bytes_per_sec,
            self.sent_bytes_per_sec,
            self.received_bytes_per_sec,
            self.gpu_percent,
            self.power_watts,
            self.temperature_celsius,
        ];
        let known = Self::NAMES.into_iter().zip(numbers);
        // More digits would suggest more precision than there is.
        known.filter_map(|(name, number)| Some((name, (number? * 10.0).round() / 10.0)))
    }

    /// Adds the values to the metadata of an event.
    pub(super) fn put(&self, metadata: &mut Map<String, Value>) {
        for (name, number) in self.numbers() {
            metadata.insert(name.to_owned(), number.into());
        }
    }
}

/// What processes have used since they started.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Used {
    pub(super) cpu_seconds: Option<f64>,
    pub(super) read_bytes: Option<f64>,
    pub(super) write_bytes: Option<f64>,
}

/// Counters that only grow.
#[derive(Debug, Clone, Copy, Default)]
struct Counters {
    /// Total time of all CPUs of the machine, and the busy part of it.
    machine: Option<(f64, f64)>,
    sent_bytes: Option<f64>,
    received_bytes: Option<f64>,
    used: Used,
}

/// Reads counters and computes how much they grew.
#[derive(Debug)]
pub(super) struct Meter {
    capture: TelemetryCapture,
    before: Option<(Instant, Counters)>,
}

impl Meter {
    /// Measures the machine and this process.
    pub(super) fn of_this_process() -> Self {
        Self::new([TelemetryType::Cpu, TelemetryType::Network, TelemetryType::ProcessInfo].into())
    }

    /// Measures the machine. The caller provides the usage of processes.
    pub(super) fn of_machine() -> Self {
        Self::new([TelemetryType::Cpu, TelemetryType::Network].into())
    }

    fn new(types: Types) -> Self {
        Self { capture: TelemetryCapture::new(types), before: None }
    }

    /// Returns the activity since the last reading. `None` if that is less than [`INTERVAL`] ago,
    /// or if there is none. `used` is called only when the counters are read.
    pub(super) fn read(&mut self, used: impl FnOnce() -> Option<Used>) -> Option<Activity> {
        self.read_at(Instant::now(), used)
    }

    fn read_at(&mut self, now: Instant, used: impl FnOnce() -> Option<Used>) -> Option<Activity> {
        if self.before.as_ref().is_some_and(|(then, _)| now - *then < INTERVAL) {
            return None;
        }
        let mut counters = counters(&self.capture.capture());
        if let Some(used) = used() {
            counters.used = used;
        }
        let (then, before) = self.before.replace((now, counters))?;
        Some(activity(&before, &counters, (now - then).as_secs_f64()))
    }
}

fn counters(reading: &Telemetry) -> Counters {
    let times = reading.cpu.as_ref().and_then(|cpu| cpu.times_avg.as_ref());
    let process = reading.process.as_ref();
    let network = reading.network.as_ref().and_then(|network| network.netio_sum.as_ref());
    let transfers = process.and_then(|process| process.io_counters.as_ref());
    let own = process.and_then(|process| process.cpu_times.as_ref());
    Counters {
        machine: times.map(|times| {
            // User time already includes guest time.
            let idle = times.idle + times.iowait;
            let busy =
                times.user + times.nice + times.system + times.irq + times.softirq + times.steal;
            (idle + busy, busy)
        }),
        sent_bytes: network.map(|sum| sum.bytes_sent as f64),
        received_bytes: network.map(|sum| sum.bytes_recv as f64),
        used: Used {
            cpu_seconds: own.map(|times| times.user + times.system),
            read_bytes: transfers.and_then(|it| it.read_bytes).map(|bytes| bytes as f64),
            write_bytes: transfers.and_then(|it| it.write_bytes).map(|bytes| bytes as f64),
        },
    }
}

fn activity(before: &Counters, after: &Counters, seconds: f64) -> Activity {
    // A sum over processes can shrink when one of them ends.
    let grown = |before: Option<f64>, after: Option<f64>| Some((after? - before?).max(0.0));
    let rate = |before, after| grown(before, after).map(|grown| grown / seconds);
    let busy = before.machine.zip(after.machine).and_then(|(before, after)| {
        let all = after.0 - before.0;
        (all > 0.0).then(|| ((after.1 - before.1) / all * 100.0).clamp(0.0, 100.0))
    });
    Activity {
        cpu_percent: busy,
        process_cpu_percent: rate(before.used.cpu_seconds, after.used.cpu_seconds)
            .map(|share| share * 100.0),
        read_bytes_per_sec: rate(before.used.read_bytes, after.used.read_bytes),
        write_bytes_per_sec: rate(before.used.write_bytes, after.used.write_bytes),
        sent_bytes_per_sec: rate(before.sent_bytes, after.sent_bytes),
        received_bytes_per_sec: rate(before.received_bytes, after.received_bytes),
        ..Activity::default()
    }
}

/// Extracts the activity from a reading of a GPU. NVIDIA reports milliwatts, AMD watts.
pub(super) fn of_gpu(values: &Value) -> Activity {
    let number = |path: &str| values.pointer(path).and_then(Value::as_f64);
    let milliwatts = number("/power").map(|power| power / 1e3);
    Activity {
        gpu_percent: number("/utilization/gpu").or_else(|| number("/activity/gfx_activity")),
        power_watts: milliwatts.or_else(|| number("/power/average_socket_power")),
        temperature_celsius: number("/temperature").or_else(|| number("/temperature/edge")),
        ..Activity::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_counters_grew_by_is_told_a_second() {
        let at = |time: f64, busy: f64, bytes: f64| Counters {
            machine: Some((time, busy)),
            sent_bytes: Some(bytes),
            received_bytes: None,
            used: Used { cpu_seconds: Some(busy / 2.0), ..Used::default() },
        };
        let found = activity(&at(100.0, 40.0, 1e6), &at(108.0, 42.0, 3e6), 2.0);
        assert_eq!((found.cpu_percent, found.process_cpu_percent), (Some(25.0), Some(50.0)));
        assert_eq!((found.sent_bytes_per_sec, found.received_bytes_per_sec), (Some(1e6), None));
        // A rate is never negative.
        assert_eq!(
            activity(&at(1.0, 1.0, 9.0), &at(2.0, 1.0, 3.0), 1.0).sent_bytes_per_sec,
            Some(0.0)
        );
    }

    #[test]
    fn it_is_told_once_a_second_at_the_most() {
        let mut meter = Meter::of_this_process();
        let began = Instant::now();
        assert_eq!(meter.read_at(began, || None), None, "there is nothing before it");
        let soon = began + INTERVAL - Duration::from_nanos(1);
        assert_eq!(meter.read_at(soon, || unreachable!("it is too early to ask")), None);
        assert!(meter.read_at(began + INTERVAL, || None).is_some());
    }

    #[test]
    fn both_vendors_are_understood() {
        let nvidia = json!({"utilization": {"gpu": 90}, "power": 250_000, "temperature": 61});
        let amd = json!({"activity": {"gfx_activity": 90}, "power": {"average_socket_power": 250},
            "temperature": {"edge": 61}});
        assert_eq!(of_gpu(&nvidia), of_gpu(&amd));
        assert_eq!(of_gpu(&nvidia).power_watts, Some(250.0));
    }
}
