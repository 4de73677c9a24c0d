//! The host as a device: the process on its machine, inside its container.

use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use super::activity::Meter;
use super::collector::{About, Collector, Reading, Supported};
use runlore_core::alloc;
use runlore_telemetry::{MemoryNow, memory_now, resident_now};

/// Values that only the host has. Unknown values are `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct HostMemory {
    /// Resident memory of the process, or of the tracked processes.
    pub rss: Option<u64>,
    /// Swap in use.
    pub swap_used: Option<u64>,
    /// The total size of swap.
    pub swap_total: Option<u64>,
    /// Memory that the container uses, including file cache, if it has a limit.
    pub container_used: Option<u64>,
    /// The part of it that is inactive file cache (`inactive_file`), which the kernel reclaims
    /// first. Read only if alerts depend on it.
    pub container_cache: Option<u64>,
    /// The memory limit of the container.
    pub container_limit: Option<u64>,
    /// The percentage of the last ten seconds in which some process of the machine waited for
    /// memory.
    pub pressure: Option<f64>,
    /// The number of tracked processes, if there may be several.
    pub processes: Option<u64>,
}

impl HostMemory {
    fn of(now: &MemoryNow) -> Self {
        Self {
            rss: now.rss,
            swap_used: now
                .swap_total
                .zip(now.swap_free)
                .map(|(all, free)| all.saturating_sub(free)),
            swap_total: now.swap_total,
            container_used: now.container_used,
            container_cache: now.container_cache,
            container_limit: now.container_limit,
            pressure: now.pressure,
            processes: None,
        }
    }

    /// The names in the metadata of events.
    pub(super) const NAMES: [&str; 8] = [
        "rss_bytes",
        "swap_used_bytes",
        "swap_total_bytes",
        "container_used_bytes",
        "container_cache_bytes",
        "container_limit_bytes",
        "processes",
        Self::PRESSURE,
    ];
    pub(super) const PRESSURE: &str = "memory_pressure_percent";

    /// Returns all values except the pressure, with their names.
    pub(super) fn numbers(&self) -> impl Iterator<Item = (&'static str, Option<u64>)> {
        let numbers = [
            self.rss,
            self.swap_used,
            self.swap_total,
            self.container_used,
            self.container_cache,
            self.container_limit,
            self.processes,
        ];
        Self::NAMES.into_iter().zip(numbers)
    }

    /// Adds the values to the metadata of an event.
    pub(super) fn put(&self, metadata: &mut Map<String, Value>) {
        for (name, number) in self.numbers() {
            if let Some(number) = number {
                metadata.insert(name.to_owned(), number.into());
            }
        }
        if let Some(pressure) = self.pressure {
            metadata.insert(Self::PRESSURE.to_owned(), pressure.into());
        }
    }
}

/// Returns the memory of the machine, with that of the given processes.
pub(super) fn reading_of(now: &MemoryNow, rss: Option<u64>, allocated: Option<u64>) -> Reading {
    let used =
        now.total.zip(now.available).map(|(total, available)| total.saturating_sub(available));
    Reading {
        allocated: allocated.or(rss),
        reserved: rss,
        used,
        free: now.available,
        total: now.total,
        host: Some(HostMemory { rss, ..HostMemory::of(now) }),
        ..Reading::default()
    }
}

/// Reads this process on its machine, or the machine alone.
#[derive(Debug)]
pub(super) struct Host {
    meter: Meter,
    is_machine: bool,
    /// The fraction of the container's limit above which its file cache is read.
    cache_from: f64,
    /// The last pressure, and when it was read.
    pressure: Option<(Instant, Option<f64>)>,
}

/// How long a pressure value is reused. The kernel updates it only every two seconds.
const PRESSURE_LASTS: Duration = Duration::from_secs(1);

impl Host {
    pub(super) fn new(cache_from: f64) -> Self {
        let meter = Meter::of_this_process();
        Self { meter, is_machine: false, cache_from, pressure: None }
    }

    /// Reads the machine without this process.
    pub(super) fn machine(cache_from: f64) -> Self {
        Self { meter: Meter::of_machine(), is_machine: true, cache_from, pressure: None }
    }
}

pub(super) fn about(source: &str) -> About {
    let supported = Supported {
        allocated: true,
        reserved: true,
        used: true,
        free: true,
        total: true,
        ..Supported::default()
    };
    About { device_id: -1, backend: "cpu".to_owned(), source: source.to_owned(), supported }
}

impl Collector for Host {
    fn about(&self) -> About {
        if self.is_machine { about("machine") } else { counted(about(source())) }
    }

    fn collect(&mut self) -> Result<Reading, String> {
        let known = self.pressure.filter(|(at, _)| at.elapsed() < PRESSURE_LASTS);
        let mut now = memory_now(known.is_none(), self.cache_from);
        match known {
            Some((_, pressure)) => now.pressure = pressure,
            None => self.pressure = Some((Instant::now(), now.pressure)),
        }
        if now.rss.is_none() && now.total.is_none() {
            return Err(
                "this system tells neither the memory of the process nor its own".to_owned()
            );
        }
        let activity = self.meter.read(|| None);
        if self.is_machine {
            let mut reading = reading_of(&now, None, None);
            (reading.allocated, reading.reserved) = (reading.used, reading.used);
            return Ok(Reading { activity, ..reading });
        }
        if let Some(rss) = now.rss {
            runlore_core::resident::note_resident(rss);
        }
        let allocated = allocated();
        Ok(Reading { activity, active: allocated, ..reading_of(&now, now.rss, allocated) })
    }
}

/// Reads this process alone.
#[derive(Debug)]
pub(super) struct Process;

impl Collector for Process {
    fn about(&self) -> About {
        let supported = Supported { allocated: true, reserved: true, ..Supported::default() };
        counted(About { supported, ..about(source()) })
    }

    fn collect(&mut self) -> Result<Reading, String> {
        let rss = resident_now().ok_or("this system does not tell the memory of the process")?;
        runlore_core::resident::note_resident(rss);
        let host = HostMemory { rss: Some(rss), ..HostMemory::default() };
        let active = allocated();
        let (allocated, host) = (active.or(Some(rss)), Some(host));
        Ok(Reading { allocated, active, reserved: Some(rss), host, ..Reading::default() })
    }
}

/// Marks the active bytes as supported if allocations are counted. They equal the allocated bytes,
/// because the counting allocator keeps no freed memory.
fn counted(mut about: About) -> About {
    about.supported.active = alloc::is_installed();
    about
}

fn source() -> &'static str {
    if alloc::is_installed() { "runlore.alloc" } else { "process" }
}

/// Returns the bytes that the counting allocator counts, which are exact. Resident memory also
/// includes code, stacks and memory that was freed but not returned.
fn allocated() -> Option<u64> {
    alloc::is_installed().then(|| alloc::counts().live_bytes())
}
