//! Runs documents through the stages of a pipeline.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde_json::{Map, Value};

use super::accumulator::State;
use super::stage::{Group, Stage, Unwind};
use crate::engine::order::Key;

pub(super) type Documents<'a> = Box<dyn Iterator<Item = Value> + 'a>;

/// Runs documents through `stages`. Reads nothing until the first result is requested.
pub(super) fn run<'a>(mut stages: &'a [Stage], mut documents: Documents<'a>) -> Documents<'a> {
    while let Some((stage, rest)) = stages.split_first() {
        stages = rest;
        documents = match stage {
            Stage::Match(filter) => Box::new(documents.filter(|document| filter.matches(document))),
            Stage::Sort(sort) => {
                let limit = needed(rest);
                lazily(move || sort.apply(documents, limit))
            }
            Stage::Limit(limit) => Box::new(documents.take(count(*limit))),
            Stage::Skip(skip) => Box::new(documents.skip(count(*skip))),
            Stage::Project(projection) => {
                Box::new(documents.map(|document| projection.apply(document)))
            }
            Stage::Group(group) => lazily(move || grouped(group, documents)),
            Stage::Count(name) => lazily(move || counted(name, documents)),
            Stage::Unwind(unwind) => {
                Box::new(documents.flat_map(|document| unwind.apply(document)))
            }
        };
    }
    documents
}

fn lazily<'a, I: IntoIterator<Item = Value> + 'a>(make: impl FnOnce() -> I + 'a) -> Documents<'a> {
    Box::new(std::iter::once_with(make).flatten())
}

fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Returns how many documents the stages after a sort need. `None` if there is no bound.
fn needed(stages: &[Stage]) -> Option<usize> {
    let mut skipped = 0_usize;
    for stage in stages {
        match stage {
            Stage::Skip(skip) => skipped = skipped.saturating_add(count(*skip)),
            Stage::Limit(limit) => return Some(skipped.saturating_add(count(*limit))),
            Stage::Project(_) => {}
            _ => return None,
        }
    }
    None
}

fn grouped(group: &Group, documents: impl Iterator<Item = Value>) -> Vec<Value> {
    let mut places: HashMap<Key, usize> = HashMap::new();
    let mut groups: Vec<(Value, Vec<State>)> = Vec::new();
    for document in documents {
        let id = group.id.evaluate(&document).unwrap_or_default();
        let place = match places.entry(Key(id)) {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => {
                let states = group.fields.iter().map(|(_, field)| field.begin()).collect();
                groups.push((entry.key().0.clone(), states));
                *entry.insert(groups.len() - 1)
            }
        };
        for ((_, accumulator), state) in group.fields.iter().zip(&mut groups[place].1) {
            accumulator.add(&document, state);
        }
    }
    let finished = groups.into_iter().map(|(id, states)| {
        let mut object = Map::new();
        object.insert("_id".to_owned(), id);
        for ((name, accumulator), state) in group.fields.iter().zip(states) {
            object.insert(name.clone(), accumulator.end(state));
        }
        Value::Object(object)
    });
    finished.collect()
}

/// Returns one document with the number of documents. `None` if there are no documents.
fn counted(name: &str, documents: impl Iterator<Item = Value>) -> Option<Value> {
    let count = documents.count();
    (count > 0).then(|| Value::Object(Map::from_iter([(name.to_owned(), count.into())])))
}

impl Unwind {
    fn apply(&self, mut document: Value) -> Vec<Value> {
        let items = match self.path.get(&document) {
            Some(Value::Array(items)) if !items.is_empty() => items.clone(),
            None | Some(Value::Null | Value::Array(_)) if !self.keeps_empty => return Vec::new(),
            Some(Value::Array(_)) => return vec![self.with(document, None, Value::Null)],
            None | Some(_) => return vec![self.numbered(document, Value::Null)],
        };
        // Remove the array first, so that each copy of the document does not copy it too.
        put(&mut document, self.path.keys(), None);
        let numbered = items.into_iter().enumerate();
        numbered.map(|(i, item)| self.with(document.clone(), Some(item), i.into())).collect()
    }

    /// Replaces the array of the document by an item, or removes it.
    fn with(&self, mut document: Value, item: Option<Value>, index: Value) -> Value {
        put(&mut document, self.path.keys(), item);
        self.numbered(document, index)
    }

    fn numbered(&self, mut document: Value, index: Value) -> Value {
        if let Some(path) = &self.index {
            put(&mut document, path.keys(), Some(index));
        }
        document
    }
}

/// Sets or removes the value at a path of objects. Replaces any other value on the way by an
/// object.
fn put<'a>(
    value: &mut Value,
    mut keys: impl ExactSizeIterator<Item = &'a str>,
    new: Option<Value>,
) {
    let Some(key) = keys.next() else { return };
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let Value::Object(object) = value else { return };
    match new {
        None if keys.len() == 0 => _ = object.remove(key),
        Some(new) if keys.len() == 0 => _ = object.insert(key.to_owned(), new),
        new => put(object.entry(key).or_insert(Value::Null), keys, new),
    }
}
