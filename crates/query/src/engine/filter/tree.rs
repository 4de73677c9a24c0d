//! What a filter says, one variant an operator: for the evaluation here, and for stores that translate it.

use serde_json::Value;

use crate::engine::operators::shortened;
use crate::engine::path::Path;
use crate::engine::regex::Pattern;
use runlore_core::error::{Error, ErrorKind, Result};

/// A condition on a whole document.
#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    /// All of them, and so everything if there are none. Never holds another `And`, nor exactly one node.
    And(Vec<Node>),
    /// Any of them; there is at least one.
    Or(Vec<Node>),
    /// None of them; there is at least one.
    Nor(Vec<Node>),
    /// A condition on what a path leads to.
    Field(Path, Predicate),
}

/// A condition on the values that a path leads to.
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
    /// Not all of these; there is at least one.
    Not(Vec<Predicate>),
    /// Each of these values.
    All(Vec<Value>),
    /// Each of these matches an item: `$all` of `$elemMatch`; there is at least one.
    AllMatch(Vec<ElemMatch>),
    ElemMatch(ElemMatch),
    Size(u64),
    /// One of these types; there is at least one.
    Type(Vec<TypeName>),
}

/// What one item of an array must be.
#[derive(Debug, Clone, PartialEq)]
pub enum ElemMatch {
    /// An object or array for which this holds.
    Document(Box<Node>),
    /// A value for which all of these hold; there is at least one.
    Value(Vec<Predicate>),
}

/// The types of `$type` by their names. JSON has those of the first group; whatever asks for another finds nothing.
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
    /// A type of MongoDB's that JSON does not have.
    Foreign(&'static str),
}

/// Names, and the numbers that stand for them.
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

    /// A whole number is an `int` if it fits 32 bits, else a `long`.
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
    /// Tells of a path that stands where a filter document has its operators.
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

    /// All of `nodes`, in the one form this has.
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
