//! Copies any `Serialize` value within the limits.
//!
//! Items past the limit are not encoded. At that point, iteration stops for a collection that knows
//! its length. Other collections are iterated further, because only their own `Serialize` can leave
//! the loop. After [`PASSED_OVER`] skipped items, the whole walk is aborted.

use std::fmt;

use serde::ser::{self, Serialize};

use super::lock::LOCKED;
use super::lossy::{self, is_os_text, os_text};
use super::tag::{self, Absent};
use super::{Encoder, Secrecy, ValueView};
use crate::record::hash::NoHash;
use crate::record::redact;
use crate::record::redact::{Class, List};

/// How many items past the limit are skipped in order to reach the fields after them.
const PASSED_OVER: u64 = 4096;

/// The maximum nesting depth of values that leave no trace in the record, such as `Some`.
pub(super) const MAX_NESTING: u32 = 128;

/// Copies a value. Returns `false` if its `Serialize` returned an error.
pub(super) fn serialize<T: Serialize + ?Sized>(encoder: &mut Encoder<'_>, value: &T) -> bool {
    let start = encoder.buffer.len();
    match copy(value, encoder) {
        Ok(()) => true,
        // The bytes end inside a container, which tells readers that the walk was aborted.
        Err(Stopped::AtLimit) => {
            encoder.cut = true;
            true
        }
        Err(Stopped::Refused) => {
            encoder.buffer.truncate(start);
            encoder.absent(Absent::Refused);
            false
        }
    }
}

/// Copies a value, possibly inside another one. A path that is not UTF-8 fails to serialize and is
/// copied lossily.
#[inline]
fn copy<T: Serialize + ?Sized>(value: &T, encoder: &mut Encoder<'_>) -> Done {
    let start = encoder.buffer.len();
    match value.serialize(Walk(encoder)) {
        Err(Stopped::Refused) => copy_path(value, encoder, start),
        done => done,
    }
}

#[cold]
fn copy_path<T: ?Sized>(value: &T, encoder: &mut Encoder<'_>, start: usize) -> Done {
    let text = lossy::path_text(value).ok_or(Stopped::Refused)?;
    encoder.buffer.truncate(start);
    encoder.lossy(&text);
    Ok(())
}

/// Why a walk ended before the end of the value.
#[derive(Debug)]
enum Stopped {
    AtLimit,
    Refused,
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the value was not copied to its end")
    }
}

impl std::error::Error for Stopped {}

impl ser::Error for Stopped {
    fn custom<T: fmt::Display>(_: T) -> Self {
        // Drops the message, because it could contain a value that must be redacted.
        Self::Refused
    }
}

type Done = Result<(), Stopped>;

macro_rules! scalars {
    ($($method:ident($type:ty) => $call:ident as $cast:ty;)*) => {
        $(#[inline] fn $method(self, value: $type) -> Done { self.0.$call(value as $cast); Ok(()) })*
    };
}

/// The serializer that writes to an [`Encoder`].
struct Walk<'e, 'b>(&'e mut Encoder<'b>);

impl<'e, 'b> ser::Serializer for Walk<'e, 'b> {
    type Ok = ();
    type Error = Stopped;
    type SerializeSeq = Container<'e, 'b>;
    type SerializeTuple = Container<'e, 'b>;
    type SerializeTupleStruct = Container<'e, 'b>;
    type SerializeTupleVariant = Container<'e, 'b>;
    type SerializeMap = Container<'e, 'b>;
    type SerializeStruct = Container<'e, 'b>;
    type SerializeStructVariant = Container<'e, 'b>;

    scalars! {
        serialize_i8(i8) => i64 as i64;
        serialize_i16(i16) => i64 as i64;
        serialize_i32(i32) => i64 as i64;
        serialize_i64(i64) => i64 as i64;
        serialize_u8(u8) => i64 as i64;
        serialize_u16(u16) => i64 as i64;
        serialize_u32(u32) => i64 as i64;
        serialize_u64(u64) => u64 as u64;
        serialize_i128(i128) => i128 as i128;
        serialize_u128(u128) => u128 as u128;
        serialize_f32(f32) => f32 as f32;
        serialize_f64(f64) => f64 as f64;
        serialize_bool(bool) => bool as bool;
    }

    fn serialize_char(self, value: char) -> Done {
        self.0.copy_str(value.encode_utf8(&mut [0; 4]));
        Ok(())
    }

    fn serialize_str(self, value: &str) -> Done {
        self.0.copy_str(value);
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Done {
        self.0.bytes(value);
        Ok(())
    }

    fn serialize_none(self) -> Done {
        self.0.null();
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Done {
        self.nested(value)
    }

    fn serialize_unit(self) -> Done {
        self.0.null();
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Done {
        self.0.null();
        Ok(())
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Done {
        // The name of a variant comes from the source code and is never a secret.
        let secrecy = std::mem::replace(&mut self.0.secrecy, Secrecy::NONE);
        self.0.copy_str(variant);
        self.0.secrecy = secrecy;
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Done {
        if name == LOCKED {
            self.0.withhold_hash();
            self.0.absent(Absent::Locked);
            return Ok(());
        }
        self.nested(value)
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
            self.0.copy_os_str(&text);
            return Ok(());
        }
        let mut map = Container::open(self.0, tag::MAP, Some(1));
        map.field(variant, value)?;
        map.close()
    }

    fn serialize_seq(self, length: Option<usize>) -> Result<Container<'e, 'b>, Stopped> {
        Ok(Container::open(self.0, tag::SEQ, length))
    }

    fn serialize_tuple(self, length: usize) -> Result<Container<'e, 'b>, Stopped> {
        Ok(Container::open(self.0, tag::SEQ, Some(length)))
    }

    fn serialize_tuple_struct(
        self,
        _: &'static str,
        length: usize,
    ) -> Result<Container<'e, 'b>, Stopped> {
        Ok(Container::open(self.0, tag::SEQ, Some(length)))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Container<'e, 'b>, Stopped> {
        Ok(Container::open_variant(self.0, variant, tag::SEQ, length))
    }

    fn serialize_map(self, length: Option<usize>) -> Result<Container<'e, 'b>, Stopped> {
        Ok(Container::open(self.0, tag::MAP, length))
    }

    fn serialize_struct(
        self,
        _: &'static str,
        length: usize,
    ) -> Result<Container<'e, 'b>, Stopped> {
        Ok(Container::open(self.0, tag::MAP, Some(length)))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Container<'e, 'b>, Stopped> {
        Ok(Container::open_variant(self.0, variant, tag::MAP, length))
    }

    fn collect_seq<I>(self, items: I) -> Done
    where
        I: IntoIterator,
        I::Item: Serialize,
    {
        let items = items.into_iter();
        let mut list = Container::open(self.0, tag::SEQ, exact_length(&items));
        list.fill(items)?;
        list.close()
    }

    fn collect_map<K, V, I>(self, entries: I) -> Done
    where
        K: Serialize,
        V: Serialize,
        I: IntoIterator<Item = (K, V)>,
    {
        let entries = entries.into_iter();
        let mut map = Container::open(self.0, tag::MAP, exact_length(&entries));
        for (key, value) in entries {
            ser::SerializeMap::serialize_entry(&mut map, &key, &value)?;
            if !map.admitted && map.length.is_some() {
                break;
            }
        }
        map.close()
    }

    fn collect_str<T: fmt::Display + ?Sized>(self, value: &T) -> Done {
        self.0.display(value);
        Ok(())
    }
}

/// Returns the number of items, if the iterator knows it exactly.
fn exact_length(items: &impl Iterator) -> Option<usize> {
    let (least, most) = items.size_hint();
    most.filter(|most| *most == least)
}

impl Walk<'_, '_> {
    /// Copies a value inside a wrapper that leaves no trace in the record, such as `Some`. The
    /// depth is limited, because each wrapper takes stack.
    fn nested<T: Serialize + ?Sized>(self, value: &T) -> Done {
        let encoder = self.0;
        if encoder.nesting == MAX_NESTING {
            encoder.too_deep();
            return Ok(());
        }
        encoder.nesting += 1;
        let done = copy(value, encoder);
        encoder.nesting -= 1;
        done
    }
}

/// A list or map under construction.
struct Container<'e, 'b> {
    encoder: &'e mut Encoder<'b>,
    seen: u64,
    /// How many items are encoded at most.
    limit: u64,
    length: Option<u64>,
    /// Whether nothing inside is encoded, because it is below the depth limit or a secret.
    silent: bool,
    /// Whether this is the content of `{variant: …}`, whose outer map must be closed too.
    in_variant: bool,
    /// The secrecy according to the names of the fields around the container.
    outer: Class,
    /// State for finding secrets among the items of a list.
    list: List,
    /// Whether a field of this map names a secret, as in `{name: "password", value: "x"}`.
    names_secret: bool,
    /// Whether the map's last key is `name` or another key whose value names something.
    is_label: bool,
    /// Whether the value of the map's last key is encoded.
    admitted: bool,
}

impl<'e, 'b> Container<'e, 'b> {
    fn open(encoder: &'e mut Encoder<'b>, tag: u8, length: Option<usize>) -> Self {
        // A list of numbers under a secret name may be the bytes of a key.
        let outer = encoder.class();
        let secret = outer >= Class::Secret && tag == tag::SEQ;
        let silent = secret || encoder.depth >= encoder.limits.depth;
        if secret {
            encoder.redact();
        } else if silent {
            encoder.too_deep();
        } else {
            encoder.tag(tag);
            encoder.depth += 1;
        }
        // A hash must not cover a secret, and a list of unknown length may be a name and its value.
        let list = List::new(if encoder.copies_all { Some(2) } else { length });
        Self {
            seen: 0,
            limit: if silent { 0 } else { u64::from(encoder.limits.items) },
            length: length.map(|length| length as u64),
            encoder,
            silent,
            in_variant: false,
            outer,
            list,
            names_secret: false,
            is_label: false,
            admitted: false,
        }
    }

    fn open_variant(encoder: &'e mut Encoder<'b>, variant: &str, tag: u8, length: usize) -> Self {
        let outer = Self::open(encoder, tag::MAP, Some(1));
        if outer.silent {
            return outer;
        }
        let around = outer.outer;
        let encoder = outer.encoder;
        encoder.name(variant);
        Self { in_variant: true, outer: around, ..Self::open(encoder, tag, Some(length)) }
    }

    /// Whether the next item is encoded. Fails if too many items were skipped.
    #[inline]
    fn admits(&mut self) -> Result<bool, Stopped> {
        let admitted = self.seen < self.limit && self.encoder.has_room();
        self.seen += 1;
        if admitted { Ok(true) } else { self.pass_over() }
    }

    fn pass_over(&mut self) -> Result<bool, Stopped> {
        // Nested lists may each skip that many items, so the time is limited as well.
        let is_slow = self.seen.is_multiple_of(1024) && self.encoder.budget.is_spent();
        if self.encoder.copies_all
            || is_slow
            || self.seen > u64::from(self.encoder.limits.items) + PASSED_OVER
        {
            if !self.silent {
                self.end();
            }
            return Err(Stopped::AtLimit);
        }
        Ok(false)
    }

    #[inline]
    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Done {
        if !self.admits()? {
            return Ok(());
        }
        let start = self.encoder.buffer.len();
        copy(value, self.encoder)?;
        self.encoder.hide_in_list(start, &mut self.list);
        Ok(())
    }

    /// Encodes items up to the limit. This is a separate function for each item type: inlined into
    /// the outer walk, the loop would keep its variables in memory, not in registers.
    #[inline(never)]
    fn fill<I: Iterator<Item: Serialize>>(&mut self, items: I) -> Done {
        for item in items {
            if self.admits()? {
                let start = self.encoder.buffer.len();
                copy(&item, self.encoder)?;
                self.encoder.hide_in_list(start, &mut self.list);
            } else if self.length.is_some() {
                break;
            }
        }
        Ok(())
    }

    fn field<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Done {
        if !self.admits()? {
            return Ok(());
        }
        let outer = self.encoder.name(name);
        let start = self.encoder.buffer.len();
        self.expect(name);
        let done = copy(value, self.encoder);
        self.encoder.secrecy = outer;
        self.note(name, start);
        done
    }

    /// Treats the value of the field `name` as a secret if an earlier field names a secret.
    fn expect(&mut self, name: &str) {
        if self.names_secret && is_value(name) {
            self.encoder.secrecy = Secrecy::Known(Class::Secret);
        }
    }

    /// Checks whether the field `name`, whose value was written from `start` on, names a secret.
    fn note(&mut self, name: &str, start: usize) {
        if matches!(name, "name" | "key" | "header" | "Name" | "Key")
            && self.encoder.buffer.get(start) == Some(&tag::STR)
        {
            let text = std::str::from_utf8(&self.encoder.buffer[start + 5..]).unwrap_or_default();
            self.names_secret = redact::class(text) >= Class::Secret;
            if self.names_secret && self.encoder.copies_all {
                // The value may stand before its name.
                self.encoder.give_up(NoHash::Secret);
            }
        }
    }

    /// Writes a map's key of any type as text, and derives from it whether the value is a secret.
    fn key<T: Serialize + ?Sized>(&mut self, key: &T) -> Done {
        let start = self.encoder.buffer.len();
        self.encoder.secrecy = Secrecy::NONE;
        let done = copy(key, self.encoder);
        self.encoder.secrecy = Secrecy::Known(self.outer);
        done?;
        if self.encoder.buffer[start] != tag::STR {
            let text = ValueView::new(&self.encoder.buffer[start..]).key_text();
            self.encoder.buffer.truncate(start);
            self.encoder.name(&text);
        }
        // The characters follow the tag and the length.
        let name = std::str::from_utf8(&self.encoder.buffer[start + 5..]).unwrap_or_default();
        let own =
            if self.names_secret && is_value(name) { Class::Secret } else { redact::class(name) };
        self.encoder.secrecy = Secrecy::Known(self.outer.max(own));
        self.is_label = matches!(name, "name" | "key" | "header" | "Name" | "Key");
        Ok(())
    }

    fn end(&mut self) {
        self.encoder.depth -= 1;
        self.encoder.close(self.seen, self.length.unwrap_or(self.seen));
    }

    fn close(mut self) -> Done {
        self.encoder.secrecy = Secrecy::Known(self.outer);
        if !self.silent {
            self.end();
        }
        if self.in_variant {
            self.encoder.depth -= 1;
            self.encoder.close(1, 1);
        }
        Ok(())
    }
}

/// Whether a field of this name holds a value that another field names.
fn is_value(name: &str) -> bool {
    matches!(name, "value" | "val" | "Value" | "content" | "data")
}

macro_rules! lists {
    ($($trait:ident :: $method:ident),*) => {
        $(impl ser::$trait for Container<'_, '_> {
            type Ok = ();
            type Error = Stopped;
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
        $(impl ser::$trait for Container<'_, '_> {
            type Ok = ();
            type Error = Stopped;
            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Done {
                self.field(name, value)
            }
            fn end(self) -> Done { self.close() }
        })*
    };
}

structs!(SerializeStruct, SerializeStructVariant);

impl ser::SerializeMap for Container<'_, '_> {
    type Ok = ();
    type Error = Stopped;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Done {
        self.admitted = self.admits()?;
        if self.admitted { self.key(key) } else { Ok(()) }
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Done {
        if !self.admitted {
            return Ok(());
        }
        let start = self.encoder.buffer.len();
        let done = copy(value, self.encoder);
        self.encoder.secrecy = Secrecy::Known(self.outer);
        if self.is_label {
            self.note("name", start);
        }
        done
    }

    fn end(self) -> Done {
        self.close()
    }
}
