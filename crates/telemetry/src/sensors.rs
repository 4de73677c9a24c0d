//! A list of all telemetry fields: unit, source, cost, and the current value or why it is missing.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::Value;

use super::gpu::Wanted;
use super::reasons::NOT_TOLD;
use super::{Telemetry, TelemetryCapture, TelemetryType, Types};
use runlore_core::settings::GpuVendor;

/// A field of [`Telemetry`](super::Telemetry) with its current value.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Sensor {
    /// Path of the field, such as `process.memory.rss`.
    pub field: String,
    /// The type that captures it.
    pub telemetry_type: TelemetryType,
    /// Unit of the value; empty for text and plain numbers.
    pub unit: &'static str,
    /// The file, system call or library that the value is read from.
    pub source: String,
    /// The current value, or why it is missing.
    pub state: SensorState,
    /// Cost of reading the source once on this machine. Fields of the same source share this cost.
    pub cost: Option<Duration>,
}

/// The value of a [`Sensor`], or why it is missing.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum SensorState {
    /// The current value. For a list of disks or interfaces it is an object keyed by name.
    Value(Value),
    /// The value is missing.
    Missing {
        /// Why it is missing.
        reason: String,
        /// What the user can do about it.
        advice: &'static str,
        /// Whether this is expected, because the backend never provides this field.
        is_expected: bool,
    },
}

/// Fields that share a source.
struct Group {
    telemetry_type: TelemetryType,
    /// Path of the structure that contains the fields.
    within: &'static str,
    /// Name and unit of each field.
    pub fields: &'static [(&'static str, &'static str)],
    /// Name of the source on Linux.
    source: &'static str,
}

const CPU_TIMES: &[(&str, &str)] = &[
    ("user", "s"),
    ("nice", "s"),
    ("system", "s"),
    ("idle", "s"),
    ("iowait", "s"),
    ("irq", "s"),
    ("softirq", "s"),
    ("steal", "s"),
    ("guest", "s"),
    ("guest_nice", "s"),
];

const DISK_IO: &[(&str, &str)] = &[
    ("read_count", ""),
    ("write_count", ""),
    ("read_bytes", "B"),
    ("write_bytes", "B"),
    ("read_time", "ms"),
    ("write_time", "ms"),
    ("read_merged_count", ""),
    ("write_merged_count", ""),
    ("busy_time", "ms"),
];

const NET_IO: &[(&str, &str)] = &[
    ("bytes_sent", "B"),
    ("bytes_recv", "B"),
    ("packets_sent", ""),
    ("packets_recv", ""),
    ("errin", ""),
    ("errout", ""),
    ("dropin", ""),
    ("dropout", ""),
];

macro_rules! groups {
    ($($type:ident $within:literal from $source:literal: $fields:expr;)*) => {
        &[$(Group {
            telemetry_type: TelemetryType::$type,
            within: $within,
            fields: $fields,
            source: $source,
        }),*]
    };
}

/// All fields, in the order of the guide.
const GROUPS: &[Group] = groups! {
    Cpu "cpu.times_avg" from "/proc/stat": CPU_TIMES;
    Cpu "cpu.times_mean" from "/proc/stat": CPU_TIMES;
    Cpu "cpu" from "/proc/stat": &[("percent_all", "%"), ("interval_s", "s")];
    Cpu "cpu" from "frequency": &[("frequency", "MHz")];
    PerCpu "cpu" from "/proc/stat": &[("times_per_cpu", "s"), ("percent_per_cpu", "%")];
    ProcessInfo "process" from "getpid": &[("pid", "")];
    ProcessInfo "process" from "sched_getcpu": &[("cpu_number", "")];
    ProcessInfo "process.memory" from "/proc/self/statm": &[
        ("rss", "B"), ("vms", "B"), ("shared", "B"), ("text", "B"), ("lib", "B"), ("data", "B"), ("dirty", "B"),
    ];
    ProcessInfo "process" from "/proc/self/statm": &[("memory_percent", "%")];
    ProcessInfo "process.cpu_times" from "getrusage": &[
        ("user", "s"), ("system", "s"), ("children_user", "s"), ("children_system", "s"),
    ];
    ProcessInfo "process.cpu_times" from "/proc/self/stat": &[("iowait", "s")];
    ProcessInfo "process" from "getrusage": &[("cpu_percent", "%")];
    ProcessInfo "process.io_counters" from "/proc/self/io": &[
        ("read_count", ""), ("write_count", ""), ("read_bytes", "B"), ("write_bytes", "B"),
        ("read_chars", "B"), ("write_chars", "B"),
    ];
    ProcessInfo "process" from "/proc/self/fd": &[
        ("num_open_file_descriptors", ""), ("num_open_files", ""), ("num_connections", ""),
    ];
    ProcessInfo "process" from "/proc/self/task": &[("num_threads", "")];
    ProcessInfo "process.num_ctx_switches" from "getrusage": &[("voluntary", ""), ("involuntary", "")];
    ProcessInfo "process" from "/proc/self/exe": &[("executable", "")];
    ProcessInfo "process" from "/proc/self/cmdline": &[("cmd_line", "")];
    Mem "memory.virtual" from "/proc/meminfo": &[
        ("total", "B"), ("available", "B"), ("percent", "%"), ("used", "B"), ("free", "B"), ("active", "B"),
        ("inactive", "B"), ("buffers", "B"), ("cached", "B"), ("shared", "B"), ("slab", "B"),
    ];
    Mem "memory.swap" from "/proc/meminfo": &[("total", "B"), ("used", "B"), ("free", "B"), ("percent", "%")];
    Mem "memory.swap" from "/proc/vmstat": &[("sin", "B"), ("sout", "B")];
    Disk "disk.disk_usage" from "statvfs": &[("total", "B"), ("used", "B"), ("free", "B"), ("percent", "%")];
    Disk "disk.io_sum" from "/proc/diskstats": DISK_IO;
    Disk "disk" from "/proc/diskstats": &[("io_per_disk", "")];
    Network "network.netio_sum" from "/proc/net/dev": NET_IO;
    Network "network" from "/proc/net/dev": &[("netio_per_interface", "")];
};

impl TelemetryCapture {
    /// Returns every field of the captured types with its current value, or why it is missing.
    /// Takes some milliseconds.
    ///
    /// ```
    /// use runlore::telemetry::{SensorState, TelemetryCapture, Types};
    ///
    /// for sensor in TelemetryCapture::new(Types::host()).sensors() {
    ///     match sensor.state {
    ///         SensorState::Value(value) => println!("{} = {value} {}", sensor.field, sensor.unit),
    ///         SensorState::Missing { reason, .. } => println!("{}: {reason}", sensor.field),
    ///         _ => {}
    ///     }
    /// }
    /// ```
    pub fn sensors(&self) -> Vec<Sensor> {
        // Percentages need an interval.
        std::thread::sleep(self.watching_time());
        // GPU libraries take time to start.
        let wanted = Wanted::of(self.types());
        if !wanted.is_nothing() {
            let ticket = self.gpus().ask(wanted, Duration::ZERO);
            _ = self.gpus().take_within(&ticket, Duration::from_secs(2));
        }
        let now = self.capture();
        let json = serde_json::to_value(&now).unwrap_or_default();
        let mut sensors = Vec::new();
        let mut sources = HashMap::new();
        let groups = GROUPS.iter().filter(|group| is_captured(group, self.types()));
        for group in groups {
            let known = sources.entry(group.source);
            let (source, cost) = known.or_insert_with(|| self.source_of(group.source)).clone();
            for (name, unit) in group.fields {
                let field = format!("{}.{name}", group.within);
                let found = json.pointer(&format!("/{}", field.replace('.', "/")));
                let state = match found {
                    Some(value) => SensorState::Value(value.clone()),
                    None => missing(now.reason(&field)),
                };
                sensors.push(Sensor {
                    field,
                    telemetry_type: group.telemetry_type,
                    unit,
                    source: source.clone(),
                    state,
                    cost,
                });
            }
        }
        self.add_gpus(&now, &mut sensors);
        self.add_meters(&now, &mut sensors);
        sensors
    }

    /// Adds the metrics of each GPU.
    fn add_gpus(&self, now: &Telemetry, sensors: &mut Vec<Sensor>) {
        if !self.types().contains(TelemetryType::Gpu) {
            return;
        }
        let (vendor, cost) = self.gpus().seen();
        let source = match vendor {
            Some(GpuVendor::Amd) => "AMD SMI",
            Some(GpuVendor::Nvidia) => "NVML",
            _ => "none",
        };
        let metrics = || vendor.into_iter().flat_map(GpuVendor::metrics);
        let sensor = |field: String, state| {
            let metric = field.splitn(3, '.').nth(2).unwrap_or_default();
            let unit = metrics().find(|known| known.name == metric).map_or("", |known| known.unit);
            let source = source.to_owned();
            Sensor { field, telemetry_type: TelemetryType::Gpu, unit, source, state, cost }
        };
        for (device, values) in now.gpu.iter().flatten() {
            for (name, value) in leaves(values) {
                let field = format!("gpu.{device}.{name}");
                sensors.push(sensor(field, SensorState::Value(value)));
            }
        }
        for (field, reason) in &now.unavailable {
            if field == "gpu" || field.starts_with("gpu.") {
                sensors.push(sensor(field.to_owned(), missing(Some(reason))));
            }
        }
    }

    /// Adds each energy meter.
    fn add_meters(&self, now: &Telemetry, sensors: &mut Vec<Sensor>) {
        if !self.types().contains(TelemetryType::Energy) {
            return;
        }
        let sensor = |field: String, state| {
            let source = match field.split('.').nth(1).and_then(|meter| meter.split(':').next()) {
                Some("rapl") => "/sys/class/powercap",
                Some("hwmon") => "/sys/class/hwmon",
                Some("battery") => "/sys/class/power_supply",
                Some("nvml") => "NVML",
                Some("amdsmi") => "AMD SMI",
                _ => "none",
            };
            let source = source.to_owned();
            let telemetry_type = TelemetryType::Energy;
            Sensor { field, telemetry_type, unit: "J", source, state, cost: None }
        };
        for (meter, joules) in now.energy.iter().flat_map(|energy| &energy.joules) {
            sensors.push(sensor(format!("energy.{meter}"), SensorState::Value((*joules).into())));
        }
        for (field, reason) in &now.unavailable {
            if field == "energy" || field.starts_with("energy.") {
                sensors.push(sensor(field.to_owned(), missing(Some(reason))));
            }
        }
    }
}

/// Flattens the metrics of a device. The name of a metric in a group is `group.metric`.
fn leaves(values: &Value) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for (name, value) in values.as_object().into_iter().flatten() {
        match value {
            Value::Object(group) => all
                .extend(group.iter().map(|(own, value)| (format!("{name}.{own}"), value.clone()))),
            value => all.push((name.clone(), value.clone())),
        }
    }
    all
}

fn is_captured(group: &Group, types: Types) -> bool {
    types.contains(group.telemetry_type)
        // Both CPU types fill `interval_s`.
        || group.fields[0].0 == "percent_all" && types.contains(TelemetryType::PerCpu)
}

fn missing(reason: Option<&str>) -> SensorState {
    let reason = reason.unwrap_or("it was not captured").to_owned();
    let advice = if reason.contains("energy_uj: Permission denied") {
        "as root: chmod a+r /sys/class/powercap/*/energy_uj, after each start of the machine (a line in /etc/tmpfiles.d)"
    } else if reason.contains("is built without") {
        "build with the feature `gpu` of the crate `runlore`"
    } else if reason.contains("cannot be loaded") || reason.contains("libamd_smi.so is not in") {
        "install the vendor's driver, or set telemetry_capture.gpu to ~ where there are no such devices"
    } else if reason.contains("_VISIBLE_DEVICES=") {
        "name devices in the variable, or set telemetry_capture.gpu to ~ if the program is to use none"
    } else if reason.contains("Permission denied") {
        "see that /proc is mounted without hidepid, and that the process may read its own files"
    } else if reason.contains("No such file") {
        "see that /proc and /sys are mounted"
    } else if reason.contains("sysinfo") {
        if cfg!(target_os = "linux") {
            "set telemetry_capture.backend to auto, which reads the kernel's files"
        } else {
            "nothing: on this system there is no other source"
        }
    } else {
        "nothing: this system does not tell it"
    };
    let is_expected = reason == NOT_TOLD;
    SensorState::Missing { reason, advice, is_expected }
}
