//! Hints on what may be wrong with a valid query that found nothing.

mod pipeline;

use std::collections::BTreeSet;

use runlore::Provenance;
use runlore::query::{Collection, Find, field};
use runlore_core::text::nearest;
use serde_json::Value;

pub(crate) use pipeline::in_pipeline;

/// The number of records to read for the names of their fields.
const LOOKED_AT: u64 = 200;

/// Returns a message about the first of the fields that no record has.
pub(crate) fn unknown_field(
    records: &Provenance,
    of: Collection,
    asked: &[String],
) -> runlore::Result<Option<String>> {
    let Some(levels) = asked.iter().map(|path| path.split('.').count()).max() else {
        return Ok(None);
    };
    let mut known = BTreeSet::new();
    for document in records.find(of, &Find::new().limit(LOOKED_AT))? {
        names(&document?, "", levels.max(2), &mut known);
    }
    if known.is_empty() {
        return Ok(None);
    }
    for path in asked.iter().filter(|path| !known.contains(*path)) {
        // The field may occur only in records that were not among those read.
        let find = Find::new().filter(field(path).exists(true)).fields([path]).limit(1);
        if records.find(of, &find)?.next().transpose()?.is_none() {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            return Ok(Some(match nearest(path, &known) {
                Some(near) => format!("no record has the field `{path}`: did you mean `{near}`?"),
                None => format!(
                    "no record has the field `{path}`; `runlore show ID --json` shows the fields of a record"
                ),
            }));
        }
    }
    Ok(None)
}

/// Collects the paths of a document's fields, down to `levels` levels.
fn names(value: &Value, path: &str, levels: usize, found: &mut BTreeSet<String>) {
    for (name, value) in value.as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        if levels > 1 {
            names(value, &path, levels - 1, found);
        }
        found.insert(path);
    }
}

/// Returns the fields that a filter uses.
pub(crate) fn asked(filter: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for (name, value) in filter.as_object().into_iter().flatten() {
        match value {
            Value::Array(parts) if name.starts_with('$') => {
                found.extend(parts.iter().flat_map(asked));
            }
            _ if name.starts_with('$') => {}
            _ => found.push(name.clone()),
        }
    }
    found
}

/// Returns a message about an operator without its dollar sign, which is taken for a value.
pub(crate) fn bare_operator(filter: &Value) -> Option<String> {
    const NAMES: [&str; 11] =
        ["eq", "ne", "gt", "gte", "lt", "lte", "in", "nin", "exists", "regex", "not"];
    filter.as_object().into_iter().flatten().find_map(|(field, value)| match value {
        Value::Array(parts) if field.starts_with('$') => parts.iter().find_map(bare_operator),
        Value::Object(inner) => {
            let name = inner.keys().next().filter(|name| NAMES.contains(&name.as_str()))?;
            Some(format!("`{name}` is read as a part of the field `{field}`; the operator is written `${name}`"))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_filter_asks_for_is_found_inside_others() {
        let filter = json!({"a.b": 1, "$or": [{"c": {"$gt": 1}}, {"$and": [{"d": 2}]}]});
        let mut found = asked(&filter);
        found.sort();
        assert_eq!(found, ["a.b", "c", "d"]);
        assert_eq!(bare_operator(&filter), None);
        let told = bare_operator(&json!({"$and": [{"used.lr": {"gt": 1}}]})).unwrap();
        assert_eq!(
            told,
            "`gt` is read as a part of the field `used.lr`; the operator is written `$gt`"
        );
    }
}
