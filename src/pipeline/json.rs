//! Writes records as JSON text. Fields that many records share are written once and copied into
//! each.

use serde::Serialize;

use std::sync::OnceLock;

use runlore_core::fork::get_or_make;
use runlore_core::record::Id;

pub(super) type Done = serde_json::Result<()>;

/// A field's name with the surrounding punctuation: comma, quotes and colon.
macro_rules! key {
    ($name:literal) => {
        const { $crate::pipeline::json::FieldKey::new(concat!(",\"", $name, "\":")) }
    };
}
pub(super) use key;

/// See [`key!`].
#[derive(Debug, Clone, Copy)]
pub(super) struct FieldKey(&'static str);

impl FieldKey {
    /// Rejects, at compile time, names that would need escaping.
    pub(super) const fn new(key: &'static str) -> Self {
        let (bytes, mut at) = (key.as_bytes(), 2);
        while at < bytes.len() - 2 {
            assert!(bytes[at].is_ascii_lowercase() || bytes[at] == b'_', "a plain name");
            at += 1;
        }
        Self(key)
    }

    /// Returns the name alone.
    pub(super) fn name(self) -> &'static str {
        &self.0[2..self.0.len() - 2]
    }
}

/// An object under construction, field by field.
pub(super) struct Object<'j> {
    to: &'j mut Vec<u8>,
    is_empty: bool,
}

impl<'j> Object<'j> {
    pub(super) fn new(to: &'j mut Vec<u8>) -> Self {
        to.push(b'{');
        Self { to, is_empty: true }
    }

    /// Adds a field.
    // Inlined, so that the key is a constant where it is copied, see `key`. The same holds for ids.
    #[inline(always)]
    pub(super) fn field<T: Serialize + ?Sized>(&mut self, key: FieldKey, value: &T) -> Done {
        self.key(key);
        serde_json::to_writer(&mut *self.to, value)
    }

    /// Adds a text field that needs no escaping.
    #[inline]
    pub(super) fn plain(&mut self, key: FieldKey, text: &str) {
        debug_assert!(is_plain(text), "{text}");
        self.key(key);
        quoted(self.to, text);
    }

    /// Adds any text field. Most texts need no escaping.
    pub(super) fn text(&mut self, key: FieldKey, text: &str) -> Done {
        match is_plain(text) {
            true => self.plain(key, text),
            false => self.field(key, text)?,
        }
        Ok(())
    }

    /// Adds an id.
    #[inline(always)]
    pub(super) fn id(&mut self, key: FieldKey, id: Id) {
        self.key(key);
        let mut quoted = [b'"'; 38];
        quoted[1..37].copy_from_slice(&id.digits());
        self.to.extend_from_slice(&quoted);
    }

    /// Adds a field whose JSON `write` appends. Adds nothing if `write` returns `false`.
    pub(super) fn written(
        &mut self,
        key: FieldKey,
        write: impl FnOnce(&mut Vec<u8>) -> bool,
    ) -> bool {
        let (length, was_empty) = (self.to.len(), self.is_empty);
        self.key(key);
        let written = write(self.to);
        if !written {
            self.to.truncate(length);
            self.is_empty = was_empty;
        }
        written
    }

    /// Adds a field that is an object. The following fields belong to it until it is closed.
    pub(super) fn open(&mut self, key: FieldKey) {
        self.key(key);
        self.to.push(b'{');
        self.is_empty = true;
    }

    /// Closes the object that was opened last.
    pub(super) fn close(&mut self) {
        self.to.push(b'}');
        self.is_empty = false;
    }

    /// Adds a field with any name, whose JSON `write` appends.
    pub(super) fn named(
        &mut self,
        name: Name<'_>,
        write: impl FnOnce(&mut Vec<u8>) -> Done,
    ) -> Done {
        self.separate();
        match name {
            Name::Static(name) => self.to.extend_from_slice(name.json.as_bytes()),
            Name::Dynamic(name) => {
                match is_plain(name) {
                    true => quoted(self.to, name),
                    false => serde_json::to_writer(&mut *self.to, name)?,
                }
                self.to.push(b':');
            }
        }
        write(self.to)
    }

    /// Adds fields that were written before, see [`fields`].
    pub(super) fn ready(&mut self, fields: &str) {
        if !fields.is_empty() {
            self.separate();
            self.to.extend_from_slice(fields.as_bytes());
        }
    }

    /// Adds fields that are the same each time. They are written once and cached.
    #[inline]
    pub(super) fn once(
        &mut self,
        kept: &'static OnceLock<String>,
        write: impl FnOnce(&mut Object<'_>) -> Done,
    ) {
        let text: &String = get_or_make(kept, || fields(write));
        self.ready(text);
    }

    pub(super) fn end(self) {
        self.to.push(b'}');
    }

    // If the key is known at compile time, copying it takes a few instructions.
    #[inline(always)]
    fn key(&mut self, key: FieldKey) {
        match std::mem::replace(&mut self.is_empty, false) {
            true => self.to.extend_from_slice(&key.0.as_bytes()[1..]),
            false => self.to.extend_from_slice(key.0.as_bytes()),
        }
    }

    #[inline]
    fn separate(&mut self) {
        if !std::mem::replace(&mut self.is_empty, false) {
            self.to.push(b',');
        }
    }
}

/// A name that is known only at run time.
#[derive(Debug, Clone, Copy)]
pub(super) enum Name<'a> {
    /// A name that many records share.
    Static(&'a KnownName),
    Dynamic(&'a str),
}

impl<'a> Name<'a> {
    #[inline]
    pub(super) fn text(self) -> &'a str {
        match self {
            Self::Static(name) => name.text,
            Self::Dynamic(name) => name,
        }
    }
}

/// A name that is written once and copied into many records.
#[derive(Debug)]
pub(super) struct KnownName {
    text: &'static str,
    /// The quoted name, with the colon after it.
    json: String,
}

impl KnownName {
    pub(super) fn new(text: &'static str) -> Self {
        // A string can always be written as JSON.
        let quoted = serde_json::to_string(text).unwrap_or_else(|_| "\"\"".to_owned());
        Self { text, json: quoted + ":" }
    }
}

/// Writes fields in the form that [`Object::ready`] takes.
pub(super) fn fields(write: impl FnOnce(&mut Object<'_>) -> Done) -> String {
    let mut text = Vec::new();
    match write(&mut Object { to: &mut text, is_empty: true }) {
        Ok(()) => String::from_utf8(text).unwrap_or_default(),
        Err(_) => String::new(),
    }
}

/// Returns whether a text appears in JSON unchanged: it has no control character, quote or
/// backslash.
fn is_plain(text: &str) -> bool {
    let bytes = text.as_bytes();
    match bytes.last_chunk() {
        // The last eight bytes may overlap the chunk before them.
        Some(last) => bytes.as_chunks().0.iter().chain([last]).all(are_plain),
        None => match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
            (Some(&[a, b, c, d]), Some(&[e, f, g, h])) => are_plain(&[a, b, c, d, e, f, g, h]),
            _ => bytes.iter().all(|byte| *byte >= b' ' && *byte != b'"' && *byte != b'\\'),
        },
    }
}

/// Checks eight bytes at once.
fn are_plain(bytes: &[u8; 8]) -> bool {
    const EACH: u64 = u64::from_le_bytes([1; 8]);
    // Non-zero if any byte is less than the limit, which is at most 128.
    let any_less = |word: u64, limit: u64| word.wrapping_sub(EACH * limit) & !word & (EACH << 7);
    let any_equal = |word: u64, byte: u8| any_less(word ^ (EACH * u64::from(byte)), 1);
    let word = u64::from_le_bytes(*bytes);
    any_less(word, 32) | any_equal(word, b'"') | any_equal(word, b'\\') == 0
}

#[inline(always)]
fn quoted(to: &mut Vec<u8>, text: &str) {
    to.reserve(text.len() + 2);
    to.push(b'"');
    to.extend_from_slice(text.as_bytes());
    to.push(b'"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_text_is_plain_where_json_writes_it_as_it_is(text in "[ -~\\x00-\\x1f\\x7f\u{80}-\u{ff}€\u{2028}🦀\"\\\\]{0,20}") {
            prop_assert_eq!(is_plain(&text), serde_json::to_string(&text).unwrap() == format!("\"{text}\""));
        }
    }

    #[test]
    fn what_was_written_before_becomes_part_of_an_object() {
        let shared = fields(|object| {
            object.plain(key!("id"), "a-1");
            object.field(key!("name"), "a\"b")
        });
        let mut text = Vec::new();
        let mut object = Object::new(&mut text);
        object.ready("");
        object.ready(&shared);
        object.field(key!("last"), &[1, 2]).unwrap();
        object.open(key!("inner"));
        let known = KnownName::new("\"");
        for name in [Name::Dynamic("plain"), Name::Static(&known), Name::Dynamic("\\")] {
            object.named(name, |to| serde_json::to_writer(to, &1)).unwrap();
        }
        object.close();
        object.field(key!("after"), &2).unwrap();
        object.end();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            r#"{"id":"a-1","name":"a\"b","last":[1,2],"inner":{"plain":1,"\"":1,"\\":1},"after":2}"#
        );
        assert_eq!(key!("last").name(), "last");
    }
}
