//! Statistics over a stream of events, in constant memory.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::event::TelemetryEvent;

/// Counts, sums and peaks over events.
///
/// ```
/// use runlore::events::{Statistics, TelemetryEvent};
///
/// let mut statistics = Statistics::default();
/// for (timestamp_ns, bytes) in [(1, 10), (2, 30), (3, 20)] {
///     let allocator_allocated_bytes = Some(bytes);
///     statistics.add(&TelemetryEvent { timestamp_ns, allocator_allocated_bytes, ..Default::default() });
/// }
/// let peak = statistics.peaks["allocator_allocated_bytes"];
/// assert_eq!((statistics.events, peak.bytes, peak.timestamp_ns), (3, 30, 2));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Statistics {
    /// The number of events.
    pub events: u64,
    /// The number of events by type.
    pub by_type: BTreeMap<String, u64>,
    /// The earliest timestamp.
    pub first_ns: Option<u64>,
    /// The latest timestamp.
    pub last_ns: Option<u64>,
    /// The hosts that occur.
    pub hosts: BTreeSet<String>,
    /// The ranks that occur.
    pub ranks: BTreeSet<u64>,
    /// The devices that occur.
    pub devices: BTreeSet<i64>,
    /// The highest known value of each counter.
    pub peaks: BTreeMap<&'static str, Peak>,
    /// The sum of all positive changes in `allocation` and `deallocation` events.
    pub allocated_bytes: u64,
    /// The sum of all negative changes in these events, as a positive number.
    pub deallocated_bytes: u64,
    /// The number of `warning`, `critical` and `error` events.
    pub alerts: u64,
}

/// The highest value of a counter, and when and where it first occurred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the event")]
pub struct Peak {
    pub bytes: u64,
    pub timestamp_ns: u64,
    pub rank: u64,
    pub device_id: i64,
}

impl Statistics {
    /// Adds an event.
    pub fn add(&mut self, event: &TelemetryEvent) {
        self.events += 1;
        let kind = &*event.event_type;
        match self.by_type.get_mut(kind) {
            Some(count) => *count += 1,
            None => _ = self.by_type.insert(kind.to_owned(), 1),
        }
        let now = event.timestamp_ns;
        self.first_ns = Some(self.first_ns.map_or(now, |first| first.min(now)));
        self.last_ns = self.last_ns.max(Some(now));
        if !self.hosts.contains(&*event.host) {
            self.hosts.insert(event.host.to_string());
        }
        self.ranks.insert(event.rank);
        self.devices.insert(event.device_id);
        for (name, bytes) in [
            ("allocator_allocated_bytes", event.allocator_allocated_bytes),
            ("allocator_reserved_bytes", event.allocator_reserved_bytes),
            ("allocator_active_bytes", event.allocator_active_bytes),
            ("allocator_inactive_bytes", event.allocator_inactive_bytes),
            ("device_used_bytes", event.device_used_bytes),
            ("device_total_bytes", event.device_total_bytes),
        ] {
            let Some(bytes) = bytes else { continue };
            if self.peaks.get(name).is_none_or(|peak| bytes > peak.bytes) {
                let (rank, device_id) = (event.rank, event.device_id);
                self.peaks.insert(name, Peak { bytes, timestamp_ns: now, rank, device_id });
            }
        }
        if matches!(kind, "allocation" | "deallocation") {
            let change = event.allocator_change_bytes.unwrap_or(0);
            let sum =
                if change > 0 { &mut self.allocated_bytes } else { &mut self.deallocated_bytes };
            *sum = sum.saturating_add(change.unsigned_abs());
        }
        self.alerts += u64::from(matches!(kind, "warning" | "critical" | "error"));
    }
}
