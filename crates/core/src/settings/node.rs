//! A YAML tree whose nodes can be located in the text.
//!
//! The YAML crate reports positions only with errors. So the nodes are numbered in parse order. To
//! locate node 7, `locate` parses the text again and fails at node 7 on purpose. This is rare and
//! cheap: only invalid settings and `runlore settings show` need positions.

use std::cell::Cell;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::contain::contain;

/// More nodes than any settings need. A few lines of YAML aliases can expand to billions.
const MAX_NODES: u32 = 20_000;

/// The parser revisits every open bracket at each step. 60,000 nested brackets would take a minute.
const MAX_BRACKETS: usize = 4_000;

/// One node of the tree.
#[derive(Debug, Clone)]
pub(super) struct Node {
    /// The node's number, in parse order.
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

/// A key of a mapping with its value.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) number: u32,
    pub(super) key: String,
    pub(super) node: Node,
}

impl Node {
    /// Returns whether the node contains a `${…}` at any depth.
    pub(super) fn is_interpolated(&self) -> bool {
        match &self.value {
            Value::Text(text) => text.contains("${"),
            Value::List(items) => items.iter().any(Self::is_interpolated),
            Value::Map(entries) => entries.iter().any(|entry| entry.node.is_interpolated()),
            _ => false,
        }
    }

    /// Describes the node, for a message about what it should be instead. Only short, harmless
    /// texts are quoted: a URL may contain a password.
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

    /// Converts the node to JSON.
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

/// Quotes a text from a settings file for a message. Returns `instead` if the text is long, has
/// control characters or may contain a password.
pub(super) fn quoted(text: &str, instead: &str) -> String {
    let harmless = text.chars().count() <= 40
        && !text.contains(['@', '`'])
        && !text.contains("://")
        && !text.chars().any(char::is_control);
    if harmless { format!("`{text}`") } else { instead.to_owned() }
}

/// Why a text could not be parsed, and the line and column of the problem.
#[derive(Debug)]
pub(super) struct NotYaml {
    pub(super) message: String,
    pub(super) place: Option<(usize, usize)>,
}

/// Parses a text. `None` if it contains no value.
pub(super) fn parse(text: &str) -> Result<Option<Node>, NotYaml> {
    if text.bytes().filter(|byte| matches!(byte, b'[' | b'{')).count() > MAX_BRACKETS {
        let message = "holds more than 4000 brackets, which settings never do".to_owned();
        return Err(NotYaml { message, place: None });
    }
    let node = walk(text, None).map_err(|error| explain(&error, text))?;
    Ok(Some(node).filter(|node| !matches!(node.value, Value::Null)))
}

/// Returns the line and column of a node, counted from 1.
pub(super) fn locate(text: &str, number: u32) -> Option<(usize, usize)> {
    let error = walk(text, Some(number)).err()?;
    error.location().map(|location| (location.line(), location.column()))
}

fn walk(text: &str, stop_at: Option<u32>) -> Result<Node, serde_yaml::Error> {
    // The crate contains a translated C library whose own assertions may panic. Such a panic must
    // not end the observed program.
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
        // The position is reported separately, and the context (`while parsing …`) is no help.
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
        // Keys written here override merged ones (`<<: *base`), and an earlier merge overrides a
        // later one.
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
