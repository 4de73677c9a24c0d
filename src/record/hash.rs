//! The hash of a value: equal values have equal hashes, in any run, process or language.
//!
//! A value is hashed in the form in which it is stored (JSON's data model) and in one canonical
//! encoding: numbers as 8 bytes, text and lists with their length, maps sorted by key. So the
//! order of a `HashMap` does not matter, an `i32` and a `u64` of the same number agree, and whoever has a
//! record can compute the hash again.

use serde_json::Value;
use twox_hash::XxHash3_128;

use super::value::{Notes, ValueView};

/// Values whose canonical form is shorter are not hashed in records: too many unrelated ones are equal.
const MIN_HASHED_BYTES: usize = 16;

/// The hash of a stored value, as records write it.
///
/// ```
/// use runlore::record::hash_of;
/// let a = serde_json::json!({"x": [1, 2.5], "y": "text"});
/// assert_eq!(hash_of(&a), "xxh3-128:48764c0ff8b8770da79bc46c68e79d4d");
/// ```
pub fn hash_of(value: &Value) -> String {
    text(bits_of(value), false)
}

/// The hash of a value as a number.
pub(crate) fn bits_of(value: &Value) -> u128 {
    let mut bytes = Vec::new();
    canonical(value, &mut bytes);
    XxHash3_128::oneshot(&bytes)
}

/// The hash of a captured value, unless it is too small to mean anything; `cut` says that only its beginning was
/// kept.
pub(crate) fn of_captured(value: ValueView<'_>, cut: bool, buffer: &mut Vec<u8>) -> Option<String> {
    if let Some(hash) = value.caller_hash() {
        return Some(text(hash, false));
    }
    if value.is_scalar() {
        return None;
    }
    let json = serde_json::to_value(value.noting("", &Notes::default())).ok()?;
    buffer.clear();
    canonical(&json, buffer);
    (buffer.len() >= MIN_HASHED_BYTES).then(|| text(XxHash3_128::oneshot(buffer), cut))
}

/// A hash as records write it.
fn text(hash: u128, prefix: bool) -> String {
    let mark = if prefix { "/prefix" } else { "" };
    format!("xxh3-128{mark}:{hash:032x}")
}

fn canonical(value: &Value, to: &mut Vec<u8>) {
    match value {
        Value::Null => to.push(b'n'),
        Value::Bool(value) => to.push(if *value { b't' } else { b'f' }),
        Value::Number(number) => {
            let (kind, bytes) = match (number.as_i64(), number.as_u64()) {
                (Some(whole), _) => (b'i', whole.to_le_bytes()),
                (_, Some(whole)) => (b'u', whole.to_le_bytes()),
                _ => (b'd', number.as_f64().unwrap_or(0.0).to_le_bytes()),
            };
            to.push(kind);
            to.extend_from_slice(&bytes);
        }
        Value::String(text) => {
            to.push(b's');
            sized(text, to);
        }
        Value::Array(items) => {
            to.push(b'a');
            to.extend_from_slice(&(items.len() as u64).to_le_bytes());
            for item in items {
                canonical(item, to);
            }
        }
        Value::Object(fields) => {
            to.push(b'o');
            to.extend_from_slice(&(fields.len() as u64).to_le_bytes());
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            for (name, value) in fields {
                sized(name, to);
                canonical(value, to);
            }
        }
    }
}

fn sized(text: &str, to: &mut Vec<u8>) {
    to.extend_from_slice(&(text.len() as u64).to_le_bytes());
    to.extend_from_slice(text.as_bytes());
}
