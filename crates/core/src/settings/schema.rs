//! The JSON Schema of `settings.yaml`, for editors. It is generated from the types.

use serde_json::{Map, Value, json};

use super::setting::Setting;
use super::types::Settings;
use super::{alias, foreign};

/// Returns the JSON Schema of `settings.yaml`, with the description and default of each key.
///
/// ```
/// let schema = runlore::settings::schema();
/// let cpu = &schema["properties"]["telemetry_capture"]["properties"]["cpu"];
/// assert_eq!(cpu["default"], true);
/// ```
pub fn schema() -> Value {
    let mut schema = <Settings as Setting>::schema();
    complete(&mut schema, "", &Settings::default().json());
    alias::describe(&mut schema);
    if let Some(object) = schema.as_object_mut() {
        object.insert("$schema".into(), "http://json-schema.org/draft-07/schema#".into());
        object.insert("title".into(), "Settings of Runlore".into());
    }
    schema
}

/// A key: its name, its description, and the schema of its values.
type Key = (&'static str, &'static str, fn() -> Value);

/// Returns the schema of a section.
pub(super) fn object(keys: &[Key]) -> Value {
    let properties: Map<String, Value> = keys
        .iter()
        .map(|(name, doc, schema)| {
            let mut schema = schema();
            schema["description"] = doc.trim().into();
            ((*name).to_owned(), schema)
        })
        .collect();
    json!({"type": ["object", "null"], "properties": properties, "additionalProperties": false})
}

/// Adds what the types do not contain: the defaults, and Flowcept's keys that are accepted and
/// ignored.
fn complete(schema: &mut Value, path: &str, default: &Value) {
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else {
        schema["default"] = default.clone();
        return;
    };
    for (key, schema) in properties.iter_mut() {
        let dot = if path.is_empty() { "" } else { "." };
        complete(schema, &format!("{path}{dot}{key}"), &default[key]);
    }
    for key in foreign::below(path) {
        let aside = json!({"description": "A key of Flowcept that Runlore ignores."});
        properties.insert(key.to_owned(), aside);
    }
}
