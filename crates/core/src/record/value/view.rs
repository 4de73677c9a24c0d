//! Reads captured values back, for any serde serializer or as text.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::fmt::Write;

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use super::tag::{self, Absent};
use super::{slice, text};
use crate::record::hash::Hash;
use crate::record::redact;

/// Notes on missing values of a record: the path of each value, and the reason.
#[derive(Debug, Default)]
pub struct Notes(RefCell<Vec<(String, Cow<'static, str>)>>);

impl Notes {
    /// Adds a reason, unless the same one is already noted for this path.
    pub fn add(&self, path: String, reason: Cow<'static, str>) {
        let mut notes = self.0.borrow_mut();
        if !notes.iter().any(|(known, why)| *known == path && *why == reason) {
            notes.push((path, reason));
        }
    }

    pub fn take(&self) -> Vec<(String, Cow<'static, str>)> {
        self.0.take()
    }
}

/// The bytes of one captured value.
#[derive(Debug, Clone, Copy)]
pub struct ValueView<'a> {
    bytes: &'a [u8],
    /// The hash of the whole value, if only a part is here and the hash was requested. Otherwise
    /// empty.
    whole: &'a [u8],
}

impl<'a> ValueView<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        match bytes {
            [tag::WHOLE, rest @ ..] => {
                let mut rest = Cursor(rest);
                let length = rest.byte();
                let whole = rest.take(usize::from(length));
                Self { bytes: rest.0, whole }
            }
            _ => Self { bytes, whole: &[] },
        }
    }

    /// Returns the length of the copy in bytes.
    pub(crate) fn len(self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn cursor(self) -> Cursor<'a> {
        Cursor(self.bytes)
    }

    /// Whether the value is the `()` of a function without a result, which gets no field.
    pub fn is_unit(self) -> bool {
        self.bytes.first() == Some(&tag::UNIT)
    }

    pub fn is_map(self) -> bool {
        self.bytes.first() == Some(&tag::MAP)
    }

    /// Whether the value is a number of up to 64 bits, a boolean, null, or a marker such as a
    /// redaction.
    pub(crate) fn is_scalar(self) -> bool {
        !matches!(
            self.bytes.first(),
            Some(
                &(tag::STR
                    | tag::STR_CUT
                    | tag::BYTES
                    | tag::BYTES_CUT
                    | tag::SEQ
                    | tag::MAP
                    | tag::BIG
                    | tag::SLICE)
            )
        )
    }

    /// Whether the value is a complete scalar, and so too small to be hashed.
    #[inline]
    pub(crate) fn is_small(self) -> bool {
        self.whole.is_empty() && self.is_scalar()
    }

    /// Returns the hash of the whole value, if the caller's thread computed it.
    pub(crate) fn caller_hash(self) -> Option<Hash> {
        if !self.whole.is_empty() {
            return Hash::from_bytes(self.whole);
        }
        let hash = match *self.bytes.first()? {
            tag::SLICE => self.bytes.get(10..),
            tag::BYTES_CUT => self.bytes.get(9..),
            _ => None,
        };
        Cursor(hash?).hash()
    }

    /// Whether the value is a slice of which only a part is here.
    pub(crate) fn is_long_slice(self) -> bool {
        matches!(self.bytes.first(), Some(&(tag::SLICE | tag::BYTES_CUT)))
    }

    /// Whether the value is complete.
    pub(crate) fn is_whole(self) -> bool {
        Cursor(self.bytes).is_whole()
    }

    /// Returns the value as text for a map key.
    pub(crate) fn key_text(self) -> String {
        match serde_json::to_value(self.plain(true)) {
            Ok(serde_json::Value::String(text)) => text,
            Ok(value) => value.to_string(),
            Err(_) => String::new(),
        }
    }

    /// Returns the value as JSON.
    pub fn to_json(self) -> serde_json::Value {
        serde_json::to_value(self.plain(true)).unwrap_or_default()
    }

    /// Prepares the value for a serializer. Reasons for missing parts go to `notes` under `path`.
    ///
    /// `cut` means that a limit may have stopped the copying somewhere. Only then does the
    /// serializer search for the end of each list or map before it writes the items.
    pub fn noting<'n>(self, path: &'n [&'n str], notes: &'n Notes, cut: bool) -> Noting<'a, 'n> {
        let path = Path { parent: None, part: Step::Fields(path), depth: 0 };
        Noting { value: self, path, notes: Some(notes), cut }
    }

    /// Prepares the value for a serializer that supports NaN and the infinities, or that may write
    /// null for them. Missing parts are not noted.
    pub(crate) fn plain(self, cut: bool) -> Noting<'a, 'static> {
        let path = Path { parent: None, part: Step::Fields(&[]), depth: 0 };
        Noting { value: self, path, notes: None, cut }
    }

    /// Returns the fields of a map, each with its name.
    pub fn fields(self) -> Vec<(&'a str, ValueView<'a>)> {
        let mut cursor = Cursor(self.bytes);
        if cursor.byte() != tag::MAP {
            return Vec::new();
        }
        let mut fields = Vec::new();
        while !cursor.at_end() {
            let name = cursor.name();
            fields.push((name, cursor.value()));
        }
        fields
    }
}

/// A value that is ready to be serialized.
#[allow(missing_debug_implementations, reason = "it is written, not looked at")]
pub struct Noting<'a, 'n> {
    value: ValueView<'a>,
    path: Path<'n>,
    /// Collects the reasons for missing parts. `None` if they are not needed.
    notes: Option<&'n Notes>,
    cut: bool,
}

impl Noting<'_, '_> {
    /// Appends the value as JSON.
    pub fn write_json(&self, to: &mut Vec<u8>) -> serde_json::Result<()> {
        let mut cursor = Cursor(self.value.bytes);
        // Most values are numbers, which need no walk.
        match cursor.byte() {
            tag::INT => serde_json::to_writer(to, &(cursor.u64() as i64)),
            tag::UINT => serde_json::to_writer(to, &cursor.u64()),
            tag::F64
                if let value = f64::from_bits(cursor.u64())
                    && value.is_finite() =>
            {
                serde_json::to_writer(to, &value)
            }
            tag::F32
                if let value = f32::from_bits(cursor.u32())
                    && value.is_finite() =>
            {
                serde_json::to_writer(to, &value)
            }
            _ => serde_json::to_writer(to, self),
        }
    }
}

impl Serialize for Noting<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let cursor = Cell::new(Cursor(self.value.bytes));
        Walk { cursor: &cursor, cut: self.cut, path: self.path, notes: self.notes }
            .serialize(serializer)
    }
}

/// The value at the cursor. Serializing it moves the cursor behind it, so that each value is read
/// only once, however deeply it is nested.
#[derive(Clone, Copy)]
struct Walk<'w, 'a> {
    cursor: &'w Cell<Cursor<'a>>,
    cut: bool,
    path: Path<'w>,
    notes: Option<&'w Notes>,
}

#[derive(Clone, Copy)]
enum Step<'n> {
    Fields(&'n [&'n str]),
    Field(&'n str),
    Item(usize),
}

/// The path of a value, as a linked chain up the walk. Paths are formatted only for notes, which
/// few values need.
#[derive(Clone, Copy)]
struct Path<'n> {
    parent: Option<&'n Path<'n>>,
    part: Step<'n>,
    depth: u32,
}

/// The maximum nesting depth, above any configurable limit. Bytes recovered from a dead process may
/// nest without end, but the stack is finite.
const MAX_DEPTH: u32 = 100;

impl Path<'_> {
    fn spell(&self, text: &mut String) {
        if let Some(parent) = self.parent {
            parent.spell(text);
        }
        match self.part {
            Step::Fields(names) => text.push_str(&names.join(".")),
            Step::Field(name) => {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(name);
            }
            Step::Item(index) => _ = write!(text, ".{index}"),
        }
    }
}

impl<'a> Walk<'_, 'a> {
    /// Reads something and moves the cursor behind it.
    fn read<T>(&self, read: impl FnOnce(&mut Cursor<'a>) -> T) -> T {
        let mut cursor = self.cursor.get();
        let value = read(&mut cursor);
        self.cursor.set(cursor);
        value
    }

    fn absent<S: Serializer>(&self, serializer: S, why: Absent) -> Result<S::Ok, S::Error> {
        self.note(why.reason());
        serializer.serialize_none()
    }

    fn note(&self, reason: &'static str) {
        if let Some(notes) = self.notes {
            let mut path = String::new();
            self.path.spell(&mut path);
            notes.add(path, reason.into());
        }
    }

    fn float<S: Serializer>(
        &self,
        serializer: S,
        value: f64,
        short: Option<f32>,
    ) -> Result<S::Ok, S::Error> {
        match (value.is_nan(), value.is_infinite(), value > 0.0) {
            _ if self.notes.is_none() && !value.is_finite() => serializer.serialize_f64(value),
            (true, ..) => self.absent(serializer, Absent::NaN),
            (_, true, true) => self.absent(serializer, Absent::Infinity),
            (_, true, false) => self.absent(serializer, Absent::NegativeInfinity),
            _ => match short {
                Some(short) => serializer.serialize_f32(short),
                None => serializer.serialize_f64(value),
            },
        }
    }

    fn at<'p>(&'p self, part: Step<'p>) -> Walk<'p, 'a> {
        let path = Path { parent: Some(&self.path), part, depth: self.path.depth + 1 };
        Walk { path, ..*self }
    }

    fn list<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        let mut index = 0;
        while !self.read(Cursor::at_end) {
            list.serialize_element(&self.at(Step::Item(index)))?;
            index += 1;
        }
        list.end()
    }

    fn map<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        while !self.read(Cursor::at_end) {
            let name = self.read(Cursor::name);
            map.serialize_entry(name, &self.at(Step::Field(name)))?;
        }
        map.end()
    }

    /// Writes a value of which only the beginning was kept:
    /// `{"truncated": kind, "len": n, "first": …}`.
    fn truncated<S: Serializer, F: Serialize>(
        serializer: S,
        kind: &str,
        length: Option<u64>,
        first: &F,
    ) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("truncated", kind)?;
        if let Some(length) = length {
            map.serialize_entry("len", &length)?;
        }
        map.serialize_entry("first", first)?;
        map.end()
    }

    fn slice<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let kind = self.read(Cursor::byte);
        let length = self.read(Cursor::u64);
        self.read(Cursor::hash);
        let not_numbers = self.read(Cursor::u64);
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("summary", slice::kind_name(kind))?;
        map.serialize_entry("len", &length)?;
        for name in ["min", "max", "mean"] {
            map.serialize_entry(name, &self.at(Step::Field(name)))?;
        }
        if not_numbers > 0 {
            map.serialize_entry("nan", &not_numbers)?;
        }
        map.serialize_entry("first", &self.at(Step::Field("first")))?;
        map.end()
    }

    fn container<S: Serializer>(&self, serializer: S, tag: u8) -> Result<S::Ok, S::Error> {
        let kind = if tag == tag::SEQ { "array" } else { "object" };
        match self.cut.then(|| self.cursor.get().truncated_length(tag)).flatten() {
            Some(length) => {
                // In the JSON, the items are nested one level deeper.
                let path = Path { depth: self.path.depth + 1, ..self.path };
                let deeper = Walk { path, ..*self };
                Self::truncated(serializer, kind, length, &TaggedItems(&deeper, tag))
            }
            None => TaggedItems(self, tag).serialize(serializer),
        }
    }
}

impl Serialize for Walk<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.path.depth >= MAX_DEPTH {
            self.read(Cursor::skip);
            return self.absent(serializer, Absent::TooDeep);
        }
        match self.read(Cursor::byte) {
            tag::FALSE => serializer.serialize_bool(false),
            tag::TRUE => serializer.serialize_bool(true),
            tag::INT => serializer.serialize_i64(self.read(Cursor::u64) as i64),
            tag::UINT => serializer.serialize_u64(self.read(Cursor::u64)),
            tag::BIG => serializer.serialize_str(self.read(Cursor::short_text)),
            tag::F64 => self.float(serializer, f64::from_bits(self.read(Cursor::u64)), None),
            tag::F32 => {
                let short = f32::from_bits(self.read(Cursor::u32));
                self.float(serializer, f64::from(short), Some(short))
            }
            tag::STR => serializer.serialize_str(self.read(Cursor::sized_text)),
            tag::STR_CUT => {
                let length = self.read(Cursor::u64);
                let length = (length != u64::MAX).then_some(length);
                Self::truncated(serializer, "string", length, &self.read(Cursor::sized_text))
            }
            tag::BYTES => serializer.serialize_str(&base64(self.read(Cursor::sized_bytes))),
            tag::BYTES_CUT => {
                let length = self.read(Cursor::u64);
                self.read(Cursor::hash);
                let kept = base64(self.read(Cursor::sized_bytes));
                Self::truncated(serializer, "bytes", Some(length), &kept)
            }
            tag @ (tag::SEQ | tag::MAP) => self.container(serializer, tag),
            tag::REDACTED => serializer.serialize_str(redact::REDACTED),
            tag::TYPE_NAME => {
                serializer.serialize_str(&format!("<{}>", self.read(Cursor::sized_text)))
            }
            tag::ABSENT => {
                let why = Absent::from_byte(self.read(Cursor::byte));
                self.absent(serializer, why)
            }
            tag::LOSSY => {
                self.note("not UTF-8: shown lossily");
                // Counts as a level, because bytes recovered from a dead process may repeat this
                // tag without end.
                let path = Path { depth: self.path.depth + 1, ..self.path };
                Walk { path, ..*self }.serialize(serializer)
            }
            tag::SLICE => self.slice(serializer),
            _ => serializer.serialize_none(),
        }
    }
}

/// The items of a container whose tag has been read.
struct TaggedItems<'s, 'w, 'a>(&'s Walk<'w, 'a>, u8);

impl Serialize for TaggedItems<'_, '_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.1 {
            tag::SEQ => self.0.list(serializer),
            _ => self.0.map(serializer),
        }
    }
}

/// Reads tagged bytes. Past their end, all reads return zero, null or empty values. It never
/// panics, because bytes recovered from a dead process may be invalid.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    #[inline]
    fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(tag::NULL)
    }

    pub(crate) fn u32(&mut self) -> u32 {
        self.take(4).try_into().map_or(0, u32::from_le_bytes)
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> u64 {
        self.take(8).try_into().map_or(0, u64::from_le_bytes)
    }

    fn text(&mut self, length: usize) -> &'a str {
        text::valid_start(self.take(length))
    }

    pub(crate) fn sized_bytes(&mut self) -> &'a [u8] {
        let length = self.u32();
        self.take(length as usize)
    }

    pub(crate) fn sized_text(&mut self) -> &'a str {
        let length = self.u32();
        self.text(length as usize)
    }

    /// Reads the text of a large integer.
    pub(crate) fn short_text(&mut self) -> &'a str {
        let length = self.byte();
        self.text(usize::from(length))
    }

    /// Reads a map's key.
    pub(crate) fn name(&mut self) -> &'a str {
        match self.byte() {
            tag::STR => self.sized_text(),
            _ => {
                // Not a key, so the rest is invalid.
                self.0 = &[];
                ""
            }
        }
    }

    /// Whether the container ends here. Skips the end tag.
    #[inline]
    pub(crate) fn at_end(&mut self) -> bool {
        match self.0.first() {
            None => true,
            Some(&tag::END) => {
                self.take(1);
                true
            }
            Some(&tag::END_CUT) => {
                self.take(9);
                true
            }
            _ => false,
        }
    }

    /// Reads a hash. `None` if there is none.
    fn hash(&mut self) -> Option<Hash> {
        let length = self.byte();
        Hash::from_bytes(self.take(usize::from(length)))
    }

    /// Reads the next value.
    fn value(&mut self) -> ValueView<'a> {
        let start = self.0;
        self.skip();
        ValueView { bytes: &start[..start.len() - self.0.len()], whole: &[] }
    }

    /// Skips one value. Counts open containers and does not recurse into them.
    fn skip(&mut self) {
        self.skip_inside(0);
    }

    /// Skips one value that is nested in `slices` slices.
    fn skip_inside(&mut self, slices: u32) {
        if slices > 1 {
            // A slice contains only numbers, so a slice inside it is invalid data.
            self.0 = &[];
        }
        let mut open = 0_u32;
        loop {
            match self.byte() {
                tag::INT | tag::UINT | tag::F64 => _ = self.take(8),
                tag::F32 => _ = self.take(4),
                tag::BIG => {
                    let length = self.byte();
                    self.take(usize::from(length));
                }
                tag::STR | tag::BYTES | tag::TYPE_NAME => _ = self.sized_bytes(),
                tag::STR_CUT => {
                    self.take(8);
                    self.sized_bytes();
                }
                tag::BYTES_CUT => {
                    self.take(8);
                    self.hash();
                    self.sized_bytes();
                }
                tag::SEQ | tag::MAP => open += 1,
                tag::END => open = open.saturating_sub(1),
                tag::END_CUT => {
                    self.take(8);
                    open = open.saturating_sub(1);
                }
                tag::ABSENT => _ = self.take(1),
                // The text follows the tag.
                tag::LOSSY if !self.0.is_empty() => continue,
                tag::SLICE => {
                    self.take(9);
                    self.hash();
                    self.take(8);
                    for _ in 0..4 {
                        self.skip_inside(slices + 1);
                    }
                }
                _ => {}
            }
            if open == 0 || self.0.is_empty() {
                return;
            }
        }
    }

    /// Whether the next value is complete.
    fn is_whole(mut self) -> bool {
        let mut open = 0_u32;
        loop {
            match self.0.first() {
                None
                | Some(
                    &(tag::STR_CUT
                    | tag::BYTES_CUT
                    | tag::END_CUT
                    | tag::REDACTED
                    | tag::TYPE_NAME
                    | tag::ABSENT
                    | tag::LOSSY
                    | tag::SLICE),
                ) => return false,
                Some(&(tag::SEQ | tag::MAP)) => {
                    self.take(1);
                    open += 1;
                }
                Some(&tag::END) => {
                    self.take(1);
                    open = open.saturating_sub(1);
                }
                Some(_) => self.skip(),
            }
            if open == 0 {
                return true;
            }
        }
    }

    /// Returns the true length of a truncated container, if known (`Some(None)` if not). `None` if
    /// it is complete. The container's tag must have been read.
    fn truncated_length(mut self, tag: u8) -> Option<Option<u64>> {
        loop {
            match self.0.first() {
                None => return Some(None),
                Some(&tag::END) => return None,
                Some(&tag::END_CUT) => {
                    self.take(1);
                    return Some(Some(self.u64()));
                }
                Some(_) => {
                    if tag == tag::MAP {
                        self.name();
                    }
                    self.skip();
                }
            }
        }
    }
}

/// Encodes bytes as base64 with padding.
pub fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let letter = |bits: u32| char::from(LETTERS[bits as usize & 63]);
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        text.push(letter(bits >> 18));
        text.push(letter(bits >> 12));
        text.push(if group.len() > 1 { letter(bits >> 6) } else { '=' });
        text.push(if group.len() > 2 { letter(bits) } else { '=' });
    }
    text
}
