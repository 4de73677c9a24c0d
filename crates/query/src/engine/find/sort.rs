//! Sorts documents by paths, ascending or descending. With a limit it keeps only the first ones in
//! memory.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

use crate::engine::operators::shortened;
use crate::engine::order;
use crate::engine::path::Path;
use crate::engine::syntax::Json;
use runlore_core::error::{Error, ErrorKind, Result};

/// An order of documents. The sort is stable: equal documents keep their order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sort {
    keys: Vec<(Path, Direction)>,
}

/// The direction of a sort key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Ascending,
    Descending,
}

/// The values that a document is sorted by, one per path. If a path has several values, the key is
/// the least one, or the greatest for a descending path. An empty array gives `None`, which comes
/// before null.
type SortKey = Vec<Option<Value>>;

impl Sort {
    /// Parses a sort such as `{"started_at": -1, "task_id": 1}`.
    pub(crate) fn from_syntax(json: Json) -> Result<Self> {
        let wrong = |sentence: String| Err(Error::new(ErrorKind::Query, sentence));
        let Json::Object(entries) = json else {
            let kind = json.kind();
            return wrong(format!(
                "a sort must be an object such as {{\"started_at\": -1}}, not {kind}"
            ));
        };
        let mut sort = Sort::default();
        for (name, direction) in entries {
            let shown = shortened(&name);
            let number = match &direction {
                Json::Scalar(Value::Number(number)) => number.as_f64(),
                _ => None,
            };
            let direction = match number {
                Some(1.0) => Direction::Ascending,
                Some(-1.0) => Direction::Descending,
                _ => return wrong(format!("the order of `{shown}` in a sort must be 1 or -1")),
            };
            sort.keys.push((Path::checked(&name)?, direction));
        }
        sort.check()?;
        Ok(sort)
    }

    /// Returns an error if a path is not valid for a sort.
    pub(crate) fn check(&self) -> Result<()> {
        match self.keys.iter().find(|(path, _)| !Path::is_plain(path.as_str())) {
            Some((path, _)) => {
                let shown = shortened(path.as_str());
                let sentence = format!("`{shown}` is no path to sort by");
                Err(Error::new(ErrorKind::Query, sentence))
            }
            None => Ok(()),
        }
    }

    /// Adds a key with the lowest priority: `started_at`, or `-started_at` for descending order.
    pub(crate) fn then_by(&mut self, text: &str) {
        let (name, direction) = match text.strip_prefix('-') {
            Some(name) => (name, Direction::Descending),
            None => (text.strip_prefix('+').unwrap_or(text), Direction::Ascending),
        };
        let path = Path::new(name);
        if self.keys.iter().all(|(other, _)| *other != path) {
            self.keys.push((path, direction));
        }
    }

    /// Returns the sort keys, highest priority first.
    pub fn keys(&self) -> &[(Path, Direction)] {
        &self.keys
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Sorts all documents, or finds the first `limit` ones and keeps only that many in memory.
    pub(crate) fn apply(
        &self,
        documents: impl Iterator<Item = Value>,
        limit: Option<usize>,
    ) -> Vec<Value> {
        self.first(documents, limit, |document| document)
    }

    /// Like `apply`, for items of any type that contain a document.
    pub fn first<T>(
        &self,
        items: impl Iterator<Item = T>,
        limit: Option<usize>,
        document: impl Fn(&T) -> &Value,
    ) -> Vec<T> {
        let candidates = items.enumerate().map(|(place, item)| Candidate {
            key: self.key(document(&item)),
            place,
            item,
            sort: self,
        });
        let Some(limit) = limit else {
            let mut all: Vec<_> = candidates.collect();
            all.sort_unstable();
            return all.into_iter().map(|candidate| candidate.item).collect();
        };
        let mut first = BinaryHeap::new();
        for candidate in candidates {
            if first.len() < limit {
                first.push(candidate);
            } else if first.peek().is_some_and(|last| candidate < *last) {
                first.pop();
                first.push(candidate);
            }
        }
        first.into_sorted_vec().into_iter().map(|candidate| candidate.item).collect()
    }

    fn key(&self, document: &Value) -> SortKey {
        let key = |(path, direction): &(Path, Direction)| {
            let mut best: Option<Option<&Value>> = None;
            path.sort_keys(document, |value| {
                let is_better =
                    best.is_none_or(|best| direction.order(compare(value, best)).is_lt());
                if is_better {
                    best = Some(value);
                }
            });
            best.flatten().cloned()
        };
        self.keys().iter().map(key).collect()
    }

    fn compare_keys(&self, left: &SortKey, right: &SortKey) -> Ordering {
        let pairs = left.iter().zip(right).zip(&self.keys);
        let orders = pairs.map(|((left, right), (_, direction))| {
            direction.order(compare(left.as_ref(), right.as_ref()))
        });
        orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }
}

impl Direction {
    fn order(self, order: Ordering) -> Ordering {
        match self {
            Direction::Ascending => order,
            Direction::Descending => order.reverse(),
        }
    }
}

fn compare(left: Option<&Value>, right: Option<&Value>) -> Ordering {
    match (left, right) {
        (Some(left), Some(right)) => order::compare(left, right),
        (left, right) => left.is_some().cmp(&right.is_some()),
    }
}

/// An item with its sort key and its original position.
struct Candidate<'a, T> {
    key: SortKey,
    place: usize,
    item: T,
    sort: &'a Sort,
}

impl<T> Ord for Candidate<'_, T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.sort.compare_keys(&self.key, &other.key).then_with(|| self.place.cmp(&other.place))
    }
}

impl<T> PartialOrd for Candidate<'_, T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Candidate<'_, T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Candidate<'_, T> {}

impl Serialize for Sort {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.keys.len()))?;
        for (path, direction) in &self.keys {
            let number = if *direction == Direction::Ascending { 1 } else { -1 };
            map.serialize_entry(path.as_str(), &number)?;
        }
        map.end()
    }
}
