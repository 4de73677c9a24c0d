//! The types that a setting may have: how each is parsed from a node, shown as JSON, and described
//! in the JSON Schema.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value as Json, json};

use super::nearest::listed;
use super::node::{Node, Value};
use super::reader::Reader;
use super::units::{self, Bytes};

/// A key of the settings, or a section of keys.
pub(super) trait Setting: Sized {
    /// Returns the value before the embedded defaults are read.
    fn blank() -> Self;

    /// Takes over the values of a layer. An invalid value is reported to the reader and changes
    /// nothing.
    fn read(&mut self, node: &Node, reader: &mut Reader);

    /// Calls `visit` for each key with its path, in the order of the file.
    fn each(&self, path: &str, visit: &mut dyn FnMut(&str, Json));

    /// The value as JSON.
    fn json(&self) -> Json;

    /// The JSON Schema of its values.
    fn schema() -> Json;
}

/// A setting with a single value.
pub(super) trait Leaf: Sized {
    /// The words to choose from. Empty if the values are not a fixed set of words.
    const WORDS: &[&str] = &[];

    fn blank() -> Self;

    /// Parses the value of a node.
    ///
    /// Returns `Ok(None)` if the node leaves the setting as it is. The error is the end of a
    /// sentence, such as "must be text, not a list".
    fn from_node(node: &Node) -> Result<Option<Self>, String>;

    fn json(&self) -> Json;

    fn schema() -> Json;
}

impl<T: Leaf> Setting for T {
    fn blank() -> Self {
        Leaf::blank()
    }

    fn read(&mut self, node: &Node, reader: &mut Reader) {
        if node.is_interpolated() {
            return reader.interpolated();
        }
        match T::from_node(node) {
            Ok(Some(value)) => {
                *self = value;
                reader.set(node);
            }
            Ok(None) => {}
            Err(wrong) => reader.wrong(node.number, format!("{} {wrong}", reader.path())),
        }
    }

    fn each(&self, path: &str, visit: &mut dyn FnMut(&str, Json)) {
        visit(path, Leaf::json(self));
    }

    fn json(&self) -> Json {
        Leaf::json(self)
    }

    fn schema() -> Json {
        <T as Leaf>::schema()
    }
}

pub(super) fn must_be<T>(what: &str, node: &Node) -> Result<T, String> {
    Err(format!("must be {what}, not {}", node.named()))
}

pub(super) fn must_be_one_of<T>(words: &[&str], node: &Node) -> Result<T, String> {
    must_be(&format!("one of {}", listed(words)), node)
}

impl Leaf for bool {
    fn blank() -> Self {
        false
    }

    fn from_node(node: &Node) -> Result<Option<Self>, String> {
        let said = match &node.value {
            Value::Bool(said) => Some(*said),
            // Flowcept treats these as off.
            Value::Null => Some(false),
            Value::List(items) if items.is_empty() => Some(false),
            // YAML 1.1, which Python still reads, also has these words for booleans.
            Value::Text(text) => match text.to_lowercase().as_str() {
                "yes" | "on" | "true" => Some(true),
                "no" | "off" | "false" => Some(false),
                _ => None,
            },
            _ => None,
        };
        said.map_or_else(|| must_be("yes or no", node), |said| Ok(Some(said)))
    }

    fn json(&self) -> Json {
        (*self).into()
    }

    fn schema() -> Json {
        json!({"anyOf": [{"type": ["boolean", "null"]}, {"enum": ["yes", "no", "on", "off"]}]})
    }
}

macro_rules! whole_number {
    ($($type:ty),+) => { $(
        impl Leaf for $type {
            fn blank() -> Self {
                0
            }

            fn from_node(node: &Node) -> Result<Option<Self>, String> {
                match &node.value {
                    Value::Null => Ok(None),
                    Value::Int(value) if Self::try_from(*value).is_ok() => {
                        Ok(Self::try_from(*value).ok())
                    }
                    _ => must_be(&format!("a whole number from 0 to {}", Self::MAX), node),
                }
            }

            fn json(&self) -> Json {
                (*self).into()
            }

            fn schema() -> Json {
                json!({"type": ["integer", "null"], "minimum": 0, "maximum": Self::MAX})
            }
        }
    )+ };
}

whole_number!(u16, u32);

impl Leaf for f64 {
    fn blank() -> Self {
        0.0
    }

    fn from_node(node: &Node) -> Result<Option<Self>, String> {
        match &node.value {
            Value::Null => Ok(None),
            Value::Int(value) => Ok(Some(*value as f64)),
            Value::Float(value) if value.is_finite() => Ok(Some(*value)),
            _ => must_be("a number", node),
        }
    }

    fn json(&self) -> Json {
        (*self).into()
    }

    fn schema() -> Json {
        json!({"type": ["number", "null"]})
    }
}

impl Leaf for String {
    fn blank() -> Self {
        String::new()
    }

    fn from_node(node: &Node) -> Result<Option<Self>, String> {
        match &node.value {
            Value::Null => Ok(None),
            Value::Text(text) => Ok(Some(text.clone())),
            Value::Int(number) => Ok(Some(number.to_string())),
            _ => must_be("text", node),
        }
    }

    fn json(&self) -> Json {
        self.as_str().into()
    }

    fn schema() -> Json {
        json!({"type": ["string", "integer", "null"]})
    }
}

impl Leaf for PathBuf {
    fn blank() -> Self {
        PathBuf::new()
    }

    fn from_node(node: &Node) -> Result<Option<Self>, String> {
        let Some(text) = String::from_node(node).or_else(|_| must_be("a path", node))? else {
            return Ok(None);
        };
        if text.is_empty() || text.contains('\0') {
            return must_be("a path", node);
        }
        // Expand `~` as a shell does.
        let home = text.strip_prefix("~/").and_then(|rest| Some(std::env::home_dir()?.join(rest)));
        Ok(Some(home.unwrap_or_else(|| text.into())))
    }

    fn json(&self) -> Json {
        self.to_string_lossy().into()
    }

    fn schema() -> Json {
        json!({"type": ["string", "null"]})
    }
}

impl Leaf for Bytes {
    fn blank() -> Self {
        Bytes::new(0)
    }

    fn from_node(node: &Node) -> Result<Option<Self>, String> {
        let value = match &node.value {
            Value::Null => return Ok(None),
            Value::Int(value) => u64::try_from(*value).ok().map(Bytes::new),
            Value::Text(text) => units::bytes(text),
            _ => None,
        };
        value.map_or_else(
            || must_be("a size such as `4096` or `256KiB`", node),
            |size| Ok(Some(size)),
        )
    }

    fn json(&self) -> Json {
        self.to_string().into()
    }

    fn schema() -> Json {
        json!({"anyOf": [
            {"type": ["integer", "null"], "minimum": 0},
            {"type": "string", "pattern": "^[0-9._]+ *([KkMmGgTt]?[Ii]?[Bb]?)$"},
        ]})
    }
}

impl Leaf for Duration {
    fn blank() -> Self {
        Duration::ZERO
    }

    fn from_node(node: &Node) -> Result<Option<Self>, String> {
        let value = match &node.value {
            Value::Null => return Ok(None),
            Value::Int(value) => u64::try_from(*value).ok().map(Duration::from_millis),
            Value::Text(text) => units::duration(text),
            _ => None,
        };
        let wanted = "a time such as `200ms` or `1s` (a plain number is milliseconds)";
        value.map_or_else(|| must_be(wanted, node), |time| Ok(Some(time)))
    }

    fn json(&self) -> Json {
        units::duration_text(*self).into()
    }

    fn schema() -> Json {
        json!({"anyOf": [
            {"type": ["integer", "null"], "minimum": 0},
            {"type": "string", "pattern": "^[0-9._]+ *(ns|us|µs|ms|s|m|min|h|d)$"},
        ]})
    }
}

impl<T: Leaf> Leaf for Option<T> {
    fn blank() -> Self {
        None
    }

    fn from_node(node: &Node) -> Result<Option<Self>, String> {
        match node.value {
            Value::Null => Ok(Some(None)),
            _ => match T::from_node(node) {
                Err(_) if !T::WORDS.is_empty() => {
                    must_be_one_of(&[T::WORDS, &["~"]].concat(), node)
                }
                said => said.map(Some),
            },
        }
    }

    fn json(&self) -> Json {
        self.as_ref().map_or(Json::Null, Leaf::json)
    }

    fn schema() -> Json {
        T::schema()
    }
}

impl Leaf for Vec<String> {
    fn blank() -> Self {
        Vec::new()
    }

    fn from_node(node: &Node) -> Result<Option<Self>, String> {
        match &node.value {
            Value::Null | Value::Bool(false) => Ok(Some(Vec::new())),
            Value::Text(one) => Ok(Some(vec![one.clone()])),
            Value::List(items) => {
                let name = |item| String::from_node(item).ok().flatten();
                let names: Option<Vec<String>> = items.iter().map(name).collect();
                let only = "must hold names only, such as `[a, b]`";
                names.map_or_else(|| Err(only.to_owned()), |names| Ok(Some(names)))
            }
            _ => must_be("a list of names such as `[a, b]`", node),
        }
    }

    fn json(&self) -> Json {
        self.as_slice().into()
    }

    fn schema() -> Json {
        json!({"anyOf": [
            {"type": "array", "items": {"type": ["string", "integer"]}},
            {"type": ["string", "null"]},
            {"const": false},
        ]})
    }
}

/// A section whose keys the user chooses.
impl Setting for Map<String, Json> {
    fn blank() -> Self {
        Map::new()
    }

    fn read(&mut self, node: &Node, reader: &mut Reader) {
        for entry in reader.section(node) {
            reader.within(entry, |reader| {
                if entry.node.is_interpolated() {
                    return reader.interpolated();
                }
                self.insert(entry.key.clone(), entry.node.to_json());
                reader.set(&entry.node);
            });
        }
    }

    fn each(&self, path: &str, visit: &mut dyn FnMut(&str, Json)) {
        if self.is_empty() {
            visit(path, Json::Object(Map::new()));
        }
        for (key, value) in self {
            visit(&format!("{path}.{key}"), value.clone());
        }
    }

    fn json(&self) -> Json {
        Json::Object(self.clone())
    }

    fn schema() -> Json {
        json!({"type": ["object", "null"]})
    }
}
