//! Ids of sessions for records that name none.

use serde_json::{Map, Value};
use uuid::Uuid;

use super::event::{Schema, Target, TelemetryEvent};
use super::fields::given;
use super::python;

/// How ids begin that were made up.
pub(super) const MADE_UP: &str = "legacy-";

fn made_of(text: &str) -> String {
    format!("{MADE_UP}{}", Uuid::new_v5(&Uuid::NAMESPACE_URL, text.as_bytes()))
}

/// The session that a record names, in its own field or else in its metadata.
pub(super) fn named(record: &Map<String, Value>, metadata: &Map<String, Value>) -> Option<String> {
    let named = given(record, "session_id").or_else(|| metadata.get("session_id"));
    named.and_then(Value::as_str).filter(|id| !python::is_blank(id)).map(str::to_owned)
}

/// An id for one record, by its time, its host and its process, as Stormlog makes it.
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

/// An id for all records of a file that name no session: by the first of them, so that it stays the same wherever the
/// file goes, however it is packed, and when it grows.
pub(super) fn of_file(first: &TelemetryEvent) -> String {
    let mut text = String::new();
    let event = TelemetryEvent { session_id: MADE_UP.into(), ..first.clone() };
    let record = event.to_record(Target::from(Schema::V3).lossy());
    python::json(&record.unwrap_or_default(), &mut text);
    made_of(&text)
}
