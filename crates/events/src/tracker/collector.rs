//! Where readings come from.

use serde_json::{Map, Value, json};

use super::activity::Activity;
use super::host_memory::HostMemory;

/// What is read at one moment, in bytes. What the collector does not know is none.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Reading {
    /// What the allocator has handed out.
    pub allocated: Option<u64>,
    /// What the allocator holds.
    pub reserved: Option<u64>,
    /// What is in use of it.
    pub active: Option<u64>,
    /// What is not in use, but cannot be given back.
    pub inactive: Option<u64>,
    /// What is taken of the device, by whomever.
    pub used: Option<u64>,
    /// What is free of the device.
    pub free: Option<u64>,
    /// What the device has.
    pub total: Option<u64>,
    /// What only the host has: swap, the container's limit, pressure.
    pub host: Option<HostMemory>,
    /// What was done beside holding memory, where that was read this time.
    pub activity: Option<Activity>,
}

/// The counters that a collector knows, unless something is wrong. One that it should know and does not makes a sample partial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the reading")]
pub struct Supported {
    pub allocated: bool,
    pub reserved: bool,
    pub active: bool,
    pub inactive: bool,
    pub used: bool,
    pub free: bool,
    pub total: bool,
}

/// What a collector reads, and how it calls itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct About {
    /// The device: 0 and up for graphics processors, -1 for the host.
    pub device_id: i64,
    /// `cpu`, `cuda`, `rocm` or another backend.
    pub backend: String,
    /// What the counters are read from: `/proc`, `nvml` and the like.
    pub source: String,
    /// The counters that it knows.
    pub supported: Supported,
}

/// Reads the memory of one device. Write one for an allocator that only your program can ask.
///
/// ```
/// use runlore::tracker::{About, Collector, Reading, Supported, Tracker};
///
/// /// A pool that counts for itself.
/// struct Pool;
///
/// impl Collector for Pool {
///     fn about(&self) -> About {
///         let supported = Supported { allocated: true, total: true, ..Supported::default() };
///         About::new(7, "pool", "pool.stats", supported)
///     }
///
///     fn collect(&mut self) -> Result<Reading, String> {
///         Ok(Reading { allocated: Some(300), total: Some(1000), ..Reading::default() })
///     }
/// }
///
/// let tracker = Tracker::builder().collector(Pool).start()?;
/// tracker.sample_now();
/// assert_eq!(tracker.statistics().memory_utilization_percent, Some(30.0));
/// # Ok::<(), runlore::Error>(())
/// ```
pub trait Collector: Send {
    /// What it reads; asked once.
    fn about(&self) -> About;

    /// Reads.
    ///
    /// # Errors
    ///
    /// Where nothing can be read: the reason, in a sentence. It is then tried again later and later, up to 30 s.
    fn collect(&mut self) -> Result<Reading, String>;
}

impl About {
    /// A device by its number, its backend, what its counters are read from, and which of them there are.
    pub fn new(
        device_id: i64,
        backend: impl Into<String>,
        source: impl Into<String>,
        supported: Supported,
    ) -> Self {
        Self { device_id, backend: backend.into(), source: source.into(), supported }
    }

    /// Whether it reads the memory of processes, and not that of a device of its own.
    pub(super) fn is_host(&self) -> bool {
        self.backend == "cpu"
    }

    /// The name that events have: `runlore.cpu_tracker`.
    pub(super) fn collector(&self) -> String {
        format!("runlore.{}_tracker", self.backend)
    }

    /// `memory_capabilities`, as schema 4 has it in every event.
    pub(super) fn capabilities(&self) -> Map<String, Value> {
        let Supported { allocated, reserved, active, inactive, used, free, total } = self.supported;
        let whole = json!({
            "backend": self.backend,
            "telemetry_collector": self.collector(),
            "sampling_source": self.source,
            "supports_allocator_allocated": allocated,
            "supports_allocator_reserved": reserved,
            "supports_allocator_active": active,
            "supports_allocator_inactive": inactive,
            "supports_device_used": used,
            "supports_device_free": free,
            "supports_device_total": total,
            "supports_native_allocator_history": false,
            "supports_fragmentation_analysis": allocated && reserved && inactive,
            "supports_allocator_attribution": allocated && reserved,
            "supports_bounded_profiling": false,
        });
        match whole {
            Value::Object(fields) => fields,
            _ => Map::new(),
        }
    }
}

impl Supported {
    /// The counters that a reading should have and does not, by their names in events.
    pub(super) fn missing(self, reading: &Reading) -> Vec<&'static str> {
        [
            (self.allocated, reading.allocated, "allocator_allocated_bytes"),
            (self.reserved, reading.reserved, "allocator_reserved_bytes"),
            (self.active, reading.active, "allocator_active_bytes"),
            (self.inactive, reading.inactive, "allocator_inactive_bytes"),
            (self.used, reading.used, "device_used_bytes"),
            (self.total, reading.total, "device_total_bytes"),
            (self.free, reading.free, "device_free_bytes"),
        ]
        .into_iter()
        .filter(|(is_supported, bytes, _)| *is_supported && bytes.is_none())
        .map(|(.., name)| name)
        .collect()
    }
}

impl Reading {
    /// Only what the collector says it knows, and nothing beyond the device's total: what else would be no event.
    pub(super) fn within(mut self, supported: Supported) -> Self {
        let keep = |is_supported: bool, bytes: &mut Option<u64>| {
            if !is_supported {
                *bytes = None;
            }
        };
        keep(supported.allocated, &mut self.allocated);
        keep(supported.reserved, &mut self.reserved);
        keep(supported.active, &mut self.active);
        keep(supported.inactive, &mut self.inactive);
        keep(supported.used, &mut self.used);
        keep(supported.free, &mut self.free);
        keep(supported.total, &mut self.total);
        if let Some(total) = self.total {
            self.used = self.used.map(|used| used.min(total));
            self.free = self.free.map(|free| free.min(total));
        }
        self
    }
}
