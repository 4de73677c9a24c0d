//! Records as JSON text: what many records share is written once, and copied into each.

use std::sync::OnceLock;

use serde::Serialize;

use crate::record::Id;

pub(super) type Done = serde_json::Result<()>;

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
    #[inline]
    pub(super) fn field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Done {
        self.name(name);
        serde_json::to_writer(&mut *self.to, value)
    }

    /// Adds a field of text that needs no escaping.
    #[inline]
    pub(super) fn plain(&mut self, name: &'static str, text: &str) {
        debug_assert!(is_plain(text), "{text}");
        self.name(name);
        quoted(self.to, text.as_bytes());
    }

    /// Adds an id.
    #[inline]
    pub(super) fn id(&mut self, name: &'static str, id: Id) {
        self.name(name);
        quoted(self.to, &id.digits());
    }

    /// Adds a field whose JSON `write` appends, unless that fails.
    pub(super) fn written(
        &mut self,
        name: &'static str,
        write: impl FnOnce(&mut Vec<u8>) -> bool,
    ) -> bool {
        let (length, was_empty) = (self.to.len(), self.is_empty);
        self.name(name);
        let written = write(self.to);
        if !written {
            self.to.truncate(length);
            self.is_empty = was_empty;
        }
        written
    }

    /// Adds fields that were written before; see [`fields`].
    pub(super) fn ready(&mut self, fields: &str) {
        if !fields.is_empty() {
            self.separate();
            self.to.extend_from_slice(fields.as_bytes());
        }
    }

    /// Adds fields that are the same each time, and kept.
    #[inline]
    pub(super) fn once(
        &mut self,
        kept: &OnceLock<String>,
        write: impl FnOnce(&mut Object<'_>) -> Done,
    ) {
        self.ready(kept.get_or_init(|| fields(write)));
    }

    /// How many bytes there are by now, with what was there before the object.
    pub(super) fn length(&self) -> usize {
        self.to.len()
    }

    pub(super) fn end(self) {
        self.to.push(b'}');
    }

    // Where the name is known when this is compiled, copying it takes a few instructions.
    #[inline(always)]
    fn name(&mut self, name: &'static str) {
        debug_assert!(is_plain(name), "{name}");
        self.separate();
        self.to.reserve(name.len() + 3);
        quoted(self.to, name.as_bytes());
        self.to.push(b':');
    }

    #[inline]
    fn separate(&mut self) {
        if !std::mem::replace(&mut self.is_empty, false) {
            self.to.push(b',');
        }
    }
}

/// Fields as [`Object::ready`] takes them.
pub(super) fn fields(write: impl FnOnce(&mut Object<'_>) -> Done) -> String {
    let mut text = Vec::new();
    match write(&mut Object { to: &mut text, is_empty: true }) {
        Ok(()) => String::from_utf8(text).unwrap_or_default(),
        Err(_) => String::new(),
    }
}

/// Whether a text stands in JSON as it is.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\')
}

#[inline(always)]
fn quoted(to: &mut Vec<u8>, text: &[u8]) {
    to.reserve(text.len() + 2);
    to.push(b'"');
    to.extend_from_slice(text);
    to.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_before_becomes_part_of_an_object() {
        let shared = fields(|object| {
            object.plain("id", "a-1");
            object.field("name", "a\"b")
        });
        let mut text = Vec::new();
        let mut object = Object::new(&mut text);
        object.ready("");
        object.ready(&shared);
        object.field("last", &[1, 2]).unwrap();
        object.end();
        assert_eq!(String::from_utf8(text).unwrap(), r#"{"id":"a-1","name":"a\"b","last":[1,2]}"#);
    }
}
