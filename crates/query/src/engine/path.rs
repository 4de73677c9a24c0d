//! Dotted paths into documents: through objects, arrays and array indices.

use std::fmt;

use serde_json::{Map, Value};

use runlore_core::error::{Error, ErrorKind, Result};

/// The maximum number of names in a path, as in MongoDB.
const MAX_NAMES: usize = 200;

/// A path, split into its names once. Two paths are equal if their texts are.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path {
    text: Box<str>,
    segments: Box<[Segment]>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Segment {
    key: Box<str>,
    /// The key as an array index, if it is a number.
    index: Option<usize>,
}

/// What to do with an array at the end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AtEnd {
    /// Try each of its items, then the array itself.
    Items,
    /// Try the array only.
    Whole,
}

/// Returns the value at a dotted path of names and array indices.
pub fn value_at<'a>(object: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    let mut names = path.split('.');
    let first = object.get(names.next()?)?;
    names.try_fold(first, |value, name| match value {
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        value => value.get(name),
    })
}

impl Path {
    pub(crate) fn new(text: &str) -> Self {
        let segments = text.split('.').map(Segment::new).collect();
        Self { text: text.into(), segments }
    }

    /// Parses a path. Fails if it has more names than `MAX_NAMES`: no document has as many levels.
    pub(super) fn checked(text: &str) -> Result<Self> {
        let names = text.bytes().filter(|byte| *byte == b'.').count() + 1;
        if names > MAX_NAMES {
            let sentence = format!("a path has at most {MAX_NAMES} names, not {names}");
            return Err(Error::new(ErrorKind::Query, sentence));
        }
        Ok(Self::new(text))
    }

    /// Returns whether a sort or a projection may use the path: no name is empty or starts with
    /// `$`.
    pub(super) fn is_plain(text: &str) -> bool {
        text.split('.').all(|name| !name.is_empty() && !name.starts_with('$'))
    }

    /// Returns the path as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the names between the dots.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &str> {
        self.segments.iter().map(|segment| &*segment.key)
    }

    /// Returns whether `test` is true for any value that the path leads to. `test` gets `None` for
    /// a missing value.
    ///
    /// An array on the way is searched item by item, and also by index if the next name is a
    /// number.
    pub(super) fn any(
        &self,
        document: &Value,
        at_end: AtEnd,
        mut test: impl FnMut(Option<&Value>) -> bool,
    ) -> bool {
        let mut walk = Walk { at_end, test: &mut test };
        match document {
            Value::Object(object) => walk.object(object, &self.segments),
            // `$elemMatch` on an array of arrays: the inner array acts as an object keyed by index.
            Value::Array(items) => {
                let (first, rest) = self.segments.split_first().expect("a path has a segment");
                let item = first.index.and_then(|index| items.get(index));
                walk.value(item, rest)
            }
            _ => walk.value(None, &[]),
        }
    }

    /// Returns the value of the path in an expression. For an array on the way, collects the values
    /// of all items that are objects.
    pub(super) fn gather(&self, document: &Value) -> Option<Value> {
        gather(document, &self.segments)
    }

    /// Returns the value at the path, following objects only.
    pub(super) fn get<'a>(&self, document: &'a Value) -> Option<&'a Value> {
        self.segments.iter().try_fold(document, |value, segment| {
            value.as_object().and_then(|object| object.get(&*segment.key))
        })
    }

    /// Calls `each` with every value that a sort compares. An empty array gives `None`, a missing
    /// value gives null.
    pub(super) fn sort_keys<'a>(
        &self,
        document: &'a Value,
        mut each: impl FnMut(Option<&'a Value>),
    ) {
        sort_keys(document, &self.segments, &mut each);
    }
}

impl Segment {
    fn new(key: &str) -> Self {
        let is_index =
            key.bytes().all(|byte| byte.is_ascii_digit()) && (key == "0" || !key.starts_with('0'));
        Self { key: key.into(), index: if is_index { key.parse().ok() } else { None } }
    }
}

struct Walk<'a, F> {
    at_end: AtEnd,
    test: &'a mut F,
}

impl<F: FnMut(Option<&Value>) -> bool> Walk<'_, F> {
    fn object(&mut self, object: &Map<String, Value>, path: &[Segment]) -> bool {
        let Some((first, rest)) = path.split_first() else { return (self.test)(None) };
        self.value(object.get(&*first.key), rest)
    }

    fn value(&mut self, value: Option<&Value>, rest: &[Segment]) -> bool {
        match value {
            Some(Value::Array(items)) if rest.is_empty() && self.at_end == AtEnd::Items => {
                items.iter().any(|item| (self.test)(Some(item))) || (self.test)(value)
            }
            _ if rest.is_empty() => (self.test)(value),
            Some(Value::Object(object)) => self.object(object, rest),
            Some(Value::Array(items)) => self.array(items, rest),
            _ => (self.test)(None),
        }
    }

    /// Continues in an array before the end of the path: in each item that is an object, and in the
    /// item whose index is the next name.
    fn array(&mut self, items: &[Value], path: &[Segment]) -> bool {
        let Some((first, rest)) = path.split_first() else { return false };
        items.iter().enumerate().any(|(i, item)| {
            if let Value::Object(object) = item
                && self.object(object, path)
            {
                return true;
            }
            if first.index != Some(i) {
                return false;
            }
            match item {
                // An array selected by its index is tested as a whole, not item by item.
                item if rest.is_empty() => (self.test)(Some(item)),
                Value::Object(object) => self.object(object, rest),
                Value::Array(items) => self.array(items, rest),
                _ => false,
            }
        })
    }
}

fn gather(value: &Value, path: &[Segment]) -> Option<Value> {
    let Some((first, rest)) = path.split_first() else { return Some(value.clone()) };
    match value {
        Value::Object(object) => match object.get(&*first.key)? {
            Value::Array(items) if !rest.is_empty() => {
                let objects = items.iter().filter(|item| item.is_object());
                Some(objects.filter_map(|item| gather(item, rest)).collect())
            }
            value => gather(value, rest),
        },
        _ => None,
    }
}

const MISSING: &Value = &Value::Null;

fn sort_keys<'a>(value: &'a Value, path: &[Segment], each: &mut impl FnMut(Option<&'a Value>)) {
    let Some((first, rest)) = path.split_first() else {
        return match value {
            Value::Array(items) if items.is_empty() => each(None),
            Value::Array(items) => items.iter().for_each(|item| each(Some(item))),
            value => each(Some(value)),
        };
    };
    match value {
        Value::Object(object) => match object.get(&*first.key) {
            Some(value) => sort_keys(value, rest, each),
            None => each(Some(MISSING)),
        },
        Value::Array(items) => match first.index.and_then(|index| items.get(index)) {
            // An array selected by its index is compared as a whole, not item by item.
            Some(item @ Value::Array(inner)) if rest.is_empty() && !inner.is_empty() => {
                each(Some(item));
            }
            Some(item) => sort_keys(item, rest, each),
            None if items.is_empty() => each(Some(MISSING)),
            None => items.iter().for_each(|item| match item {
                Value::Object(_) => sort_keys(item, path, each),
                _ => each(Some(MISSING)),
            }),
        },
        _ => each(Some(MISSING)),
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
