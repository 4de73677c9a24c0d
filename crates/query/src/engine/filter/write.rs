//! Serializes a filter as a MongoDB document, which parses back to the same filter.

use std::collections::BTreeMap;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

use super::tree::{ElemMatch, Node, Predicate};

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let one = std::slice::from_ref(self);
        let nodes = if let Node::And(nodes) = self { nodes } else { one };
        let entries = entries(nodes);
        if has_duplicates(&entries) {
            let mut map = serializer.serialize_map(Some(1))?;
            map.serialize_entry("$and", nodes)?;
            return map.end();
        }
        let mut map = serializer.serialize_map(Some(entries.len()))?;
        for entry in entries {
            match entry {
                Entry::Nodes(operator, nodes) => map.serialize_entry(operator, nodes)?,
                Entry::Field(path, predicates) => {
                    map.serialize_entry(path, &Condition(&predicates))?;
                }
            }
        }
        map.end()
    }
}

/// One key of the document, with its value.
enum Entry<'a> {
    Nodes(&'static str, &'a [Node]),
    Field(&'a str, Vec<&'a Predicate>),
}

impl Entry<'_> {
    fn key(&self) -> &str {
        match self {
            Entry::Nodes(operator, _) => operator,
            Entry::Field(path, _) => path,
        }
    }
}

/// Groups the nodes into entries. Adjacent nodes with the same path and different operators share
/// an entry.
fn entries(nodes: &[Node]) -> Vec<Entry<'_>> {
    let mut entries: Vec<Entry<'_>> = Vec::new();
    for node in nodes {
        match node {
            Node::And(nodes) => entries.push(Entry::Nodes("$and", nodes)),
            Node::Or(nodes) => entries.push(Entry::Nodes("$or", nodes)),
            Node::Nor(nodes) => entries.push(Entry::Nodes("$nor", nodes)),
            Node::Field(path, predicate) => match entries.last_mut() {
                Some(Entry::Field(last, predicates))
                    if *last == path.as_str()
                        && predicates.iter().all(|other| other.name() != predicate.name()) =>
                {
                    predicates.push(predicate);
                }
                _ => entries.push(Entry::Field(path.as_str(), vec![predicate])),
            },
        }
    }
    entries
}

fn has_duplicates(entries: &[Entry<'_>]) -> bool {
    let mut keys: Vec<&str> = entries.iter().map(Entry::key).collect();
    keys.sort_unstable();
    keys.windows(2).any(|pair| pair[0] == pair[1])
}

/// The conditions on one field. Serialized as a bare value if that means the same.
struct Condition<'a>(&'a [&'a Predicate]);

impl Serialize for Condition<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            [Predicate::Eq(value)] if !looks_like_operators(value) => value.serialize(serializer),
            predicates => operators(predicates.iter().copied(), serializer),
        }
    }
}

/// Returns whether a parser could mistake the value for operators. Checks every key: a map may
/// lose the order of its keys, so any of them may be written first.
fn looks_like_operators(value: &Value) -> bool {
    value.as_object().is_some_and(|object| object.keys().any(|key| key.starts_with('$')))
}

fn operators<'a, S: Serializer>(
    predicates: impl Iterator<Item = &'a Predicate>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    for predicate in predicates {
        let name = predicate.name();
        match predicate {
            Predicate::Eq(value)
            | Predicate::Ne(value)
            | Predicate::Gt(value)
            | Predicate::Gte(value)
            | Predicate::Lt(value)
            | Predicate::Lte(value) => map.serialize_entry(name, value)?,
            Predicate::In(values) | Predicate::Nin(values) | Predicate::All(values) => {
                map.serialize_entry(name, values)?;
            }
            Predicate::Exists(wanted) => map.serialize_entry(name, wanted)?,
            Predicate::Regex(pattern) => {
                map.serialize_entry(name, pattern.source())?;
                if !pattern.options().is_empty() {
                    map.serialize_entry("$options", pattern.options())?;
                }
            }
            Predicate::Not(inner) => map.serialize_entry(name, &Operators(inner))?,
            Predicate::AllMatch(all) => {
                let items: Vec<_> =
                    all.iter().map(|one| BTreeMap::from([("$elemMatch", one)])).collect();
                map.serialize_entry(name, &items)?;
            }
            Predicate::ElemMatch(one) => map.serialize_entry(name, one)?,
            Predicate::Size(size) => map.serialize_entry(name, size)?,
            Predicate::Type(types) => match &**types {
                [one] => map.serialize_entry(name, one.name())?,
                types => {
                    let names: Vec<&str> = types.iter().map(|one| one.name()).collect();
                    map.serialize_entry(name, &names)?;
                }
            },
        }
    }
    map.end()
}

struct Operators<'a>(&'a [Predicate]);

impl Serialize for Operators<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        operators(self.0.iter(), serializer)
    }
}

impl Serialize for ElemMatch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            ElemMatch::Document(node) => node.serialize(serializer),
            ElemMatch::Value(predicates) => operators(predicates.iter(), serializer),
        }
    }
}

impl Predicate {
    /// Returns the operator's name.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Predicate::Eq(_) => "$eq",
            Predicate::Ne(_) => "$ne",
            Predicate::Gt(_) => "$gt",
            Predicate::Gte(_) => "$gte",
            Predicate::Lt(_) => "$lt",
            Predicate::Lte(_) => "$lte",
            Predicate::In(_) => "$in",
            Predicate::Nin(_) => "$nin",
            Predicate::Exists(_) => "$exists",
            Predicate::Regex(_) => "$regex",
            Predicate::Not(_) => "$not",
            Predicate::All(_) | Predicate::AllMatch(_) => "$all",
            Predicate::ElemMatch(_) => "$elemMatch",
            Predicate::Size(_) => "$size",
            Predicate::Type(_) => "$type",
        }
    }
}
