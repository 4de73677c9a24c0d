//! The hash of a value: equal values have equal hashes, in any run, process or language.
//!
//! A value is hashed in the form in which it is stored (JSON's data model) and in one canonical
//! encoding: numbers as 8 bytes, text and lists with their length, maps sorted by key. So the
//! order of a `HashMap` does not matter, an `i32` and a `u64` of the same number agree, and whoever has a
//! record can compute the hash again.
//!
//! The encoding: `n`, `t`, `f` for null, true, false; `i` or `u` (above `i64::MAX`) or `d` and a number; `s`, a length and
//! the text; `a`, a length and the items; `o`, a length and for each field the name's length, the name and the value.
//! Numbers and lengths have 8 bytes, little-endian.

use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicU8, Ordering};

use serde::ser::{self, Serialize};
use serde_json::Value;
use twox_hash::XxHash3_128;

use super::value::{Notes, ValueView};
use crate::settings::HashKind;

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
    Hash::Xxh3(XxHash3_128::oneshot(&Form::of(value).bytes)).text(false)
}

/// The hash of a stored value, as records write it under `instrumentation.hash: blake3`.
///
/// ```
/// use runlore::record::blake3_of;
/// let a = serde_json::json!({"x": [1, 2.5], "y": "text"});
/// let hash = "blake3:fd398f3871dd48b9e21e3953c1e5a382e841fe4dd817639841869ba97fd0b8ab";
/// assert_eq!(blake3_of(&a), hash);
/// ```
#[cfg(feature = "blake3")]
pub fn blake3_of(value: &Value) -> String {
    Hash::Blake3(blake3::hash(&Form::of(value).bytes).into()).text(false)
}

/// What is hashed with: the place of a [`HashKind`] in `KINDS`.
static KIND: AtomicU8 = AtomicU8::new(0);
const KINDS: [HashKind; 3] = [HashKind::Xxh3, HashKind::Blake3, HashKind::None];

/// Says what values are hashed with.
pub(crate) fn choose(kind: HashKind) {
    let available = if kind == HashKind::Blake3 && !cfg!(feature = "blake3") {
        HashKind::Xxh3 // The settings have said so.
    } else {
        kind
    };
    let place = KINDS.iter().position(|known| *known == available).unwrap_or_default();
    KIND.store(place as u8, Ordering::Relaxed);
}

#[inline]
fn chosen() -> HashKind {
    KINDS[usize::from(KIND.load(Ordering::Relaxed)) % KINDS.len()]
}

/// A hash of one kind or the other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Hash {
    Xxh3(u128),
    Blake3([u8; 32]),
}

impl Hash {
    /// The hash of a value of which a part is kept, by all of it; none where values are not hashed.
    pub(crate) fn of_whole(value: &Value) -> Option<Self> {
        Self::of_form(&Form::of(value).bytes)
    }

    fn of_form(bytes: &[u8]) -> Option<Self> {
        match chosen() {
            HashKind::Xxh3 => Some(Self::Xxh3(XxHash3_128::oneshot(bytes))),
            #[cfg(feature = "blake3")]
            HashKind::Blake3 => Some(Self::Blake3(blake3::hash(bytes).into())),
            _ => None,
        }
    }

    /// The hash of the bytes of a long slice, which no other form of it is made of. `kind` keeps equal bytes of
    /// different types apart: it is the seed for XXH3 and the first byte for BLAKE3. Bytes as such, `b'b'`, stand by
    /// themselves for BLAKE3, so that the hash is that of a file of them.
    pub(crate) fn of_slice(kind: u8, bytes: &[u8]) -> Option<Self> {
        match chosen() {
            HashKind::Xxh3 => {
                Some(Self::Xxh3(XxHash3_128::oneshot_with_seed(u64::from(kind), bytes)))
            }
            #[cfg(feature = "blake3")]
            HashKind::Blake3 => {
                let mut hasher = blake3::Hasher::new();
                if kind != b'b' {
                    hasher.update(&[kind]);
                }
                Some(Self::Blake3(hasher.update(bytes).finalize().into()))
            }
            _ => None,
        }
    }

    /// Its length and its bytes, on the way to the writer.
    pub(crate) fn put(self, mut to: impl FnMut(&[u8])) {
        match self {
            Self::Xxh3(bits) => {
                to(&[16]);
                to(&bits.to_le_bytes());
            }
            Self::Blake3(bytes) => {
                to(&[32]);
                to(&bytes);
            }
        }
    }

    /// The hash of these bytes; none where they are none.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        match bytes.len() {
            16 => Some(Self::Xxh3(u128::from_le_bytes(bytes.try_into().ok()?))),
            32 => Some(Self::Blake3(bytes.try_into().ok()?)),
            _ => None,
        }
    }

    /// As records write it.
    fn text(self, prefix: bool) -> String {
        let mark = if prefix { "/prefix" } else { "" };
        match self {
            Self::Xxh3(bits) => format!("xxh3-128{mark}:{bits:032x}"),
            Self::Blake3(bytes) => {
                let mut text = format!("blake3{mark}:");
                for byte in bytes {
                    _ = write!(text, "{byte:02x}");
                }
                text
            }
        }
    }
}

/// The hash of a captured value, unless it is too small to mean anything; `cut` says that only its beginning was
/// kept.
#[inline]
pub(crate) fn of_captured(value: ValueView<'_>, cut: bool, form: &mut Form) -> Option<String> {
    if value.is_small() {
        return None;
    }
    captured(value, cut, form).map(|(hash, is_prefix)| hash.text(is_prefix))
}

/// The same as a hash, and whether it is that of the beginning only.
pub(crate) fn captured(value: ValueView<'_>, cut: bool, form: &mut Form) -> Option<(Hash, bool)> {
    if chosen() == HashKind::None {
        return None;
    }
    if let Some(hash) = value.caller_hash() {
        // Of a value that is gone altogether, the hash may be that of its beginning.
        return Some((hash, cut && value.is_scalar()));
    }
    if value.is_scalar() {
        return None;
    }
    if !form.fill(&value.noting(&[], &Notes::default(), cut)) {
        return None;
    }
    let is_enough = form.bytes.len() >= MIN_HASHED_BYTES;
    is_enough.then(|| Hash::of_form(&form.bytes)).flatten().map(|hash| (hash, cut))
}

/// The canonical encoding of a value, and what is needed to make it.
#[derive(Debug, Default)]
pub(crate) struct Form {
    bytes: Vec<u8>,
    /// The fields of the maps that are open: where the name and the end of each are.
    fields: Vec<Field>,
    /// Room to put the fields of a map in order.
    sorted: Vec<u8>,
}

/// A field of a map, in the bytes of the form: its length, its name, its value.
#[derive(Debug, Clone, Copy)]
struct Field {
    start: usize,
    name_end: usize,
    end: usize,
}

impl Form {
    fn of(value: &Value) -> Self {
        let mut form = Self::default();
        form.fill(value);
        form
    }

    /// Takes the form of a value; `false` for one that JSON cannot hold.
    fn fill(&mut self, value: &(impl Serialize + ?Sized)) -> bool {
        self.bytes.clear();
        self.fields.clear();
        value.serialize(Canonical(self)).is_ok()
    }

    fn put(&mut self, kind: u8, bytes: [u8; 8]) {
        let mut tagged = [kind; 9];
        tagged[1..].copy_from_slice(&bytes);
        self.bytes.extend_from_slice(&tagged);
    }

    fn set_count(&mut self, start: usize, count: u64) {
        self.bytes[start + 1..start + 9].copy_from_slice(&count.to_le_bytes());
    }

    /// Sorts the fields of the innermost map, which begin with the given one. Of a name that comes twice the last counts.
    fn close_map(&mut self, start: usize, first: usize) {
        let Self { bytes, fields, sorted } = self;
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

/// The form as a serializer of what records are made of: JSON's own shapes, and no others.
struct Canonical<'f>(&'f mut Form);

/// A value that is not of JSON's shapes.
#[derive(Debug)]
struct NotJson;

impl fmt::Display for NotJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a value of JSON")
    }
}

impl std::error::Error for NotJson {}

impl ser::Error for NotJson {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

type Done = Result<(), NotJson>;
type Never = ser::Impossible<(), NotJson>;

macro_rules! numbers {
    ($($method:ident($type:ty) => $wider:ident;)*) => {
        $(fn $method(self, value: $type) -> Done { self.$wider(value.into()) })*
    };
}

impl<'f> ser::Serializer for Canonical<'f> {
    type Ok = ();
    type Error = NotJson;
    type SerializeSeq = Open<'f>;
    type SerializeTuple = Never;
    type SerializeTupleStruct = Never;
    type SerializeTupleVariant = Never;
    type SerializeMap = Open<'f>;
    type SerializeStruct = Never;
    type SerializeStructVariant = Never;

    numbers! {
        serialize_i8(i8) => serialize_i64;
        serialize_i16(i16) => serialize_i64;
        serialize_i32(i32) => serialize_i64;
        serialize_u8(u8) => serialize_i64;
        serialize_u16(u16) => serialize_i64;
        serialize_u32(u32) => serialize_i64;
    }

    fn serialize_bool(self, value: bool) -> Done {
        self.0.bytes.push(if value { b't' } else { b'f' });
        Ok(())
    }

    fn serialize_i64(self, value: i64) -> Done {
        self.0.put(b'i', value.to_le_bytes());
        Ok(())
    }

    fn serialize_u64(self, value: u64) -> Done {
        let kind = if i64::try_from(value).is_ok() { b'i' } else { b'u' };
        self.0.put(kind, value.to_le_bytes());
        Ok(())
    }

    fn serialize_f32(self, value: f32) -> Done {
        // A reader of the record sees the shortest text of a short float, and not the same number as the float itself.
        let text = if value.is_finite() { value.to_string().parse() } else { Ok(f64::NAN) };
        self.serialize_f64(text.unwrap_or(f64::from(value)))
    }

    fn serialize_f64(self, value: f64) -> Done {
        if !value.is_finite() {
            return self.serialize_unit();
        }
        self.0.put(b'd', value.to_le_bytes());
        Ok(())
    }

    fn serialize_char(self, value: char) -> Done {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Done {
        self.0.put(b's', (value.len() as u64).to_le_bytes());
        self.0.bytes.extend_from_slice(value.as_bytes());
        Ok(())
    }

    fn serialize_unit(self) -> Done {
        self.0.bytes.push(b'n');
        Ok(())
    }

    fn serialize_none(self) -> Done {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Done {
        value.serialize(self)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Open<'f>, NotJson> {
        Ok(Open::new(self.0, b'a'))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Open<'f>, NotJson> {
        Ok(Open::new(self.0, b'o'))
    }

    fn serialize_bytes(self, _: &[u8]) -> Done {
        Err(NotJson)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Done {
        Err(NotJson)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Done {
        Err(NotJson)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, _: &T) -> Done {
        Err(NotJson)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Done {
        Err(NotJson)
    }

    fn serialize_tuple(self, _: usize) -> Result<Never, NotJson> {
        Err(NotJson)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Never, NotJson> {
        Err(NotJson)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Never, NotJson> {
        Err(NotJson)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Never, NotJson> {
        Err(NotJson)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Never, NotJson> {
        Err(NotJson)
    }
}

/// A list or map under construction.
struct Open<'f> {
    form: &'f mut Form,
    start: usize,
    items: u64,
    /// The first of the map's own fields.
    first: usize,
}

impl<'f> Open<'f> {
    fn new(form: &'f mut Form, kind: u8) -> Self {
        let start = form.bytes.len();
        form.put(kind, [0; 8]);
        let first = form.fields.len();
        Self { form, start, items: 0, first }
    }
}

impl ser::SerializeSeq for Open<'_> {
    type Ok = ();
    type Error = NotJson;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Done {
        self.items += 1;
        value.serialize(Canonical(self.form))
    }

    fn end(self) -> Done {
        self.form.set_count(self.start, self.items);
        Ok(())
    }
}

impl ser::SerializeMap for Open<'_> {
    type Ok = ();
    type Error = NotJson;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Done {
        let start = self.form.bytes.len();
        key.serialize(Canonical(self.form))?;
        let bytes = &mut self.form.bytes;
        if bytes[start] != b's' {
            return Err(NotJson);
        }
        // Names need not say that they are text.
        bytes.copy_within(start + 1.., start);
        bytes.truncate(bytes.len() - 1);
        let name_end = bytes.len();
        self.form.fields.push(Field { start, name_end, end: name_end });
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Done {
        value.serialize(Canonical(self.form))?;
        if let Some(field) = self.form.fields.last_mut() {
            field.end = self.form.bytes.len();
        }
        Ok(())
    }

    fn end(self) -> Done {
        self.form.close_map(self.start, self.first);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_form_is_the_documented_one() {
        let mut form = Form::default();
        assert!(form.fill(&json!({"b": [true, null, -1], "a": {"y": 0.5, "x": u64::MAX}})));
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
        // As `printf 'a\3\0\0\0\0\0\0\0tfn' | b3sum` says.
        assert_eq!(
            blake3_of(&json!([true, false, null])),
            "blake3:95f8dc470c2163ed6eb8f7abd19974754a59b166ed7c8102c7abddbe0d8990be"
        );
        // Of the empty text, which is the first of the published vectors: nothing is added to what is hashed.
        assert_eq!(
            Hash::Blake3(blake3::hash(b"").into()).text(true),
            "blake3/prefix:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
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
        assert!(twice.fill(&Twice) && once.fill(&json!({"a": 2, "b": 3})));
        assert_eq!(twice.bytes, once.bytes);
    }
}
