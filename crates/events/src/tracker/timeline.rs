//! Memory over time, at even intervals.

use std::time::Duration;

use serde::Serialize;

use crate::events::TelemetryEvent;

/// The last event of each interval, as columns like those of Stormlog's `get_memory_timeline`.
/// Intervals without events are left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Timeline {
    /// The start of each interval, in Unix seconds.
    pub timestamps: Vec<f64>,
    /// Allocated bytes.
    pub allocated: Vec<Option<u64>>,
    /// Reserved bytes.
    pub reserved: Vec<Option<u64>>,
    /// Used bytes of the device.
    pub device_used: Vec<Option<u64>>,
    /// Free bytes of the device.
    pub device_free: Vec<Option<u64>>,
    /// The size of the device's memory in bytes.
    pub device_total: Vec<Option<u64>>,
}

impl Timeline {
    /// Creates the timeline of events that are ordered by time. Empty if the interval is zero.
    ///
    /// ```
    /// use std::time::Duration;
    /// use runlore::events::TelemetryEvent;
    /// use runlore::tracker::Timeline;
    ///
    /// let event = |timestamp_ns, bytes| TelemetryEvent {
    ///     timestamp_ns,
    ///     allocator_allocated_bytes: Some(bytes),
    ///     ..TelemetryEvent::default()
    /// };
    /// let events = [event(0, 1), event(900_000_000, 2), event(2_000_000_000, 3)];
    /// let timeline = Timeline::of(&events, Duration::from_secs(1));
    /// assert_eq!(timeline.timestamps, [0.0, 2.0]);
    /// assert_eq!(timeline.allocated, [Some(2), Some(3)]);
    /// ```
    pub fn of<'a>(
        events: impl IntoIterator<Item = &'a TelemetryEvent>,
        interval: Duration,
    ) -> Self {
        let mut timeline = Self::default();
        let interval = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
        if interval == 0 {
            return timeline;
        }
        let mut events = events.into_iter();
        let Some(mut last) = events.next() else { return timeline };
        let start = last.timestamp_ns;
        let mut current = 0;
        for event in events {
            let bucket = event.timestamp_ns.saturating_sub(start) / interval;
            if bucket != current {
                timeline.push(start + current * interval, last);
                current = bucket;
            }
            last = event;
        }
        timeline.push(start + current * interval, last);
        timeline
    }

    fn push(&mut self, at_ns: u64, event: &TelemetryEvent) {
        self.timestamps.push(at_ns as f64 / 1e9);
        self.allocated.push(event.allocator_allocated_bytes);
        self.reserved.push(event.allocator_reserved_bytes);
        self.device_used.push(event.device_used_bytes);
        self.device_free.push(event.device_free_bytes);
        self.device_total.push(event.device_total_bytes);
    }
}
