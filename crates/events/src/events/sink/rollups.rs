//! `rollups.json`: counts and peaks of a sink's events by session and time window. With it, a large
//! sink can be inspected without reading all its events.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use super::manifest::{Segment, replace};
use super::writer::SinkTotals;
use crate::events::{SessionSummary, TelemetryEvent, Text, read};

/// The rollup of each session.
#[derive(Debug)]
pub(super) struct SessionRollups(Vec<Value>);

/// The parts of an event that rollups use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts<'a> {
    pub(crate) timestamp_ns: u64,
    pub(crate) event_type: &'a str,
    pub(crate) rank: u64,
    pub(crate) local_rank: u64,
    pub(crate) world_size: u64,
    pub(crate) device_id: i64,
    pub(crate) allocated: Option<u64>,
    pub(crate) reserved: Option<u64>,
    pub(crate) used: Option<u64>,
    /// Whether the metadata has `oom_reason`.
    pub(crate) has_reason: bool,
    /// The `oom_dump_path` of the metadata.
    pub(crate) dump: Option<&'a str>,
}

impl<'a> Facts<'a> {
    pub(super) fn of(event: &'a TelemetryEvent) -> Self {
        Self {
            timestamp_ns: event.timestamp_ns,
            event_type: &event.event_type,
            rank: event.rank,
            local_rank: event.local_rank,
            world_size: event.world_size,
            device_id: event.device_id,
            allocated: event.allocator_allocated_bytes,
            reserved: event.allocator_reserved_bytes,
            used: event.device_used_bytes,
            has_reason: event.metadata.contains_key("oom_reason"),
            dump: event.metadata.get("oom_dump_path").and_then(Value::as_str),
        }
    }
}

/// The running rollup of a writer's session, so that the events need not be read back at the end.
#[derive(Debug)]
pub(super) struct RunningRollup {
    session: Session,
    window_ns: u64,
}

impl RunningRollup {
    /// `None` if the session's start is negative: the windows then depend on the first event.
    pub(super) fn new(session: &SessionSummary, window: Duration) -> Option<Self> {
        let start = u64::try_from(session.started_at_ns).ok()?;
        Some(Self { session: Session::new(start), window_ns: nanoseconds(window) })
    }

    pub(super) fn add(&mut self, facts: &Facts<'_>) {
        self.session.add(facts, self.window_ns);
    }

    /// Returns the rollups of all sessions of a sink. `None` if the segments contain anything other
    /// than the added events.
    pub(super) fn told(
        mut self,
        own: &SessionSummary,
        sessions: &[SessionSummary],
        segments: &[Segment],
    ) -> Option<SessionRollups> {
        let is_own = |segment: &Segment| segment.session_id.as_ref() == Some(&own.session_id);
        let there: u64 = segments.iter().map(|segment| segment.event_count).sum();
        if there != self.session.sums.events || !segments.iter().all(is_own) {
            return None;
        }
        let written = segments.iter().filter(|segment| segment.event_count > 0);
        self.session.sources = written.map(|segment| segment.filename.clone()).collect();
        let told = sessions.iter().map(|summary| match summary.session_id == own.session_id {
            true => self.session.told(summary, self.window_ns),
            false => Session::empty(summary).told(summary, self.window_ns),
        });
        Some(SessionRollups(told.collect()))
    }
}

fn nanoseconds(window: Duration) -> u64 {
    u64::try_from(window.as_nanos()).unwrap_or(u64::MAX)
}

/// Computes the rollups of all sessions of a sink from its segments.
pub(super) fn read_back(folder: &Path, window: Duration) -> io::Result<SessionRollups> {
    let window_ns = nanoseconds(window);
    let mut sessions: Vec<(Text, Session)> = Vec::new();
    let mut reader = read(folder).map_err(io::Error::other)?;
    let starts: BTreeMap<String, i64> = reader
        .summaries()
        .iter()
        .map(|session| (session.session_id.clone(), session.started_at_ns))
        .collect();
    while let Some(event) = reader.next() {
        let Ok(event) = event else { continue };
        // Search from the end: most events belong to the same session as the one before.
        let place = sessions.iter().rposition(|(id, _)| *id == event.session_id);
        let place = place.unwrap_or_else(|| {
            let start = starts.get(&*event.session_id).and_then(|start| u64::try_from(*start).ok());
            let session = Session::new(start.unwrap_or(event.timestamp_ns));
            sessions.push((event.session_id.clone(), session));
            sessions.len() - 1
        });
        let session = &mut sessions[place].1;
        let file = reader.current_file();
        if session.last_file.replace(file) != Some(file) {
            let name = reader.path_of(file).file_name();
            session.sources.extend(name.map(|name| name.to_string_lossy().into_owned()));
        }
        session.add(&Facts::of(&event), window_ns);
    }
    let told = reader.summaries().iter().map(|summary| {
        let found = sessions.iter().find(|(id, _)| **id == *summary.session_id);
        match found {
            Some((_, session)) => session.told(summary, window_ns),
            None => Session::empty(summary).told(summary, window_ns),
        }
    });
    Ok(SessionRollups(told.collect()))
}

pub(super) fn write(
    folder: &Path,
    segments: &[Segment],
    totals: &SinkTotals,
    window: Duration,
    SessionRollups(sessions): &SessionRollups,
) -> io::Result<()> {
    let sum = |of: fn(&Segment) -> u64| segments.iter().map(of).sum::<u64>();
    let names: Vec<&str> = segments.iter().map(|segment| &*segment.filename).collect();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let rollups = json!({
        "schema_version": 1,
        "format": "stormlog.telemetry_rollups",
        "generated_at_ns": now.map_or(0, |now| now.as_nanos() as u64),
        "window_duration_ns": nanoseconds(window),
        "source_manifest": super::MANIFEST,
        "source_manifest_schema_version": 2,
        "coverage": {
            "retained_segment_filenames": names,
            "retained_segment_count": names.len(),
            "retained_event_count": sum(|segment| segment.event_count),
            "retained_bytes": sum(|segment| segment.size_bytes),
            "pruned_segment_count": totals.pruned_segments,
            "pruned_bytes": totals.pruned_bytes,
        },
        "sessions": sessions,
    });
    replace(folder, "rollups.json", &serde_json::to_vec_pretty(&rollups)?)
}

/// The highest value of a counter.
#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Peak {
    value: Option<u64>,
    timestamp_ns: Option<u64>,
    rank: Option<u64>,
    device_id: Option<i64>,
}

#[derive(Debug, Clone, Default, Serialize)]
struct Counters {
    allocator_allocated_bytes: Peak,
    allocator_reserved_bytes: Peak,
    device_used_bytes: Peak,
}

impl Counters {
    fn add(&mut self, event: &Facts<'_>) {
        for (peak, bytes) in [
            (&mut self.allocator_allocated_bytes, event.allocated),
            (&mut self.allocator_reserved_bytes, event.reserved),
            (&mut self.device_used_bytes, event.used),
        ] {
            if bytes.is_some() && bytes > peak.value {
                *peak = Peak {
                    value: bytes,
                    timestamp_ns: Some(event.timestamp_ns),
                    rank: Some(event.rank),
                    device_id: Some(event.device_id),
                };
            }
        }
    }
}

/// The sums of a session, a rank or a window.
#[derive(Debug, Default)]
struct Sums {
    events: u64,
    samples: u64,
    first_ns: Option<u64>,
    last_ns: Option<u64>,
    counters: Counters,
    alerts: u64,
    transitions: u64,
    failures: u64,
    ranks: BTreeSet<u64>,
}

impl Sums {
    fn add(&mut self, event: &Facts<'_>) {
        let now = event.timestamp_ns;
        self.events += 1;
        self.samples += u64::from(event.event_type == "sample");
        self.first_ns = Some(self.first_ns.map_or(now, |first| first.min(now)));
        self.last_ns = self.last_ns.max(Some(now));
        self.counters.add(event);
        self.alerts += u64::from(is_alert(event));
        self.transitions += u64::from(event.event_type.starts_with("collector_"));
        self.failures += u64::from(is_failure(event));
        self.ranks.insert(event.rank);
    }
}

fn is_alert(event: &Facts<'_>) -> bool {
    matches!(event.event_type, "warning" | "critical" | "error")
}

/// Whether an event reports an out-of-memory failure.
fn is_failure(event: &Facts<'_>) -> bool {
    event.event_type == "error" && event.has_reason
}

/// The device memory that is in use but not reserved by the allocator, over time.
#[derive(Debug, Default)]
struct Gap {
    first: Option<(u64, i128)>,
    latest: Option<(u64, i128)>,
    peak: Option<i128>,
}

#[derive(Debug, Default)]
struct Rank {
    sums: Sums,
    local_rank: u64,
    world_size: u64,
    gap: Gap,
}

#[derive(Debug)]
struct Session {
    start_ns: u64,
    sums: Sums,
    by_type: BTreeMap<String, u64>,
    degraded: u64,
    recovered: u64,
    degraded_ns: u64,
    degraded_since: Option<u64>,
    last_status: Option<String>,
    dumps: BTreeSet<String>,
    ranks: BTreeMap<u64, Rank>,
    windows: BTreeMap<u64, Sums>,
    sources: BTreeSet<String>,
    /// The index of the file of the last event.
    last_file: Option<usize>,
}

impl Session {
    fn new(start_ns: u64) -> Self {
        Self {
            start_ns,
            sums: Sums::default(),
            by_type: BTreeMap::new(),
            degraded: 0,
            recovered: 0,
            degraded_ns: 0,
            degraded_since: None,
            last_status: None,
            dumps: BTreeSet::new(),
            ranks: BTreeMap::new(),
            windows: BTreeMap::new(),
            sources: BTreeSet::new(),
            last_file: None,
        }
    }

    /// Creates a session without events.
    fn empty(summary: &SessionSummary) -> Self {
        Self::new(u64::try_from(summary.started_at_ns).unwrap_or(0))
    }

    fn add(&mut self, event: &Facts<'_>, window_ns: u64) {
        let now = event.timestamp_ns;
        self.sums.add(event);
        self.windows.entry(now.saturating_sub(self.start_ns) / window_ns).or_default().add(event);
        if is_alert(event) {
            *self.by_type.entry(event.event_type.to_owned()).or_default() += 1;
        }
        match event.event_type {
            "collector_degraded" => {
                self.degraded += 1;
                self.degraded_since.get_or_insert(now);
                self.last_status = Some("degraded".to_owned());
            }
            "collector_recovered" => {
                self.recovered += 1;
                let since = self.degraded_since.take();
                self.degraded_ns += since.map_or(0, |since| now.saturating_sub(since));
                self.last_status = Some("recovered".to_owned());
            }
            _ => {}
        }
        self.dumps.extend(event.dump.map(str::to_owned));
        let rank = self.ranks.entry(event.rank).or_default();
        rank.sums.add(event);
        (rank.local_rank, rank.world_size) = (event.local_rank, event.world_size);
        if let (Some(used), Some(reserved)) = (event.used, event.reserved) {
            let gap = i128::from(used) - i128::from(reserved);
            rank.gap.first.get_or_insert((now, gap));
            rank.gap.latest = Some((now, gap));
            rank.gap.peak = rank.gap.peak.max(Some(gap));
        }
    }

    fn told(&self, summary: &SessionSummary, window_ns: u64) -> Value {
        let ranks: Vec<Value> = self.ranks.iter().map(|(rank, found)| found.told(*rank)).collect();
        let windows: Vec<Value> = self
            .windows
            .iter()
            .map(|(index, sums)| {
                let start = self.start_ns + index * window_ns;
                json!({
                    "index": index,
                    "start_ns": start,
                    "end_ns": start.saturating_add(window_ns),
                    "event_count": sums.events,
                    "sample_count": sums.samples,
                    "rank_count": sums.ranks.len(),
                    "counters": sums.counters,
                    "alert_count": sums.alerts,
                    "collector_transition_count": sums.transitions,
                    "oom_count": sums.failures,
                })
            })
            .collect();
        json!({
            "session": summary,
            "event_count": self.sums.events,
            "sample_count": self.sums.samples,
            "first_timestamp_ns": self.sums.first_ns,
            "last_timestamp_ns": self.sums.last_ns,
            "source_count": self.sources.len(),
            "sources_loaded": self.sources,
            "counters": self.sums.counters,
            "alerts": {
                "total_count": self.sums.alerts,
                "severity_counts": self.by_type,
                "event_type_counts": self.by_type,
            },
            "collector_health": {
                "transition_count": self.degraded + self.recovered,
                "degraded_count": self.degraded,
                "recovered_count": self.recovered,
                "degraded_time_ns": self.degraded_ns,
                "last_status": self.last_status,
            },
            "oom": {
                "marker_count": self.sums.failures,
                "event_count": self.sums.failures,
                "bundle_path_count": self.dumps.len(),
            },
            "ranks": ranks,
            "windows": windows,
            "warnings": [],
        })
    }
}

impl Rank {
    fn told(&self, rank: u64) -> Value {
        let Gap { first, latest, peak } = self.gap;
        let delta = first.zip(latest).map(|((_, first), (_, latest))| latest - first);
        let drift = first.zip(latest).zip(delta).map(|(((from, _), (to, _)), delta)| {
            let seconds = to.saturating_sub(from) as f64 / 1e9;
            if seconds > 0.0 { delta as f64 / seconds } else { 0.0 }
        });
        json!({
            "rank": rank,
            "local_rank": self.local_rank,
            "world_size": self.world_size,
            "event_count": self.sums.events,
            "sample_count": self.sums.samples,
            "first_timestamp_ns": self.sums.first_ns,
            "last_timestamp_ns": self.sums.last_ns,
            "counters": self.sums.counters,
            "hidden_gap_first_bytes": first.map(|(_, gap)| number(gap)),
            "hidden_gap_latest_bytes": latest.map(|(_, gap)| number(gap)),
            "hidden_gap_peak_bytes": peak.map(number),
            "hidden_gap_delta_bytes": delta.map(number),
            "hidden_gap_drift_bytes_per_second": drift,
        })
    }
}

/// Converts a whole number to JSON. Numbers beyond 64 bits become the nearest float.
fn number(whole: i128) -> Value {
    let signed = i64::try_from(whole).map(Value::from);
    let unsigned = || u64::try_from(whole).map(Value::from);
    signed.or_else(|_| unsigned()).unwrap_or_else(|_| Value::from(whole as f64))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::events::{SessionStatus, SinkOptions, SinkWriter};

    #[test]
    fn what_is_kept_of_events_is_what_reading_them_tells() {
        let folder = tempfile::tempdir().unwrap();
        let capabilities = json!({"backend": "cuda", "telemetry_collector": "c"});
        let event = |at: u64, event_type: &str| TelemetryEvent {
            session_id: "run-7".into(),
            timestamp_ns: at * 1_000_000_000,
            event_type: event_type.into(),
            rank: at % 2,
            local_rank: at % 2,
            world_size: 2,
            device_used_bytes: Some(1000 - at),
            allocator_reserved_bytes: (!at.is_multiple_of(3)).then_some(at),
            metadata: match event_type {
                "error" => object(json!({"oom_reason": "x", "oom_dump_path": "/dump"})),
                _ => object(json!({"extra": capabilities})),
            },
            ..TelemetryEvent::default()
        };
        let told = |name: &str| {
            let sink = folder.path().join(name);
            let text = fs::read(sink.join("rollups.json")).unwrap();
            let mut rollups: Value = serde_json::from_slice(&text).unwrap();
            let SessionRollups(read) = read_back(&sink, Duration::from_secs(60)).unwrap();
            assert_eq!(rollups["sessions"].take(), Value::Array(read), "{name}");
        };
        let options = || SinkOptions { segment_events: 7, ..SinkOptions::default() };
        let kinds = ["sample", "collector_degraded", "warning", "error", "collector_recovered"];
        let events: Vec<_> = (1..40).map(|at| event(at, kinds[at as usize % 5])).collect();
        let write = |name: &str, options: SinkOptions, events: &[TelemetryEvent]| {
            let mut summary = SessionSummary::of(&events[0]);
            summary.session_id = events[0].session_id.to_string();
            let mut sink = SinkWriter::open(folder.path().join(name), options, summary).unwrap();
            events.iter().for_each(|event| sink.append(event).unwrap());
            sink.close(SessionStatus::Completed, 50_000_000_000).unwrap();
            told(name);
        };
        write("all", options(), &events);
        // Pruned events and other sessions force the writer to read the segments back.
        write("pruned", SinkOptions { keep_files: 2, ..options() }, &events);
        let mut others = events.clone();
        others.iter_mut().for_each(|event| event.session_id = "run-8".into());
        write("all", options(), &others);
    }

    fn object(value: Value) -> crate::events::Metadata {
        match value {
            Value::Object(fields) => fields.into(),
            _ => unreachable!(),
        }
    }

    #[test]
    fn counters_of_any_size_add_up() {
        let mut session = Session::new(0);
        for (at, used, reserved) in [(1, u64::MAX, 0), (2, 1 << 63, 1), (3, 0, u64::MAX)] {
            let event = TelemetryEvent {
                timestamp_ns: at,
                device_used_bytes: Some(used),
                allocator_reserved_bytes: Some(reserved),
                ..TelemetryEvent::default()
            };
            session.add(&Facts::of(&event), 1);
        }
        let told = session.ranks[&0].told(0);
        assert_eq!(told["hidden_gap_first_bytes"], u64::MAX);
        assert_eq!(told["hidden_gap_peak_bytes"], u64::MAX);
        assert_eq!(told["hidden_gap_latest_bytes"], -(2_f64.powi(64)), "as near as JSON has it");
        assert_eq!(told["hidden_gap_delta_bytes"], -(2_f64.powi(65)));
    }

    #[test]
    fn they_are_those_that_stormlog_makes_of_its_sink() {
        let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/stormlog/v043/sink");
        let folder = tempfile::tempdir().unwrap();
        for entry in fs::read_dir(golden).unwrap() {
            let entry = entry.unwrap();
            if entry.file_name() != "rollups.json" {
                fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
            }
        }
        let json =
            |path: &Path| -> Value { serde_json::from_slice(&fs::read(path).unwrap()).unwrap() };
        let manifest = json(&folder.path().join("manifest.json"));
        let segments: Vec<Segment> = manifest["segments"]
            .as_array()
            .unwrap()
            .iter()
            .map(|segment| Segment {
                filename: segment["filename"].as_str().unwrap().to_owned(),
                event_count: segment["event_count"].as_u64().unwrap(),
                size_bytes: segment["size_bytes"].as_u64().unwrap(),
                closed: true,
                session_id: None,
            })
            .collect();
        let totals =
            SinkTotals { pruned_segments: 5, pruned_bytes: 71_814, ..SinkTotals::default() };
        let window = Duration::from_secs(60);
        let told = read_back(folder.path(), window).unwrap();
        write(folder.path(), &segments, &totals, window, &told).unwrap();

        let (mut ours, mut theirs) = (
            json(&folder.path().join("rollups.json")),
            json(&Path::new(golden).join("rollups.json")),
        );
        for rollups in [&mut ours, &mut theirs] {
            rollups["generated_at_ns"] = Value::Null;
            for session in rollups["sessions"].as_array_mut().unwrap() {
                // Stormlog lists whole paths, or the folder if there is no file.
                session["sources_loaded"] = Value::Null;
                session["source_count"] = Value::Null;
            }
        }
        assert_eq!(ours, theirs);
    }
}
