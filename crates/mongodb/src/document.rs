//! Converts a record to the document that is stored.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document, RawDocumentBuf};
use serde_json::Value;

use super::value::{bson_of, whole};
use runlore_core::record::hash::identifies;
use runlore_core::{Error, ErrorKind, Result};

/// The field for our own data.
pub(super) const OURS: &str = "_runlore";
/// The original values of fields that have another value in the document, such as a date.
pub(super) const OWN: &str = "_runlore.own";
/// `true` if the document has all values of the record in its fields.
pub(super) const PLAIN: &str = "_runlore.plain";
/// The record as text, if the document does not have all values of the record in its fields.
pub(super) const TEXT: &str = "_runlore.json";
/// How often the document was replaced.
pub(super) const REVISION: &str = "_runlore.rev";
/// The hashes of the values that a task used and generated.
pub(super) const HASHES: &str = "_runlore.hashes";
/// When the document was first stored.
pub(super) const REGISTERED: &str = "registered_at";

/// Fields with times. They are stored as dates for MongoDB clients, in milliseconds.
pub(super) const TIMES: [&str; 4] = ["started_at", "ended_at", "submitted_at", "utc_timestamp"];

/// Fields that belong to MongoDB, to Runlore or to Flowcept. Flowcept adds a flag that is named
/// after the status. The flag for ERROR is left out: records have a field `error` with more detail.
pub(super) const ADDED: [&str; 8] =
    ["_id", OURS, REGISTERED, "finished", "running", "submitted", "waiting", "unknown"];

/// The fields that are kept, beside the text, of a record that the server does not accept as it is.
const CORE: [&str; 13] = [
    "type",
    "task_id",
    "workflow_id",
    "campaign_id",
    "activity_id",
    "parent_task_id",
    "status",
    "started_at",
    "ended_at",
    "duration_ns",
    "hostname",
    "name",
    "hashes",
];

/// Returns whether this field has another value in the document. The original is below [`OWN`].
pub(super) fn is_shadowed(name: &str) -> bool {
    TIMES.contains(&name) || ADDED.contains(&name)
}

/// Converts a time to MongoDB's milliseconds, limited to the years that its clients can show.
pub(super) fn date_of(seconds: f64) -> i64 {
    const YEAR_1: f64 = -62_135_596_800_000.0;
    const YEAR_9999: f64 = 253_402_300_799_999.0;
    (seconds * 1000.0).floor().clamp(YEAR_1, YEAR_9999) as i64
}

/// The properties of a document that are not in its record.
#[derive(Debug, Clone)]
pub(super) struct Label<'a> {
    /// Null for an existing document whose id could not be read. The server keeps the id.
    pub(super) id: Bson,
    pub(super) revision: i64,
    /// When it was first stored, in Unix milliseconds.
    pub(super) registered: i64,
    /// The id to store instead, if another task already has this task's id.
    pub(super) unique_id: Option<&'a str>,
    /// Whether to store only the core fields and the text, because the server rejects the rest.
    pub(super) is_sealed: bool,
}

impl Label<'_> {
    pub(super) fn new(id: ObjectId) -> Self {
        Label {
            id: Bson::ObjectId(id),
            revision: 0,
            registered: now(),
            unique_id: None,
            is_sealed: false,
        }
    }
}

/// Returns the current time in Unix milliseconds.
pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Converts a record to a document.
///
/// # Errors
///
/// Fails if the text is not a JSON object.
pub(super) fn encode(text: &str, label: &Label<'_>) -> Result<RawDocumentBuf> {
    let mut record: Value =
        serde_json::from_str(text).map_err(|error| not_an_object().with_source(error))?;
    // MongoDB treats objects with different key order as different. Records do not.
    record.sort_all_objects();
    let Value::Object(record) = record else { return Err(not_an_object()) };

    let mut fields = BTreeMap::new();
    // Whether the fields of the document cannot represent all values of the record.
    let mut is_odd = label.is_sealed;
    for (key, value) in &record {
        let is_left_out = key.starts_with('$')
            || key.contains('\0')
            || key == OURS
            || label.is_sealed && !CORE.contains(&key.as_str());
        // The record itself is the first level of nesting.
        match bson_of(value, 1).filter(|_| !is_left_out) {
            None => is_odd = true,
            Some(Bson::Null) => {}
            Some(value) => _ = fields.insert(key.clone(), value),
        }
    }

    let is_task = text_in(&fields, "type") == Some("task");
    let id_field = if is_task { "task_id" } else { "workflow_id" };
    let id = record.get(id_field).filter(|_| fields.contains_key(id_field)).map(id_of);
    if let Some(unique_id) = label.unique_id.or(id.as_deref())
        && text_in(&fields, id_field) != Some(unique_id)
    {
        is_odd = true;
        fields.insert(id_field.to_owned(), unique_id.into());
    }

    let own = take_own(&mut fields);
    for name in TIMES {
        match own.get(name).map(seconds) {
            Some(Some(seconds)) => {
                let date = DateTime::from_millis(date_of(seconds));
                fields.insert(name.to_owned(), date.into());
            }
            // It has no date, so that a sort by date would misplace the record.
            Some(None) => is_odd = true,
            None => {}
        }
    }
    if let Some(flag) = text_in(&fields, "status").and_then(flag_of).filter(|_| is_task) {
        fields.insert(flag.to_owned(), true.into());
    }

    let mut ours = Document::new();
    let hashes = fields.get("hashes").map(hashes_in).unwrap_or_default();
    if !hashes.is_empty() {
        ours.insert("hashes", hashes);
    }
    if is_odd {
        ours.insert("json", text);
    }
    ours.insert("own", own);
    if !is_odd {
        ours.insert("plain", true);
    }
    ours.insert("rev", label.revision);
    fields.insert(OURS.to_owned(), ours.into());
    fields.insert(REGISTERED.to_owned(), DateTime::from_millis(label.registered).into());
    if label.id != Bson::Null {
        fields.insert("_id".to_owned(), label.id.clone());
    }

    RawDocumentBuf::try_from(&Document::from_iter(fields)).map_err(|error| broken(&error))
}

fn text_in<'f>(fields: &'f BTreeMap<String, Bson>, name: &str) -> Option<&'f str> {
    fields.get(name).and_then(Bson::as_str)
}

/// Returns the id as text. If it is not a string, returns its JSON.
fn id_of(id: &Value) -> String {
    id.as_str().map_or_else(|| id.to_string(), str::to_owned)
}

/// Removes and returns the original values of fields that get another value in the document.
fn take_own(fields: &mut BTreeMap<String, Bson>) -> Document {
    let shadowed = TIMES.into_iter().chain(ADDED);
    shadowed.filter_map(|name| fields.remove_entry(name)).collect()
}

fn flag_of(status: &str) -> Option<&'static str> {
    Some(match status {
        "FINISHED" => "finished",
        "RUNNING" => "running",
        "SUBMITTED" => "submitted",
        "WAITING" => "waiting",
        "UNKNOWN" => "unknown",
        _ => return None,
    })
}

fn seconds(time: &Bson) -> Option<f64> {
    match time {
        Bson::Double(seconds) => Some(*seconds),
        Bson::Int32(seconds) => Some(f64::from(*seconds)),
        Bson::Int64(seconds) => Some(*seconds as f64),
        Bson::Decimal128(seconds) => whole(*seconds).map(|seconds| seconds as f64),
        _ => None,
    }
}

/// Returns the hashes in `{"used": {name: hash}, "generated": {name: hash}}` that identify a value.
fn hashes_in(hashes: &Bson) -> Vec<&str> {
    let side = |name: &str| hashes.as_document()?.get_document(name).ok();
    let sides = ["used", "generated"].into_iter().filter_map(side);
    let texts = sides.flat_map(Document::values).filter_map(Bson::as_str);
    texts.filter(|hash| identifies(hash)).collect()
}

fn broken(error: &mongodb::bson::error::Error) -> Error {
    Error::new(ErrorKind::Record, format!("a record does not become a document: {error}"))
}

fn not_an_object() -> Error {
    Error::new(ErrorKind::Record, "a record is not a JSON object")
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;

    fn encoded(text: &str) -> Document {
        let mut label = Label::new(ObjectId::from_bytes([7; 12]));
        label.registered = 5;
        Document::try_from(&*encode(text, &label).unwrap()).unwrap()
    }

    #[test]
    fn a_task_has_dates_a_flag_and_its_own_times() {
        let text = r#"{"type":"task","task_id":"t","status":"FINISHED","started_at":1.2345,"ended_at":2,
            "used":{"b":1,"a":"$x"},"hashes":{"used":{"b":"h1"},"generated":{"y":"h2","n":5}}}"#;
        let document = encoded(text);
        let expected = doc! {
            "_id": ObjectId::from_bytes([7; 12]),
            "_runlore": {
                "hashes": ["h1", "h2"], "own": {"started_at": 1.2345, "ended_at": 2}, "plain": true, "rev": 0_i64,
            },
            "ended_at": DateTime::from_millis(2000),
            "finished": true,
            "hashes": {"generated": {"n": 5, "y": "h2"}, "used": {"b": "h1"}},
            "registered_at": DateTime::from_millis(5),
            "started_at": DateTime::from_millis(1234),
            "status": "FINISHED",
            "task_id": "t",
            "type": "task",
            "used": {"a": "$x", "b": 1},
        };
        assert_eq!(document.to_string(), expected.to_string());
    }

    #[test]
    fn what_a_record_has_under_our_names_is_its_own() {
        let text = r#"{"type":"task","task_id":"t","_id":3,"finished":"no","registered_at":9.5}"#;
        let document = encoded(text);
        let own = document.get_document("_runlore").unwrap().get_document("own").unwrap();
        let expected = doc! {"_id": 3, "finished": "no", "registered_at": 9.5};
        assert_eq!(*own, expected);
        assert!(!document.contains_key("finished"));
    }

    #[test]
    fn what_cannot_be_stored_is_kept_as_text() {
        for text in [
            r#"{"type":"task","task_id":"t","$where":"1"}"#,
            r#"{"type":"task","task_id":"t","used":{"a\u0000":"1"}}"#,
            r#"{"type":"task","task_id":"t","started_at":"soon"}"#,
            r#"{"type":"task","task_id":["t"]}"#,
            r#"{"type":"task","task_id":"t","_runlore":{"own":1}}"#,
        ] {
            let document = encoded(text);
            let ours = document.get_document("_runlore").unwrap();
            assert_eq!(ours.get("json"), Some(&Bson::from(text)));
            assert!(!ours.contains_key("plain"), "{text}");
            assert!(matches!(document.get_str("task_id"), Ok("t" | r#"["t"]"#)), "{text}");
        }
    }

    #[test]
    fn only_an_object_is_a_record() {
        assert!(encode("[]", &Label::new(ObjectId::from_bytes([0; 12]))).is_err());
    }

    #[test]
    fn dates_stay_within_what_clients_can_show() {
        assert_eq!(date_of(f64::MAX), 253_402_300_799_999);
        assert_eq!(date_of(-f64::MAX), -62_135_596_800_000);
        assert_eq!(date_of(1.9999), 1999);
    }
}
