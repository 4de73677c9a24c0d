//! Find options: a filter, an order, a limit and a projection.

pub mod projection;
pub mod sort;

use std::fmt;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

pub(crate) use self::projection::Projection;
pub(crate) use self::sort::Sort;
use super::filter::{Filter, parse_document};
use super::operators::unknown;
use super::syntax::Json;
use runlore_core::error::{Error, ErrorKind, Result};

const OPTIONS: &[&str] = &["filter", "sort", "projection", "limit", "skip"];

/// A query to a store: a [`Filter`], a sort order, a limit and a projection.
///
/// ```
/// use runlore::query::{Find, field};
/// use serde_json::json;
///
/// let documents = (0..100).map(|i| json!({"task_id": i, "used": {"lr": i % 7, "seed": 3}}));
/// let find = Find::new()
///     .filter(field("task_id").gte(50))
///     .sort("-used.lr")
///     .sort("task_id")
///     .limit(2)
///     .fields(["task_id", "used.lr"]);
/// let found: Vec<_> = find.apply(documents).collect();
/// assert_eq!(found, [
///     json!({"task_id": 55, "used": {"lr": 6}}),
///     json!({"task_id": 62, "used": {"lr": 6}}),
/// ]);
/// ```
#[derive(Clone, PartialEq, Default)]
pub struct Find {
    #[doc(hidden)]
    pub filter: Filter,
    #[doc(hidden)]
    pub sort: Sort,
    #[doc(hidden)]
    pub projection: Option<Projection>,
    #[doc(hidden)]
    pub limit: Option<u64>,
    #[doc(hidden)]
    pub skip: u64,
    /// Whether documents may keep fields that were not requested, if removing them would cost work.
    is_loose: bool,
}

impl Find {
    /// Creates a query for all documents, in their original order.
    pub fn new() -> Self {
        Self::default()
    }

    /// Parses `{"filter": …, "sort": …, "projection": …, "limit": …, "skip": …}`. Every option may
    /// be omitted.
    ///
    /// ```
    /// use runlore::query::Find;
    ///
    /// let text = r#"{"filter":{"status":"ERROR"},"sort":{"started_at":-1},"limit":20}"#;
    /// assert_eq!(Find::parse(text)?.to_json(), text);
    /// # Ok::<(), runlore::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The same as for [`Filter::parse`]. Also an error: a projection that both includes and
    /// excludes fields, and an unknown option.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |sentence: String| Error::new(ErrorKind::Query, sentence);
        let json = Json::parse(text, "query")?;
        let Json::Object(options) = json else {
            return Err(wrong(format!("a query must be an object, not {}", json.kind())));
        };
        let mut find = Find::new();
        for (name, value) in options {
            let count = |value: &Json| {
                let sentence = format!("`{name}` must be a whole number that is not negative");
                value.as_count().ok_or_else(|| wrong(sentence))
            };
            match name.as_str() {
                "filter" => find.filter = Filter::from_root(parse_document(value, "a filter")?),
                "sort" => find.sort = Sort::from_syntax(value)?,
                "projection" => find.projection = Projection::of_find(value)?,
                "limit" => find = find.limit(count(&value)?),
                "skip" => find.skip = count(&value)?,
                other => return Err(unknown("option of a query", other, OPTIONS)),
            }
        }
        Ok(find)
    }

    /// Keeps only matching documents. Replaces any earlier filter.
    #[must_use]
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = filter;
        self
    }

    /// Keeps only documents that match both the current filter and this one.
    #[must_use]
    pub fn and(self, filter: Filter) -> Self {
        let both =
            if self.filter == Filter::all() { filter } else { self.filter.clone().and(filter) };
        self.filter(both)
    }

    /// Sorts by the value at a path: ascending, or descending if the path begins with `-`. Further
    /// calls add paths that break ties.
    #[must_use]
    pub fn sort(mut self, by: &str) -> Self {
        self.sort.then_by(by);
        self
    }

    /// Returns at most this many documents. As in MongoDB, 0 means no limit.
    #[must_use]
    pub fn limit(mut self, limit: u64) -> Self {
        self.limit = (limit > 0).then_some(limit);
        self
    }

    /// Skips the first documents.
    #[must_use]
    pub fn skip(mut self, skip: u64) -> Self {
        self.skip = skip;
        self
    }

    /// Keeps only the values at these paths, and `_id`.
    #[must_use]
    pub fn fields<S: AsRef<str>>(mut self, paths: impl IntoIterator<Item = S>) -> Self {
        self.projection = Projection::of_paths(paths);
        self
    }

    /// Allows documents to have more fields than requested. For callers that ignore other fields.
    #[doc(hidden)]
    pub fn loosely(mut self) -> Self {
        self.is_loose = true;
        self
    }

    /// Returns an error for an invalid field name. The builder methods do not validate names,
    /// unlike the parser.
    pub(crate) fn check(&self) -> Result<()> {
        self.filter.root().check()?;
        self.sort.check()?;
        self.projection.as_ref().map_or(Ok(()), Projection::check)
    }

    /// Returns the documents that this query selects. Without a sort, documents are read lazily.
    /// With a sort and a limit, at most limit + skip documents are kept in memory.
    pub fn apply<'a, I>(&'a self, documents: I) -> impl Iterator<Item = Value> + 'a
    where
        I: IntoIterator<Item = Value>,
        I::IntoIter: 'a,
    {
        let skip = usize::try_from(self.skip).unwrap_or(usize::MAX);
        let limit = self.limit.map_or(usize::MAX, |limit| limit.try_into().unwrap_or(usize::MAX));
        let matching = documents.into_iter().filter(|document| self.filter.matches(document));
        let ordered: Box<dyn Iterator<Item = Value> + 'a> = if self.sort.is_empty() {
            Box::new(matching)
        } else {
            let held = self.limit.map(|_| skip.saturating_add(limit));
            Box::new(std::iter::once_with(move || self.sort.apply(matching, held)).flatten())
        };
        ordered.skip(skip).take(limit).map(|document| self.project(document))
    }

    /// Returns the part of the query that decides the number of results.
    #[doc(hidden)]
    pub fn for_count(&self) -> Self {
        let Self { filter, limit, skip, .. } = self.clone();
        Self { filter, limit, skip, ..Self::new().fields(["_id"]) }
    }

    /// Returns how many of the matching documents are left after the skip and the limit.
    #[doc(hidden)]
    pub fn count_of(&self, matching: u64) -> u64 {
        matching.saturating_sub(self.skip).min(self.limit.unwrap_or(u64::MAX))
    }

    /// Applies the projection to a document.
    #[doc(hidden)]
    pub fn project(&self, document: Value) -> Value {
        match &self.projection {
            Some(projection) if !self.is_loose => projection.apply(document),
            _ => document,
        }
    }

    /// Returns the query as text, which [`parse`](Self::parse) turns back into this query.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a query has only keys that are text")
    }
}

impl Serialize for Find {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if self.filter != Filter::all() {
            map.serialize_entry("filter", &self.filter)?;
        }
        if !self.sort.is_empty() {
            map.serialize_entry("sort", &self.sort)?;
        }
        if let Some(projection) = &self.projection {
            map.serialize_entry("projection", projection)?;
        }
        if let Some(limit) = self.limit {
            map.serialize_entry("limit", &limit)?;
        }
        if self.skip > 0 {
            map.serialize_entry("skip", &self.skip)?;
        }
        map.end()
    }
}

impl fmt::Debug for Find {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Find({})", self.to_json())
    }
}
