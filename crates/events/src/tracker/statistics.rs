//! The statistics of a tracker.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::events::SessionStatus;

/// Statistics over the life of a tracker, for its first device unless another is requested. The
/// fields up to `bytes_allocated_per_second` have the names of Stormlog's `get_statistics`. Values
/// that do not apply are `None`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TrackerStatistics {
    /// The highest number of allocated bytes.
    pub peak_memory: u64,
    /// The highest number of used bytes of the device.
    pub peak_device_used: u64,
    /// The number of samples with more allocated bytes than the previous one.
    pub total_allocations: u64,
    /// The number of samples with fewer allocated bytes than the previous one.
    pub total_deallocations: u64,
    /// The sum of all increases in bytes.
    pub total_allocation_bytes: u64,
    /// The sum of all decreases in bytes.
    pub total_deallocation_bytes: u64,
    /// The number of alerts.
    pub alert_count: u64,
    /// The start of tracking, in Unix seconds.
    pub tracking_start_time: f64,
    /// The time of the last sample, in Unix seconds.
    pub last_memory_check: Option<f64>,
    /// The number of events of all devices.
    pub total_events: u64,
    /// The number of retained events of the last hour.
    pub events_last_hour: u64,
    /// The maximum number of retained events.
    pub history_window_limit_events: u64,
    /// The number of retained events.
    pub history_retained_events: u64,
    /// The number of events that were dropped to make room for newer ones.
    pub history_dropped_events: u64,
    /// `cpu`, `cuda`, `rocm` or another backend.
    pub backend: String,
    /// Whether a flight recorder dumps the most recent events when memory runs out.
    pub oom_flight_recorder_enabled: bool,
    /// The path of the last dump.
    pub last_oom_dump_path: Option<String>,
    /// The id of the session.
    pub session_id: String,
    /// The state of the session.
    pub session_status: SessionStatus,
    /// Currently allocated bytes.
    pub current_memory_allocated: Option<u64>,
    /// Currently reserved bytes.
    pub current_memory_reserved: Option<u64>,
    /// Currently used bytes of the device.
    pub current_device_used: Option<u64>,
    /// Currently free bytes of the device.
    pub current_device_free: Option<u64>,
    /// The size of the device's memory in bytes.
    pub device_total: Option<u64>,
    /// The used part of the device's memory, in percent.
    pub memory_utilization_percent: Option<f64>,
    /// The capabilities of the collector.
    pub memory_capabilities: Map<String, Value>,
    /// The mean increase in bytes.
    pub average_allocation_size: f64,
    /// The mean decrease in bytes.
    pub average_deallocation_size: f64,
    /// `healthy`, `degraded` or `unhealthy`.
    pub collector_health_status: &'static str,
    /// Whether the last sample lacked supported counters.
    pub telemetry_partial: bool,
    /// The counters that it lacked.
    pub collector_partial_fields: Vec<&'static str>,
    /// The last error of the collector.
    pub collector_last_error: Option<String>,
    /// The number of consecutive failures of the collector.
    pub collector_consecutive_failures: u64,
    /// The time of the next retry, in Unix seconds.
    pub collector_next_retry_epoch_s: Option<f64>,
    /// The number of full segments of the sink that were closed to start another.
    pub rollover_count: u64,
    /// The number of segments that were deleted by the retention limits.
    pub pruned_segment_count: u64,
    /// The size of these segments in bytes.
    pub pruned_bytes: u64,
    /// The number of segments that exist.
    pub final_retained_files: u64,
    /// The size of these segments in bytes.
    pub final_retained_bytes: u64,
    /// The duration of tracking so far.
    pub tracking_duration_seconds: f64,
    /// `total_allocations` per second.
    pub allocations_per_second: f64,
    /// `total_allocation_bytes` per second.
    pub bytes_allocated_per_second: f64,
    /// The number of samples taken.
    pub samples: u64,
    /// The number of samples that were skipped because they were late.
    pub missed_samples: u64,
    /// The number of alerts suppressed by the rate limit since the last alert of the same kind and
    /// level.
    pub suppressed_alerts: u64,
    /// Events that did not reach the sink: its buffer was full, they came faster than they could be
    /// written, or its schema cannot express them.
    pub sink_dropped_events: u64,
    /// Events that were written to the sink and then lost because its files were removed.
    pub sink_removed_events: u64,
    /// The error of the sink's last flush, or the note that its folder was removed and recreated.
    pub sink_last_error: Option<String>,
    /// The number of times that the wall clock was set.
    pub clock_steps: u64,
}
