//! Shrinks tasks that are too large for their queue, or for the writer's memory.
//!
//! Nothing is dropped silently: the record names the missing values in `unavailable`.

use std::borrow::Cow;
use std::collections::HashMap;

use super::event::{Item, ItemKind, Items, Key, Marks, push_item, u64_at};
use runlore_core::record::{Absent, Encoder, Limits, Secrecy, ValueView, hash};
use runlore_telemetry::Snapshot;

/// The reason for a value that did not fit into a queue.
const TOO_LARGE: &str = "the record was too large for its queue";

/// The approximate size of a value's replacement, which is its hash and a reason. Smaller values
/// are not replaced.
const REPLACED: usize = 48;

/// The maximum number of error messages of a task that is too large. The first ones show what went
/// wrong.
const MOST_MESSAGES: usize = 64;

/// An item that may have been shrunk.
struct ItemToShrink<'a> {
    item: Item<'a>,
    payload: Cow<'a, [u8]>,
    marks: Marks,
}

impl<'a> From<Item<'a>> for ItemToShrink<'a> {
    fn from(item: Item<'a>) -> Self {
        Self { item, payload: Cow::Borrowed(item.payload), marks: item.marks }
    }
}

impl ItemToShrink<'_> {
    fn length(&self) -> usize {
        let name = match self.item.key() {
            Key::Name(name) => 2 + name.len(),
            Key::Index(_) => 0,
        };
        8 + name + self.payload.len()
    }

    fn is_value(&self) -> bool {
        matches!(self.item.kind, ItemKind::Used | ItemKind::Generated | ItemKind::Metadata)
    }

    /// Replaces a value by its hash and the reason why the rest is missing.
    fn shrink_value(&mut self) {
        let value = ValueView::new(&self.payload);
        let Marks { cut, redacted, no_hash } = self.marks;
        let hash = if redacted {
            None
        } else {
            hash::of_captured(value, cut, no_hash, &mut hash::Form::default()).ok().flatten()
        };
        let mut left = Vec::new();
        Encoder::new(&mut left, Limits::DEFAULT, Secrecy::NONE)
            .absent_but_for(hash, Absent::TooLarge);
        self.marks.cut = false;
        self.payload = Cow::Owned(left);
    }
}

fn written<'a>(parts: impl IntoIterator<Item = ItemToShrink<'a>>) -> Vec<u8> {
    let mut items = Vec::new();
    for ItemToShrink { item, payload, marks } in parts {
        push_item(&mut items, item.kind, item.key(), |items| {
            items.extend_from_slice(&payload);
            marks
        });
    }
    items
}

/// Creates an item with the reason for a missing part.
fn absence(what: &'static str) -> ItemToShrink<'static> {
    ItemToShrink::from(Item::named(ItemKind::Unavailable, what, TOO_LARGE.as_bytes()))
}

/// Shrinks an event's items until they fit into `room` bytes. Parts of the telemetry are removed
/// first, largest first, then values, largest first, then the frames of a backtrace. `None` if the
/// rest does not fit either.
#[cold]
pub(super) fn to_fit(items: &[u8], room: usize) -> Option<Vec<u8>> {
    let mut parts: Vec<ItemToShrink<'_>> = Items(items).map(ItemToShrink::from).collect();
    let excess = |parts: &[ItemToShrink<'_>]| {
        parts.iter().map(ItemToShrink::length).sum::<usize>().checked_sub(room + 1).is_some()
    };
    for (kind, name) in [
        (ItemKind::TelemetryAtStart, "telemetry_at_start"),
        (ItemKind::TelemetryAtEnd, "telemetry_at_end"),
    ] {
        let Some(at) = parts.iter().position(|part| part.item.kind == kind) else { continue };
        while excess(&parts) {
            match Snapshot(&parts[at].payload).without_largest(TOO_LARGE) {
                Some(smaller) => parts[at].payload = Cow::Owned(smaller),
                None => {
                    parts[at] = absence(name);
                    break;
                }
            }
        }
    }
    let mut values: Vec<usize> = (0..parts.len()).filter(|at| parts[*at].is_value()).collect();
    values.sort_by_key(|at| std::cmp::Reverse(parts[*at].payload.len()));
    for at in values {
        if parts[at].payload.len() <= REPLACED || !excess(&parts) {
            break;
        }
        parts[at].shrink_value();
    }
    if excess(&parts) {
        let before = parts.len();
        parts.retain(|part| part.item.kind != ItemKind::Backtrace);
        parts.extend((parts.len() < before).then(|| absence("error.backtrace")));
    }
    (!excess(&parts)).then(|| written(parts))
}

/// Removes outputs that are overwritten later, and then the oldest outputs while all items are
/// larger than `room`. Other items stay. Readers of the record need the last results rather than
/// the first.
#[cold]
pub(crate) fn forget_old(items: &mut Vec<u8>, room: usize) {
    let mut forgotten = Forgotten::default();
    let mut last: HashMap<Key<'_>, usize> = HashMap::new();
    let mut messages = 0;
    let is_output = |item: &Item<'_>| item.kind == ItemKind::Generated;
    for (at, item) in Items(items).enumerate() {
        if is_output(&item) {
            last.insert(item.key(), at);
        }
    }
    let mut parts = Vec::new();
    for (at, item) in Items(items).enumerate() {
        match item.kind {
            ItemKind::Generated if last.get(&item.key()) != Some(&at) => {}
            ItemKind::Forgotten => forgotten = Forgotten::read(item.payload),
            ItemKind::ErrorMessage if messages == MOST_MESSAGES => forgotten.messages += 1,
            kind => {
                messages += usize::from(kind == ItemKind::ErrorMessage);
                parts.push(ItemToShrink::from(item));
            }
        }
    }
    let mut length: usize = parts.iter().map(ItemToShrink::length).sum();
    parts.retain(|part| {
        let goes = length > room && is_output(&part.item);
        if goes {
            length -= part.length();
            forgotten.outputs += 1;
        }
        !goes
    });
    let mut kept = written(parts);
    if forgotten != Forgotten::default() {
        push_item(&mut kept, ItemKind::Forgotten, Key::Index(0), |items| forgotten.write(items));
    }
    *items = kept;
}

/// The number of outputs and messages that a record lost because the task had too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Forgotten {
    pub(super) outputs: u64,
    pub(super) messages: u64,
}

impl Forgotten {
    fn write(self, to: &mut Vec<u8>) -> Marks {
        to.extend_from_slice(&self.outputs.to_le_bytes());
        to.extend_from_slice(&self.messages.to_le_bytes());
        Marks::default()
    }

    pub(super) fn read(bytes: &[u8]) -> Self {
        Self { outputs: u64_at(bytes, 0), messages: u64_at(bytes, 8) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(items: &mut Vec<u8>, name: &str, text: &str) {
        push_item(items, ItemKind::Generated, Key::Name(name), |items| {
            Encoder::new(items, Limits::DEFAULT, Secrecy::NONE).serialize(text);
            Marks::default()
        });
    }

    fn names(items: &[u8]) -> Vec<String> {
        let name = |item: Item<'_>| match item.key() {
            Key::Name(name) => Some(name.to_owned()),
            Key::Index(_) => None,
        };
        Items(items).filter_map(name).collect()
    }

    #[test]
    fn the_largest_value_goes_first_and_keeps_its_hash() {
        let mut items = Vec::new();
        output(&mut items, "small", &"a".repeat(100));
        output(&mut items, "large", &"b".repeat(2000));
        output(&mut items, "medium", &"c".repeat(1000));
        let left = to_fit(&items, 1500).unwrap();
        assert!(left.len() <= 1500);
        assert_eq!(names(&left), ["small", "large", "medium"]);
        let values: Vec<Item<'_>> = Items(&left).collect();
        assert_eq!(values[2].payload, Items(&items).nth(2).unwrap().payload);
        let hash_in = |item: &Item<'_>| {
            let value = ValueView::new(item.payload);
            hash::of_captured(value, false, None, &mut hash::Form::default()).unwrap()
        };
        assert!(hash_in(&values[1]).is_some());
        assert_eq!(hash_in(&values[1]), hash_in(&Items(&items).nth(1).unwrap()));
        assert!(ValueView::new(values[1].payload).to_json().is_null());
    }

    #[test]
    fn what_cannot_be_made_to_fit_is_left_to_the_caller() {
        let mut items = Vec::new();
        (0..100).for_each(|at| output(&mut items, &format!("name {at}"), "short"));
        assert_eq!(to_fit(&items, 100), None);
        assert_eq!(to_fit(&items, items.len()), Some(items));
    }

    #[test]
    fn of_a_name_told_again_and_again_the_last_value_stays() {
        let mut items = Vec::new();
        output(&mut items, "first", "stays");
        (0..100).for_each(|at| output(&mut items, "loss", &at.to_string()));
        forget_old(&mut items, 1000);
        assert_eq!(names(&items), ["first", "loss"]);
        let last = Items(&items).last().unwrap();
        assert_eq!(ValueView::new(last.payload).to_json(), "99");
    }

    #[test]
    fn the_oldest_outputs_are_forgotten_and_counted() {
        let mut items = Vec::new();
        for round in 0..3 {
            (0..100).for_each(|at| output(&mut items, &format!("{round} {at}"), "value"));
            forget_old(&mut items, 1000);
            assert!(items.len() < 1100, "{}", items.len());
        }
        let names = names(&items);
        assert_eq!(names.last().unwrap(), "2 99");
        let forgotten = Items(&items).find(|item| item.kind == ItemKind::Forgotten).unwrap();
        let forgotten = Forgotten::read(forgotten.payload);
        assert_eq!(forgotten, Forgotten { outputs: 300 - names.len() as u64, messages: 0 });
    }
}
