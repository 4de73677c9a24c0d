//! What a tracker has seen so far, in numbers.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::events::SessionStatus;

/// Sums over the life of a tracker, of its first device unless another is asked for. The names up to
/// `bytes_allocated_per_second` are those of Stormlog's `get_statistics`; what has no meaning here is none.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TrackerStatistics {
    /// The most that was allocated.
    pub peak_memory: u64,
    /// The most that was taken of the device.
    pub peak_device_used: u64,
    /// Samples in which more was allocated than in the one before.
    pub total_allocations: u64,
    /// Samples in which less was allocated than in the one before.
    pub total_deallocations: u64,
    /// By how much it grew in all of them together.
    pub total_allocation_bytes: u64,
    /// By how much it shrank.
    pub total_deallocation_bytes: u64,
    /// Alerts that were told.
    pub alert_count: u64,
    /// When tracking began, in Unix seconds.
    pub tracking_start_time: f64,
    /// When the last sample was taken.
    pub last_memory_check: Option<f64>,
    /// Events of all devices.
    pub total_events: u64,
    /// Those of the last hour that are still there.
    pub events_last_hour: u64,
    /// How many events are kept.
    pub history_window_limit_events: u64,
    /// How many are there.
    pub history_retained_events: u64,
    /// How many had to go.
    pub history_dropped_events: u64,
    /// `cpu`, `cuda`, `rocm` or another backend.
    pub backend: String,
    /// Whether the last events are dumped when memory runs out.
    pub oom_flight_recorder_enabled: bool,
    /// The last such dump.
    pub last_oom_dump_path: Option<String>,
    /// The session.
    pub session_id: String,
    /// How it stands.
    pub session_status: SessionStatus,
    /// What is allocated now.
    pub current_memory_allocated: Option<u64>,
    /// What the allocator holds now.
    pub current_memory_reserved: Option<u64>,
    /// What is taken of the device now.
    pub current_device_used: Option<u64>,
    /// What is free of it now.
    pub current_device_free: Option<u64>,
    /// What the device has.
    pub device_total: Option<u64>,
    /// What is taken of the device, in percent.
    pub memory_utilization_percent: Option<f64>,
    /// Which counters the collector knows.
    pub memory_capabilities: Map<String, Value>,
    /// Bytes an allocation, in the mean.
    pub average_allocation_size: f64,
    /// Bytes a deallocation, in the mean.
    pub average_deallocation_size: f64,
    /// `healthy`, `degraded` or `unhealthy`.
    pub collector_health_status: &'static str,
    /// Whether counters are missing.
    pub telemetry_partial: bool,
    /// Which.
    pub collector_partial_fields: Vec<&'static str>,
    /// What went wrong last.
    pub collector_last_error: Option<String>,
    /// How often in a row.
    pub collector_consecutive_failures: u64,
    /// When it is tried again, in Unix seconds.
    pub collector_next_retry_epoch_s: Option<f64>,
    /// Segments of the sink that were followed by another.
    pub rollover_count: u64,
    /// Segments that had to go.
    pub pruned_segment_count: u64,
    /// Their bytes.
    pub pruned_bytes: u64,
    /// Segments that are there.
    pub final_retained_files: u64,
    /// Their bytes.
    pub final_retained_bytes: u64,
    /// How long it has been tracking.
    pub tracking_duration_seconds: f64,
    /// `total_allocations` a second.
    pub allocations_per_second: f64,
    /// `total_allocation_bytes` a second.
    pub bytes_allocated_per_second: f64,
    /// Samples that were taken.
    pub samples: u64,
    /// Samples that came too late to be taken.
    pub missed_samples: u64,
    /// Alerts that were not told, because there were too many.
    pub suppressed_alerts: u64,
    /// Events that a sink had no room for, or that came faster than they could be written.
    pub sink_dropped_events: u64,
    /// Events that were in the sink, and are gone because somebody removed its files.
    pub sink_removed_events: u64,
    /// Why the sink cannot be written, where that is so; or what has just happened to it.
    pub sink_last_error: Option<String>,
    /// Times at which the wall clock was set.
    pub clock_steps: u64,
}
