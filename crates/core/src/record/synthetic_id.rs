//! Synthetic ids for records without one, such as Flowcept's lightweight and loop records.
//!
//! A synthetic id is a UUID version 8 derived from the record's content (with sorted keys) and its
//! line number. The same file therefore gives the same ids on every read, on every machine and in
//! every copy, and two equal records in one file keep separate ids.

use serde::ser::SerializeMap;
use serde_json::{Map, Value};
use twox_hash::XxHash3_128;

/// Removes the id from `map`, or generates one. If the id is not text, its JSON text is used.
pub(super) fn id(map: &mut Map<String, Value>, name: &str, kind: &str, line: u64) -> String {
    match map.remove(name) {
        Some(Value::String(id)) => id,
        Some(original) => {
            let id = original.to_string();
            map.insert(name.to_owned(), original);
            id
        }
        None => made_from(map, kind, line),
    }
}

/// Serializes the id, or its original JSON if that was not text.
pub(super) fn write_id<M: SerializeMap>(
    out: &mut M,
    name: &'static str,
    id: &str,
    extra: &Map<String, Value>,
) -> Result<(), M::Error> {
    match original_id(name, id, extra) {
        Some(original) => out.serialize_entry(name, original),
        None => out.serialize_entry(name, id),
    }
}

/// Returns the original JSON of an id that was not text.
pub(super) fn original_id<'a>(
    name: &str,
    id: &str,
    extra: &'a Map<String, Value>,
) -> Option<&'a Value> {
    let original = extra.get(name).filter(|original| !original.is_string())?;
    (original.to_string().as_str() == id).then_some(original)
}

fn made_from(map: &Map<String, Value>, kind: &str, line: u64) -> String {
    // Sorted, because a program may be built with serde_json's `preserve_order`.
    let mut content = Value::Object(map.clone());
    content.sort_all_objects();
    let text = format!("{kind}{content}");
    let mut bits = XxHash3_128::oneshot_with_seed(line, text.as_bytes());
    bits = bits & !(0xf << 76) | 0x8 << 76;
    bits = bits & !(0x3 << 62) | 0x2 << 62;
    let hex = format!("{bits:032x}");
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_filled_id_is_a_uuid_of_version_8_that_depends_on_content_and_line() {
        let Value::Object(map) = json!({"activity_id": "light", "used": {"x": 1}}) else {
            unreachable!()
        };
        let first = made_from(&map, "task", 1);
        assert_eq!(first, made_from(&map, "task", 1));
        assert_ne!(first, made_from(&map, "task", 2));
        assert_ne!(first, made_from(&Map::new(), "task", 1));
        assert_eq!((first.len(), &first[14..15]), (36, "8"));
        assert!("89ab".contains(&first[19..20]), "{first}");
    }
}
