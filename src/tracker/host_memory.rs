//! The host as a device: the process on the machine, inside its container.

use serde_json::{Map, Value};

use super::activity::Meter;
use super::collector::{About, Collector, Reading, Supported};
use crate::alloc;
use crate::telemetry::{MemoryNow, memory_now};

/// What the host has beside the counters of every device. What is not known is none.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct HostMemory {
    /// Resident memory of the process, or of the processes that are tracked.
    pub rss: Option<u64>,
    /// Swap in use, and all there is.
    pub swap_used: Option<u64>,
    /// All swap there is.
    pub swap_total: Option<u64>,
    /// What the container uses, where it is limited; its file cache is part of it.
    pub container_used: Option<u64>,
    /// What the container may use.
    pub container_limit: Option<u64>,
    /// The share of the last ten seconds in which some task of the machine waited for memory, in percent.
    pub pressure: Option<f64>,
    /// How many processes it is about, where there may be several.
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
            container_limit: now.container_limit,
            pressure: now.pressure,
            processes: None,
        }
    }

    /// As events have it in their metadata.
    pub(super) fn put(&self, metadata: &mut Map<String, Value>) {
        for (name, number) in [
            ("rss_bytes", self.rss),
            ("swap_used_bytes", self.swap_used),
            ("swap_total_bytes", self.swap_total),
            ("container_used_bytes", self.container_used),
            ("container_limit_bytes", self.container_limit),
            ("processes", self.processes),
        ] {
            if let Some(number) = number {
                metadata.insert(name.to_owned(), number.into());
            }
        }
        if let Some(pressure) = self.pressure {
            metadata.insert("memory_pressure_percent".to_owned(), pressure.into());
        }
    }
}

/// The memory of the machine, with what processes hold of it.
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

/// This process on its machine.
#[derive(Debug)]
pub(super) struct Host {
    meter: Meter,
}

impl Host {
    pub(super) fn new() -> Self {
        Self { meter: Meter::of_this_process() }
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
        about(if alloc::is_installed() { "runlore.alloc" } else { "process" })
    }

    fn collect(&mut self) -> Result<Reading, String> {
        let now = memory_now();
        if now.rss.is_none() && now.total.is_none() {
            return Err(
                "this system tells neither the memory of the process nor its own".to_owned()
            );
        }
        // What the allocator counts is exact; what is resident also holds code, stacks and what was not given back.
        let allocated = alloc::is_installed().then(|| alloc::counts().live_bytes());
        if let Some(rss) = now.rss {
            crate::profile::note_resident(rss);
        }
        let activity = self.meter.read(|| None);
        Ok(Reading { activity, ..reading_of(&now, now.rss, allocated) })
    }
}
