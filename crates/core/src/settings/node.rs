//! YAML as a tree whose every node can be found again in its text.
//!
//! The YAML crate tells a place only with an error. So the nodes are numbered in the order of reading, and whoever
//! wants to know where number 7 stands reads the text once more and fails at number 7. That is rare and cheap: only
//! wrong settings, and `runlore settings show`, ask for places.

use std::cell::Cell;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::contain::contain;

/// More nodes than any settings need: a few lines of aliases can stand for billions.
const MAX_NODES: u32 = 20_000;

/// The parser looks at every open bracket again at each step: 60,000 of them, one in another, take a minute.
const MAX_BRACKETS: usize = 4_000;

/// One node of the tree.
#[derive(Debug, Clone)]
pub(super) struct Node {
    /// Its place in the order of reading.
    pub(super) number: u32,
    pub(super) value: Value,
}

#[derive(Debug, Clone)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A key of a mapping, and what stands under it.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) number: u32,
    pub(super) key: String,
    pub(super) node: Node,
}

impl Node {
    /// Whether a `${…}` stands anywhere in it.
    pub(super) fn is_interpolated(&self) -> bool {
        match &self.value {
            Value::Text(text) => text.contains("${"),
            Value::List(items) => items.iter().any(Self::is_interpolated),
            Value::Map(entries) => entries.iter().any(|entry| entry.node.is_interpolated()),
            _ => false,
        }
    }

    /// What it is, for a sentence about what it should be instead. Only short, harmless texts are quoted: a URL may
    /// hold a password.
    pub(super) fn named(&self) -> String {
        match &self.value {
            Value::Null => "nothing".to_owned(),
            Value::Bool(value) => format!("`{value}`"),
            Value::Int(value) => format!("`{value}`"),
            Value::Float(value) => format!("`{value}`"),
            Value::Text(text) if text.is_empty() => "an empty text".to_owned(),
            Value::Text(text) => quoted(text, "this text"),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a section".to_owned(),
        }
    }

    /// The same as JSON.
    pub(super) fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(value) => (*value).into(),
            Value::Int(value) => match (u64::try_from(*value), i64::try_from(*value)) {
                (Ok(value), _) => value.into(),
                (_, Ok(value)) => value.into(),
                _ => value.to_string().into(),
            },
            // JSON has no infinity.
            Value::Float(value) if !value.is_finite() => value.to_string().into(),
            Value::Float(value) => (*value).into(),
            Value::Text(text) => text.as_str().into(),
            Value::List(items) => items.iter().map(Self::to_json).collect(),
            Value::Map(entries) => {
                let entries = entries.iter().map(|entry| (entry.key.clone(), entry.node.to_json()));
                serde_json::Value::Object(entries.collect())
            }
        }
    }
}

/// A word of a settings file as it may stand in a message; `instead` where it had better not.
pub(super) fn quoted(text: &str, instead: &str) -> String {
    let harmless = text.chars().count() <= 40
        && !text.contains(['@', '`'])
        && !text.contains("://")
        && !text.chars().any(char::is_control);
    if harmless { format!("`{text}`") } else { instead.to_owned() }
}

/// Why a text is not a tree, and where that was noticed.
#[derive(Debug)]
pub(super) struct NotYaml {
    pub(super) message: String,
    pub(super) place: Option<(usize, usize)>,
}

/// Reads a text; nothing where it holds no value at all.
pub(super) fn parse(text: &str) -> Result<Option<Node>, NotYaml> {
    if text.bytes().filter(|byte| matches!(byte, b'[' | b'{')).count() > MAX_BRACKETS {
        let message = "holds more than 4000 brackets, which settings never do".to_owned();
        return Err(NotYaml { message, place: None });
    }
    let node = walk(text, None).map_err(|error| explain(&error, text))?;
    Ok(Some(node).filter(|node| !matches!(node.value, Value::Null)))
}

/// The line and column, from 1, of a node.
pub(super) fn locate(text: &str, number: u32) -> Option<(usize, usize)> {
    let error = walk(text, Some(number)).err()?;
    error.location().map(|location| (location.line(), location.column()))
}

fn walk(text: &str, stop_at: Option<u32>) -> Result<Node, serde_yaml::Error> {
    // The crate holds a translated C library with checks of its own that panic; what they would find must not end
    // the program under watch.
    let walk = || {
        let count = Cell::new(0);
        Walker { count: &count, stop_at }.deserialize(serde_yaml::Deserializer::from_str(text))
    };
    contain(walk)
        .unwrap_or_else(|| Err(de::Error::custom("the YAML reader cannot make sense of it")))
}

fn explain(error: &serde_yaml::Error, text: &str) -> NotYaml {
    let place = error.location().map(|location| (location.line(), location.column()));
    let told = error.to_string();
    let at_tab = error.location().is_some_and(|location| {
        let line = text.lines().nth(location.line() - 1).unwrap_or_default();
        line.chars().take(location.column()).any(|c| c == '\t')
    });
    let message = if told.contains(TOO_MANY) || told.contains("repetition limit") {
        "holds far too many values: aliases (`*name`) that repeat each other".to_owned()
    } else if told.contains("recursion limit") {
        "is nested more than 128 levels deep".to_owned()
    } else if told.contains(TAG) {
        "tags such as `!name` have no meaning here".to_owned()
    } else if told.contains("unknown anchor") {
        "an alias (`*name`) has no `&name` before it".to_owned()
    } else if told.contains("more than one document") {
        "holds more than one document (`---`): there must be one".to_owned()
    } else if at_tab {
        "is not YAML: a tab stands where only spaces may".to_owned()
    } else {
        // The place is told in our own way; the context (`while parsing …`) helps nobody.
        let what = told.split(" at line ").next().unwrap_or(&told);
        format!("is not YAML: {}", what.split(", while").next().unwrap_or(what))
    };
    NotYaml { message, place }
}

const TOO_MANY: &str = "too many values";
const TAG: &str = "tagged value";

#[derive(Clone, Copy)]
struct Walker<'a> {
    count: &'a Cell<u32>,
    stop_at: Option<u32>,
}

impl<'de> DeserializeSeed<'de> for Walker<'_> {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Node, D::Error> {
        let number = self.count.get();
        self.count.set(number + 1);
        from.deserialize_any(At { walker: self, number })
    }
}

/// The visitor of one node.
struct At<'a> {
    walker: Walker<'a>,
    number: u32,
}

impl At<'_> {
    fn node<E: de::Error>(&self, value: Value) -> Result<Node, E> {
        if self.walker.stop_at == Some(self.number) {
            return Err(E::custom("here"));
        }
        if self.number >= MAX_NODES {
            return Err(E::custom(TOO_MANY));
        }
        Ok(Node { number: self.number, value })
    }
}

impl<'de> Visitor<'de> for At<'_> {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Node, E> {
        self.node(Value::Null)
    }

    fn visit_none<E: de::Error>(self) -> Result<Node, E> {
        self.node(Value::Null)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Node, E> {
        self.node(Value::Bool(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Node, E> {
        self.node(Value::Int(value.into()))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Node, E> {
        self.node(Value::Int(value.into()))
    }

    fn visit_i128<E: de::Error>(self, value: i128) -> Result<Node, E> {
        self.node(Value::Int(value))
    }

    fn visit_u128<E: de::Error>(self, value: u128) -> Result<Node, E> {
        self.node(i128::try_from(value).map_or(Value::Float(value as f64), Value::Int))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Node, E> {
        self.node(Value::Float(value))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Node, E> {
        self.node(Value::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Node, A::Error> {
        let mut node = self.node(Value::Null)?;
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(self.walker)? {
            items.push(item);
        }
        node.value = Value::List(items);
        Ok(node)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut node = self.node(Value::Null)?;
        let mut entries = Vec::new();
        let mut merged = Vec::new();
        while let Some(key) = map.next_key_seed(self.walker)? {
            let value = map.next_value_seed(self.walker)?;
            let name = key_text(&key);
            match value.value {
                Value::Map(inner) if name == "<<" => merged.extend(inner),
                Value::List(several) if name == "<<" => {
                    for one in several {
                        if let Value::Map(inner) = one.value {
                            merged.extend(inner);
                        }
                    }
                }
                value_of => {
                    let node = Node { number: value.number, value: value_of };
                    entries.push(Entry { number: key.number, key: name, node });
                }
            }
        }
        // What is merged in (`<<: *base`) gives way to what is written here, and the earlier to the later.
        for entry in merged {
            if !entries.iter().any(|known: &Entry| known.key == entry.key) {
                entries.push(entry);
            }
        }
        node.value = Value::Map(entries);
        Ok(node)
    }

    fn visit_enum<A: de::EnumAccess<'de>>(self, _: A) -> Result<Node, A::Error> {
        Err(de::Error::custom(TAG))
    }
}

fn key_text(key: &Node) -> String {
    match &key.value {
        Value::Text(text) => text.clone(),
        Value::Null => "~".to_owned(),
        _ => key.to_json().to_string(),
    }
}
