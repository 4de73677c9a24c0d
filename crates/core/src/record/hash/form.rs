//! The canonical encoding of a value, from its stored JSON or from its copy.

use std::fmt::{self, Write as _};

use serde_json::Value;

use super::NoHash;
use super::whole::{BLOCK, Budget};
use crate::record::redact::REDACTED;
use crate::record::value::{Cursor, ValueView, base64, tag};

/// The canonical encoding of a value, with the buffers needed to write it.
#[derive(Debug, Default)]
pub struct Form {
    pub(super) bytes: Vec<u8>,
    /// The fields of all open maps, outermost map first.
    fields: Vec<Field>,
    /// Scratch buffer for sorting the fields of a map.
    sorted: Vec<u8>,
    /// The length of `bytes` at which the clock is read again.
    clock_at: usize,
}

/// The position of a map's field in [`Form::bytes`]: the name's length, the name, the value.
#[derive(Debug, Clone, Copy)]
struct Field {
    start: usize,
    name_end: usize,
    end: usize,
}

/// A list or map that is being written.
struct Open {
    start: usize,
    /// The index of a map's first field in [`Form::fields`].
    first_field: usize,
}

/// The maximum nesting depth of a copy, above what an encoder writes. Bytes recovered from a dead
/// process may nest without end, but the stack is finite.
const MAX_DEPTH: u32 = 256;

type Done = Result<(), NoHash>;

impl Form {
    /// Encodes a stored value.
    pub(super) fn of(value: &Value) -> Self {
        let mut form = Self::default();
        form.json(value);
        form
    }

    /// Encodes a value that was copied completely.
    pub(super) fn fill(&mut self, value: ValueView<'_>, budget: &mut Budget) -> Done {
        self.bytes.clear();
        self.fields.clear();
        self.clock_at = BLOCK;
        // The canonical encoding is about as long as the copy.
        self.bytes.reserve(value.len());
        self.copied(&mut value.cursor(), budget, MAX_DEPTH)
    }

    fn json(&mut self, value: &Value) {
        match value {
            Value::Null => self.bytes.push(b'n'),
            Value::Bool(value) => self.bool(*value),
            Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
                (Some(value), ..) => self.put(b'i', value.to_le_bytes()),
                (_, Some(value), _) => self.u64(value),
                (.., Some(value)) => self.f64(value),
                _ => self.text(&number.to_string()),
            },
            Value::String(text) => self.text(text),
            Value::Array(items) => {
                let list = self.open(b'a');
                items.iter().for_each(|item| self.json(item));
                self.set_count(&list, items.len() as u64);
            }
            Value::Object(fields) => {
                let map = self.open(b'o');
                for (name, value) in fields {
                    self.name(name);
                    self.json(value);
                    self.end_field();
                }
                self.close_map(&map);
            }
        }
    }

    /// Encodes the next value of a copy, which may nest up to `depth` levels.
    #[inline(always)]
    fn copied(&mut self, from: &mut Cursor<'_>, budget: &mut Budget, depth: u32) -> Done {
        self.watch_clock(budget)?;
        match from.byte() {
            tag::INT => self.put(b'i', from.u64().to_le_bytes()),
            tag::F64 => self.f64(f64::from_bits(from.u64())),
            // In a function of its own, so that the loop over a list of numbers stays small.
            tag => self.copied_after(tag, from, budget, depth)?,
        }
        Ok(())
    }

    /// Encodes a value of a copy whose tag has been read.
    #[inline(never)]
    fn copied_after(
        &mut self,
        tag: u8,
        from: &mut Cursor<'_>,
        budget: &mut Budget,
        depth: u32,
    ) -> Done {
        let depth = depth.checked_sub(1).ok_or(NoHash::Deep)?;
        match tag {
            tag::FALSE => self.bool(false),
            tag::TRUE => self.bool(true),
            tag::UINT => self.u64(from.u64()),
            tag::F32 => self.f64(widened(f32::from_bits(from.u32()))),
            tag::BIG => self.text(from.short_text()),
            tag::STR => self.text(from.sized_text()),
            tag::BYTES => self.base64(from.sized_bytes(), budget)?,
            tag::SEQ => {
                let list = self.open(b'a');
                let mut count = 0;
                while !from.at_end() {
                    self.copied(from, budget, depth)?;
                    count += 1;
                }
                self.set_count(&list, count);
            }
            tag::MAP => {
                let map = self.open(b'o');
                while !from.at_end() {
                    self.name(from.name());
                    self.copied(from, budget, depth)?;
                    self.end_field();
                }
                self.close_map(&map);
            }
            tag::REDACTED => self.text(REDACTED),
            tag::TYPE_NAME => self.text(&format!("<{}>", from.sized_text())),
            tag::LOSSY => self.copied(from, budget, depth)?,
            tag::STR_CUT | tag::BYTES_CUT | tag::SLICE => return Err(NoHash::Cut),
            tag::ABSENT => {
                from.byte();
                self.bytes.push(b'n');
            }
            _ => self.bytes.push(b'n'),
        }
        Ok(())
    }

    /// Reads the clock once per block. Fails if the budget is spent.
    #[inline]
    fn watch_clock(&mut self, budget: &mut Budget) -> Done {
        if self.bytes.len() >= self.clock_at {
            if budget.is_spent() {
                return Err(NoHash::Slow);
            }
            self.clock_at = self.bytes.len() + BLOCK;
        }
        Ok(())
    }

    /// Writes a tag and eight bytes: a number, or the length of a text, list or map.
    #[inline]
    fn put(&mut self, kind: u8, bytes: [u8; 8]) {
        let mut tagged = [kind; 9];
        tagged[1..].copy_from_slice(&bytes);
        self.bytes.extend_from_slice(&tagged);
    }

    fn bool(&mut self, value: bool) {
        self.bytes.push(if value { b't' } else { b'f' });
    }

    fn u64(&mut self, value: u64) {
        let kind = if i64::try_from(value).is_ok() { b'i' } else { b'u' };
        self.put(kind, value.to_le_bytes());
    }

    #[inline]
    fn f64(&mut self, value: f64) {
        let value = if value.is_nan() { f64::NAN } else { value };
        self.put(b'd', value.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.put(b's', (text.len() as u64).to_le_bytes());
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// Writes bytes as base64, as records store them.
    fn base64(&mut self, bytes: &[u8], budget: &mut Budget) -> Done {
        self.put(b's', (bytes.len().div_ceil(3) as u64 * 4).to_le_bytes());
        // Only the last block needs padding, because the others are whole groups of three bytes.
        for block in bytes.chunks(3 * BLOCK) {
            self.bytes.extend_from_slice(base64(block).as_bytes());
            self.watch_clock(budget)?;
        }
        Ok(())
    }

    /// Begins a list or map. Its length is set at its end.
    fn open(&mut self, kind: u8) -> Open {
        let open = Open { start: self.bytes.len(), first_field: self.fields.len() };
        self.put(kind, [0; 8]);
        open
    }

    fn set_count(&mut self, open: &Open, count: u64) {
        self.bytes[open.start + 1..open.start + 9].copy_from_slice(&count.to_le_bytes());
    }

    /// Begins a field with its name, which has no tag because it is always text.
    fn name(&mut self, name: &str) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&(name.len() as u64).to_le_bytes());
        self.bytes.extend_from_slice(name.as_bytes());
        let name_end = self.bytes.len();
        self.fields.push(Field { start, name_end, end: name_end });
    }

    /// Ends the current field after its value was written.
    fn end_field(&mut self) {
        if let Some(field) = self.fields.last_mut() {
            field.end = self.bytes.len();
        }
    }

    /// Ends a map and sorts its fields. If a name occurs twice, the last value counts.
    fn close_map(&mut self, map: &Open) {
        let Self { bytes, fields, sorted, .. } = self;
        let name = |field: &Field| &bytes[field.start + 8..field.name_end];
        let own = &mut fields[map.first_field..];
        let mut count = own.len() as u64;
        if !own.is_sorted_by(|a, b| name(a) < name(b)) {
            own.sort_unstable_by(|a, b| name(a).cmp(name(b)).then(a.start.cmp(&b.start)));
            sorted.clear();
            count = 0;
            for (at, field) in own.iter().enumerate() {
                if own.get(at + 1).is_none_or(|next| name(next) != name(field)) {
                    sorted.extend_from_slice(&bytes[field.start..field.end]);
                    count += 1;
                }
            }
            bytes.truncate(map.start + 9);
            bytes.extend_from_slice(sorted);
        }
        fields.truncate(map.first_field);
        self.set_count(map, count);
    }
}

/// Converts a float to the number that a reader of the record sees: the shortest text of the `f32`,
/// parsed as `f64`.
fn widened(value: f32) -> f64 {
    /// Below this, an integral `f32` prints as exactly that integer.
    const EXACT: f32 = 16_777_216.0;
    if !value.is_finite() || (value.trunc() == value && value.abs() < EXACT) {
        return value.into();
    }
    let mut text = Digits::default();
    _ = write!(text, "{value:e}");
    text.as_str().parse().unwrap_or(value.into())
}

/// A text buffer for one number on the stack.
#[derive(Default)]
struct Digits {
    bytes: [u8; 32],
    length: usize,
}

impl Digits {
    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

impl fmt::Write for Digits {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde::ser::{Serialize, Serializer};
    use serde_json::json;

    use super::*;
    use crate::record::value::{Encoder, Limits, Secrecy};

    #[test]
    fn the_form_is_the_documented_one() {
        let form = Form::of(&json!({"b": [true, null, -1], "a": {"y": 0.5, "x": u64::MAX}}));
        let mut wanted = Vec::new();
        let mut put = |kind: &[u8], number: [u8; 8], text: &str| {
            wanted.extend_from_slice(kind);
            wanted.extend_from_slice(&number);
            wanted.extend_from_slice(text.as_bytes());
        };
        let count = u64::to_le_bytes;
        put(b"o", count(2), "");
        put(b"", count(1), "a");
        put(b"o", count(2), "");
        put(b"", count(1), "x");
        put(b"u", count(u64::MAX), "");
        put(b"", count(1), "y");
        put(b"d", 0.5_f64.to_le_bytes(), "");
        put(b"", count(1), "b");
        put(b"a", count(3), "tn");
        put(b"i", (-1_i64).to_le_bytes(), "");
        assert_eq!(form.bytes, wanted);
    }

    #[cfg(feature = "blake3")]
    #[test]
    fn blake3_is_that_of_the_documented_form() {
        // The output of `printf 'a\3\0\0\0\0\0\0\0tfn' | b3sum`.
        assert_eq!(
            crate::record::blake3_of(&json!([true, false, null])),
            "blake3:95f8dc470c2163ed6eb8f7abd19974754a59b166ed7c8102c7abddbe0d8990be"
        );
    }

    #[test]
    fn of_a_name_that_comes_twice_the_last_counts() {
        struct Twice;
        impl Serialize for Twice {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_map([("b", 1), ("a", 2), ("b", 3)])
            }
        }
        let mut copy = Vec::new();
        Encoder::new(&mut copy, Limits::DEFAULT, Secrecy::NONE).serialize(&Twice);
        let mut twice = Form::default();
        twice.fill(ValueView::new(&copy), &mut Budget::unlimited()).unwrap();
        assert_eq!(twice.bytes, Form::of(&json!({"a": 2, "b": 3})).bytes);
    }

    #[test]
    fn a_short_float_is_the_number_that_its_text_says() {
        let shown = |value: f32| value.to_string().parse::<f64>().unwrap();
        for value in
            [0.1, -0.1, 3.0, 1e-45, -1e-45, f32::MAX, f32::MIN_POSITIVE, 16_777_217.0, 1.5e10]
        {
            assert_eq!(widened(value).to_bits(), shown(value).to_bits(), "{value}");
        }
        assert_eq!(widened(-0.0).to_bits(), shown(-0.0).to_bits());
        assert!(widened(f32::NAN).is_nan() && widened(f32::INFINITY).is_infinite());
    }
}
