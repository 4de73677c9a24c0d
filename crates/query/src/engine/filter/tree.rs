//! The syntax tree of a filter, with one variant per operator. The evaluation uses it, and so do
//! stores that translate filters.

use serde_json::Value;

use crate::engine::operators::shortened;
use crate::engine::path::Path;
use crate::engine::regex::Pattern;
use runlore_core::error::{Error, ErrorKind, Result};

/// A condition on a whole document.
#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    /// All of these must match; if empty, every document matches. Never contains another `And`, and
    /// never exactly one node.
    And(Vec<Node>),
    /// At least one of these must match. Never empty.
    Or(Vec<Node>),
    /// None of these may match. Never empty.
    Nor(Vec<Node>),
    /// A condition on the values at a path.
    Field(Path, Predicate),
}

/// A condition on the values at a path.
#[derive(Debug, Clone, PartialEq)]
pub enum Predicate {
    Eq(Value),
    Ne(Value),
    Gt(Value),
    Gte(Value),
    Lt(Value),
    Lte(Value),
    In(Vec<Value>),
    Nin(Vec<Value>),
    Exists(bool),
    Regex(Pattern),
    /// At least one of these must not hold. Never empty.
    Not(Vec<Predicate>),
    /// Each of these values must be present.
    All(Vec<Value>),
    /// Each of these must match an item: `$all` with `$elemMatch`. Never empty.
    AllMatch(Vec<ElemMatch>),
    ElemMatch(ElemMatch),
    Size(u64),
    /// The value must have one of these types. Never empty.
    Type(Vec<TypeName>),
}

/// A condition on one item of an array.
#[derive(Debug, Clone, PartialEq)]
pub enum ElemMatch {
    /// The item is an object or array that matches.
    Document(Box<Node>),
    /// The item is a value for which all of these hold. Never empty.
    Value(Vec<Predicate>),
}

/// The types of `$type`. JSON has all of them except `Foreign`, which matches nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypeName {
    Double,
    String,
    Object,
    Array,
    Bool,
    Null,
    Int,
    Long,
    /// `int`, `long` and `double`.
    Number,
    /// A MongoDB type that JSON does not have.
    Foreign(&'static str),
}

/// The types with their names and numeric codes.
const TYPES: &[(TypeName, &str, Option<i64>)] = &[
    (TypeName::Double, "double", Some(1)),
    (TypeName::String, "string", Some(2)),
    (TypeName::Object, "object", Some(3)),
    (TypeName::Array, "array", Some(4)),
    (TypeName::Foreign("binData"), "binData", Some(5)),
    (TypeName::Foreign("undefined"), "undefined", Some(6)),
    (TypeName::Foreign("objectId"), "objectId", Some(7)),
    (TypeName::Bool, "bool", Some(8)),
    (TypeName::Foreign("date"), "date", Some(9)),
    (TypeName::Null, "null", Some(10)),
    (TypeName::Foreign("regex"), "regex", Some(11)),
    (TypeName::Foreign("dbPointer"), "dbPointer", Some(12)),
    (TypeName::Foreign("javascript"), "javascript", Some(13)),
    (TypeName::Foreign("symbol"), "symbol", Some(14)),
    (TypeName::Foreign("javascriptWithScope"), "javascriptWithScope", Some(15)),
    (TypeName::Int, "int", Some(16)),
    (TypeName::Foreign("timestamp"), "timestamp", Some(17)),
    (TypeName::Long, "long", Some(18)),
    (TypeName::Foreign("decimal"), "decimal", Some(19)),
    (TypeName::Foreign("minKey"), "minKey", Some(-1)),
    (TypeName::Foreign("maxKey"), "maxKey", Some(127)),
    (TypeName::Number, "number", None),
];

impl TypeName {
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        TYPES.iter().find(|(_, own, _)| *own == name).map(|(kind, ..)| *kind)
    }

    pub(crate) fn by_code(code: i64) -> Option<Self> {
        TYPES.iter().find(|(.., own)| *own == Some(code)).map(|(kind, ..)| *kind)
    }

    pub(crate) fn names() -> Vec<&'static str> {
        TYPES.iter().map(|(_, name, _)| *name).collect()
    }

    pub fn name(self) -> &'static str {
        match TYPES.iter().find(|(kind, ..)| *kind == self) {
            Some((_, name, _)) => name,
            None => "number",
        }
    }

    /// Returns whether a value has this type. A whole number is an `int` if it fits 32 bits, else a
    /// `long`.
    pub(crate) fn is_of(self, value: &Value) -> bool {
        match (self, value) {
            (TypeName::String, Value::String(_))
            | (TypeName::Object, Value::Object(_))
            | (TypeName::Array, Value::Array(_))
            | (TypeName::Bool, Value::Bool(_))
            | (TypeName::Null, Value::Null)
            | (TypeName::Number, Value::Number(_)) => true,
            (TypeName::Double, Value::Number(number)) => number.is_f64(),
            (TypeName::Int | TypeName::Long, Value::Number(number)) => {
                let is_int = number.as_i64().is_some_and(|number| i32::try_from(number).is_ok());
                !number.is_f64() && is_int == (self == TypeName::Int)
            }
            _ => false,
        }
    }
}

impl Node {
    /// Returns an error if a path begins with `$`, which marks operators in a filter document.
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Node::And(nodes) | Node::Or(nodes) | Node::Nor(nodes) => {
                nodes.iter().try_for_each(Node::check)
            }
            Node::Field(path, predicate) if !path.as_str().starts_with('$') => match predicate {
                Predicate::ElemMatch(ElemMatch::Document(inner)) => inner.check(),
                _ => Ok(()),
            },
            Node::Field(path, _) => {
                let shown = shortened(path.as_str());
                let sentence =
                    format!("`{shown}` is no field: a name that begins with `$` is an operator");
                Err(Error::new(ErrorKind::Query, sentence))
            }
        }
    }

    /// Combines `nodes` with a logical AND, in the normal form of `Node::And`.
    pub(super) fn all(nodes: impl IntoIterator<Item = Node>) -> Node {
        let mut flat = Vec::new();
        for node in nodes {
            match node {
                Node::And(inner) => flat.extend(inner),
                node => flat.push(node),
            }
        }
        match flat.len() {
            1 => flat.remove(0),
            _ => Node::And(flat),
        }
    }
}
