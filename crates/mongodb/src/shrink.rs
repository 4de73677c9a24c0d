//! Shrinks records that are too large for a MongoDB document. Removes the largest values first, and
//! notes that in the record.

use mongodb::bson::RawDocumentBuf;
use serde_json::{Map, Value};

use super::document::{Label, encode};
use super::upsert::not_json;
use runlore_core::Result;

/// The maximum document size: MongoDB's limit, minus what an index or a driver may add.
pub(super) const LARGEST: usize = (16 << 20) - (4 << 10);

/// How many characters of a long text to keep.
const BEGINNING: usize = 1000;

/// Fields that identify the record. They are small in every meaningful record.
const KEPT: [&str; 12] = [
    "type",
    "task_id",
    "workflow_id",
    "parent_workflow_id",
    "campaign_id",
    "activity_id",
    "parent_task_id",
    "status",
    "started_at",
    "ended_at",
    "duration_ns",
    "name",
];

/// Converts a record to a document, and leaves out as much as needed to make it fit.
pub(super) fn fitting(text: &str, label: &Label<'_>) -> Result<RawDocumentBuf> {
    let document = encode(text, label)?;
    if document.as_bytes().len() <= LARGEST {
        return Ok(document);
    }
    let mut record = serde_json::from_str(text).map_err(not_json)?;
    let mut bytes = LARGEST / 2;
    loop {
        to(&mut record, bytes);
        let text = serde_json::to_string(&record).map_err(not_json)?;
        let document = encode(&text, label)?;
        // In the last round only a dozen fields are left.
        if document.as_bytes().len() <= LARGEST || bytes == 0 {
            return Ok(document);
        }
        bytes /= 4;
    }
}

/// Leaves out the largest values until about `bytes` bytes of JSON are left.
fn to(record: &mut Map<String, Value>, bytes: usize) {
    let mut sizes: Vec<(usize, String, Option<String>)> = Vec::new();
    for (name, value) in &*record {
        match value {
            Value::Object(inside) => sizes.extend(
                inside.iter().map(|(key, value)| (size(value), name.clone(), Some(key.clone()))),
            ),
            value => sizes.push((size(value), name.clone(), None)),
        }
    }
    let mut left = sizes.iter().map(|(size, ..)| size).sum::<usize>();
    sizes.sort_unstable_by(|one, other| other.cmp(one));
    let mut notes = Map::new();
    for (size, name, key) in sizes {
        if left <= bytes {
            break;
        }
        let place = match (&key, record.get_mut(&name)) {
            (Some(key), Some(Value::Object(inside))) => inside.get_mut(key),
            (None, value) if !KEPT.contains(&name.as_str()) => value,
            _ => None,
        };
        let Some(place) = place else { continue };
        *place = beginning(place);
        left = (left + self::size(place)).saturating_sub(size);
        let name = key.map_or(name.clone(), |key| format!("{name}.{key}"));
        notes.insert(name, reason(size).into());
    }
    if left > bytes {
        // No value stands out: the record consists of many small ones.
        record.retain(|name, _| KEPT.contains(&name.as_str()));
        notes = Map::from_iter([("record".to_owned(), reason(left).into())]);
    }
    match record.entry("unavailable").or_insert_with(|| Value::Object(Map::new())) {
        Value::Object(known) => known.extend(notes),
        other => *other = Value::Object(notes),
    }
}

fn reason(bytes: usize) -> String {
    format!("{bytes} bytes are left out: MongoDB takes 16 MB a document")
}

fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| size(item) + 1).sum::<usize>(),
        Value::Object(map) => {
            2 + map.iter().map(|(key, value)| key.len() + size(value) + 4).sum::<usize>()
        }
        Value::Null | Value::Bool(_) => 5,
        Value::Number(_) => 12,
    }
}

fn beginning(value: &Value) -> Value {
    match value {
        Value::String(text) => {
            let mut beginning: String = text.chars().take(BEGINNING).collect();
            if beginning.len() < text.len() {
                beginning.push('…');
            }
            beginning.into()
        }
        Value::Array(_) => Value::Array(Vec::new()),
        Value::Object(_) => Value::Object(Map::new()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shrunk(mut record: Value, bytes: usize) -> Value {
        to(record.as_object_mut().unwrap(), bytes);
        record
    }

    #[test]
    fn the_largest_values_go_and_the_record_says_so() {
        let record = json!({
            "type": "task", "task_id": "t", "used": {"text": "x".repeat(50_000), "lr": 0.1}, "stderr": "small",
            "unavailable": {"gpu": "none"},
        });
        let record = shrunk(record, 5_000);
        assert_eq!(record["used"]["text"].as_str().unwrap().chars().count(), BEGINNING + 1);
        assert_eq!(record["used"]["lr"], 0.1);
        assert_eq!(record["stderr"], "small");
        let told = "50002 bytes are left out: MongoDB takes 16 MB a document";
        assert_eq!(record["unavailable"], json!({"gpu": "none", "used.text": told}));
    }

    #[test]
    fn many_small_things_go_together() {
        let mut record = Map::from_iter([("task_id".to_owned(), json!("t"))]);
        record.extend((0..1000).map(|n| (format!("field{n}"), json!(n))));
        let record = shrunk(Value::Object(record), 500);
        assert_eq!(record.as_object().unwrap().len(), 2);
        assert_eq!(record["task_id"], "t");
    }
}
