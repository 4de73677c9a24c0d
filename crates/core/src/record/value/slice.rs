//! Numeric slices: short ones are copied, long ones are summarised.
//!
//! Sending eight kilobytes to another core costs more than reading them here. A long slice is
//! therefore summarised on the caller's thread: minimum, maximum, mean, and a hash of the whole.

use super::tag::{self, Absent};
use super::{Encoder, summary};
use crate::record::hash;
use crate::record::hash::{BLOCK, Budget, Hash, Hasher, NoHash};
use crate::record::redact::Class;

/// How many leading items of a summarised slice are kept.
const FIRST: usize = 8;

/// The summary of a long slice in a record. Minimum, maximum and mean ignore NaN.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary<T> {
    pub(crate) min: T,
    pub(crate) max: T,
    pub(crate) mean: f64,
    pub(crate) not_numbers: u64,
}

/// A number type whose slices can be summarised.
pub trait Number: Copy + PartialOrd {
    /// The number of the type in the encoded form.
    const KIND: u8;
    fn encode(self, to: &mut Encoder<'_>);
    fn summary(items: &[Self]) -> Summary<Self>;
    fn bytes(items: &[Self]) -> &[u8];
}

/// Returns the type name that records use for a kind.
pub(super) fn kind_name(kind: u8) -> &'static str {
    match kind {
        1 => "f64",
        2 => "f32",
        3 => "i64",
        4 => "i32",
        5 => "i16",
        6 => "i8",
        7 => "u64",
        8 => "u32",
        9 => "u16",
        10 => "isize",
        11 => "usize",
        _ => "number",
    }
}

/// Writes a slice: all items if they fit the limit, otherwise a summary.
pub fn numeric_slice<T: Number>(items: &[T], to: &mut Encoder<'_>) {
    if to.class() >= Class::Secret {
        return to.redact();
    }
    if items.len() <= to.limits.items as usize {
        to.tag(tag::SEQ);
        for item in items {
            item.encode(to);
        }
        to.tag(tag::END);
        return;
    }
    let budget = &mut to.budget;
    let (summary, hash) = if size_of_val(items) <= BLOCK {
        (Some(T::summary(items)), hash::of_slice(T::KIND, T::bytes(items), budget))
    } else {
        by_blocks(items, budget)
    };
    write(items, summary, hash, to);
}

fn write<T: Number>(
    items: &[T],
    summary: Option<Summary<T>>,
    hash: Result<Option<Hash>, NoHash>,
    to: &mut Encoder<'_>,
) {
    to.put(&[tag::SLICE, T::KIND]);
    to.put(&(items.len() as u64).to_le_bytes());
    to.put_hash(hash);
    to.put(&summary.map_or(0, |summary| summary.not_numbers).to_le_bytes());
    match summary {
        Some(summary) => {
            summary.min.encode(to);
            summary.max.encode(to);
            to.f64(summary.mean);
        }
        None => (0..3).for_each(|_| to.absent(Absent::Slow)),
    }
    to.tag(tag::SEQ);
    for item in &items[..FIRST.min(items.len())] {
        item.encode(to);
    }
    to.tag(tag::END);
}

/// Computes the summary and the hash of a slice that is too long to be read without checking the
/// time. Returns neither if the time budget is spent.
#[inline(never)]
fn by_blocks<T: Number>(
    items: &[T],
    budget: &mut Budget,
) -> (Option<Summary<T>>, Result<Option<Hash>, NoHash>) {
    let mut hasher = Hasher::of_slice(T::KIND);
    let mut all: Option<Summary<T>> = None;
    let (mut sum, mut numbers) = (0.0, 0);
    for block in items.chunks(BLOCK / size_of::<T>()) {
        if all.is_some() && budget.is_spent() {
            return (None, Err(NoHash::Slow));
        }
        let summary = T::summary(block);
        let count = block.len() as u64 - summary.not_numbers;
        if count > 0 {
            sum += summary.mean * count as f64;
            numbers += count;
        }
        let all = all.get_or_insert(Summary { not_numbers: 0, ..summary });
        all.not_numbers += summary.not_numbers;
        if summary.min < all.min {
            all.min = summary.min;
        }
        if summary.max > all.max {
            all.max = summary.max;
        }
        if let Some(hasher) = &mut hasher {
            hasher.write(T::bytes(block));
        }
    }
    let all = all.map(|all| Summary { mean: sum / numbers as f64, ..all });
    (all, Ok(hasher.map(Hasher::finish)))
}

macro_rules! float {
    ($type:ident, $kind:literal) => {
        impl Number for $type {
            const KIND: u8 = $kind;
            #[inline]
            fn encode(self, to: &mut Encoder<'_>) {
                to.$type(self);
            }
            fn summary(items: &[Self]) -> Summary<Self> {
                summary::$type(items)
            }
            fn bytes(items: &[Self]) -> &[u8] {
                summary::bytes(items)
            }
        }
    };
}

float!(f64, 1);
float!(f32, 2);

macro_rules! integer {
    ($type:ident, $kind:literal, $encode:ident, $cast:ty) => {
        impl Number for $type {
            const KIND: u8 = $kind;
            #[inline]
            fn encode(self, to: &mut Encoder<'_>) {
                to.$encode(self as $cast);
            }
            fn summary(items: &[Self]) -> Summary<Self> {
                let (mut min, mut max) = ($type::MAX, $type::MIN);
                let mut sum = 0.0;
                // Each block is summed exactly in 128 bits, because 64 bits could overflow. Only
                // the totals of the blocks are rounded to floats.
                for block in items.chunks(1024) {
                    let mut total: i128 = 0;
                    for &item in block {
                        min = min.min(item);
                        max = max.max(item);
                        total += item as i128;
                    }
                    sum += total as f64;
                }
                Summary { min, max, mean: sum / items.len() as f64, not_numbers: 0 }
            }
            fn bytes(items: &[Self]) -> &[u8] {
                summary::bytes(items)
            }
        }
    };
}

integer!(i64, 3, i64, i64);
integer!(i32, 4, i64, i64);
integer!(i16, 5, i64, i64);
integer!(i8, 6, i64, i64);
integer!(u64, 7, u64, u64);
integer!(u32, 8, u64, u64);
integer!(u16, 9, u64, u64);
integer!(isize, 10, i64, i64);
integer!(usize, 11, u64, u64);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::value::{Limits, Secrecy, ValueView};

    #[test]
    fn blocks_say_what_all_at_once_does() {
        let mut items: Vec<f64> = (0..100_000).map(f64::from).collect();
        items[70_000] = f64::NAN;
        items[50_000] = -5.0;
        items[..9000].fill(f64::NAN);
        let (summary, hash) = by_blocks(&items, &mut Budget::unlimited());
        let (summary, wanted) = (summary.unwrap(), f64::summary(&items));
        assert_eq!((summary.min, summary.max), (wanted.min, wanted.max));
        assert_eq!(summary.not_numbers, wanted.not_numbers);
        assert!((summary.mean / wanted.mean - 1.0).abs() < 1e-12, "{summary:?} {wanted:?}");
        let bytes = <f64 as Number>::bytes(&items);
        assert_eq!(hash, hash::of_slice(f64::KIND, bytes, &mut Budget::unlimited()));
        let (summary, _) = by_blocks(&[f32::NAN; 50_000], &mut Budget::unlimited());
        assert!(summary.is_some_and(|it| it.mean.is_nan() && it.not_numbers == 50_000));
    }

    #[test]
    fn a_slice_that_takes_too_long_has_neither_summary_nor_hash() {
        let items = [1_u16; 100_000];
        assert_eq!(by_blocks(&items, &mut Budget::none()), (None, Err(NoHash::Slow)));
        assert!(by_blocks(&items[..100], &mut Budget::none()).0.is_some());
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes, Limits::DEFAULT, Secrecy::NONE);
        write(&items, None, Err(NoHash::Slow), &mut encoder);
        assert_eq!(encoder.no_hash(), Some(NoHash::Slow));
        let json = ValueView::new(&bytes).to_json();
        assert_eq!((&json["len"], &json["min"]), (&100_000.into(), &serde_json::Value::Null));
        assert_eq!(json["first"].as_array().map(Vec::len), Some(FIRST));
    }
}
