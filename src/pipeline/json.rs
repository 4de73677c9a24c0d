//! Records as JSON text: the same text that `serde_json` writes, in less time.
//!
//! Most of a record is names and short texts that need no escaping. They are looked at eight bytes at a time and then
//! copied whole; numbers, and texts that do need it, are left to `serde_json`.

use std::sync::OnceLock;

use serde::ser::{self, Serialize};

type Error = serde_json::Error;
type Done = Result<(), Error>;

/// Appends a value's JSON.
pub(super) fn write(to: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) -> Done {
    value.serialize(Json::new(to))
}

/// JSON that is there already, and becomes part of what [`write`] makes of a value around it. No other serializer knows
/// it for what it is.
#[derive(Debug)]
pub(super) struct Ready<'a>(&'a str);

impl<'a> Ready<'a> {
    /// What `write` would make of a value, made once and kept in `place`.
    pub(super) fn once(place: &'a OnceLock<String>, value: &impl Serialize) -> Self {
        Self(place.get_or_init(|| {
            let mut text = Vec::new();
            match write(&mut text, value) {
                Ok(()) => String::from_utf8(text).unwrap_or_default(),
                Err(_) => "null".to_owned(),
            }
        }))
    }
}

impl Serialize for Ready<'_> {
    fn serialize<S: ser::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_newtype_struct(READY, self.0)
    }
}

/// The name under which a [`Ready`] passes through serde. No type of anybody has it.
const READY: &str = "\0ready JSON";

/// Whether a text stands in JSON as it is.
fn is_plain(text: &[u8]) -> bool {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    let suspicious = |word: u64| {
        // The highest bit of a byte is set where the byte is below a space, a quote or a backslash. Further up
        // the word it may be set for others too, which costs time and nothing else.
        let below = |word: u64, least: u8| word.wrapping_sub(ONES * u64::from(least)) & !word;
        let is = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
        (below(word, b' ') | is(b'"') | is(b'\\')) & HIGH != 0
    };
    if let Some(last) = text.last_chunk::<8>() {
        let (words, _) = text.as_chunks::<8>();
        return !words.iter().chain([last]).any(|word| suspicious(u64::from_le_bytes(*word)));
    }
    text.iter().all(|&byte| byte >= b' ' && byte != b'"' && byte != b'\\')
}

fn string(to: &mut Vec<u8>, text: &str) -> Done {
    if !is_plain(text.as_bytes()) {
        return serde_json::to_writer(to, text);
    }
    to.reserve(text.len() + 2);
    to.push(b'"');
    to.extend_from_slice(text.as_bytes());
    to.push(b'"');
    Ok(())
}

struct Json<'j> {
    to: &'j mut Vec<u8>,
    /// Whether the text that comes is JSON.
    ready: bool,
}

impl<'j> Json<'j> {
    fn new(to: &'j mut Vec<u8>) -> Self {
        Self { to, ready: false }
    }
}

macro_rules! by_serde_json {
    ($($method:ident($type:ty)),*) => {
        $(#[inline] fn $method(self, value: $type) -> Done { serde_json::to_writer(self.to, &value) })*
    };
}

impl<'j> ser::Serializer for Json<'j> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Open<'j>;
    type SerializeTuple = Open<'j>;
    type SerializeTupleStruct = Open<'j>;
    type SerializeTupleVariant = Open<'j>;
    type SerializeMap = Open<'j>;
    type SerializeStruct = Open<'j>;
    type SerializeStructVariant = Open<'j>;

    by_serde_json!(
        serialize_i8(i8),
        serialize_i16(i16),
        serialize_i32(i32),
        serialize_i64(i64),
        serialize_i128(i128),
        serialize_u8(u8),
        serialize_u16(u16),
        serialize_u32(u32),
        serialize_u64(u64),
        serialize_u128(u128),
        serialize_f32(f32),
        serialize_f64(f64),
        serialize_bool(bool),
        serialize_char(char)
    );

    fn serialize_str(self, value: &str) -> Done {
        if self.ready {
            self.to.extend_from_slice(value.as_bytes());
            return Ok(());
        }
        string(self.to, value)
    }

    fn serialize_bytes(self, value: &[u8]) -> Done {
        self.collect_seq(value)
    }

    fn serialize_none(self) -> Done {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Done {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Done {
        self.to.extend_from_slice(b"null");
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Done {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Done {
        string(self.to, variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Done {
        value.serialize(Json { ready: name == READY, ..self })
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Done {
        let mut map = Open::new(self.to, b'{', "}");
        map.entry(variant, value)?;
        map.close()
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Open<'j>, Error> {
        Ok(Open::new(self.to, b'[', "]"))
    }

    fn serialize_tuple(self, _: usize) -> Result<Open<'j>, Error> {
        Ok(Open::new(self.to, b'[', "]"))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Open<'j>, Error> {
        Ok(Open::new(self.to, b'[', "]"))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Open<'j>, Error> {
        Open::variant(self.to, variant, b'[', "]}")
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Open<'j>, Error> {
        Ok(Open::new(self.to, b'{', "}"))
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Open<'j>, Error> {
        Ok(Open::new(self.to, b'{', "}"))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Open<'j>, Error> {
        Open::variant(self.to, variant, b'{', "}}")
    }

    fn collect_str<T: std::fmt::Display + ?Sized>(self, value: &T) -> Done {
        serde_json::to_writer(self.to, &format_args!("{value}"))
    }
}

/// A list or map under construction.
struct Open<'j> {
    to: &'j mut Vec<u8>,
    first: bool,
    /// What ends it.
    end: &'static str,
}

impl<'j> Open<'j> {
    fn new(to: &'j mut Vec<u8>, start: u8, end: &'static str) -> Self {
        to.push(start);
        Self { to, first: true, end }
    }

    /// The inside of `{"variant": …}`.
    fn variant(
        to: &'j mut Vec<u8>,
        variant: &str,
        start: u8,
        end: &'static str,
    ) -> Result<Self, Error> {
        to.push(b'{');
        string(to, variant)?;
        to.push(b':');
        Ok(Self::new(to, start, end))
    }

    #[inline]
    fn separate(&mut self) {
        if !std::mem::replace(&mut self.first, false) {
            self.to.push(b',');
        }
    }

    #[inline]
    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Done {
        self.separate();
        value.serialize(Json::new(self.to))
    }

    #[inline]
    fn entry<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Done {
        self.separate();
        string(self.to, name)?;
        self.to.push(b':');
        value.serialize(Json::new(self.to))
    }

    fn close(self) -> Done {
        self.to.extend_from_slice(self.end.as_bytes());
        Ok(())
    }
}

macro_rules! lists {
    ($($trait:ident :: $method:ident),*) => {
        $(impl ser::$trait for Open<'_> {
            type Ok = ();
            type Error = Error;
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
            type Error = Error;
            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Done {
                self.entry(name, value)
            }
            fn end(self) -> Done { self.close() }
        })*
    };
}

structs!(SerializeStruct, SerializeStructVariant);

impl ser::SerializeMap for Open<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Done {
        self.separate();
        let start = self.to.len();
        key.serialize(Json::new(self.to))?;
        if self.to[start] != b'"' {
            // A name is text, whatever its type.
            self.to.insert(start, b'"');
            self.to.push(b'"');
        }
        self.to.push(b':');
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Done {
        value.serialize(Json::new(self.to))
    }

    fn end(self) -> Done {
        self.close()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde::Serialize;

    use super::*;

    fn both(value: &impl Serialize) -> (String, String) {
        let mut ours = Vec::new();
        write(&mut ours, value).unwrap();
        (String::from_utf8(ours).unwrap(), serde_json::to_string(value).unwrap())
    }

    #[test]
    fn every_shape_is_written_as_serde_json_does() {
        #[derive(Serialize)]
        enum Shape {
            Unit,
            One(u8),
            Two(u8, &'static str),
            Named { a: Option<bool>, b: () },
        }
        #[derive(Serialize)]
        struct All {
            shapes: Vec<Shape>,
            map: BTreeMap<u32, f64>,
            tuple: (i128, char, f32),
            empty: Vec<u8>,
            infinite: f64,
        }
        let (ours, theirs) = both(&All {
            shapes: vec![
                Shape::Unit,
                Shape::One(1),
                Shape::Two(2, "a\"b"),
                Shape::Named { a: None, b: () },
            ],
            map: BTreeMap::from([(1, 0.1), (2, 1e300)]),
            tuple: (-1, '"', 0.1),
            empty: Vec::new(),
            infinite: f64::INFINITY,
        });
        assert_eq!(ours, theirs);
    }

    #[test]
    fn what_is_ready_is_not_written_again() {
        let place = OnceLock::new();
        let text = |value: &str| both(&Ready::once(&place, &["a\"b", value])).0;
        assert_eq!(text("first"), r#"["a\"b","first"]"#);
        assert_eq!(text("second"), r#"["a\"b","first"]"#);
    }

    proptest! {
        #[test]
        fn every_text_is_written_as_serde_json_does(text in ".*", plain in "[ -~]{0,40}") {
            for text in [text, plain] {
                let (ours, theirs) = both(&text);
                prop_assert_eq!(ours, theirs);
            }
        }

        #[test]
        fn no_byte_that_needs_escaping_is_overlooked(at in 0_usize..40, byte in 0_u8..128) {
            let mut text = "x".repeat(40);
            text.replace_range(at..=at, std::str::from_utf8(&[byte]).unwrap());
            let (ours, theirs) = both(&text);
            prop_assert_eq!(ours, theirs);
        }
    }
}
