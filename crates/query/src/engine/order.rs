//! The order of values across types, as in MongoDB: null, numbers, strings, objects, arrays,
//! booleans.
//!
//! Numbers compare by their exact value, not by their notation: `2` equals `2.0`, and 2⁵³ + 1 is
//! greater than 2⁵³. The order of an object's keys does not matter.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use serde_json::{Map, Number, Value};

/// Compares any two values.
pub(crate) fn compare(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => compare_numbers(left, right),
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => {
            let pairs = left.iter().zip(right);
            let first = pairs.map(|(left, right)| compare(left, right)).find(|order| order.is_ne());
            first.unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        (Value::Object(left), Value::Object(right)) => compare_objects(left, right),
        _ => rank(left).cmp(&rank(right)),
    }
}

/// Returns whether a filter treats the two values as equal.
pub(crate) fn equal(left: &Value, right: &Value) -> bool {
    compare(left, right).is_eq()
}

/// Returns the rank of the value's type in the order. `$gt` and similar operators compare only
/// values of the same rank.
pub(crate) fn rank(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Number(_) => 1,
        Value::String(_) => 2,
        Value::Object(_) => 3,
        Value::Array(_) => 4,
        Value::Bool(_) => 5,
    }
}

fn compare_objects(left: &Map<String, Value>, right: &Map<String, Value>) -> Ordering {
    if left.keys().is_sorted() && right.keys().is_sorted() {
        return compare_entries(left.iter(), right.iter());
    }
    compare_entries(sorted(left).into_iter(), sorted(right).into_iter())
}

/// Returns the entries sorted by key. A map is already sorted, unless another crate in the build
/// enables serde_json's `preserve_order`.
fn sorted(map: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_by_key(|(key, _)| *key);
    entries
}

/// Compares two objects entry by entry: first by the type of the value, then by key, then by value.
fn compare_entries<'a>(
    left: impl ExactSizeIterator<Item = (&'a String, &'a Value)>,
    right: impl ExactSizeIterator<Item = (&'a String, &'a Value)>,
) -> Ordering {
    let lengths = left.len().cmp(&right.len());
    let pairs = left.zip(right).map(|((left_key, left), (right_key, right))| {
        rank(left)
            .cmp(&rank(right))
            .then_with(|| left_key.cmp(right_key))
            .then_with(|| compare(left, right))
    });
    pairs.into_iter().find(|order| order.is_ne()).unwrap_or(lengths)
}

/// A number without loss of precision.
#[derive(Clone, Copy)]
enum Exact {
    Integer(i128),
    Float(f64),
}

fn exact(number: &Number) -> Exact {
    if let Some(integer) = number.as_i64() {
        Exact::Integer(integer.into())
    } else if let Some(integer) = number.as_u64() {
        Exact::Integer(integer.into())
    } else {
        Exact::Float(number.as_f64().unwrap_or(f64::INFINITY))
    }
}

fn compare_numbers(left: &Number, right: &Number) -> Ordering {
    match (exact(left), exact(right)) {
        (Exact::Integer(left), Exact::Integer(right)) => left.cmp(&right),
        (Exact::Float(left), Exact::Float(right)) => {
            left.partial_cmp(&right).unwrap_or(Ordering::Equal)
        }
        (Exact::Integer(left), Exact::Float(right)) => integer_against_float(left, right),
        (Exact::Float(left), Exact::Integer(right)) => integer_against_float(right, left).reverse(),
    }
}

/// Compares exactly: the whole part of any float up to `BEYOND` fits into an `i128`.
fn integer_against_float(integer: i128, float: f64) -> Ordering {
    const BEYOND: f64 = 3.7e19;
    if float.abs() > BEYOND {
        return if float > 0.0 { Ordering::Less } else { Ordering::Greater };
    }
    let whole = float.trunc();
    integer
        .cmp(&(whole as i128))
        .then_with(|| 0.0_f64.partial_cmp(&(float - whole)).unwrap_or(Ordering::Equal))
}

/// A value as a map key, compared with [`equal`].
#[derive(Debug, Clone)]
pub(crate) struct Key(pub(crate) Value);

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        equal(&self.0, &other.0)
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(&self.0, &other.0)
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash(&self.0, state);
    }
}

fn hash<H: Hasher>(value: &Value, state: &mut H) {
    rank(value).hash(state);
    match value {
        Value::Null => {}
        Value::Bool(is) => is.hash(state),
        Value::String(text) => text.hash(state),
        Value::Number(number) => {
            // Equal values must have equal hashes, so a whole float hashes like the equal integer.
            match exact(number) {
                Exact::Float(float) if float.fract() == 0.0 && float.abs() < 3.7e19 => {
                    (float as i128).hash(state);
                }
                Exact::Float(float) => float.to_bits().hash(state),
                Exact::Integer(integer) => integer.hash(state),
            }
        }
        Value::Array(items) => {
            items.len().hash(state);
            items.iter().for_each(|item| hash(item, state));
        }
        Value::Object(map) => {
            let entry = |(key, value): (&String, &Value), state: &mut H| {
                key.hash(state);
                hash(value, state);
            };
            map.len().hash(state);
            if map.keys().is_sorted() {
                map.iter().for_each(|pair| entry(pair, state));
            } else {
                sorted(map).into_iter().for_each(|pair| entry(pair, state));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::hash::DefaultHasher;

    /// Values in strictly ascending order.
    fn ascending() -> Vec<Value> {
        let text = r#"[null,
            -1e300, -9223372036854775808, -9223372036854775807, -1.5, -1, -0.5, 0, 5e-324, 1, 1.5,
            9007199254740992, 9007199254740993, 9223372036854775807, 9223372036854775808,
            9223372036854775809, 18446744073709551615, 18446744073709551616, 1e300,
            "", "A", "a", "aa", "ä",
            {}, {"b": null}, {"a": 1}, {"a": 1, "b": 2}, {"a": 2}, {"b": 0}, {"a": ""}, {"a": {}},
            [], [null], [null, 1], [1], [1, 2], [2], [[]],
            false, true]"#;
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn the_order_is_total_and_exact() {
        let values = ascending();
        for (i, left) in values.iter().enumerate() {
            for (j, right) in values.iter().enumerate() {
                assert_eq!(compare(left, right), i.cmp(&j), "{left} against {right}");
            }
        }
    }

    #[test]
    fn numbers_are_equal_however_they_are_written() {
        let same = [
            (json!(1), json!(1.0)),
            (json!(0), json!(-0.0)),
            (json!(i64::MIN), json!(i64::MIN as f64)),
            (json!(1_u64 << 63), json!((1_u64 << 63) as f64)),
            (json!({"a": [2, {"b": 3.0}]}), json!({"a": [2.0, {"b": 3}]})),
        ];
        let hash_of = |value: &Value| {
            let mut state = DefaultHasher::new();
            Key(value.clone()).hash(&mut state);
            state.finish()
        };
        for (left, right) in same {
            assert!(equal(&left, &right), "{left} and {right}");
            assert_eq!(hash_of(&left), hash_of(&right), "{left} and {right}");
        }
        assert!(!equal(&json!(u64::MAX), &json!(u64::MAX as f64)));
    }
}
