//! Numeric slices: a few items are copied, many are summed up.
//!
//! Handing eight kilobytes to another core costs more than reading them here, so a long slice is
//! summarised where it is: minimum, maximum, mean, and a hash of the whole.

use super::tag;
use super::{Encoder, simd};

/// Leading items kept of a slice that is summed up.
const FIRST: usize = 8;

/// What a record says of a long slice. Minimum, maximum and mean leave out what is not a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Summary<T> {
    pub(crate) min: T,
    pub(crate) max: T,
    pub(crate) mean: f64,
    pub(crate) not_numbers: u64,
}

/// A number that slices are summed up of.
pub(crate) trait Number: Copy {
    /// Distinguishes the types in the encoded form.
    const KIND: u8;
    fn encode(self, to: &mut Encoder<'_>);
    fn summary(items: &[Self]) -> Summary<Self>;
    fn bytes(items: &[Self]) -> &[u8];
}

/// The names of the kinds, as records give them.
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

/// Writes a slice: all its items where they fit the limit, else its summary.
pub(crate) fn numeric_slice<T: Number>(items: &[T], to: &mut Encoder<'_>) {
    if to.is_secret() {
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
    let summary = T::summary(items);
    to.put(&[tag::SLICE, T::KIND]);
    to.put(&(items.len() as u64).to_le_bytes());
    to.hash_of_slice(T::KIND, T::bytes(items));
    to.put(&summary.not_numbers.to_le_bytes());
    summary.min.encode(to);
    summary.max.encode(to);
    to.f64(summary.mean);
    to.tag(tag::SEQ);
    for item in &items[..FIRST.min(items.len())] {
        item.encode(to);
    }
    to.tag(tag::END);
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
                simd::$type(items)
            }
            fn bytes(items: &[Self]) -> &[u8] {
                simd::bytes(items)
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
                // A float per block keeps the sum exact far beyond what 64 bits could add up.
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
                simd::bytes(items)
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
