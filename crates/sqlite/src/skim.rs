//! Extracts the columns of a row from a record's text, without parsing all of it.

use std::borrow::Cow;
use std::fmt;

use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, Value as SqlValue, ValueRef};
use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

use runlore_core::record::hash::identifies;

/// The columns of a task.
#[derive(Debug, Default)]
pub(super) struct Columns<'a> {
    pub(super) task_id: Text<'a>,
    pub(super) workflow_id: Text<'a>,
    pub(super) campaign_id: Text<'a>,
    pub(super) parent_task_id: Text<'a>,
    pub(super) activity_id: Text<'a>,
    pub(super) status: Text<'a>,
    pub(super) started_at: Number,
    pub(super) duration_ns: Number,
    hashes: Option<&'a RawValue>,
    /// Whether a column cannot represent the value that the record has.
    pub(super) is_odd: bool,
    /// Whether the workflow id is not a string.
    pub(super) is_workflow_odd: bool,
    /// Whether the record can be stored as it is: a task with a string as id, and without nulls.
    pub(super) is_plain: bool,
}

/// An optional text.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Text<'a>(pub(super) Option<Cow<'a, str>>);

impl Text<'_> {
    pub(super) fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }
}

impl ToSql for Text<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match &self.0 {
            Some(text) => ValueRef::Text(text.as_bytes()),
            None => ValueRef::Null,
        }))
    }
}

/// An optional number that SQLite can store.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(super) enum Number {
    #[default]
    None,
    Whole(i64),
    Real(f64),
}

impl Number {
    /// Converts a number. `None` if SQLite would have to round it.
    pub(super) fn exactly(number: &serde_json::Number) -> Option<Self> {
        match number.as_i64() {
            Some(whole) => Some(Self::Whole(whole)),
            None if number.is_f64() => number.as_f64().map(Self::Real),
            None => None,
        }
    }
}

impl ToSql for Number {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Owned(match self {
            Self::None => SqlValue::Null,
            Self::Whole(number) => SqlValue::Integer(*number),
            Self::Real(number) => SqlValue::Real(*number),
        }))
    }
}

impl<'a> Columns<'a> {
    /// Extracts the columns from a record's text.
    pub(super) fn of(record: &'a str) -> serde_json::Result<Self> {
        let fields: Fields<'a> = serde_json::from_str(record)?;
        let mut columns = Self { hashes: fields.hashes, ..Self::default() };
        let mut is_odd = false;
        let mut shown = |raw: Option<&'a RawValue>| {
            let (text, is_text) = raw.map_or((Text(None), true), text);
            is_odd |= !is_text;
            text
        };
        columns.task_id = shown(fields.task_id);
        columns.workflow_id = shown(fields.workflow_id);
        columns.campaign_id = shown(fields.campaign_id);
        columns.parent_task_id = shown(fields.parent_task_id);
        columns.activity_id = shown(fields.activity_id);
        columns.status = shown(fields.status);
        let mut number = |raw: Option<&'a RawValue>| {
            let Some(raw) = raw else { return Number::None };
            let number = serde_json::from_str(raw.get()).ok();
            let number = number.and_then(|number| Number::exactly(&number));
            is_odd |= number.is_none();
            number.unwrap_or_default()
        };
        columns.started_at = number(fields.started_at);
        columns.duration_ns = number(fields.duration_ns);
        if columns.task_id.0.is_none()
            && let Some(raw) = fields.task_id
        {
            // Use the JSON text as id, whatever its type is.
            columns.task_id = Text(Some(raw.get().into()));
        }
        columns.is_odd = is_odd;
        columns.is_workflow_odd = fields.workflow_id.is_some_and(|raw| !text(raw).1);
        columns.is_plain = !fields.has_null
            && fields.r#type.is_some_and(|kind| kind.get() == r#""task""#)
            && fields.task_id.is_some_and(|id| id.get().starts_with('"'));
        Ok(columns)
    }

    /// Returns each hash that identifies a value, with its side and the name of the value.
    pub(super) fn hashes(&self) -> Vec<(&'static str, Cow<'a, str>, Cow<'a, str>)> {
        let sides = self.hashes.and_then(|raw| serde_json::from_str::<Sides<'a>>(raw.get()).ok());
        let Sides { used, generated } = sides.unwrap_or_default();
        let of = |side, raw: Option<&'a RawValue>| {
            // If one side is malformed, the other still counts.
            let pairs = raw.and_then(|raw| serde_json::from_str::<Pairs<'a>>(raw.get()).ok());
            let pairs = pairs.unwrap_or_default().0.into_iter();
            pairs.filter_map(move |(name, hash)| {
                Some((side, name.0?, hash.0.filter(|hash| identifies(hash))?))
            })
        };
        of("used", used).chain(of("generated", generated)).collect()
    }
}

/// Returns the text of a JSON value, and whether it is a string. A number gives its digits and
/// `false`.
fn text(raw: &RawValue) -> (Text<'_>, bool) {
    let json = raw.get();
    let bytes = json.as_bytes();
    match bytes.first() {
        Some(b'"') if !bytes.contains(&b'\\') => {
            (Text(Some(Cow::Borrowed(&json[1..json.len() - 1]))), true)
        }
        Some(b'"') => (Text(serde_json::from_str(json).ok().map(Cow::Owned)), true),
        Some(b'-' | b'0'..=b'9') => (Text(Some(Cow::Borrowed(json))), false),
        _ => (Text(None), false),
    }
}

/// The relevant fields, as raw JSON.
#[derive(Debug, Default)]
struct Fields<'a> {
    r#type: Option<&'a RawValue>,
    task_id: Option<&'a RawValue>,
    workflow_id: Option<&'a RawValue>,
    campaign_id: Option<&'a RawValue>,
    parent_task_id: Option<&'a RawValue>,
    activity_id: Option<&'a RawValue>,
    status: Option<&'a RawValue>,
    started_at: Option<&'a RawValue>,
    duration_ns: Option<&'a RawValue>,
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
    StartedAt,
    DurationNs,
    Hashes,
    #[serde(other)]
    Other,
}

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
                    fields.has_null |= value.get() == "null";
                    let field = match key {
                        Key::Type => &mut fields.r#type,
                        Key::TaskId => &mut fields.task_id,
                        Key::WorkflowId => &mut fields.workflow_id,
                        Key::CampaignId => &mut fields.campaign_id,
                        Key::ParentTaskId => &mut fields.parent_task_id,
                        Key::ActivityId => &mut fields.activity_id,
                        Key::Status => &mut fields.status,
                        Key::StartedAt => &mut fields.started_at,
                        Key::DurationNs => &mut fields.duration_ns,
                        Key::Hashes => &mut fields.hashes,
                        Key::Other => continue,
                    };
                    *field = Some(value);
                }
                Ok(fields)
            }
        }
        from.deserialize_map(Object)
    }
}

#[derive(Debug, Default, Deserialize)]
struct Sides<'a> {
    #[serde(borrow)]
    used: Option<&'a RawValue>,
    #[serde(borrow)]
    generated: Option<&'a RawValue>,
}

/// Names and texts, in their order.
#[derive(Debug, Default)]
struct Pairs<'a>(Vec<(Text<'a>, Text<'a>)>);

/// A name, borrowed if possible.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Pairs<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Vec<(Text<'de>, Text<'de>)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("hashes by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some(Name(name)) = map.next_key()? {
                    let value: &'de RawValue = map.next_value()?;
                    if let (text, true) = text(value) {
                        pairs.push((Text(Some(name)), text));
                    }
                }
                Ok(pairs)
            }
        }
        from.deserialize_map(Object).map(Pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_show_what_the_record_has() {
        let record = r#"{"type":"task","task_id":"a\u0000b","workflow_id":"w","started_at":1.5,"duration_ns":7,
            "hashes":{"used":{"x":"h1","y":3},"generated":{"z":"h2"}},"other":{"task_id":null}}"#;
        let columns = Columns::of(record).unwrap();
        assert!(columns.is_plain && !columns.is_odd);
        assert_eq!(columns.task_id.as_str(), "a\0b");
        assert_eq!(columns.workflow_id.as_str(), "w");
        assert_eq!(columns.activity_id, Text(None));
        assert_eq!(
            (columns.started_at, columns.duration_ns),
            (Number::Real(1.5), Number::Whole(7))
        );
        let [used, generated] =
            [("used", "x".into(), "h1".into()), ("generated", "z".into(), "h2".into())];
        assert_eq!(columns.hashes(), [used, generated.clone()]);
        let half = r#"{"hashes":{"used":["h1"],"generated":{"z":"h2"}}}"#;
        assert_eq!(Columns::of(half).unwrap().hashes(), [generated]);
    }

    #[test]
    fn what_a_column_cannot_show_is_noted() {
        let odd = [
            r#"{"type":"task","task_id":5}"#,
            r#"{"type":"task","task_id":"t","activity_id":["a"]}"#,
            r#"{"type":"task","task_id":"t","started_at":"now"}"#,
            r#"{"type":"task","task_id":"t","duration_ns":18446744073709551615}"#,
        ];
        for record in odd {
            assert!(Columns::of(record).unwrap().is_odd, "{record}");
        }
        assert_eq!(Columns::of(odd[0]).unwrap().task_id.as_str(), "5");
        let unusual =
            [odd[0], r#"{"task_id":"t"}"#, r#"{"type":"task","task_id":"t","stderr":null}"#];
        for record in unusual {
            assert!(!Columns::of(record).unwrap().is_plain, "{record}");
        }
    }
}
