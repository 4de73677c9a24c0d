//! Converts a stored document back to its record.

use mongodb::bson::{Bson, RawBsonRef, RawDocument};
use serde_json::{Map, Value};

use super::document::{ADDED, OURS, REGISTERED, is_shadowed};
use super::value::whole;
use runlore_core::record::Record;
use runlore_core::{Error, ErrorKind, Result};

/// A document, with what is needed to replace it.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) id: Bson,
    /// `None` if another program stored it.
    pub(super) revision: Option<i64>,
    /// When it was first stored, in Unix milliseconds.
    pub(super) registered: Option<i64>,
    /// Whether the fields of the document represent the whole record.
    pub(super) is_plain: bool,
    pub(super) json: Value,
}

impl Stored {
    pub(super) fn of(document: &RawDocument) -> Result<Self> {
        let ours = document.get(OURS).ok().flatten().and_then(RawBsonRef::as_document);
        let id = document.get("_id").ok().flatten().and_then(|id| Bson::try_from(id).ok());
        let registered = document.get(REGISTERED).ok().flatten();
        Ok(Self {
            id: id.unwrap_or(Bson::Null),
            revision: ours.and_then(|ours| ours.get("rev").ok()?).and_then(RawBsonRef::as_i64),
            is_plain: ours.is_some_and(|ours| ours.get_bool("plain").unwrap_or(false)),
            registered: registered
                .and_then(RawBsonRef::as_datetime)
                .map(mongodb::bson::DateTime::timestamp_millis),
            json: match ours {
                Some(ours) => own_record(document, ours)?,
                None => foreign_record(document)?,
            },
        })
    }
}

/// Restores the record of a document that Runlore stored.
fn own_record(document: &RawDocument, ours: &RawDocument) -> Result<Value> {
    if let Ok(Some(RawBsonRef::String(json))) = ours.get("json") {
        return serde_json::from_str(json).map_err(|error| {
            Error::new(ErrorKind::Record, "the text of a record is not JSON").with_source(error)
        });
    }
    let mut record = Map::new();
    for element in document.iter_elements() {
        let element = element.map_err(|error| damaged(&error))?;
        if !is_shadowed(element.key().as_str()) {
            let value = element.value().map_err(|error| damaged(&error))?;
            record.insert(element.key().as_str().to_owned(), json_of(value)?);
        }
    }
    if let Ok(Some(RawBsonRef::Document(own))) = ours.get("own") {
        record.extend(object_of(own)?);
    }
    Ok(Value::Object(record))
}

/// Converts a document that another program, such as Flowcept, stored. The result is the record as
/// it would have been written to a file.
fn foreign_record(document: &RawDocument) -> Result<Value> {
    let mut record = object_of(document)?;
    record.remove("_id");
    let status = record.get("status").and_then(Value::as_str).map(str::to_lowercase);
    let is_flag = |name: &str| status.as_deref() == Some(name);
    for name in ADDED.into_iter().chain(["error"]) {
        if is_flag(name) && record.get(name) == Some(&Value::Bool(true)) {
            record.remove(name);
        }
    }
    Ok(Record::from_json(Value::Object(record))?.to_json())
}

fn object_of(document: &RawDocument) -> Result<Map<String, Value>> {
    let mut object = Map::new();
    for element in document.iter_elements() {
        let element = element.map_err(|error| damaged(&error))?;
        let value = element.value().map_err(|error| damaged(&error))?;
        object.insert(element.key().as_str().to_owned(), json_of(value)?);
    }
    Ok(object)
}

/// Converts a value to JSON. Types that JSON lacks are written as MongoDB's tools do.
pub(super) fn json_of(value: RawBsonRef<'_>) -> Result<Value> {
    Ok(match value {
        RawBsonRef::Double(number) => number.into(),
        RawBsonRef::String(text) => text.into(),
        RawBsonRef::Document(document) => Value::Object(object_of(document)?),
        RawBsonRef::Array(items) => {
            let items =
                items.into_iter().map(|item| json_of(item.map_err(|error| damaged(&error))?));
            items.collect::<Result<Vec<_>>>()?.into()
        }
        RawBsonRef::Boolean(yes) => yes.into(),
        RawBsonRef::Null | RawBsonRef::Undefined => Value::Null,
        RawBsonRef::Int32(number) => number.into(),
        RawBsonRef::Int64(number) => number.into(),
        RawBsonRef::Decimal128(number) => match whole(number) {
            Some(number) => number.into(),
            None => number.to_string().parse::<f64>().unwrap_or(f64::NAN).into(),
        },
        RawBsonRef::DateTime(moment) => (moment.timestamp_millis() as f64 / 1000.0).into(),
        RawBsonRef::ObjectId(id) => id.to_hex().into(),
        other => {
            let other = Bson::try_from(other).map_err(|error| damaged(&error))?;
            serde_json::to_value(other).unwrap_or_default()
        }
    })
}

fn damaged(error: &mongodb::bson::error::Error) -> Error {
    Error::new(ErrorKind::Record, format!("a document cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use mongodb::bson::oid::ObjectId;
    use mongodb::bson::{DateTime, RawDocumentBuf, doc};
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::document::{Label, encode};
    use super::*;

    fn there_and_back(record: &Value) -> Value {
        let label = Label::new(ObjectId::from_bytes([1; 12]));
        let encoded = encode(&record.to_string(), &label).unwrap();
        Stored::of(&encoded).unwrap().json
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<bool>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            Just(Value::Null),
        ];
        leaf.prop_recursive(4, 24, 5, |inner| {
            let key = prop_oneof![any::<String>(), Just("$x".to_owned()), Just("a.b".to_owned())];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map(key, inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn whatever_was_stored_comes_back_equal(
            value in value().prop_filter("a null would go", |value| !value.is_null()),
            name in prop::sample::select(vec!["used", "started_at", "finished", "_id", "_runlore", "$set", "a.b", "", "hashes"]),
        ) {
            let record = json!({"type": "task", "task_id": "t", "status": "FINISHED", name: value});
            prop_assert_eq!(there_and_back(&record), record);
        }
    }

    #[test]
    fn what_another_program_stored_is_read_as_its_record() {
        let document = doc! {
            "_id": ObjectId::from_bytes([1; 12]), "task_id": "t", "status": "FINISHED", "finished": true,
            "started_at": DateTime::from_millis(1500), "registered_at": DateTime::from_millis(2000),
        };
        let stored = Stored::of(&RawDocumentBuf::try_from(&document).unwrap()).unwrap();
        let expected = json!({
            "type": "task", "task_id": "t", "status": "FINISHED", "started_at": 1.5, "registered_at": 2.0,
        });
        assert_eq!((stored.json, stored.revision, stored.registered), (expected, None, Some(2000)));
    }
}
