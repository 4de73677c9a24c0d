//! The compact form in which events are retained. Shared values are stored once.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::collector::{About, Reading};
use super::health::{HEALTHY, Health};
use crate::events::{Identity, TelemetryEvent};
use runlore_core::record::Id;

/// The values that all events of a tracker share.
#[derive(Debug, Clone)]
pub(super) struct Session {
    pub(super) id: String,
    pub(super) host: String,
    pub(super) pid: u32,
    pub(super) identity: Identity,
    pub(super) interval_ms: u64,
    pub(super) started_ns: u64,
}

/// The values that all events of a device share.
#[derive(Debug)]
pub(super) struct DeviceFacts {
    pub(super) about: About,
    collector: String,
    pub(super) metadata: Map<String, Value>,
}

impl DeviceFacts {
    pub(super) fn new(about: About) -> Self {
        let mut metadata = Map::new();
        let collector = about.collector();
        if !about.is_host() {
            metadata.insert("backend".to_owned(), about.backend.clone().into());
            metadata.insert("sampling_source".to_owned(), about.source.clone().into());
            metadata.insert("supports_device_total".to_owned(), about.supported.total.into());
            metadata.insert("supports_device_free".to_owned(), about.supported.free.into());
        }
        metadata.insert("memory_capabilities".to_owned(), about.capabilities().into());
        Self { about, collector, metadata }
    }
}

/// Values by name, each name once. Thousands of events are retained, and a map would take ten times
/// the memory.
pub(super) type Fields = Arc<[(String, Value)]>;

/// The state at the time of an event. It rarely changes, so most events share it with the previous
/// one.
#[derive(Debug)]
pub(super) struct State {
    pub(super) device: Arc<DeviceFacts>,
    pub(super) reading: Arc<Reading>,
    pub(super) health: Arc<Health>,
    /// The metadata that the program had set at the time.
    pub(super) said: Option<Arc<Map<String, Value>>>,
    /// The innermost open task of each thread.
    pub(super) tasks: Arc<[Id]>,
}

/// One event.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) at_ns: u64,
    pub(super) kind: Arc<str>,
    pub(super) state: Arc<State>,
    pub(super) change: Option<i64>,
    pub(super) context: Arc<str>,
    /// The event's own metadata.
    pub(super) metadata: Fields,
}

impl Entry {
    /// Returns the change in allocated bytes. `None` if the collector does not support it.
    pub(super) fn change(&self) -> Option<i64> {
        self.change.filter(|_| self.state.device.about.supported.allocated)
    }

    /// Returns the metadata that all events of the device share while the health of its collector
    /// is unchanged. For a host, the health is included only if something is wrong: Stormlog never
    /// includes it there.
    pub(super) fn common(&self) -> Map<String, Value> {
        let mut metadata = self.state.device.metadata.clone();
        if !self.state.device.about.is_host() || self.state.health.status != HEALTHY {
            self.state.health.put(&mut metadata);
        }
        metadata
    }

    /// Returns the event's own metadata.
    pub(super) fn own(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.metadata.iter().map(|(name, value)| (name, value))
    }

    pub(super) fn to_event(&self, session: &Session) -> TelemetryEvent {
        let Reading { allocated, reserved, active, inactive, used, free, total, host, activity } =
            *self.state.reading;
        let mut metadata = self.common();
        if let Some(host) = host {
            host.put(&mut metadata);
        }
        if let Some(activity) = activity.filter(|_| &*self.kind == "sample") {
            activity.put(&mut metadata);
        }
        if let Some(task) = self.state.tasks.first() {
            metadata.insert("task_id".to_owned(), task.to_string().into());
            if self.state.tasks.len() > 1 {
                let all =
                    self.state.tasks.iter().map(|task| Value::from(task.to_string())).collect();
                metadata.insert("open_task_ids".to_owned(), Value::Array(all));
            }
        }
        for (name, value) in self.state.said.iter().flat_map(|said| said.iter()).chain(self.own()) {
            metadata.insert(name.clone(), value.clone());
        }
        let Identity { job_id, rank, local_rank, world_size } = session.identity.clone();
        TelemetryEvent {
            session_id: session.id.as_str().into(),
            timestamp_ns: self.at_ns,
            event_type: (*self.kind).into(),
            collector: self.state.device.collector.as_str().into(),
            sampling_interval_ms: session.interval_ms,
            pid: i64::from(session.pid),
            host: session.host.as_str().into(),
            job_id: job_id.map(Into::into),
            rank,
            local_rank,
            world_size,
            device_id: self.state.device.about.device_id,
            allocator_allocated_bytes: allocated,
            allocator_reserved_bytes: reserved,
            allocator_active_bytes: active,
            allocator_inactive_bytes: inactive,
            allocator_change_bytes: self.change(),
            device_used_bytes: used,
            device_free_bytes: free,
            device_total_bytes: total,
            context: Some((*self.context).into()),
            metadata: metadata.into(),
        }
    }
}

/// The most recent events, up to a limit.
#[derive(Debug)]
pub(super) struct Ring {
    entries: VecDeque<Entry>,
    limit: usize,
    pub(super) dropped: u64,
}

impl Ring {
    pub(super) fn new(limit: usize) -> Self {
        Self { entries: VecDeque::new(), limit, dropped: 0 }
    }

    #[inline]
    pub(super) fn push(&mut self, entry: Entry) {
        if self.entries.len() >= self.limit {
            self.entries.pop_front();
            self.dropped += 1;
        }
        self.entries.push_back(entry);
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Entry> + ExactSizeIterator {
        self.entries.iter()
    }
}
