//! What a stream of events adds up to, in constant memory.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::event::TelemetryEvent;

/// Sums over events.
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
    /// How many there are.
    pub events: u64,
    /// How many of each kind.
    pub by_type: BTreeMap<String, u64>,
    /// The first moment.
    pub first_ns: Option<u64>,
    /// The last moment.
    pub last_ns: Option<u64>,
    /// The machines.
    pub hosts: BTreeSet<String>,
    /// The ranks.
    pub ranks: BTreeSet<u64>,
    /// The devices.
    pub devices: BTreeSet<i64>,
    /// The most of each counter that any event knows.
    pub peaks: BTreeMap<&'static str, Peak>,
    /// What events of the kinds `allocation` and `deallocation` say was allocated.
    pub allocated_bytes: u64,
    /// What they say was given back.
    pub deallocated_bytes: u64,
    /// Events of the kinds `warning`, `critical` and `error`.
    pub alerts: u64,
}

/// The most of a counter, and when and where it was first seen.
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
