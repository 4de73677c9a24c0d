//! Shows the resources that a task used.

use std::io::{self, Write};

use runlore::record::JoulesObject;
use serde_json::{Map, Value};

use super::{fact, plain};
use crate::out::{BOLD, DIM};
use crate::units::{bytes, change, count, counted, joules, measured_by, nanoseconds, percent};

/// Writes `resources` of a task with the given duration.
pub(super) fn write(
    out: &mut impl Write,
    mut resources: Map<String, Value>,
    duration_ns: Option<u64>,
) -> io::Result<()> {
    let child = resources.remove("child");
    let is_shared = resources.values().any(|figure| figure["overlap"] == true);
    let has_energy = resources.contains_key("joules");
    if !resources.is_empty() {
        writeln!(out, "\n{BOLD}resources{BOLD:#}")?;
    }
    let mut figures = Figures(resources);
    if let Some(cpu) = figures.take("cpu_ns") {
        let load = load(cpu.inclusive, duration_ns);
        let load = load.map(|load| format!(" ({} of one processor)", percent(load)));
        let time = |figure: i64| nanoseconds(figure.unsigned_abs());
        fact(out, "cpu time", &cpu.told(time, &load.unwrap_or_default()))?;
    }
    if let Some(memory) = figures.take("rss_bytes") {
        fact(out, "memory", &memory.told(change, " resident"))?;
    }
    let allocated = ["allocated_bytes", "allocations", "freed_bytes", "allocated_peak_bytes"]
        .map(|name| figures.take(name).map(|figure| figure.inclusive.unsigned_abs()));
    if let [Some(allocated), Some(times), Some(freed), Some(peak)] = allocated {
        let (times, freed) = (counted(times, "allocation", "allocations"), bytes(freed));
        let told = format!("{} in {times}, {freed} freed", bytes(allocated));
        fact(out, "allocated", &format!("{told}, {} at once", bytes(peak)))?;
    }
    for (name, heading, what) in
        [("read_bytes", "read", " from disks"), ("write_bytes", "written", " to disks")]
    {
        if let Some(figure) = figures.take(name) {
            let told = |figure: i64| bytes(figure.unsigned_abs());
            fact(out, heading, &figure.told(told, what))?;
        }
    }
    let faults = [figures.take("minor_faults"), figures.take("major_faults")];
    if let [Some(minor), Some(major)] = faults {
        fact(out, "page faults", &faulted(minor.inclusive as u64, major.inclusive as u64))?;
    }
    let switches = [figures.take("voluntary_switches"), figures.take("involuntary_switches")];
    if let [Some(waited), Some(made_room)] = switches {
        fact(out, "switches", &switched(waited.inclusive as u64, made_room.inclusive as u64))?;
    }
    if let Some(value) = figures.0.remove("joules") {
        let is_ours = value.get("inclusive").is_some();
        let used = is_ours.then(|| serde_json::from_value(value.clone()).ok()).flatten();
        fact(out, "energy", &used.map_or_else(|| plain(&value), |used| energy(&used)))?;
    }
    for (name, value) in figures.0 {
        fact(out, &name, &plain(&value))?;
    }
    if is_shared {
        let theirs = if has_energy { "read, written and energy" } else { "read and written" };
        let note = format!("other tasks ran at the same time; memory, {theirs} include theirs");
        writeln!(out, "  {DIM}{note}{DIM:#}")?;
    }
    match child {
        Some(Value::Object(child)) => write_child(out, &child),
        _ => Ok(()),
    }
}

/// Writes the resources of a process that the task ran.
fn write_child(out: &mut impl Write, child: &Map<String, Value>) -> io::Result<()> {
    writeln!(out, "\n{BOLD}resources of the command{BOLD:#}")?;
    let number = |name: &str| child.get(name)?.as_u64();
    let or_reason = |name: &str, value: Option<String>| {
        value.unwrap_or_else(|| {
            let reason = child.get("unavailable").and_then(|reasons| reasons.get(name));
            format!("unknown: {}", reason.map_or("it was not recorded".into(), plain))
        })
    };
    if let (Some(user), Some(system)) = (number("user_ns"), number("system_ns")) {
        let (all, user, system) =
            (nanoseconds(user + system), nanoseconds(user), nanoseconds(system));
        fact(out, "cpu time", &format!("{all}: {user} in the program, {system} in the kernel"))?;
    }
    let peak = number("peak_rss_bytes").map(bytes);
    fact(out, "peak memory", &or_reason("peak_rss_bytes", peak))?;
    for (heading, disk, all, what) in [
        ("read", "read_bytes", "read_chars", "from disks"),
        ("written", "write_bytes", "write_chars", "to disks"),
    ] {
        let told = number(disk)
            .zip(number(all))
            .map(|(disk, all)| format!("{}, {} of it {what}", bytes(all.max(disk)), bytes(disk)));
        fact(out, heading, &or_reason(disk, told))?;
    }
    if let (Some(minor), Some(major)) = (number("minor_faults"), number("major_faults")) {
        fact(out, "page faults", &faulted(minor, major))?;
    }
    let switches = (number("voluntary_switches"), number("involuntary_switches"));
    if let (Some(waited), Some(made_room)) = switches {
        fact(out, "switches", &switched(waited, made_room))?;
    }
    Ok(())
}

fn energy(used: &JoulesObject) -> String {
    let own = used.own.filter(|own| *own != used.inclusive);
    let own = own.map(|own| format!(" with all it called, {} by itself", joules(own)));
    format!("{}{} ({})", joules(used.inclusive), own.unwrap_or_default(), measured_by(used))
}

fn faulted(minor: u64, major: u64) -> String {
    format!("{} without a disk, {} from a disk", count(minor), count(major))
}

fn switched(waited: u64, made_room: u64) -> String {
    format!("{} to wait, {} to make room for others", count(waited), count(made_room))
}

/// The figures that have not been written yet.
struct Figures(Map<String, Value>);

impl Figures {
    /// Removes and returns a figure, if it has the expected structure.
    fn take(&mut self, name: &str) -> Option<Figure> {
        let figure = Figure::of(self.0.get(name)?)?;
        self.0.remove(name);
        Some(figure)
    }
}

/// How much of a resource a task used, with and without its child tasks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figure {
    pub(crate) inclusive: i64,
    pub(crate) own: Option<i64>,
    /// Whether other tasks ran at the same time.
    pub(crate) is_shared: bool,
}

impl Figure {
    pub(crate) fn of(value: &Value) -> Option<Self> {
        Some(Self {
            inclusive: value.get("inclusive")?.as_i64()?,
            own: value.get("self").and_then(Value::as_i64),
            is_shared: value.get("overlap") == Some(&Value::Bool(true)),
        })
    }

    fn told(self, tell: impl Fn(i64) -> String, what: &str) -> String {
        let inclusive = tell(self.inclusive);
        match self.own.filter(|own| *own != self.inclusive) {
            Some(own) => format!("{inclusive}{what} with all it called, {} by itself", tell(own)),
            None => format!("{inclusive}{what}"),
        }
    }
}

/// Returns processor time as a percentage of the duration. `None` for a task shorter than a
/// millisecond, because measuring takes longer than the task itself.
pub(crate) fn load(cpu_ns: i64, duration_ns: Option<u64>) -> Option<f64> {
    let duration_ns = duration_ns.filter(|duration| *duration >= 1_000_000)?;
    Some(cpu_ns as f64 / duration_ns as f64 * 100.0)
}
