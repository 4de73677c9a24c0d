//! Collectors, which read the memory of devices.

use serde_json::{Map, Value, json};

use super::activity::Activity;
use super::host_memory::HostMemory;

/// One reading of a device, in bytes. A counter that the collector does not know is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Reading {
    /// Bytes that the allocator has handed out.
    pub allocated: Option<u64>,
    /// Bytes that the allocator has reserved from the device.
    pub reserved: Option<u64>,
    /// Reserved bytes that are in use.
    pub active: Option<u64>,
    /// Reserved bytes that are not in use but cannot be returned to the device.
    pub inactive: Option<u64>,
    /// Bytes of the device's memory that are in use by any process.
    pub used: Option<u64>,
    /// Bytes of the device's memory that are free.
    pub free: Option<u64>,
    /// The size of the device's memory in bytes.
    pub total: Option<u64>,
    /// Values that only the host has: swap, the container's limit, pressure.
    pub host: Option<HostMemory>,
    /// Activity other than memory use, if it was read this time.
    pub activity: Option<Activity>,
}

/// The counters that a collector normally knows. A sample that lacks one of them is partial.
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

/// Describes a collector and its device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct About {
    /// The device: 0 and up for GPUs, -1 for the host.
    pub device_id: i64,
    /// `cpu`, `cuda`, `rocm` or another backend.
    pub backend: String,
    /// The source of the counters: `/proc`, `nvml` and the like.
    pub source: String,
    /// The counters that the collector knows.
    pub supported: Supported,
}

/// Reads the memory of one device. Implement it for an allocator that only your program can query.
///
/// ```
/// use runlore::tracker::{About, Collector, Reading, Supported, Tracker};
///
/// /// A memory pool with its own counters.
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
    /// Describes the collector. Called once.
    fn about(&self) -> About;

    /// Takes a reading.
    ///
    /// # Errors
    ///
    /// The reason, as a sentence, if nothing can be read. The tracker then retries with increasing
    /// delays of up to 30 s.
    fn collect(&mut self) -> Result<Reading, String>;
}

impl About {
    /// Describes a device by its number, its backend, the source of its counters, and the counters
    /// that it supports.
    pub fn new(
        device_id: i64,
        backend: impl Into<String>,
        source: impl Into<String>,
        supported: Supported,
    ) -> Self {
        Self { device_id, backend: backend.into(), source: source.into(), supported }
    }

    /// Whether this is the memory of processes on the host, not of a separate device.
    pub(super) fn is_host(&self) -> bool {
        self.backend == "cpu"
    }

    /// Returns the collector's name in events, such as `runlore.cpu_tracker`.
    pub(super) fn collector(&self) -> String {
        format!("runlore.{}_tracker", self.backend)
    }

    /// Returns the `memory_capabilities`, which schema 4 requires in every event.
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
    /// Returns the supported counters that a reading lacks, by their names in events.
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
    /// Removes unsupported counters, and clamps `used` and `free` to the device's total. Other
    /// values would not make a valid event.
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
