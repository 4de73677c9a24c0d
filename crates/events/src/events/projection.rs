//! Converts events to backend-neutral records, with the ids that Stormlog assigns.

use serde::Serialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::event::{Target, TelemetryEvent};
use super::invalid::Invalid;
use super::python;

/// An event in a form that does not depend on its collector. Serialises as Stormlog's
/// `projected_record_to_dict` does.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ProjectedRecord {
    /// The version of this form: 1.
    pub schema_version: u8,
    /// A hash of the whole record in the requested schema. The same event has the same id
    /// everywhere.
    pub record_id: String,
    /// Unix nanoseconds.
    pub timestamp_ns: u64,
    /// The time of the observation. Events do not record it separately, so it equals
    /// `timestamp_ns`.
    pub observed_timestamp_ns: u64,
    /// The id of the session.
    pub session_id: String,
    /// `cuda`, `rocm`, `mps`, `cpu`, `tensorflow`, another backend named in the metadata, `gpu` or
    /// `other`.
    pub source_kind: String,
    /// The kind of event.
    pub event_type: String,
    /// The name of the phase that the event happened in.
    pub stage: Option<String>,
    /// `info`, `warning`, `error`, `critical`, or the `severity` of the metadata.
    pub severity: Option<String>,
    /// The `severity_text` of the metadata.
    pub severity_text: Option<String>,
    /// The event's context.
    pub body: Option<String>,
    /// The process and the device that were observed.
    pub resource: Resource,
    /// The metadata, and the counters under dotted names.
    pub attributes: Map<String, Value>,
    /// The keys by which to join the event with others.
    pub correlation: Correlation,
}

/// The process and the device that were observed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are those of the event")]
pub struct Resource {
    pub source_kind: String,
    pub collector: String,
    pub host: String,
    pub pid: i64,
    pub device_id: i64,
    pub job_id: Option<String>,
    pub rank: u64,
    pub local_rank: u64,
    pub world_size: u64,
}

/// The keys by which to join an event with others.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are those of the event")]
pub struct Correlation {
    pub session_id: String,
    pub job_id: Option<String>,
    pub rank: u64,
    pub local_rank: u64,
    pub world_size: u64,
    /// `phase.scope_id`, `phase.parent_scope_id` and `phase.sequence`, if the metadata describes a
    /// phase.
    #[serde(flatten)]
    pub phase: Map<String, Value>,
}

impl TelemetryEvent {
    /// Converts the event to a backend-neutral record. Its id is a hash of the record in this
    /// schema.
    ///
    /// ```
    /// use runlore::events::{Schema, TelemetryEvent};
    ///
    /// let event = TelemetryEvent {
    ///     session_id: "s".into(),
    ///     event_type: "warning".into(),
    ///     ..TelemetryEvent::default()
    /// };
    /// let record = event.project(Schema::V4)?;
    /// assert_eq!(record.severity.as_deref(), Some("warning"));
    /// assert!(record.record_id.starts_with("telemetry-"));
    /// # Ok::<(), runlore::events::Invalid>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the event is not valid, or the schema cannot express it.
    pub fn project(&self, target: impl Into<Target>) -> Result<ProjectedRecord, Invalid> {
        let record = self.to_record(target)?;
        let metadata = record["metadata"].as_object().unwrap_or(&self.metadata);
        Ok(ProjectedRecord {
            schema_version: 1,
            record_id: record_id(&record),
            timestamp_ns: self.timestamp_ns,
            observed_timestamp_ns: self.timestamp_ns,
            session_id: self.session_id.to_string(),
            source_kind: source_kind(self),
            event_type: self.event_type.to_string(),
            stage: stage(metadata),
            severity: severity(self),
            severity_text: metadata
                .get("severity_text")
                .filter(|it| !it.is_null())
                .map(python::str),
            body: self.context.as_deref().map(str::to_owned),
            resource: resource(self),
            attributes: attributes(&record, metadata),
            correlation: correlation(self),
        })
    }
}

fn record_id(record: &Value) -> String {
    let mut text = String::new();
    python::json(record, &mut text);
    let digest = Sha256::digest(text.as_bytes());
    let hex: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("telemetry-{hex}")
}

fn said<'a>(metadata: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    metadata.get(key).and_then(Value::as_str).filter(|text| !python::is_blank(text))
}

fn source_kind(event: &TelemetryEvent) -> String {
    if let Some(backend) = said(&event.metadata, "backend") {
        return python::strip(backend).to_lowercase();
    }
    let collector = event.collector.to_lowercase();
    let kinds = ["cuda", "rocm", "mps", "cpu", "tensorflow"];
    let other = if event.device_id >= 0 { "gpu" } else { "other" };
    kinds.into_iter().find(|kind| collector.contains(kind)).unwrap_or(other).to_owned()
}

fn stage(metadata: &Map<String, Value>) -> Option<String> {
    let scope = metadata.get("phase_scope")?.as_object()?;
    let tail = || {
        let tail = scope.get("path")?.as_array()?.last()?.as_str()?;
        (!python::is_blank(tail)).then_some(tail)
    };
    said(scope, "name").or_else(tail).map(str::to_owned)
}

fn severity(event: &TelemetryEvent) -> Option<String> {
    if let Some(severity) = said(&event.metadata, "severity") {
        return Some(python::strip(severity).to_lowercase());
    }
    let severity = match &*python::strip(&event.event_type).to_lowercase() {
        "critical" => "critical",
        "error" => "error",
        "warning" | "collector_degraded" => "warning",
        "collector_recovered" | "start" | "stop" | "phase_enter" | "phase_exit" | "sample" => {
            "info"
        }
        _ => return None,
    };
    Some(severity.to_owned())
}

pub(super) fn resource(event: &TelemetryEvent) -> Resource {
    Resource {
        source_kind: source_kind(event),
        collector: event.collector.to_string(),
        host: event.host.to_string(),
        pid: event.pid,
        device_id: event.device_id,
        job_id: event.job_id.as_deref().map(str::to_owned),
        rank: event.rank,
        local_rank: event.local_rank,
        world_size: event.world_size,
    }
}

fn attributes(record: &Value, metadata: &Map<String, Value>) -> Map<String, Value> {
    let mut attributes = metadata.clone();
    attributes.insert("sampling.interval_ms".to_owned(), record["sampling_interval_ms"].clone());
    let allocator = ["allocated", "reserved", "active", "inactive", "change"];
    for (owner, names) in [("allocator", &allocator[..]), ("device", &["used", "free", "total"])] {
        for name in names {
            let value = record[format!("{owner}_{name}_bytes")].clone();
            attributes.insert(format!("memory.{owner}.{name}_bytes"), value);
        }
    }
    attributes
}

pub(super) fn correlation(event: &TelemetryEvent) -> Correlation {
    let scope = event.metadata.get("phase_scope").unwrap_or(&Value::Null);
    let phase = ["scope_id", "parent_scope_id", "sequence"].into_iter().filter_map(|key| {
        let value = scope.get(key).filter(|value| !value.is_null())?;
        Some((format!("phase.{key}"), json!(value)))
    });
    Correlation {
        session_id: event.session_id.to_string(),
        job_id: event.job_id.as_deref().map(str::to_owned),
        rank: event.rank,
        local_rank: event.local_rank,
        world_size: event.world_size,
        phase: phase.collect(),
    }
}
