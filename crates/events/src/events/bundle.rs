//! Diagnose bundles: folders with the results of one diagnosis, read as if they were files of
//! events.
//!
//! A bundle stores its samples as columns over time. The session and the environment are in files
//! beside them.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde_json::{Map, Value, json};

use super::event::TelemetryEvent;
use super::problem::Problem;
use super::record::Options;
use super::session::SessionSummary;
use super::sink::{self, MANIFEST};

const TIMELINE: &str = "telemetry_timeline.json";

/// The content of a bundle's folder.
#[derive(Debug)]
pub(super) struct Bundle {
    pub(super) timeline: PathBuf,
    pub(super) events: VecDeque<TelemetryEvent>,
    pub(super) summary: Option<SessionSummary>,
    pub(super) problems: Vec<Problem>,
}

/// Returns the folder of a bundle if the path is that folder, or its timeline or manifest.
pub(super) fn folder_of(path: &Path) -> Option<&Path> {
    let is_part = path.file_name().is_some_and(|name| name == TIMELINE || name == MANIFEST);
    let folder = match is_part && !path.is_dir() {
        true => path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new(".")),
        false => path,
    };
    let is_plain =
        |name: &str| fs::symlink_metadata(folder.join(name)).is_ok_and(|facts| facts.is_file());
    is_plain(TIMELINE).then_some(folder)
}

impl Bundle {
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        let timeline = folder.join(TIMELINE);
        let mut bundle =
            Self { timeline, events: VecDeque::new(), summary: None, problems: Vec::new() };
        let manifest = bundle.object(&folder.join(MANIFEST)).unwrap_or_default();
        if let Some(session) = manifest.get("session").filter(|session| !session.is_null()) {
            match SessionSummary::from_value(session) {
                Ok(summary) => bundle.summary = Some(summary),
                Err(error) => {
                    let what = format!("the session's summary is left out: {error}");
                    bundle.problems.push(Problem::of_file(&folder.join(MANIFEST), what));
                }
            }
        }
        let summary = bundle.object(&folder.join("diagnostic_summary.json")).unwrap_or_default();
        let environment = bundle.object(&folder.join("environment.json")).unwrap_or_default();
        let timeline = bundle.timeline.clone();
        if let Some(columns) = bundle.object(&timeline) {
            bundle.read(&columns, &summary, &environment);
        }
        Ok(bundle)
    }

    /// Reads one of the files. If that fails, adds a problem and returns `None`.
    fn object(&mut self, path: &Path) -> Option<Map<String, Value>> {
        match sink::read(path) {
            Ok(Some(Value::Object(object))) => Some(object),
            Ok(_) => None,
            Err(what) => {
                self.problems.push(Problem::of_file(path, what));
                None
            }
        }
    }

    /// Converts each row to a record without a version, whose fields match the columns, and parses
    /// it.
    fn read(
        &mut self,
        columns: &Map<String, Value>,
        summary: &Map<String, Value>,
        environment: &Map<String, Value>,
    ) {
        let Some(times) = columns.get("timestamps").and_then(Value::as_array) else {
            let what = "it has no list of timestamps; nothing of it is read";
            self.problems.push(Problem::of_file(&self.timeline, what));
            return;
        };
        let backend = summary.get("backend").and_then(Value::as_str);
        let of_gpu = environment.get("gpu").and_then(|gpu| gpu.get("device_id"));
        let device = columns
            .get("device_id")
            .or(of_gpu)
            .and_then(Value::as_i64)
            .unwrap_or(if backend.is_none_or(|name| name == "cpu") { -1 } else { 0 });
        let mut common = json!({"device_id": device, "backend": backend});
        let mut options = Options::default();
        if let Some(session) = &self.summary {
            options = options.session(&*session.session_id);
            common["host"] = json!(session.host);
            common["pid"] = json!(session.pid);
            common["job_id"] = json!(session.job_id);
            common["rank"] = json!(session.rank);
            common["local_rank"] = json!(session.local_rank);
            common["world_size"] = json!(session.world_size);
        }
        for (row, time) in times.iter().enumerate() {
            let mut record = common.clone();
            record["timestamp"] = time.clone();
            for (column, field) in [
                ("allocated", "memory_allocated"),
                ("reserved", "memory_reserved"),
                ("device_used", "device_used_bytes"),
                ("device_total", "device_total_bytes"),
            ] {
                let cell = columns.get(column).and_then(|cells| cells.get(row));
                if let Some(bytes) = cell.and_then(Value::as_f64).filter(|bytes| *bytes >= 0.0) {
                    record[field] = json!(bytes as u64);
                }
            }
            match TelemetryEvent::from_record(&record, &options) {
                Ok(mut event) => {
                    // Without a session in the manifest, all rows belong to one generated session.
                    if let (None, Some(first)) = (&self.summary, self.events.front()) {
                        event.session_id.clone_from(&first.session_id);
                    }
                    self.events.push_back(event);
                }
                Err(wrong) => {
                    let what = format!("row {row} of the timeline is left out: {wrong}");
                    self.problems.push(Problem::of_file(&self.timeline, what));
                }
            }
        }
    }
}
