//! A serializer that writes the canonical encoding of a value.

use std::fmt::{self, Write as _};

use serde::ser::{self, Serialize};
use serde_json::Value;

use super::NoHash;
use super::whole::{BLOCK, Budget, parts};
use crate::record::redact;
use crate::record::redact::{Class, Hidden, List};
use crate::record::value;
use crate::record::value::{
    BoundedText, Encoder, LOCKED, Limits, Secrecy, ValueView, base64, is_os_text, os_text,
};

/// The canonical encoding of a value, with the buffers needed to write it.
#[derive(Debug, Default)]
pub struct Form {
    pub(super) bytes: Vec<u8>,
    /// The fields of all open maps, outermost map first.
    fields: Vec<Field>,
    /// Scratch buffer for sorting the fields of a map.
    sorted: Vec<u8>,
    /// Limits the walk over one of the program's own values. `None` for a copied value, which needs
    /// no limits.
    guard: Option<Guard>,
}

/// The position of a map's field in [`Form::bytes`]: the name's length, the name, the value.
#[derive(Debug, Clone, Copy)]
struct Field {
    start: usize,
    name_end: usize,
    end: usize,
}

/// The maximum nesting depth. Each level takes stack, and a cyclic value has no end.
const MAX_DEPTH: u32 = 128;

/// How many bytes of a byte string are searched for secrets: more than a record keeps by default.
const MOST_TEXT: usize = 8 << 10;

/// What each value costs in addition to its bytes. The clock is read after about a thousand of the
/// smallest values.
const VALUE_COST: usize = 64;

/// Stops a walk that takes too long, goes too deep or finds a secret.
#[derive(Debug)]
struct Guard {
    budget: Budget,
    /// How much may still be written before the clock is read again.
    left: usize,
    depth: u32,
    /// The secrecy of the value according to the names of the fields around it.
    class: Class,
}

impl Guard {
    #[inline]
    fn spend(&mut self, cost: usize) -> Done {
        match self.left.checked_sub(cost) {
            Some(left) => self.left = left,
            None if self.budget.is_spent() => return Err(NoHash::Slow),
            None => self.left = BLOCK,
        }
        Ok(())
    }

    /// Fails if the text is a secret or contains one.
    fn admit(&mut self, text: &str) -> Done {
        if self.class.is_secret() {
            return Err(NoHash::Secret);
        }
        for part in parts(text) {
            self.spend(part.len())?;
            if redact::has_secret(part) {
                return Err(NoHash::Secret);
            }
        }
        Ok(())
    }
}

impl Form {
    pub(super) fn of(value: &Value) -> Self {
        let mut form = Self::default();
        // A JSON value contains nothing that could fail.
        _ = form.fill(value);
        form
    }

    /// Encodes a value that was copied.
    pub(super) fn fill(&mut self, value: &(impl Serialize + ?Sized)) -> Done {
        self.bytes.clear();
        self.fields.clear();
        value.serialize(Canonical(self))
    }

    /// Encodes one of the program's own values, which may have any size, within limits.
    pub(super) fn fill_within<T: Serialize + ?Sized>(
        &mut self,
        value: &T,
        class: Class,
        budget: &mut Budget,
    ) -> Done {
        self.guard = Some(Guard { budget: *budget, left: BLOCK, depth: 0, class });
        let done = self.fill(value);
        *budget = self.guard.take().map_or(*budget, |guard| guard.budget);
        done
    }

    #[inline]
    fn spend(&mut self, cost: usize) -> Done {
        self.guard.as_mut().map_or(Ok(()), |guard| guard.spend(cost))
    }

    fn put(&mut self, kind: u8, bytes: [u8; 8]) {
        let mut tagged = [kind; 9];
        tagged[1..].copy_from_slice(&bytes);
        self.bytes.extend_from_slice(&tagged);
    }

    /// Writes a tag and eight bytes: a number, or the beginning of a list or map.
    #[inline]
    fn scalar(&mut self, kind: u8, bytes: [u8; 8]) -> Done {
        self.put(kind, bytes);
        self.spend(VALUE_COST)
    }

    #[inline]
    fn mark(&mut self, kind: u8) -> Done {
        self.bytes.push(kind);
        self.spend(VALUE_COST)
    }

    fn text(&mut self, text: &str) -> Done {
        if let Some(guard) = &mut self.guard {
            guard.admit(text)?;
            guard.spend(VALUE_COST)?;
        }
        self.plain_text(text)
    }

    /// Writes a text that is known not to be a secret.
    fn plain_text(&mut self, text: &str) -> Done {
        self.put(b's', (text.len() as u64).to_le_bytes());
        for block in text.as_bytes().chunks(BLOCK) {
            self.bytes.extend_from_slice(block);
            self.spend(block.len())?;
        }
        Ok(())
    }

    /// Writes the name of a field.
    fn name(&mut self, name: &str) -> Done {
        let start = self.bytes.len();
        self.plain_text(name)?;
        self.close_name(start);
        Ok(())
    }

    /// Turns the text that was written from `start` on into a field's name.
    fn close_name(&mut self, start: usize) {
        // A name is always text, so it has no tag.
        self.bytes.remove(start);
        let name_end = self.bytes.len();
        self.fields.push(Field { start, name_end, end: name_end });
    }

    /// Ends the current field after its value was written.
    fn close_field(&mut self) {
        if let Some(field) = self.fields.last_mut() {
            field.end = self.bytes.len();
        }
    }

    /// Returns the name of the current field.
    fn last_name(&self) -> &str {
        let name = self.fields.last().map(|field| &self.bytes[field.start + 8..field.name_end]);
        name.and_then(|name| std::str::from_utf8(name).ok()).unwrap_or_default()
    }

    fn set_count(&mut self, start: usize, count: u64) {
        self.bytes[start + 1..start + 9].copy_from_slice(&count.to_le_bytes());
    }

    fn enter(&mut self) -> Done {
        if let Some(guard) = &mut self.guard {
            guard.depth += 1;
            if guard.depth > MAX_DEPTH {
                return Err(NoHash::Deep);
            }
        }
        Ok(())
    }

    fn leave(&mut self) {
        if let Some(guard) = &mut self.guard {
            guard.depth -= 1;
        }
    }

    /// Returns the secrecy of the value according to the names of the fields around it.
    fn class(&self) -> Class {
        self.guard.as_ref().map_or(Class::Plain, |guard| guard.class)
    }

    fn set_class(&mut self, class: Class) {
        if let Some(guard) = &mut self.guard {
            guard.class = class;
        }
    }

    /// Returns the text that was written from `start` on. `None` if it is another kind of value.
    fn text_from(&self, start: usize) -> Option<&str> {
        let text = self.bytes.get(start..).filter(|bytes| bytes.first() == Some(&b's'))?;
        std::str::from_utf8(text.get(9..)?).ok()
    }

    /// Ends the innermost map and sorts its fields, which begin at index `first`. If a name occurs
    /// twice, the last value counts.
    fn close_map(&mut self, start: usize, first: usize) {
        let Self { bytes, fields, sorted, .. } = self;
        let name = |field: &Field| &bytes[field.start + 8..field.name_end];
        let own = &mut fields[first..];
        if !own.is_sorted_by(|a, b| name(a) < name(b)) {
            own.sort_unstable_by(|a, b| name(a).cmp(name(b)).then(a.start.cmp(&b.start)));
            sorted.clear();
            let mut count = 0;
            for (at, field) in own.iter().enumerate() {
                if own.get(at + 1).is_none_or(|next| name(next) != name(field)) {
                    sorted.extend_from_slice(&bytes[field.start..field.end]);
                    count += 1;
                }
            }
            bytes.truncate(start + 9);
            bytes.extend_from_slice(sorted);
            fields.truncate(first);
            return self.set_count(start, count);
        }
        let count = own.len() as u64;
        fields.truncate(first);
        self.set_count(start, count);
    }
}

/// The serializer that writes to a [`Form`].
struct Canonical<'f>(&'f mut Form);

impl fmt::Display for NoHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason().unwrap_or("the value is not hashed"))
    }
}

impl std::error::Error for NoHash {}

impl ser::Error for NoHash {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self::Failed
    }
}

type Done = Result<(), NoHash>;

macro_rules! numbers {
    ($($method:ident($type:ty) => $wider:ident;)*) => {
        $(#[inline] fn $method(self, value: $type) -> Done { self.$wider(value.into()) })*
    };
}

impl<'f> ser::Serializer for Canonical<'f> {
    type Ok = ();
    type Error = NoHash;
    type SerializeSeq = Open<'f>;
    type SerializeTuple = Open<'f>;
    type SerializeTupleStruct = Open<'f>;
    type SerializeTupleVariant = Open<'f>;
    type SerializeMap = Open<'f>;
    type SerializeStruct = Open<'f>;
    type SerializeStructVariant = Open<'f>;

    numbers! {
        serialize_i8(i8) => serialize_i64;
        serialize_i16(i16) => serialize_i64;
        serialize_i32(i32) => serialize_i64;
        serialize_u8(u8) => serialize_i64;
        serialize_u16(u16) => serialize_i64;
        serialize_u32(u32) => serialize_i64;
    }

    fn serialize_bool(self, value: bool) -> Done {
        self.0.mark(if value { b't' } else { b'f' })
    }

    #[inline]
    fn serialize_i64(self, value: i64) -> Done {
        if self.0.class() == Class::Strict {
            return Err(NoHash::Secret);
        }
        self.0.scalar(b'i', value.to_le_bytes())
    }

    #[inline]
    fn serialize_u64(self, value: u64) -> Done {
        if self.0.class() == Class::Strict {
            return Err(NoHash::Secret);
        }
        let kind = if i64::try_from(value).is_ok() { b'i' } else { b'u' };
        self.0.scalar(kind, value.to_le_bytes())
    }

    fn serialize_i128(self, value: i128) -> Done {
        match (i64::try_from(value), u64::try_from(value)) {
            (Ok(value), _) => self.serialize_i64(value),
            (_, Ok(value)) => self.serialize_u64(value),
            _ => self.0.plain_text(&value.to_string()),
        }
    }

    fn serialize_u128(self, value: u128) -> Done {
        match u64::try_from(value) {
            Ok(value) => self.serialize_u64(value),
            Err(_) => self.0.plain_text(&value.to_string()),
        }
    }

    fn serialize_f32(self, value: f32) -> Done {
        self.serialize_f64(widened(value))
    }

    #[inline]
    fn serialize_f64(self, value: f64) -> Done {
        let value = if value.is_nan() { f64::NAN } else { value };
        self.0.scalar(b'd', value.to_le_bytes())
    }

    fn serialize_char(self, value: char) -> Done {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Done {
        self.0.text(value)
    }

    fn collect_str<T: fmt::Display + ?Sized>(self, value: &T) -> Done {
        let Some(guard) = &mut self.0.guard else { return self.serialize_str(&value.to_string()) };
        let mut text = BoundedText::new(0, Some(guard.budget));
        let failed = write!(text, "{value}").is_err();
        guard.budget = text.budget.unwrap_or(guard.budget);
        match text.stopped {
            Some(why) => Err(why),
            None if failed => Err(NoHash::Failed),
            None => self.serialize_str(&text.text),
        }
    }

    fn serialize_bytes(self, value: &[u8]) -> Done {
        if self.0.class().is_secret()
            || self.0.guard.is_some() && value::holds_secret(value, MOST_TEXT)
        {
            return Err(NoHash::Secret);
        }
        // Bytes are encoded as base64, as in records. Only the last block needs padding, because
        // the others are whole groups of three bytes.
        self.0.put(b's', (value.len().div_ceil(3) as u64 * 4).to_le_bytes());
        for block in value.chunks(BLOCK / 4 * 3) {
            self.0.bytes.extend_from_slice(base64(block).as_bytes());
            self.0.spend(block.len())?;
        }
        Ok(())
    }

    fn serialize_unit(self) -> Done {
        self.0.mark(b'n')
    }

    fn serialize_none(self) -> Done {
        self.0.mark(b'n')
    }

    fn serialize_unit_struct(self, _: &'static str) -> Done {
        self.0.mark(b'n')
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Done {
        self.0.plain_text(variant)?;
        self.0.spend(VALUE_COST)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Done {
        self.0.enter()?;
        value.serialize(Canonical(self.0))?;
        self.0.leave();
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Done {
        if name == LOCKED {
            return Err(NoHash::Failed);
        }
        self.serialize_some(value)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Done {
        if is_os_text(name)
            && let Some(text) = os_text(value)
        {
            // Different strings that are not UTF-8 can have the same lossy text, so they get no
            // hash.
            return self.serialize_str(text.to_str().ok_or(NoHash::Failed)?);
        }
        let mut map = Open::new(self.0, b'o')?;
        map.field(variant, value)?;
        map.close()
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Open<'f>, NoHash> {
        Open::new(self.0, b'a')
    }

    fn serialize_tuple(self, _: usize) -> Result<Open<'f>, NoHash> {
        Open::new(self.0, b'a')
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Open<'f>, NoHash> {
        Open::new(self.0, b'a')
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Open<'f>, NoHash> {
        Open::variant(self.0, variant, b'a')
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Open<'f>, NoHash> {
        Open::new(self.0, b'o')
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Open<'f>, NoHash> {
        Open::new(self.0, b'o')
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Open<'f>, NoHash> {
        Open::variant(self.0, variant, b'o')
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

/// A list or map under construction.
struct Open<'f> {
    form: &'f mut Form,
    start: usize,
    items: u64,
    /// The index of the map's first field in [`Form::fields`].
    first: usize,
    /// For the content of `{variant: …}`: where the outer map begins, and the index of its first
    /// field.
    around: Option<(usize, usize)>,
    /// The secrecy according to the names of the fields around the container.
    outer: Class,
    /// State for finding secrets among the items of a list.
    list: List,
}

impl<'f> Open<'f> {
    fn new(form: &'f mut Form, kind: u8) -> Result<Self, NoHash> {
        let outer = form.class();
        if outer >= Class::Secret && kind == b'a' {
            // A list of numbers under a secret name may be the bytes of a key.
            return Err(NoHash::Secret);
        }
        form.enter()?;
        let start = form.bytes.len();
        form.scalar(kind, [0; 8])?;
        let first = form.fields.len();
        Ok(Self { form, start, items: 0, first, around: None, outer, list: List::new(Some(2)) })
    }

    fn variant(form: &'f mut Form, variant: &str, kind: u8) -> Result<Self, NoHash> {
        let outer = Self::new(form, b'o')?;
        let (start, first, class) = (outer.start, outer.first, outer.outer);
        outer.form.name(variant)?;
        outer.form.set_class(class.max(redact::class(variant)));
        Ok(Self { around: Some((start, first)), outer: class, ..Self::new(outer.form, kind)? })
    }

    #[inline]
    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Done {
        self.items += 1;
        let start = self.form.bytes.len();
        value.serialize(Canonical(self.form))?;
        if self.form.guard.is_some()
            && let Some(text) = self.form.text_from(start)
            && self.list.next(text) != Hidden::Nothing
        {
            return Err(NoHash::Secret);
        }
        Ok(())
    }

    fn field<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Done {
        self.form.name(name)?;
        self.value(value)
    }

    /// Writes the value of the current field.
    fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> Done {
        if self.form.guard.is_some() {
            let class = self.outer.max(redact::class(self.form.last_name()));
            self.form.set_class(class);
        }
        let start = self.form.bytes.len();
        value.serialize(Canonical(self.form))?;
        self.form.set_class(self.outer);
        // In `{name: "password", value: "x"}`, the first field says that the next one is a secret.
        if self.form.guard.is_some()
            && matches!(self.form.last_name(), "name" | "key" | "header" | "Name" | "Key")
            && self.form.text_from(start).is_some_and(|text| redact::class(text) >= Class::Secret)
        {
            return Err(NoHash::Secret);
        }
        self.form.close_field();
        Ok(())
    }

    fn close(self) -> Done {
        let Self { form, start, items, first, around, outer, .. } = self;
        if form.bytes[start] == b'a' {
            form.set_count(start, items);
        } else {
            form.close_map(start, first);
        }
        form.leave();
        if let Some((start, first)) = around {
            form.close_field();
            form.close_map(start, first);
            form.leave();
        }
        form.set_class(outer);
        Ok(())
    }
}

macro_rules! lists {
    ($($trait:ident :: $method:ident),*) => {
        $(impl ser::$trait for Open<'_> {
            type Ok = ();
            type Error = NoHash;
            #[inline]
            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Done { self.item(value) }
            fn end(self) -> Done { self.close() }
        })*
    };
}

lists!(
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field
);

macro_rules! structs {
    ($($trait:ident),*) => {
        $(impl ser::$trait for Open<'_> {
            type Ok = ();
            type Error = NoHash;
            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Done {
                self.field(name, value)
            }
            fn end(self) -> Done { self.close() }
        })*
    };
}

structs!(SerializeStruct, SerializeStructVariant);

impl ser::SerializeMap for Open<'_> {
    type Ok = ();
    type Error = NoHash;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Done {
        let form = &mut *self.form;
        let start = form.bytes.len();
        form.set_class(Class::Plain);
        key.serialize(Canonical(&mut *form))?;
        if form.bytes[start] != b's' {
            form.bytes.truncate(start);
            form.plain_text(&key_text(key)?)?;
        }
        form.close_name(start);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Done {
        self.value(value)
    }

    fn end(self) -> Done {
        self.close()
    }
}

/// Returns the text that records use for a map key that is not a string.
fn key_text<T: Serialize + ?Sized>(key: &T) -> Result<String, NoHash> {
    let mut bytes = Vec::new();
    let limits = Limits { bytes: BLOCK as u32, items: BLOCK as u32, depth: MAX_DEPTH };
    let mut encoder = Encoder::new(&mut bytes, limits, Secrecy::NONE);
    encoder.serialize(key);
    if encoder.was_cut() {
        return Err(NoHash::Cut);
    }
    Ok(ValueView::new(&bytes).key_text())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_form_is_the_documented_one() {
        let mut form = Form::default();
        form.fill(&json!({"b": [true, null, -1], "a": {"y": 0.5, "x": u64::MAX}})).unwrap();
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
            fn serialize<S: ser::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_map([("b", 1), ("a", 2), ("b", 3)])
            }
        }
        let (mut twice, mut once) = (Form::default(), Form::default());
        twice.fill(&Twice).unwrap();
        once.fill(&json!({"a": 2, "b": 3})).unwrap();
        assert_eq!(twice.bytes, once.bytes);
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
