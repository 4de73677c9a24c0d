//! Writes the resource usage of a task in its record.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};

use super::event::{ItemKind, Measured};
use super::task::Task;
use runlore_telemetry::usage::ProcessUsage;
use runlore_telemetry::{Energy, EnergyUsed, Named};

/// The field `resources`: each figure with the task's own usage and the usage including its
/// children.
pub(super) struct Resources {
    pub(super) measured: Option<Measured>,
    pub(super) process: Option<ProcessUse>,
    /// The children's process-wide usage. `None` if not all of it is known.
    pub(super) by_children: Option<ProcessUse>,
    /// What the machine's energy meters counted.
    pub(super) energy: Option<EnergyUsed>,
    /// The usage of a process that the task ran.
    pub(super) child: Option<Value>,
}

impl Serialize for Resources {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Some(Measured { own, inclusive, is_counted: true, .. }) = self.measured {
            for (name, own, inclusive) in [
                ("cpu_ns", own.cpu_ns, inclusive.cpu_ns),
                ("minor_faults", own.minor_faults, inclusive.minor_faults),
                ("major_faults", own.major_faults, inclusive.major_faults),
                ("voluntary_switches", own.voluntary_switches, inclusive.voluntary_switches),
                ("involuntary_switches", own.involuntary_switches, inclusive.involuntary_switches),
            ] {
                map.serialize_entry(name, &Threads { own, inclusive })?;
            }
        }
        if let Some(Measured { own, inclusive, peak_bytes, .. }) = self.measured
            && inclusive.allocations > 0
        {
            for (name, own, inclusive) in [
                ("allocated_bytes", own.allocated_bytes, inclusive.allocated_bytes),
                ("freed_bytes", own.freed_bytes, inclusive.freed_bytes),
                ("allocations", own.allocations, inclusive.allocations),
            ] {
                map.serialize_entry(name, &Threads { own, inclusive })?;
            }
            map.serialize_entry("allocated_peak_bytes", &Peak { inclusive: peak_bytes })?;
        }
        let process = self.process.unwrap_or_default();
        let overlap = self.measured.is_some_and(|measured| measured.is_shared);
        let is_divisible = self
            .measured
            .is_some_and(|measured| !measured.is_shared && !measured.children_are_shared);
        let by_children = self.by_children.filter(|_| is_divisible);
        for (name, inclusive, by_children) in [
            ("read_bytes", process.read_bytes, by_children.map(|used| used.read_bytes)),
            ("write_bytes", process.write_bytes, by_children.map(|used| used.write_bytes)),
            ("rss_bytes", process.rss_bytes, by_children.map(|used| used.rss_bytes)),
        ] {
            if let Some(inclusive) = inclusive {
                let by_children = by_children.zip(self.by_child(name));
                let own = by_children
                    .map(|(used, by_child)| inclusive - used.unwrap_or_default() - by_child);
                map.serialize_entry(name, &Process { own, inclusive, overlap })?;
            }
        }
        if let Some(energy) = &self.energy {
            let inclusive = energy.microjoules() as i64;
            let own = by_children.map(|used| inclusive - used.microjoules.unwrap_or_default());
            let joules = Joules {
                own: own.map(|microjoules| microjoules as f64 / 1e6),
                inclusive: energy.joules(),
                overlap,
                meters: energy.by_meter(),
            };
            map.serialize_entry("joules", &joules)?;
        }
        if let Some(child) = &self.child {
            map.serialize_entry("child", child)?;
        }
        map.end()
    }
}

impl Resources {
    /// Returns a child process's part of a figure. The figures of this process include those of
    /// child processes that it has waited for.
    fn by_child(&self, name: &str) -> Option<i64> {
        match &self.child {
            Some(child) if name != "rss_bytes" => child.get(name)?.as_i64(),
            _ => Some(0),
        }
    }
}

/// Changes in the process-wide figures while a task ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ProcessUse {
    pub(super) read_bytes: Option<i64>,
    pub(super) write_bytes: Option<i64>,
    pub(super) rss_bytes: Option<i64>,
    /// The energy of the whole machine, in whole microjoules so that sums are exact.
    pub(super) microjoules: Option<i64>,
}

impl ProcessUse {
    pub(super) fn between(before: &ProcessUsage, after: &ProcessUsage) -> Self {
        let change =
            |before: Option<u64>, after: Option<u64>| Some(after?.wrapping_sub(before?) as i64);
        Self {
            read_bytes: change(before.read_bytes, after.read_bytes),
            write_bytes: change(before.write_bytes, after.write_bytes),
            rss_bytes: change(before.rss, after.rss),
            microjoules: None,
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        let sum = |one: Option<i64>, other: Option<i64>| {
            other.map_or(one, |other| Some(one.unwrap_or(0).wrapping_add(other)))
        };
        self.read_bytes = sum(self.read_bytes, other.read_bytes);
        self.write_bytes = sum(self.write_bytes, other.write_bytes);
        self.rss_bytes = sum(self.rss_bytes, other.rss_bytes);
        self.microjoules = sum(self.microjoules, other.microjoules);
    }
}

/// The first and the last energy readings in a run, taken from its tasks, with their times.
#[derive(Debug, Default)]
pub(super) struct Readings {
    first: Option<(u64, Energy)>,
    last: Option<(u64, Energy)>,
}

impl Readings {
    pub(super) fn look_at(&mut self, task: &Task) {
        let began_ns = task.start.monotonic_ns;
        if self.first.as_ref().is_none_or(|(at, _)| began_ns < *at)
            && let Some(energy) = task.energy_at(ItemKind::TelemetryAtStart)
        {
            self.first = Some((began_ns, energy));
        }
        let Some(end) = task.end else { return };
        if self.last.as_ref().is_none_or(|(at, _)| end.monotonic_ns > *at)
            && let Some(energy) = task.energy_at(ItemKind::TelemetryAtEnd)
        {
            self.last = Some((end.monotonic_ns, energy));
        }
    }

    /// Returns the energy used between them, or why it is unknown, as a field of the run's totals.
    pub(super) fn joules(&self) -> Option<(String, Value)> {
        Some(match self.last.as_ref()?.1.since(&self.first.as_ref()?.1) {
            Ok(used) => {
                let used = json!({"inclusive": used.joules(), "meters": used.by_meter()});
                ("joules".to_owned(), used)
            }
            Err(reason) => ("unavailable".to_owned(), json!({"joules": reason})),
        })
    }
}

#[derive(serde::Serialize)]
struct Threads {
    #[serde(rename = "self")]
    own: u64,
    inclusive: u64,
}

/// A peak cannot be divided into own and child usage.
#[derive(serde::Serialize)]
struct Peak {
    inclusive: u64,
}

#[derive(serde::Serialize)]
struct Process {
    #[serde(rename = "self", skip_serializing_if = "Option::is_none")]
    own: Option<i64>,
    inclusive: i64,
    /// Whether other tasks ran at the same time, in which case not all of it belongs to this task.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    overlap: bool,
}

/// Energy is that of the whole machine, just as process-wide figures are those of all threads.
#[derive(serde::Serialize)]
struct Joules {
    #[serde(rename = "self", skip_serializing_if = "Option::is_none")]
    own: Option<f64>,
    inclusive: f64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    overlap: bool,
    /// The meters, and what each counted.
    meters: Named<f64>,
}
