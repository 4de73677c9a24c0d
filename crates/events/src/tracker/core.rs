//! Turns readings into events, alerts and statistics. It performs no I/O itself.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::alerts::{Alert, AlertKind, Alerts, Level};
use super::collector::{About, Reading};
use super::device::Device;
use super::entry::{Entry, Fields, Ring, Session, State};
use super::health::Change;
use super::phase::Phases;
use super::statistics::TrackerStatistics;
use super::texts::Texts;
use super::time::Clock;
use super::words::bytes;
use crate::events::{SessionStatus, SessionSummary, SinkTotals, TelemetryEvent};
use runlore_core::record::{Id, scrub};

/// The maximum number of events that wait to be written. A longer queue means that nothing writes
/// them.
const MOST_WAITING: usize = 10_000;

#[derive(Debug)]
pub(super) struct Core {
    pub(super) session: Arc<Session>,
    pub(super) clock: Clock,
    pub(super) devices: Vec<Device>,
    alerts: Option<Alerts>,
    pub(super) ring: Ring,
    context: Option<Arc<str>>,
    /// The context of samples if the program has set none.
    sampled: Arc<str>,
    said: Option<Arc<Map<String, Value>>>,
    tasks: Arc<[Id]>,
    /// The shared metadata of events that have none of their own.
    nothing: Fields,
    kinds: Texts,
    contexts: Texts,
    sample: Arc<str>,
    status: SessionStatus,
    ended_ns: Option<u64>,
    total_events: u64,
    alert_count: u64,
    clock_steps: u64,
    pub(super) missed: u64,
    /// The queue of events to write. `None` if there is no sink or other outlet.
    waiting: Option<Vec<Entry>>,
    /// The number of queued events from which on the tracker's thread is woken.
    pub(super) worth_writing: usize,
    pub(super) not_written: u64,
    /// Alerts that were not yet passed to callbacks.
    pub(super) told: Vec<Alert>,
    pub(super) phases: Phases,
    pub(super) sink: SinkTotals,
    /// The error of the last requested flush.
    pub(super) flush_error: Option<String>,
    pub(super) has_recorder: bool,
    pub(super) last_dump: Option<String>,
}

/// The content of an event besides its device and reading.
#[derive(Default)]
pub(super) struct Said {
    pub(super) kind: Cow<'static, str>,
    pub(super) change: Option<i64>,
    pub(super) context: String,
    pub(super) metadata: Map<String, Value>,
}

impl Core {
    pub(super) fn new(
        session: Session,
        clock: Clock,
        devices: Vec<About>,
        alerts: Option<Alerts>,
        history: usize,
        has_outlets: bool,
    ) -> Self {
        Self {
            session: Arc::new(session),
            clock,
            devices: devices.into_iter().map(Device::new).collect(),
            alerts,
            ring: Ring::new(history),
            context: None,
            sampled: "Collected telemetry sample.".into(),
            said: None,
            tasks: Arc::from([]),
            nothing: Arc::from([]),
            kinds: Texts::default(),
            contexts: Texts::default(),
            sample: "sample".into(),
            status: SessionStatus::Running,
            ended_ns: None,
            total_events: 0,
            alert_count: 0,
            clock_steps: 0,
            missed: 0,
            waiting: has_outlets.then(Vec::new),
            worth_writing: 1,
            not_written: 0,
            told: Vec::new(),
            phases: Phases::default(),
            sink: SinkTotals::default(),
            flush_error: None,
            has_recorder: false,
            last_dump: None,
        }
    }

    /// Adds the first event. Later calls do nothing.
    pub(super) fn start(&mut self) {
        if self.total_events == 0 {
            self.add(0, Said::plain("start", Some(0), "Memory tracking started"));
        }
    }

    /// Handles the first reading of a device before it becomes a sample. The `start` event then
    /// includes the reading, and the first sample has a change of 0 instead of an unknown one.
    /// Schema 2 and 3 require both.
    pub(super) fn begin(&mut self, device: usize, read: &Result<Reading, String>) {
        if let Ok(reading) = read {
            self.devices[device].begin(reading);
        }
        self.start();
    }

    pub(super) fn stop(&mut self, status: SessionStatus) {
        if self.status == SessionStatus::Running {
            self.add(0, Said::plain("stop", Some(0), "Memory tracking stopped"));
            self.status = status;
            self.ended_ns = Some(self.clock.now());
        }
    }

    /// Sets the context of the program. Samples use it as their context, other events carry it as
    /// `tracker_context` in their metadata.
    pub(super) fn set_context(&mut self, context: Option<&str>) {
        self.context = context.map(Arc::from);
    }

    pub(super) fn set_metadata(&mut self, name: &str, value: Value) {
        let mut said = self.said.as_deref().cloned().unwrap_or_default();
        match value {
            Value::Null => _ = said.remove(name),
            value => _ = said.insert(name.to_owned(), value),
        }
        self.said = (!said.is_empty()).then(|| Arc::new(said));
    }

    /// Whether it is time to read a device.
    pub(super) fn is_due(&self, device: usize) -> bool {
        self.devices[device].health.is_due(|| self.clock.now())
    }

    /// Sets the currently open tasks.
    pub(super) fn set_tasks(&mut self, tasks: &[Id]) {
        if *self.tasks != *tasks {
            self.tasks = Arc::from(tasks);
        }
    }

    /// Handles the result of a collector: adds events for changes, alerts, and the sample itself.
    pub(super) fn sample(&mut self, device: usize, read: &Result<Reading, String>) {
        if self.status != SessionStatus::Running {
            // The reading was under way when tracking stopped.
            return;
        }
        self.look_at_clock();
        let now = self.clock.now();
        let change = match read {
            Ok(reading) => match self.devices[device].take_again(reading, now) {
                Some(change) => change,
                None => self.changed(device, reading, now),
            },
            Err(error) => return self.failed(device, error, now),
        };
        let text: Arc<str> = match &self.context {
            Some(context) => Arc::clone(context),
            None if self.devices[device].is_partial() => {
                let missing = self.devices[device].health.missing.join(", ");
                format!("Collected partial telemetry sample ({missing}).").into()
            }
            None => Arc::clone(&self.sampled),
        };
        let kind = Arc::clone(&self.sample);
        self.add_with(device, kind, change, text, Arc::clone(&self.nothing));
    }

    /// Handles a reading that differs from the previous one. Returns the change in allocated bytes.
    #[inline(never)]
    fn changed(&mut self, device: usize, reading: &Reading, now: u64) -> Option<i64> {
        let step = self.devices[device].take(*reading, now);
        let reading = Arc::clone(&self.devices[device].last);
        match step.health {
            Change::Nothing => {}
            Change::Worse => {
                let missing = self.devices[device].health.missing.join(", ");
                self.degraded(device, "Collector degraded; telemetry is partial.", &missing);
            }
            Change::Better { from, error, failures } => {
                let metadata = object(json!({
                    "collector_transition": "recovered",
                    "collector_recovered_from": from,
                    "collector_previous_error": error,
                    "collector_previous_failure_count": failures,
                }));
                let text = "Collector recovered; full telemetry sampling resumed.";
                let recovered =
                    Said { metadata, ..Said::plain("collector_recovered", Some(0), text) };
                self.add(device, recovered);
            }
        }
        if step.is_peak {
            let text = format!("New peak memory: {}", bytes(reading.allocated.unwrap_or(0)));
            self.add(device, Said::plain("peak", step.change, text));
        }
        if let Some(change) = step.change.filter(|change| *change != 0) {
            let (kind, verb) =
                if change > 0 { ("allocation", "allocated") } else { ("deallocation", "freed") };
            let text = format!("Memory {verb}: {}", bytes(change.unsigned_abs()));
            self.add(device, Said::plain(kind, step.change, text));
        }
        self.judge(device, &reading, step.change, now);
        step.change
    }

    fn judge(&mut self, device: usize, reading: &Reading, change: Option<i64>, now: u64) {
        let Some(alerts) = &self.alerts else { return };
        for found in self.devices[device].watch.judge(alerts, reading, change, now) {
            let mut metadata = Map::new();
            metadata.insert("alert".to_owned(), found.kind.as_str().into());
            metadata.insert(found.value_name().to_owned(), json!(found.value));
            if found.suppressed > 0 {
                metadata.insert("suppressed_alerts".to_owned(), found.suppressed.into());
            }
            let alert = Alert {
                level: found.level,
                kind: found.kind,
                message: found.message,
                device_id: self.devices[device].id(),
                timestamp_ns: now,
                value: found.value,
                suppressed: found.suppressed,
            };
            self.alert(device, alert, change, metadata);
        }
    }

    /// Raises an alert about a failure because memory ran out.
    pub(super) fn failure(&mut self, message: String, metadata: Map<String, Value>) {
        let alert = Alert {
            level: Level::Error,
            kind: AlertKind::Failure,
            message,
            device_id: self.devices[0].id(),
            timestamp_ns: self.clock.now(),
            value: 0.0,
            suppressed: 0,
        };
        self.alert(0, alert, Some(0), metadata);
    }

    fn alert(
        &mut self,
        device: usize,
        alert: Alert,
        change: Option<i64>,
        metadata: Map<String, Value>,
    ) {
        self.alert_count += 1;
        let kind = alert.level.as_str();
        self.add(device, Said { metadata, ..Said::plain(kind, change, alert.message.clone()) });
        self.told.push(alert);
    }

    #[cold]
    fn failed(&mut self, device: usize, error: &str, now: u64) {
        let error = scrub(error);
        if self.devices[device].fail(error.clone(), now) == Change::Worse {
            let text = "Collector unavailable; telemetry paused until recovery.";
            self.degraded(device, text, &error);
        }
    }

    fn degraded(&mut self, device: usize, text: &'static str, reason: &str) {
        let metadata = object(json!({
            "collector_transition": "degraded",
            "collector_degradation_reason": reason,
        }));
        self.add(device, Said { metadata, ..Said::plain("collector_degraded", Some(0), text) });
    }

    #[inline(never)]
    fn look_at_clock(&mut self) {
        let Some(step) = self.clock.step() else { return };
        self.clock_steps += 1;
        let seconds = step as f64 / 1e9;
        let metadata = object(json!({"clock_step_seconds": seconds}));
        let text = format!("The wall clock was set by {seconds:+.1} s");
        self.add(0, Said { metadata, ..Said::plain("clock_changed", Some(0), text) });
    }

    /// Adds an event about a device, with its last reading.
    pub(super) fn add(&mut self, device: usize, said: Said) {
        let Said { kind, change, context, metadata } = said;
        let mut metadata = metadata;
        if let Some(around) = &self.context {
            metadata.insert("tracker_context".to_owned(), (**around).into());
        }
        let metadata = match metadata.is_empty() {
            true => Arc::clone(&self.nothing),
            false => metadata.into_iter().collect(),
        };
        let kind = self.kinds.ours(&kind);
        self.add_with(device, kind, change, context.into(), metadata);
    }

    /// Adds a custom event of the program, about the first device.
    pub(super) fn add_own(&mut self, kind: &str, context: &str, mut said: Vec<(String, Value)>) {
        if let Some(around) = &self.context {
            said.push(("tracker_context".to_owned(), (**around).into()));
        }
        if said.len() > 1 {
            // If a name occurs twice, the last value counts.
            said = said.into_iter().collect::<Map<_, _>>().into_iter().collect();
        }
        let (kind, context) = (self.kinds.theirs(kind), self.contexts.theirs(context));
        self.add_with(0, kind, Some(0), context, said.into());
    }

    #[inline]
    fn add_with(
        &mut self,
        device: usize,
        kind: Arc<str>,
        change: Option<i64>,
        context: Arc<str>,
        metadata: Fields,
    ) {
        if self.status != SessionStatus::Running {
            // No event follows `stop`.
            return;
        }
        let (at_ns, state) = (self.clock.now(), self.state(device));
        let entry = Entry { at_ns, kind, state, change, context, metadata };
        self.total_events += 1;
        if let Some(waiting) = &mut self.waiting {
            if waiting.len() < MOST_WAITING {
                waiting.push(entry.clone());
            } else {
                self.not_written += 1;
            }
        }
        self.ring.push(entry);
    }

    /// Returns the current state of a device, shared with the previous event if nothing changed.
    #[inline]
    fn state(&mut self, device: usize) -> Arc<State> {
        let Self { devices, said, tasks, .. } = self;
        let known = &mut devices[device];
        // Changed values always get a new `Arc`, so comparing pointers is enough.
        let is_same = |state: &&Arc<State>| {
            Arc::ptr_eq(&state.reading, &known.last)
                && Arc::ptr_eq(&state.health, &known.health)
                && Arc::ptr_eq(&state.tasks, tasks)
                && state.said.as_ref().map(Arc::as_ptr) == said.as_ref().map(Arc::as_ptr)
        };
        if let Some(state) = known.state.as_ref().filter(is_same) {
            return Arc::clone(state);
        }
        let state = State {
            device: Arc::clone(&known.facts),
            reading: Arc::clone(&known.last),
            health: Arc::clone(&known.health),
            said: said.clone(),
            tasks: Arc::clone(tasks),
        };
        Arc::clone(known.state.insert(Arc::new(state)))
    }

    /// Swaps the queue of events to write, oldest first, for an empty one.
    pub(super) fn swap_waiting(&mut self, empty: &mut Vec<Entry>) {
        if let Some(waiting) = &mut self.waiting {
            std::mem::swap(waiting, empty);
        }
    }

    /// Whether enough events are queued to wake the tracker's thread.
    pub(super) fn wants_writing(&self) -> bool {
        self.waiting.as_ref().is_some_and(|waiting| waiting.len() >= self.worth_writing)
    }

    pub(super) fn events(&self) -> Vec<TelemetryEvent> {
        self.ring.iter().map(|entry| entry.to_event(&self.session)).collect()
    }

    pub(super) fn summary(&self) -> SessionSummary {
        let time = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        let identity = &self.session.identity;
        SessionSummary {
            session_id: self.session.id.clone(),
            status: self.status,
            started_at_ns: time(self.session.started_ns),
            ended_at_ns: self.ended_ns.map(time),
            host: self.session.host.clone(),
            pid: i64::from(self.session.pid),
            job_id: identity.job_id.clone(),
            rank: identity.rank,
            local_rank: identity.local_rank,
            world_size: identity.world_size,
            source: "runlore.tracker".to_owned(),
        }
    }

    /// Returns the statistics of a device by its index. `None` if there is no such device.
    pub(super) fn statistics(&self, device: usize) -> Option<TrackerStatistics> {
        self.devices.get(device).map(|known| self.statistics_of(known))
    }

    /// Returns the statistics of the first device, which always exists.
    pub(super) fn first_statistics(&self) -> TrackerStatistics {
        self.statistics_of(&self.devices[0])
    }

    fn statistics_of(&self, known: &Device) -> TrackerStatistics {
        let now = self.ended_ns.unwrap_or_else(|| self.clock.now());
        let seconds = |ns: u64| ns as f64 / 1e9;
        let duration = seconds(now.saturating_sub(self.session.started_ns));
        let hour_ago = now.saturating_sub(3_600_000_000_000);
        let per = |sum: u64, count: f64| if count > 0.0 { sum as f64 / count } else { 0.0 };
        let last = &*known.last;
        let used = last.used.or(last.allocated);
        let utilization = used.zip(known.total.filter(|total| *total > 0));
        TrackerStatistics {
            peak_memory: known.peak,
            peak_device_used: known.peak_used,
            total_allocations: known.allocations,
            total_deallocations: known.deallocations,
            total_allocation_bytes: known.allocated_bytes,
            total_deallocation_bytes: known.deallocated_bytes,
            alert_count: self.alert_count,
            tracking_start_time: seconds(self.session.started_ns),
            last_memory_check: known.last_check_ns.map(seconds),
            total_events: self.total_events,
            events_last_hour: self
                .ring
                .iter()
                .rev()
                .take_while(|entry| entry.at_ns > hour_ago)
                .count() as u64,
            history_window_limit_events: self.ring.limit() as u64,
            history_retained_events: self.ring.iter().len() as u64,
            history_dropped_events: self.ring.dropped,
            backend: known.facts.about.backend.clone(),
            oom_flight_recorder_enabled: self.has_recorder,
            last_oom_dump_path: self.last_dump.clone(),
            session_id: self.session.id.clone(),
            session_status: self.status,
            current_memory_allocated: last.allocated,
            current_memory_reserved: last.reserved,
            current_device_used: last.used,
            current_device_free: last.free,
            device_total: known.total,
            memory_utilization_percent: utilization
                .map(|(used, total)| used as f64 / total as f64 * 100.0),
            memory_capabilities: known.facts.about.capabilities(),
            average_allocation_size: per(known.allocated_bytes, known.allocations as f64),
            average_deallocation_size: per(known.deallocated_bytes, known.deallocations as f64),
            collector_health_status: known.health.status,
            telemetry_partial: known.is_partial(),
            collector_partial_fields: known.health.missing.clone(),
            collector_last_error: known.health.last_error.clone(),
            collector_consecutive_failures: known.health.failures,
            collector_next_retry_epoch_s: known.health.retry_at_ns.map(seconds),
            rollover_count: self.sink.rollovers,
            pruned_segment_count: self.sink.pruned_segments,
            pruned_bytes: self.sink.pruned_bytes,
            final_retained_files: self.sink.retained_files,
            final_retained_bytes: self.sink.retained_bytes,
            tracking_duration_seconds: duration,
            allocations_per_second: per(known.allocations, duration),
            bytes_allocated_per_second: per(known.allocated_bytes, duration),
            samples: known.samples,
            missed_samples: self.missed,
            suppressed_alerts: self.devices.iter().map(|device| device.watch.suppressed()).sum(),
            sink_dropped_events: self.sink.dropped_events + self.not_written,
            sink_removed_events: self.sink.removed_events,
            sink_last_error: self.sink.last_error.clone(),
            clock_steps: self.clock_steps,
        }
    }
}

impl Said {
    pub(super) fn plain(
        kind: impl Into<Cow<'static, str>>,
        change: Option<i64>,
        context: impl Into<String>,
    ) -> Self {
        Self { kind: kind.into(), change, context: context.into(), metadata: Map::new() }
    }
}

/// Returns the fields of an object. Empty for any other value.
pub(super) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}
