//! The head of a record: what a store indexes, without parsing the record's text again.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::record::Status;
use crate::record::hash::identifies;

/// The fields of a record that stores index. It travels beside the record's text.
///
/// The recorder fills it while it writes the text. [`RecordHead::read`] parses it from text that
/// was written before.
///
/// ```
/// use runlore::record::Status;
/// use runlore::store::{RecordHead, RecordKind};
///
/// let text = r#"{"type":"task","task_id":"t1","workflow_id":"w1","status":"ERROR","used":{"x":1}}"#;
/// let head = RecordHead::read(text)?;
/// assert_eq!(head.kind, RecordKind::Task);
/// assert_eq!(head.task_id.as_deref(), Some("t1"));
/// assert_eq!(head.status, Some(Status::Error));
/// assert!(head.is_exact);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecordHead<'a> {
    /// What the record describes.
    pub kind: RecordKind,
    /// The id of the task.
    pub task_id: Option<Cow<'a, str>>,
    /// The id of the workflow.
    pub workflow_id: Option<Cow<'a, str>>,
    /// The id of the campaign.
    pub campaign_id: Option<Cow<'a, str>>,
    /// The id of the task that called this one.
    pub parent_task_id: Option<Cow<'a, str>>,
    /// The name of the activity.
    pub activity_id: Option<Cow<'a, str>>,
    /// The status.
    pub status: Option<Status>,
    /// The id of the process.
    pub pid: Option<u64>,
    /// The start, in Unix seconds.
    pub started_at: Option<f64>,
    /// The duration in nanoseconds.
    pub duration_ns: Option<u64>,
    /// The time that the task's captures took, in nanoseconds.
    pub capture_ns: u64,
    /// The hashes that identify a used or generated value.
    pub hashes: Vec<ValueHash<'a>>,
    /// Whether the fields above have exactly the values of the record, and the record is written as
    /// Runlore writes it: with its type, and without nulls. Otherwise a store must parse the text.
    pub is_exact: bool,
}

/// What a record describes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RecordKind {
    /// A task.
    Task,
    /// A workflow.
    Workflow,
    /// Anything else, or unknown.
    #[default]
    Other,
}

/// The hash of a value that a task used or generated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueHash<'a> {
    /// `used` or `generated`.
    pub side: &'static str,
    /// The name of the value.
    pub name: Cow<'a, str>,
    /// The hash.
    pub hash: Cow<'a, str>,
}

impl<'a> RecordHead<'a> {
    /// Parses the head of a record. Fields that are not in the head are skipped.
    ///
    /// A value of another type than its field is kept as JSON text if the field is a text, and the
    /// head is not [exact](Self::is_exact).
    ///
    /// # Errors
    ///
    /// If the text is not a JSON object.
    pub fn read(text: &'a str) -> serde_json::Result<Self> {
        let fields: Fields<'a> = serde_json::from_str(text)?;
        let mut is_exact = !fields.has_null;
        let mut text_of = |raw: Option<&'a RawValue>| {
            let raw = raw?;
            Some(string(raw).unwrap_or_else(|| {
                is_exact = false;
                Cow::Borrowed(raw.get())
            }))
        };
        let mut head = Self {
            task_id: text_of(fields.task_id),
            workflow_id: text_of(fields.workflow_id),
            campaign_id: text_of(fields.campaign_id),
            parent_task_id: text_of(fields.parent_task_id),
            activity_id: text_of(fields.activity_id),
            ..Self::default()
        };
        let status = text_of(fields.status);
        head.kind = match fields.r#type.and_then(string).as_deref() {
            Some("task") => RecordKind::Task,
            Some("workflow") => RecordKind::Workflow,
            _ => RecordKind::Other,
        };
        is_exact &= head.kind != RecordKind::Other;
        is_exact &= head.kind != RecordKind::Task || fields.task_id.is_some();
        head.status = status.map(|word| {
            word.parse().unwrap_or_else(|_| {
                is_exact = false;
                Status::Unknown
            })
        });
        head.pid = number(fields.pid, &mut is_exact);
        head.duration_ns = number(fields.duration_ns, &mut is_exact);
        head.started_at = number(fields.started_at, &mut is_exact);
        // A whole number becomes a fraction here, and reads differently.
        is_exact &= fields.started_at.is_none_or(|raw| raw.get().contains(['.', 'e', 'E']));
        head.capture_ns = fields.capture.map_or(0, capture_ns);
        head.hashes = fields.hashes.map(hashes).unwrap_or_default();
        head.is_exact = is_exact;
        Ok(head)
    }

    /// Copies the texts, so that the head can outlive the record's text.
    pub fn into_owned(self) -> RecordHead<'static> {
        let own = |text: Option<Cow<'a, str>>| text.map(|text| Cow::Owned(text.into_owned()));
        let hashes = self.hashes.into_iter().map(|it| ValueHash {
            side: it.side,
            name: Cow::Owned(it.name.into_owned()),
            hash: Cow::Owned(it.hash.into_owned()),
        });
        RecordHead {
            kind: self.kind,
            task_id: own(self.task_id),
            workflow_id: own(self.workflow_id),
            campaign_id: own(self.campaign_id),
            parent_task_id: own(self.parent_task_id),
            activity_id: own(self.activity_id),
            status: self.status,
            pid: self.pid,
            started_at: self.started_at,
            duration_ns: self.duration_ns,
            capture_ns: self.capture_ns,
            hashes: hashes.collect(),
            is_exact: self.is_exact,
        }
    }
}

/// Returns the text of a JSON string, borrowed if it has no escapes. `None` for any other value.
fn string(raw: &RawValue) -> Option<Cow<'_, str>> {
    let json = raw.get();
    let inside = json.strip_prefix('"')?.strip_suffix('"')?;
    if inside.contains('\\') {
        return serde_json::from_str(json).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(inside))
}

/// Parses a number. Notes in `is_exact` if the value has another type.
fn number<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>, is_exact: &mut bool) -> Option<T> {
    let number = serde_json::from_str(raw?.get()).ok();
    *is_exact &= number.is_some();
    number
}

fn capture_ns(raw: &RawValue) -> u64 {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Capture {
        start_ns: u64,
        end_ns: u64,
    }
    let Capture { start_ns, end_ns } = serde_json::from_str(raw.get()).unwrap_or_default();
    start_ns.saturating_add(end_ns)
}

/// Returns the hashes in `{"used": {name: hash}, "generated": {name: hash}}` that identify a value.
/// If one side is malformed, the other still counts.
fn hashes(raw: &RawValue) -> Vec<ValueHash<'_>> {
    type Named<'a> = BTreeMap<String, &'a RawValue>;
    let sides: Named<'_> = serde_json::from_str(raw.get()).unwrap_or_default();
    let mut found = Vec::new();
    for side in ["used", "generated"] {
        let values =
            sides.get(side).and_then(|raw| serde_json::from_str::<Named<'_>>(raw.get()).ok());
        for (name, raw) in values.unwrap_or_default() {
            if let Some(hash) = string(raw).filter(|hash| identifies(hash)) {
                found.push(ValueHash { side, name: name.into(), hash });
            }
        }
    }
    found
}

/// The fields of the head, as raw JSON.
#[derive(Default)]
struct Fields<'a> {
    r#type: Option<&'a RawValue>,
    task_id: Option<&'a RawValue>,
    workflow_id: Option<&'a RawValue>,
    campaign_id: Option<&'a RawValue>,
    parent_task_id: Option<&'a RawValue>,
    activity_id: Option<&'a RawValue>,
    status: Option<&'a RawValue>,
    pid: Option<&'a RawValue>,
    started_at: Option<&'a RawValue>,
    duration_ns: Option<&'a RawValue>,
    capture: Option<&'a RawValue>,
    hashes: Option<&'a RawValue>,
    has_null: bool,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Key {
    Type,
    TaskId,
    WorkflowId,
    CampaignId,
    ParentTaskId,
    ActivityId,
    Status,
    Pid,
    StartedAt,
    DurationNs,
    Capture,
    Hashes,
    #[serde(other)]
    Other,
}

// Not derived: a derived implementation rejects an object that has a field twice. Here the last
// one counts, as in every other reader.
impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a record")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
                let mut fields = Fields::default();
                while let Some(key) = map.next_key()? {
                    let value: &'de RawValue = map.next_value()?;
                    let is_null = value.get() == "null";
                    fields.has_null |= is_null;
                    let field = match key {
                        Key::Type => &mut fields.r#type,
                        Key::TaskId => &mut fields.task_id,
                        Key::WorkflowId => &mut fields.workflow_id,
                        Key::CampaignId => &mut fields.campaign_id,
                        Key::ParentTaskId => &mut fields.parent_task_id,
                        Key::ActivityId => &mut fields.activity_id,
                        Key::Status => &mut fields.status,
                        Key::Pid => &mut fields.pid,
                        Key::StartedAt => &mut fields.started_at,
                        Key::DurationNs => &mut fields.duration_ns,
                        Key::Capture => &mut fields.capture,
                        Key::Hashes => &mut fields.hashes,
                        Key::Other => continue,
                    };
                    *field = (!is_null).then_some(value);
                }
                Ok(fields)
            }
        }
        from.deserialize_map(Object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_has_what_the_record_has() {
        let record = r#"{"type":"task","task_id":"a\u0000b","workflow_id":"w","started_at":1.5,"duration_ns":7,
            "hashes":{"used":{"x":"h1","y":3},"generated":{"z":"h2"}},"other":{"task_id":null},
            "capture":{"mode":"own","start_ns":3,"end_ns":4}}"#;
        let head = RecordHead::read(record).unwrap();
        assert!(head.is_exact);
        assert_eq!(head.kind, RecordKind::Task);
        assert_eq!(head.task_id.as_deref(), Some("a\0b"));
        assert_eq!(head.workflow_id.as_deref(), Some("w"));
        assert_eq!(head.activity_id, None);
        assert_eq!((head.started_at, head.duration_ns), (Some(1.5), Some(7)));
        assert_eq!(head.capture_ns, 7);
        let [used, generated] = [("used", "x", "h1"), ("generated", "z", "h2")]
            .map(|(side, name, hash)| ValueHash { side, name: name.into(), hash: hash.into() });
        assert_eq!(head.hashes, [used, generated.clone()]);
        let half = r#"{"hashes":{"used":["h1"],"generated":{"z":"h2"}}}"#;
        assert_eq!(RecordHead::read(half).unwrap().hashes, [generated]);
        assert_eq!(
            RecordHead::read(record).unwrap().into_owned(),
            RecordHead::read(record).unwrap()
        );
    }

    #[test]
    fn a_value_that_the_head_cannot_have_is_noted() {
        for record in [
            r#"{"task_id":"t"}"#,
            r#"{"type":"agent","task_id":"t"}"#,
            r#"{"type":"task"}"#,
            r#"{"type":"task","task_id":5}"#,
            r#"{"type":"task","task_id":"t","activity_id":["a"]}"#,
            r#"{"type":"task","task_id":"t","status":"CANCELLED"}"#,
            r#"{"type":"task","task_id":"t","started_at":"now"}"#,
            r#"{"type":"task","task_id":"t","started_at":1}"#,
            r#"{"type":"task","task_id":"t","duration_ns":1.5}"#,
            r#"{"type":"task","task_id":"t","stderr":null}"#,
        ] {
            assert!(!RecordHead::read(record).unwrap().is_exact, "{record}");
        }
        let head = RecordHead::read(r#"{"type":"task","task_id":5,"activity_id":["a"]}"#).unwrap();
        assert_eq!(
            (head.task_id.as_deref(), head.activity_id.as_deref()),
            (Some("5"), Some(r#"["a"]"#))
        );
    }

    #[test]
    fn the_last_of_two_values_counts() {
        let head = RecordHead::read(r#"{"task_id":"a","task_id":"b","pid":1,"pid":null}"#).unwrap();
        assert_eq!((head.task_id.as_deref(), head.pid), (Some("b"), None));
        for text in ["", "[]", "5", r#"{"task_id":"torn"#, r#"{"task_id":"t"} x"#] {
            assert!(RecordHead::read(text).is_err(), "{text}");
        }
    }
}
