//! Generates session ids for records that name no session.

use serde_json::{Map, Value};
use uuid::Uuid;

use super::event::{Schema, Target, TelemetryEvent};
use super::fields::given;
use super::python;

/// The prefix of generated ids.
pub(super) const MADE_UP: &str = "legacy-";

fn made_of(text: &str) -> String {
    format!("{MADE_UP}{}", Uuid::new_v5(&Uuid::NAMESPACE_URL, text.as_bytes()))
}

/// Returns the session that a record names, in its own field or else in its metadata.
pub(super) fn named(record: &Map<String, Value>, metadata: &Map<String, Value>) -> Option<String> {
    let named = given(record, "session_id").or_else(|| metadata.get("session_id"));
    named.and_then(Value::as_str).filter(|id| !python::is_blank(id)).map(str::to_owned)
}

/// Generates an id from the time, host and process of one record, as Stormlog does.
pub(super) fn of_record(record: &Map<String, Value>) -> String {
    let time = record.get("timestamp_ns").or_else(|| record.get("timestamp"));
    let part = |value: Option<&Value>, default: &str| match value {
        None => Some(default.to_owned()),
        Some(Value::Null) => None,
        Some(value) => Some(python::str(value)),
    };
    let parts =
        [part(time, "unknown"), part(record.get("host"), "unknown"), part(record.get("pid"), "-1")];
    made_of(&parts.into_iter().flatten().collect::<Vec<_>>().join("::"))
}

/// Generates an id for all records of a file that name no session. It is a hash of the first of
/// them, so it stays the same when the file is moved, compressed or extended.
pub(super) fn of_file(first: &TelemetryEvent) -> String {
    let mut text = String::new();
    let event = TelemetryEvent { session_id: MADE_UP.into(), ..first.clone() };
    let record = event.to_record(Target::from(Schema::V3).lossy());
    python::json(&record.unwrap_or_default(), &mut text);
    made_of(&text)
}
