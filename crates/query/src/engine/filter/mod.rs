//! Which documents: MongoDB's filter documents, and the same in Rust.

mod matching;
mod parse;
pub mod tree;
mod write;

use std::fmt;
use std::ops::Not;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use serde_json::Value;

pub(super) use self::parse::document as parse_document;
use self::tree::{ElemMatch, Node, Predicate, TypeName};
use super::operators::unknown;
use super::path::Path;
use super::regex::Pattern;
use super::syntax::Json;
use runlore_core::error::Result;

/// A condition on documents.
///
/// ```
/// use runlore::query::{Filter, field};
/// use serde_json::json;
///
/// let slow = field("status").eq("ERROR").and(field("duration_ns").gt(1_000_000_000));
/// assert_eq!(slow, Filter::parse(r#"{"status": "ERROR", "duration_ns": {"$gt": 1000000000}}"#)?);
/// assert!(slow.matches(&json!({"status": "ERROR", "duration_ns": 2_500_000_000_u64})));
/// assert_eq!(slow.to_json(), r#"{"status":"ERROR","duration_ns":{"$gt":1000000000}}"#);
/// # Ok::<(), runlore::Error>(())
/// ```
///
/// It serialises as the document that a MongoDB server takes.
#[derive(Clone, PartialEq)]
pub struct Filter {
    root: Node,
}

impl Filter {
    /// All documents.
    pub fn all() -> Self {
        Self { root: Node::And(Vec::new()) }
    }

    /// Reads a filter document.
    ///
    /// # Errors
    ///
    /// Text that is not JSON ([`SyntaxError`](super::syntax::SyntaxError) tells where), an unknown operator, an operand of the
    /// wrong type, a regular expression that cannot be used, more than 100 levels.
    pub fn parse(text: &str) -> Result<Self> {
        Self::read(Json::parse(text, "filter")?)
    }

    /// The same, from JSON that has been read.
    ///
    /// # Errors
    ///
    /// As [`parse`](Self::parse).
    pub fn from_json(json: &Value) -> Result<Self> {
        Self::read(Json::from_value(json, "filter")?)
    }

    fn read(json: Json) -> Result<Self> {
        Ok(Self { root: parse_document(json, "a filter")? })
    }

    /// Whether a document is one of those.
    pub fn matches(&self, document: &Value) -> bool {
        self.root().matches(document)
    }

    /// The filter document, as text: what [`parse`](Self::parse) makes this filter of.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a filter has only keys that are text")
    }

    /// Documents that match both.
    #[must_use]
    pub fn and(self, other: Filter) -> Self {
        Self { root: Node::all([self.root, other.root]) }
    }

    /// Documents that match one of them or both.
    #[must_use]
    pub fn or(self, other: Filter) -> Self {
        let mut nodes = match self.root {
            Node::Or(nodes) => nodes,
            node => vec![node],
        };
        match other.root {
            Node::Or(more) => nodes.extend(more),
            node => nodes.push(node),
        }
        Self { root: Node::Or(nodes) }
    }

    /// The tree, for stores that translate it.
    pub fn root(&self) -> &Node {
        &self.root
    }

    /// The filter that a part of another is.
    pub(crate) fn from_root(root: Node) -> Self {
        Self { root }
    }
}

/// Documents that do not match: `!filter`.
impl Not for Filter {
    type Output = Filter;

    fn not(self) -> Filter {
        match self.root {
            Node::Nor(mut nodes) if nodes.len() == 1 => Filter { root: nodes.remove(0) },
            Node::Or(nodes) => Filter { root: Node::Nor(nodes) },
            node => Filter { root: Node::Nor(vec![node]) },
        }
    }
}

/// All documents.
impl Default for Filter {
    fn default() -> Self {
        Self::all()
    }
}

impl FromStr for Filter {
    type Err = runlore_core::Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl Serialize for Filter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.root.serialize(serializer)
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_json())
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Filter({self})")
    }
}

/// A field, by its path: `used.lr`, `children.0.name`. What is asked of it makes a [`Filter`].
pub fn field(path: &str) -> Field {
    Field { path: Path::new(path) }
}

/// A field of which something is to be asked; see [`field`].
#[derive(Debug, Clone)]
pub struct Field {
    path: Path,
}

impl Field {
    fn is(self, predicate: Predicate) -> Filter {
        Filter { root: Node::Field(self.path, predicate) }
    }

    /// `$eq`: it is this value, or an array that has it. What is missing equals null.
    pub fn eq(self, value: impl Into<Value>) -> Filter {
        self.is(Predicate::Eq(value.into()))
    }

    /// `$ne`: not [`eq`](Self::eq).
    pub fn ne(self, value: impl Into<Value>) -> Filter {
        self.is(Predicate::Ne(value.into()))
    }

    /// `$gt`: it is of the same type and more.
    pub fn gt(self, value: impl Into<Value>) -> Filter {
        self.is(Predicate::Gt(value.into()))
    }

    /// `$gte`: it is of the same type and no less.
    pub fn gte(self, value: impl Into<Value>) -> Filter {
        self.is(Predicate::Gte(value.into()))
    }

    /// `$lt`: it is of the same type and less.
    pub fn lt(self, value: impl Into<Value>) -> Filter {
        self.is(Predicate::Lt(value.into()))
    }

    /// `$lte`: it is of the same type and no more.
    pub fn lte(self, value: impl Into<Value>) -> Filter {
        self.is(Predicate::Lte(value.into()))
    }

    /// `$in`: it equals one of these.
    pub fn is_in<V: Into<Value>>(self, values: impl IntoIterator<Item = V>) -> Filter {
        self.is(Predicate::In(values.into_iter().map(Into::into).collect()))
    }

    /// `$nin`: it equals none of these.
    pub fn not_in<V: Into<Value>>(self, values: impl IntoIterator<Item = V>) -> Filter {
        self.is(Predicate::Nin(values.into_iter().map(Into::into).collect()))
    }

    /// `$exists`: it is there, even if it is null; with `false`, it is not.
    pub fn exists(self, wanted: bool) -> Filter {
        self.is(Predicate::Exists(wanted))
    }

    /// `$regex`: it is a string in which the expression is found.
    ///
    /// # Errors
    ///
    /// If the expression cannot be used.
    pub fn regex(self, pattern: &str) -> Result<Filter> {
        self.regex_with(pattern, "")
    }

    /// `$regex` with `$options`: `i` for either case, `m` for `^` and `$` at lines, `s` for `.` at line ends too, `x` for
    /// white space that means nothing.
    ///
    /// # Errors
    ///
    /// If the expression or an option cannot be used.
    pub fn regex_with(self, pattern: &str, options: &str) -> Result<Filter> {
        Ok(self.is(Predicate::Regex(Pattern::new(pattern, options)?)))
    }

    /// `$all`: it has each of these.
    pub fn all<V: Into<Value>>(self, values: impl IntoIterator<Item = V>) -> Filter {
        self.is(Predicate::All(values.into_iter().map(Into::into).collect()))
    }

    /// `$elemMatch`: it is an array with an object in it that matches.
    pub fn elem_match(self, filter: Filter) -> Filter {
        self.is(Predicate::ElemMatch(ElemMatch::Document(Box::new(filter.root))))
    }

    /// `$elemMatch` of values: it is an array with an item of which all holds that is said.
    ///
    /// ```
    /// use runlore::query::field;
    /// use serde_json::json;
    ///
    /// let good = field("scores").any_item(|score| score.gte(80).lt(90));
    /// assert!(good.matches(&json!({"scores": [20, 85]})));
    /// assert!(!good.matches(&json!({"scores": [20, 95]})));
    /// ```
    pub fn any_item(self, said: impl FnOnce(Test) -> Test) -> Filter {
        self.is(Predicate::ElemMatch(ElemMatch::Value(Test::all_of(said))))
    }

    /// `$not`: not all holds that is said of it, be it only because it is missing. Of a whole filter, `!filter` says the same.
    pub fn not(self, said: impl FnOnce(Test) -> Test) -> Filter {
        self.is(Predicate::Not(Test::all_of(said)))
    }

    /// `$type`: it is of this type, by MongoDB's name: `number`, `string`, `object`, `array`, `bool`, `null`, `int`, …
    ///
    /// # Errors
    ///
    /// If there is no type of this name.
    pub fn of_type(self, name: &str) -> Result<Filter> {
        let found = TypeName::by_name(name);
        let found = found.ok_or_else(|| unknown("type", name, &TypeName::names()))?;
        Ok(self.is(Predicate::Type(vec![found])))
    }

    /// `$size`: it is an array with so many items.
    pub fn size(self, size: u64) -> Filter {
        self.is(Predicate::Size(size))
    }
}

/// What is said of one value: of an item of an array, or of what a field is not; see [`Field::any_item`] and [`Field::not`].
#[derive(Debug, Clone)]
pub struct Test {
    said: Vec<Predicate>,
}

impl Test {
    fn all_of(said: impl FnOnce(Self) -> Self) -> Vec<Predicate> {
        match said(Self { said: Vec::new() }).said {
            // Where nothing is said, all holds.
            said if said.is_empty() => vec![Predicate::Nin(Vec::new())],
            said => said,
        }
    }

    fn and(mut self, predicate: Predicate) -> Self {
        self.said.push(predicate);
        self
    }

    /// `$eq`: it is this value.
    pub fn eq(self, value: impl Into<Value>) -> Self {
        self.and(Predicate::Eq(value.into()))
    }

    /// `$ne`: it is not this value.
    pub fn ne(self, value: impl Into<Value>) -> Self {
        self.and(Predicate::Ne(value.into()))
    }

    /// `$gt`: it is of the same type and more.
    pub fn gt(self, value: impl Into<Value>) -> Self {
        self.and(Predicate::Gt(value.into()))
    }

    /// `$gte`: it is of the same type and no less.
    pub fn gte(self, value: impl Into<Value>) -> Self {
        self.and(Predicate::Gte(value.into()))
    }

    /// `$lt`: it is of the same type and less.
    pub fn lt(self, value: impl Into<Value>) -> Self {
        self.and(Predicate::Lt(value.into()))
    }

    /// `$lte`: it is of the same type and no more.
    pub fn lte(self, value: impl Into<Value>) -> Self {
        self.and(Predicate::Lte(value.into()))
    }

    /// `$in`: it is one of these.
    pub fn is_in<V: Into<Value>>(self, values: impl IntoIterator<Item = V>) -> Self {
        self.and(Predicate::In(values.into_iter().map(Into::into).collect()))
    }

    /// `$nin`: it is none of these.
    pub fn not_in<V: Into<Value>>(self, values: impl IntoIterator<Item = V>) -> Self {
        self.and(Predicate::Nin(values.into_iter().map(Into::into).collect()))
    }
}
