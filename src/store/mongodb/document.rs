//! A record as the document that is stored.

use std::time::{SystemTime, UNIX_EPOCH};

use super::bytes::{Open, Writer, kind};
use super::capture::Capture;
use super::scan::Scanner;
use crate::record::hash::identifies;
use crate::store::{Captured, CapturedRecord};
use crate::telemetry::Snapshot;
use crate::{Error, ErrorKind, Result};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{RawBsonRef, RawDocument, RawDocumentBuf};

/// The field with what is ours.
pub(super) const OURS: &str = "_runlore";
/// Where a record's own value is of a field that shows something else.
pub(super) const OWN: &str = "_runlore.own";
/// True where the document shows all that the record has.
pub(super) const PLAIN: &str = "_runlore.plain";
/// The record as text, where the document does not show all of it.
pub(super) const TEXT: &str = "_runlore.json";
/// How often the document was replaced.
pub(super) const REVISION: &str = "_runlore.rev";
/// The hashes of the values that a task used and generated.
pub(super) const HASHES: &str = "_runlore.hashes";
/// When the document was stored.
pub(super) const REGISTERED: &str = "registered_at";

/// Fields that hold moments: dates for clients of MongoDB's, who count in milliseconds.
pub(super) const TIMES: [&str; 4] = ["started_at", "ended_at", "submitted_at", "utc_timestamp"];

/// Fields that are MongoDB's, ours, or Flowcept's, which has one named after the status. That of ERROR is left out: records have
/// a field `error`, which tells more.
pub(super) const ADDED: [&str; 8] =
    ["_id", OURS, REGISTERED, "finished", "running", "submitted", "waiting", "unknown"];

/// What is kept of a record that the server does not take as it is, beside its text.
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

/// Whether what a record has in this field is found among its own values.
pub(super) fn is_shadowed(name: &str) -> bool {
    TIMES.contains(&name) || ADDED.contains(&name)
}

/// The moment as MongoDB has it, within the years that its clients can show.
pub(super) fn date_of(seconds: f64) -> i64 {
    const YEAR_1: f64 = -62_135_596_800_000.0;
    const YEAR_9999: f64 = 253_402_300_799_999.0;
    (seconds * 1000.0).floor().clamp(YEAR_1, YEAR_9999) as i64
}

/// What a document has that its record does not tell.
#[derive(Debug, Clone)]
pub(super) struct Label<'a> {
    pub(super) id: RawBsonRef<'a>,
    pub(super) revision: i64,
    /// When it was first stored, in milliseconds.
    pub(super) registered: i64,
    /// The id to be unique by, where another task has this one's.
    pub(super) unique_id: Option<&'a str>,
    /// Whether the server takes no more of it than its core and its text.
    pub(super) is_sealed: bool,
}

impl Label<'_> {
    pub(super) fn new(id: ObjectId) -> Self {
        Label {
            id: RawBsonRef::ObjectId(id),
            revision: 0,
            registered: now(),
            unique_id: None,
            is_sealed: false,
        }
    }
}

/// This moment, in milliseconds.
pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// A record that was made a document.
#[derive(Debug)]
pub(super) struct Encoded {
    pub(super) document: RawDocumentBuf,
    /// The id it is known by: of the task, or of the workflow.
    pub(super) id: String,
    /// Whether the record is as it would be written again: with its type and its id, and without nulls.
    pub(super) is_as_written: bool,
    pub(super) is_task: bool,
}

/// Makes documents of records, one after the other.
#[derive(Debug, Default)]
pub(super) struct Encoder {
    writer: Writer,
    own: Vec<u8>,
    ours: Writer,
    seen: Seen,
}

/// What was met in a record.
#[derive(Debug, Default)]
struct Seen {
    task_id: Option<Id>,
    workflow_id: Option<Id>,
    is_task: bool,
    has_null: bool,
    is_odd: bool,
    flag: Option<&'static str>,
    hashes: Vec<String>,
}

impl Seen {
    /// What the record is known by.
    fn id(&self) -> Option<&Id> {
        if self.is_task { self.task_id.as_ref() } else { self.workflow_id.as_ref() }
    }
}

/// An id, or the JSON of what stands in its place.
#[derive(Debug)]
struct Id {
    text: String,
    is_text: bool,
}

impl Encoder {
    /// The document of a record.
    ///
    /// # Errors
    ///
    /// Where the text is not a JSON object.
    pub(super) fn encode<'r>(
        &mut self,
        record: impl Into<CapturedRecord<'r>>,
        label: &Label<'_>,
    ) -> Result<Encoded> {
        let record = record.into();
        let captured = record.captured().filter(|_| !label.is_sealed);
        let open = match captured.and_then(|captured| self.of_captured(&captured)) {
            Some(open) => open,
            None => {
                let text = record.text();
                self.of_text(text, label.is_sealed).ok_or_else(|| not_an_object(text))?
            }
        };
        self.add(record, label);
        self.writer.close(open);
        let seen = std::mem::take(&mut self.seen);
        let document = RawDocumentBuf::from_bytes(std::mem::take(&mut self.writer.bytes))
            .map_err(|error| broken(&error))?;
        // The next one is about as large.
        self.writer.bytes.reserve(document.as_bytes().len() + 64);
        let id = seen.id();
        Ok(Encoded {
            document,
            is_as_written: !seen.has_null && id.is_some(),
            id: id.map(|id| id.text.clone()).unwrap_or_default(),
            is_task: seen.is_task,
        })
    }

    fn begin(&mut self) -> Open {
        self.writer.clear();
        self.own.clear();
        self.seen = Seen::default();
        self.writer.open()
    }

    /// Writes the fields of a record; none where it is not a JSON object.
    fn of_text(&mut self, text: &str, is_sealed: bool) -> Option<Open> {
        let open = self.begin();
        let mut scanner = Scanner::new(text);
        scanner.open(b'{')?;
        let is_closed = self.fields(&mut scanner, is_sealed)?;
        scanner.end()?;
        (is_closed && self.has_length()).then_some(open)
    }

    /// The same for a record that was taken apart; none where that makes no sense, and only its text tells what it is.
    pub(super) fn of_captured(&mut self, captured: &Captured<'_>) -> Option<Open> {
        let open = self.begin();
        let Captured { outline: [before, after], captures: [at_start, at_end] } = *captured;
        let mut before = Scanner::new(before);
        before.open(b'{')?;
        let is_closed = self.fields(&mut before, false)?;
        (!is_closed).then_some(())?;
        for (name, capture) in [("telemetry_at_start", at_start), ("telemetry_at_end", at_end)] {
            if let Some(capture) = capture {
                self.capture(name, capture)?;
            }
        }
        let mut after = Scanner::inside(after, 1);
        let is_closed = self.fields(&mut after, false)?;
        after.end()?;
        (is_closed && self.has_length()).then_some(open)
    }

    /// Writes the fields of a record up to its end or that of the text; tells whether it was the record's.
    fn fields(&mut self, scanner: &mut Scanner<'_>, is_sealed: bool) -> Option<bool> {
        while !scanner.is_at_end() {
            let Some(at) = scanner.key(&mut self.writer)? else { return Some(true) };
            let kind = scanner.write_value(&mut self.writer)?;
            self.writer.bytes[at] = kind;
            self.field(at, kind, is_sealed);
        }
        Some(false)
    }

    fn capture(&mut self, name: &str, capture: Snapshot<'_>) -> Option<()> {
        let at = self.writer.known_element(name);
        capture.tell(&mut Capture::new(&mut self.writer, at))?;
        self.field(at, kind::DOCUMENT, false);
        Some(())
    }

    /// Lengths in BSON have a sign.
    fn has_length(&self) -> bool {
        self.writer.bytes.len() <= i32::MAX as usize
    }

    /// Adds what the record does not have by itself.
    fn add(&mut self, record: CapturedRecord<'_>, label: &Label<'_>) {
        let Self { writer, own, ours, seen } = self;
        // Whatever stands in place of an id, the record is known by its text.
        let odd_id = seen.id().filter(|id| !id.is_text).map(|id| &*id.text);
        let unique_id = label.unique_id.or(odd_id);
        let is_odd = seen.is_odd || unique_id.is_some() || label.is_sealed;
        ours.clear();
        if !seen.hashes.is_empty() {
            put_texts(ours, "hashes", &seen.hashes);
        }
        if is_odd {
            ours.put_text("json", record.text());
        }
        ours.put_document("own", own);
        if !is_odd {
            ours.put("plain", kind::BOOL, &[1]);
        }
        ours.put("rev", kind::LONG, &label.revision.to_le_bytes());
        put_id(writer, label.id);
        writer.put_document(OURS, &ours.bytes);
        if let Some(flag) = seen.flag.filter(|_| seen.is_task) {
            writer.put(flag, kind::BOOL, &[1]);
        }
        writer.put(REGISTERED, kind::DATE, &label.registered.to_le_bytes());
        if let Some(id) = unique_id {
            writer.put_text(if seen.is_task { "task_id" } else { "workflow_id" }, id);
        }
    }

    /// A field of the record has been written at `at`.
    fn field(&mut self, at: usize, kind: u8, is_sealed: bool) {
        let Self { writer, own, seen, .. } = self;
        let key = writer.key(at);
        let is_out = writer.is_lossy
            || key.first() == Some(&b'$')
            || key == OURS.as_bytes()
            || is_sealed && !is_one_of(key, &CORE);
        if is_out {
            writer.is_lossy = false;
            seen.is_odd = true;
            return writer.take_back(at);
        }
        match key {
            _ if kind == kind::NULL => {
                seen.has_null = true;
                writer.take_back(at);
            }
            b"type" => seen.is_task = text_at(writer, at, kind) == Some("task"),
            b"task_id" => seen.task_id = Some(id_at(writer, at, kind)),
            b"workflow_id" => seen.workflow_id = Some(id_at(writer, at, kind)),
            b"status" => seen.flag = text_at(writer, at, kind).and_then(flag_of),
            b"hashes" => seen.hashes = hashes_in(writer.value(at)).unwrap_or_default(),
            key if is_one_of(key, &TIMES) => {
                own.extend_from_slice(&writer.bytes[at..]);
                match seconds(writer.value(at), kind) {
                    Some(seconds) => {
                        let value = at + key.len() + 2;
                        writer.bytes.truncate(value);
                        writer.bytes[at] = kind::DATE;
                        writer.bytes.extend_from_slice(&date_of(seconds).to_le_bytes());
                    }
                    // A sort by dates would not put it where the record belongs.
                    None => {
                        seen.is_odd = true;
                        writer.take_back(at);
                    }
                }
            }
            key if is_one_of(key, &ADDED) => {
                own.extend_from_slice(&writer.bytes[at..]);
                writer.take_back(at);
            }
            _ => {}
        }
    }
}

fn is_one_of(key: &[u8], names: &[&str]) -> bool {
    names.iter().any(|name| name.as_bytes() == key)
}

fn text_at(writer: &Writer, at: usize, kind: u8) -> Option<&str> {
    let value = writer.value(at);
    (kind == kind::STRING).then(|| std::str::from_utf8(&value[4..value.len() - 1]).ok())?
}

fn id_at(writer: &Writer, at: usize, kind: u8) -> Id {
    if let Some(text) = text_at(writer, at, kind) {
        return Id { text: text.to_owned(), is_text: true };
    }
    let mut one = Writer::default();
    let open = one.open();
    one.put("", kind, writer.value(at));
    one.close(open);
    let value = RawDocument::from_bytes(&one.bytes).ok().and_then(|one| one.get("").ok()?);
    let json = value.and_then(|value| super::decode::json_of(value).ok()).unwrap_or_default();
    Id { text: json.to_string(), is_text: false }
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

fn seconds(value: &[u8], kind: u8) -> Option<f64> {
    match kind {
        kind::DOUBLE => Some(f64::from_le_bytes(value.try_into().ok()?)),
        kind::INT => Some(f64::from(i32::from_le_bytes(value.try_into().ok()?))),
        kind::LONG => Some(i64::from_le_bytes(value.try_into().ok()?) as f64),
        kind::DECIMAL => super::bytes::whole(value.try_into().ok()?).map(|number| number as f64),
        _ => None,
    }
}

/// The hashes in `{"used": {name: hash}, "generated": {name: hash}}` that stand for a value.
fn hashes_in(value: &[u8]) -> Option<Vec<String>> {
    let sides = RawDocument::from_bytes(value).ok()?;
    let mut hashes = Vec::new();
    for side in ["used", "generated"] {
        let Ok(Some(RawBsonRef::Document(values))) = sides.get(side) else { continue };
        for element in values.iter_elements().flatten() {
            if let Ok(RawBsonRef::String(hash)) = element.value()
                && identifies(hash)
            {
                hashes.push(hash.to_owned());
            }
        }
    }
    Some(hashes)
}

fn put_id(writer: &mut Writer, id: RawBsonRef<'_>) {
    match id {
        RawBsonRef::ObjectId(id) => writer.put("_id", kind::OBJECT_ID, &id.bytes()),
        RawBsonRef::String(id) => writer.put_text("_id", id),
        // Of another program's making: what it is stays, and only documents that are there have one.
        _ => {}
    }
}

fn put_texts(writer: &mut Writer, key: &str, texts: &[String]) {
    let mut array = Writer::default();
    for (index, text) in texts.iter().enumerate() {
        array.put_text(&index.to_string(), text);
    }
    writer.put_document(key, &array.bytes);
    let at = writer.bytes.len() - array.bytes.len() - 5 - key.len() - 2;
    writer.bytes[at] = kind::ARRAY;
}

fn broken(error: &mongodb::bson::error::Error) -> Error {
    Error::new(ErrorKind::Record, format!("a record does not become a document: {error}"))
}

/// What is wrong with a record, in the words of a reader that has some.
fn not_an_object(text: &str) -> Error {
    let error = Error::new(ErrorKind::Record, "a record is not a JSON object");
    match serde_json::from_str::<serde::de::IgnoredAny>(text) {
        Err(cause) => error.with_source(cause),
        Ok(_) => error,
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{Bson, DateTime, Document, doc};

    use super::*;

    fn encoded(text: &str) -> (Encoded, Document) {
        let mut label = Label::new(ObjectId::from_bytes([7; 12]));
        label.registered = 5;
        let encoded = Encoder::default().encode(text, &label).unwrap();
        let document = Document::try_from(&*encoded.document).unwrap();
        (encoded, document)
    }

    #[test]
    fn a_task_has_dates_a_flag_and_its_own_times() {
        let text = r#"{"type":"task","task_id":"t","status":"FINISHED","started_at":1.2345,"ended_at":2,
            "used":{"b":1,"a":"$x"},"hashes":{"used":{"b":"h1"},"generated":{"y":"h2","n":5}}}"#;
        let (encoded, document) = encoded(text);
        assert!(encoded.is_as_written && encoded.is_task);
        assert_eq!(encoded.id, "t");
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
        let (_, document) = encoded(text);
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
            let (_, document) = encoded(text);
            let ours = document.get_document("_runlore").unwrap();
            assert_eq!(ours.get("json"), Some(&Bson::from(text)));
            assert!(!ours.contains_key("plain"), "{text}");
            assert!(matches!(document.get_str("task_id"), Ok("t" | r#"["t"]"#)), "{text}");
        }
    }

    #[test]
    fn records_that_would_be_written_otherwise_are_told() {
        for text in [
            r#"{"type":"task","activity_id":"a"}"#,
            r#"{"type":"task","task_id":"t","used":null}"#,
            r#"{"type":"agent","task_id":"t"}"#,
        ] {
            let (encoded, _) = encoded(text);
            assert!(!(encoded.is_as_written && encoded.is_task), "{text}");
        }
        assert!(
            Encoder::default().encode("[]", &Label::new(ObjectId::from_bytes([0; 12]))).is_err()
        );
    }

    #[test]
    fn dates_stay_within_what_clients_can_show() {
        assert_eq!(date_of(f64::MAX), 253_402_300_799_999);
        assert_eq!(date_of(-f64::MAX), -62_135_596_800_000);
        assert_eq!(date_of(1.9999), 1999);
    }
}
