//! Filters: MongoDB's filter documents, and a builder for them in Rust.

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
/// A filter serializes as the filter document that a MongoDB server accepts.
#[derive(Clone, PartialEq)]
pub struct Filter {
    root: Node,
}

impl Filter {
    /// Returns a filter that matches all documents.
    pub fn all() -> Self {
        Self { root: Node::And(Vec::new()) }
    }

    /// Parses a filter document.
    ///
    /// # Errors
    ///
    /// Returns an error for text that is not JSON (see [`SyntaxError`](super::syntax::SyntaxError)
    /// for the position), an unknown operator, an operand of the wrong type, an unsupported regular
    /// expression, and more than 100 levels of nesting.
    pub fn parse(text: &str) -> Result<Self> {
        Self::read(Json::parse(text, "filter")?)
    }

    /// Reads a filter document from parsed JSON.
    ///
    /// # Errors
    ///
    /// The same as for [`parse`](Self::parse).
    pub fn from_json(json: &Value) -> Result<Self> {
        Self::read(Json::from_value(json, "filter")?)
    }

    fn read(json: Json) -> Result<Self> {
        Ok(Self { root: parse_document(json, "a filter")? })
    }

    /// Returns whether a document matches.
    pub fn matches(&self, document: &Value) -> bool {
        self.root().matches(document)
    }

    /// Returns the filter document as text, which [`parse`](Self::parse) turns back into this
    /// filter.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a filter has only keys that are text")
    }

    /// Matches documents that match both filters.
    #[must_use]
    pub fn and(self, other: Filter) -> Self {
        Self { root: Node::all([self.root, other.root]) }
    }

    /// Matches documents that match at least one of the two filters.
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

    /// Returns the tree of conditions, for stores that translate it.
    pub fn root(&self) -> &Node {
        &self.root
    }

    /// Makes a filter from a part of another filter's tree.
    pub(crate) fn from_root(root: Node) -> Self {
        Self { root }
    }
}

/// `!filter` matches the documents that `filter` does not match.
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

/// Matches all documents.
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

/// Returns the field at a path such as `used.lr` or `children.0.name`. Its methods make a
/// [`Filter`].
pub fn field(path: &str) -> Field {
    Field { path: Path::new(path) }
}

/// A field to build a filter on; see [`field`].
#[derive(Debug, Clone)]
pub struct Field {
    path: Path,
}

impl Field {
    fn is(self, predicate: Predicate) -> Filter {
        Filter { root: Node::Field(self.path, predicate) }
    }

    /// `$eq`: the field equals this value, or is an array that contains it. A missing field equals
    /// null.
    pub fn eq(self, value: impl Into<Value>) -> Filter {
        self.is(Predicate::Eq(value.into()))
    }

    /// `$ne`: the opposite of [`eq`](Self::eq).
    pub fn ne(self, value: impl Into<Value>) -> Filter {
        self.is(Predicate::Ne(value.into()))
    }

    /// `$gt`: the field has the same type as the value and is greater.
    pub fn gt(self, value: impl Into<Value>) -> Filter {
        self.is(Predicate::Gt(value.into()))
    }

    /// `$gte`: the field has the same type as the value and is greater or equal.
    pub fn gte(self, value: impl Into<Value>) -> Filter {
        self.is(Predicate::Gte(value.into()))
    }

    /// `$lt`: the field has the same type as the value and is less.
    pub fn lt(self, value: impl Into<Value>) -> Filter {
        self.is(Predicate::Lt(value.into()))
    }

    /// `$lte`: the field has the same type as the value and is less or equal.
    pub fn lte(self, value: impl Into<Value>) -> Filter {
        self.is(Predicate::Lte(value.into()))
    }

    /// `$in`: the field equals one of these values.
    pub fn is_in<V: Into<Value>>(self, values: impl IntoIterator<Item = V>) -> Filter {
        self.is(Predicate::In(values.into_iter().map(Into::into).collect()))
    }

    /// `$nin`: the field equals none of these values.
    pub fn not_in<V: Into<Value>>(self, values: impl IntoIterator<Item = V>) -> Filter {
        self.is(Predicate::Nin(values.into_iter().map(Into::into).collect()))
    }

    /// `$exists`: the field exists, even if it is null. With `false`, it does not exist.
    pub fn exists(self, wanted: bool) -> Filter {
        self.is(Predicate::Exists(wanted))
    }

    /// `$regex`: the field is a string that contains a match of the regular expression.
    ///
    /// # Errors
    ///
    /// Returns an error if the regular expression is not supported.
    pub fn regex(self, pattern: &str) -> Result<Filter> {
        self.regex_with(pattern, "")
    }

    /// `$regex` with `$options`: `i` ignores case, `m` lets `^` and `$` match at every line, `s`
    /// lets `.` match line feeds, `x` ignores white space in the pattern.
    ///
    /// # Errors
    ///
    /// Returns an error if the regular expression or an option is not supported.
    pub fn regex_with(self, pattern: &str, options: &str) -> Result<Filter> {
        Ok(self.is(Predicate::Regex(Pattern::new(pattern, options)?)))
    }

    /// `$all`: the field contains each of these values.
    pub fn all<V: Into<Value>>(self, values: impl IntoIterator<Item = V>) -> Filter {
        self.is(Predicate::All(values.into_iter().map(Into::into).collect()))
    }

    /// `$elemMatch`: the field is an array with an object that matches the filter.
    pub fn elem_match(self, filter: Filter) -> Filter {
        self.is(Predicate::ElemMatch(ElemMatch::Document(Box::new(filter.root))))
    }

    /// `$elemMatch` for values: the field is an array with an item that meets all conditions.
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

    /// `$not`: the field does not meet all conditions, or is missing. `!filter` negates a whole
    /// filter.
    pub fn not(self, said: impl FnOnce(Test) -> Test) -> Filter {
        self.is(Predicate::Not(Test::all_of(said)))
    }

    /// `$type`: the field has this type, by MongoDB's name: `number`, `string`, `object`, `array`,
    /// `bool`, `null`, `int`, …
    ///
    /// # Errors
    ///
    /// Returns an error if there is no type with this name.
    pub fn of_type(self, name: &str) -> Result<Filter> {
        let found = TypeName::by_name(name);
        let found = found.ok_or_else(|| unknown("type", name, &TypeName::names()))?;
        Ok(self.is(Predicate::Type(vec![found])))
    }

    /// `$size`: the field is an array with this many items.
    pub fn size(self, size: u64) -> Filter {
        self.is(Predicate::Size(size))
    }
}

/// Conditions on one value, built by the closures of [`Field::any_item`] and [`Field::not`].
#[derive(Debug, Clone)]
pub struct Test {
    said: Vec<Predicate>,
}

impl Test {
    fn all_of(said: impl FnOnce(Self) -> Self) -> Vec<Predicate> {
        match said(Self { said: Vec::new() }).said {
            // Without conditions, every value passes.
            said if said.is_empty() => vec![Predicate::Nin(Vec::new())],
            said => said,
        }
    }

    fn and(mut self, predicate: Predicate) -> Self {
        self.said.push(predicate);
        self
    }

    /// `$eq`: the value equals this one.
    pub fn eq(self, value: impl Into<Value>) -> Self {
        self.and(Predicate::Eq(value.into()))
    }

    /// `$ne`: the value does not equal this one.
    pub fn ne(self, value: impl Into<Value>) -> Self {
        self.and(Predicate::Ne(value.into()))
    }

    /// `$gt`: the value has the same type as this one and is greater.
    pub fn gt(self, value: impl Into<Value>) -> Self {
        self.and(Predicate::Gt(value.into()))
    }

    /// `$gte`: the value has the same type as this one and is greater or equal.
    pub fn gte(self, value: impl Into<Value>) -> Self {
        self.and(Predicate::Gte(value.into()))
    }

    /// `$lt`: the value has the same type as this one and is less.
    pub fn lt(self, value: impl Into<Value>) -> Self {
        self.and(Predicate::Lt(value.into()))
    }

    /// `$lte`: the value has the same type as this one and is less or equal.
    pub fn lte(self, value: impl Into<Value>) -> Self {
        self.and(Predicate::Lte(value.into()))
    }

    /// `$in`: the value is one of these.
    pub fn is_in<V: Into<Value>>(self, values: impl IntoIterator<Item = V>) -> Self {
        self.and(Predicate::In(values.into_iter().map(Into::into).collect()))
    }

    /// `$nin`: the value is none of these.
    pub fn not_in<V: Into<Value>>(self, values: impl IntoIterator<Item = V>) -> Self {
        self.and(Predicate::Nin(values.into_iter().map(Into::into).collect()))
    }
}
