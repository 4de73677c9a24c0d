//! JSON into BSON, without a tree in between.
//!
//! The keys of objects are sorted: to MongoDB two objects are equal only if their keys come in the same order, and to a record
//! the order means nothing. Of a key that is there twice, the last one counts, as everywhere.

use std::fmt;

use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// The bytes that stand before an element, and say what it is.
pub(super) mod kind {
    pub(in super::super) const DOUBLE: u8 = 0x01;
    pub(in super::super) const STRING: u8 = 0x02;
    pub(in super::super) const DOCUMENT: u8 = 0x03;
    pub(in super::super) const ARRAY: u8 = 0x04;
    pub(in super::super) const OBJECT_ID: u8 = 0x07;
    pub(in super::super) const BOOL: u8 = 0x08;
    pub(in super::super) const DATE: u8 = 0x09;
    pub(in super::super) const NULL: u8 = 0x0a;
    pub(in super::super) const INT: u8 = 0x10;
    pub(in super::super) const LONG: u8 = 0x12;
    pub(in super::super) const DECIMAL: u8 = 0x13;
}

/// MongoDB takes 100 levels; some of them are ours.
const MAX_DEPTH: usize = 90;

/// The upper half of a decimal that is a whole number: no sign, and the exponent 0.
const WHOLE: u64 = 0x3040_0000_0000_0000;

/// A whole number that is too large for 64 bits with a sign: the only number of MongoDB's that has it exactly.
pub(super) fn decimal(number: u64) -> [u8; 16] {
    (u128::from(WHOLE) << 64 | u128::from(number)).to_le_bytes()
}

/// The whole number that a decimal is, if it is such a one.
pub(super) fn whole(decimal: [u8; 16]) -> Option<u64> {
    let bits = u128::from_le_bytes(decimal);
    (bits >> 64 == u128::from(WHOLE)).then_some(bits as u64)
}

/// A document being written.
#[derive(Debug, Default)]
pub(super) struct Writer {
    pub(super) bytes: Vec<u8>,
    /// Where the elements of the open documents begin, and how long their keys are.
    elements: Vec<(usize, usize)>,
    /// Elements of one document, being sorted.
    order: Vec<Element>,
    sorted: Vec<u8>,
    depth: usize,
    /// Whether something was met that BSON has no form for.
    pub(super) is_lossy: bool,
}

#[derive(Debug, Clone, Copy)]
struct Element {
    start: usize,
    end: usize,
    key: usize,
}

/// A document that was begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct Open {
    start: usize,
    first: usize,
}

impl Writer {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.elements.clear();
        (self.depth, self.is_lossy) = (0, false);
    }

    pub(super) fn open(&mut self) -> Open {
        let open = Open { start: self.bytes.len(), first: self.elements.len() };
        self.bytes.extend([0; 4]);
        open
    }

    pub(super) fn close(&mut self, open: Open) {
        self.sort(open);
        self.elements.truncate(open.first);
        self.end(open.start);
    }

    fn end(&mut self, start: usize) {
        self.bytes.push(0);
        let length = (self.bytes.len() - start) as i32;
        self.bytes[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }

    fn sort(&mut self, open: Open) {
        let Self { bytes, elements, order, sorted, .. } = self;
        let elements = &elements[open.first..];
        let name = |start: usize, length: usize| &bytes[start + 1..start + 1 + length];
        if elements.windows(2).all(|pair| name(pair[0].0, pair[0].1) < name(pair[1].0, pair[1].1)) {
            return;
        }
        let ends = elements.iter().skip(1).map(|(start, _)| *start).chain([bytes.len()]);
        order.clear();
        order.extend(elements.iter().zip(ends).map(|((start, key), end)| Element {
            start: *start,
            end,
            key: *key,
        }));
        order.sort_by(|one, other| name(one.start, one.key).cmp(name(other.start, other.key)));
        sorted.clear();
        for (at, element) in order.iter().enumerate() {
            let is_last = order
                .get(at + 1)
                .is_none_or(|next| name(next.start, next.key) != name(element.start, element.key));
            if is_last {
                sorted.extend_from_slice(&bytes[element.start..element.end]);
            }
        }
        bytes.truncate(open.start + 4);
        bytes.extend_from_slice(sorted);
    }

    /// Begins an element; returns where, for its kind to be put there.
    pub(super) fn element(&mut self, key: &str) -> usize {
        let at = self.bytes.len();
        self.bytes.push(0);
        let mut length = key.len();
        if key.as_bytes().contains(&0) {
            self.is_lossy = true;
            self.bytes.extend(key.bytes().filter(|byte| *byte != 0));
            length = self.bytes.len() - at - 1;
        } else {
            self.bytes.extend_from_slice(key.as_bytes());
        }
        self.bytes.push(0);
        self.elements.push((at, length));
        at
    }

    /// The key of an element.
    pub(super) fn key(&self, at: usize) -> &[u8] {
        let key = &self.bytes[at + 1..];
        &key[..key.iter().position(|byte| *byte == 0).unwrap_or(key.len())]
    }

    /// The value of an element.
    pub(super) fn value(&self, at: usize) -> &[u8] {
        &self.bytes[at + self.key(at).len() + 2..]
    }

    /// Takes the last element back.
    pub(super) fn take_back(&mut self, at: usize) {
        self.bytes.truncate(at);
        self.elements.pop();
    }

    pub(super) fn put(&mut self, key: &str, kind: u8, value: &[u8]) {
        let at = self.element(key);
        self.bytes[at] = kind;
        self.bytes.extend_from_slice(value);
    }

    pub(super) fn put_text(&mut self, key: &str, text: &str) {
        let at = self.element(key);
        self.bytes[at] = kind::STRING;
        self.text(text);
    }

    /// Elements that were written elsewhere, as a document.
    pub(super) fn put_document(&mut self, key: &str, elements: &[u8]) {
        let at = self.element(key);
        self.bytes[at] = kind::DOCUMENT;
        let start = self.bytes.len();
        self.bytes.extend([0; 4]);
        self.bytes.extend_from_slice(elements);
        self.end(start);
    }

    pub(super) fn text(&mut self, text: &str) {
        let length = (text.len() + 1) as i32;
        self.bytes.extend_from_slice(&length.to_le_bytes());
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.push(0);
    }

    fn whole(&mut self, number: i64) -> u8 {
        match i32::try_from(number) {
            Ok(small) => {
                self.bytes.extend_from_slice(&small.to_le_bytes());
                kind::INT
            }
            Err(_) => {
                self.bytes.extend_from_slice(&number.to_le_bytes());
                kind::LONG
            }
        }
    }

    /// The key of an item of an array.
    fn index(&mut self, index: usize) -> usize {
        let at = self.bytes.len();
        self.bytes.push(0);
        if index < 10 {
            self.bytes.push(b'0' + index as u8);
        } else {
            let mut digits = [0; 20];
            let mut left = index;
            let mut first = digits.len();
            while left > 0 {
                first -= 1;
                digits[first] = b'0' + (left % 10) as u8;
                left /= 10;
            }
            self.bytes.extend_from_slice(&digits[first..]);
        }
        self.bytes.push(0);
        at
    }
}

/// Writes whatever comes as the value of an element; gives its kind.
pub(super) struct Value<'a>(pub(super) &'a mut Writer);

/// Writes the beginning of an element; gives its place.
pub(super) struct Key<'a>(pub(super) &'a mut Writer);

struct Item<'a>(&'a mut Writer, usize);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = usize;

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<usize, D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<usize, E> {
        Ok(self.0.element(key))
    }
}

impl<'de> DeserializeSeed<'de> for Item<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        let at = self.0.index(self.1);
        let kind = Value(&mut *self.0).deserialize(from)?;
        self.0.bytes[at] = kind;
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = u8;

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<u8, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = u8;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<u8, E> {
        Ok(kind::NULL)
    }

    fn visit_bool<E>(self, value: bool) -> Result<u8, E> {
        self.0.bytes.push(u8::from(value));
        Ok(kind::BOOL)
    }

    fn visit_i64<E>(self, number: i64) -> Result<u8, E> {
        Ok(self.0.whole(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<u8, E> {
        Ok(match i64::try_from(number) {
            Ok(number) => self.0.whole(number),
            Err(_) => {
                self.0.bytes.extend_from_slice(&decimal(number));
                kind::DECIMAL
            }
        })
    }

    fn visit_f64<E>(self, number: f64) -> Result<u8, E> {
        self.0.bytes.extend_from_slice(&number.to_le_bytes());
        Ok(kind::DOUBLE)
    }

    fn visit_str<E>(self, text: &str) -> Result<u8, E> {
        self.0.text(text);
        Ok(kind::STRING)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<u8, A::Error> {
        let writer = self.0;
        let start = writer.bytes.len();
        writer.bytes.extend([0; 4]);
        if writer.depth == MAX_DEPTH {
            writer.is_lossy = true;
            while items.next_element::<IgnoredAny>()?.is_some() {}
        } else {
            writer.depth += 1;
            let mut index = 0;
            while items.next_element_seed(Item(&mut *writer, index))?.is_some() {
                index += 1;
            }
            writer.depth -= 1;
        }
        writer.end(start);
        Ok(kind::ARRAY)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<u8, A::Error> {
        let writer = self.0;
        let open = writer.open();
        if writer.depth == MAX_DEPTH {
            writer.is_lossy = true;
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        } else {
            writer.depth += 1;
            while let Some(at) = map.next_key_seed(Key(&mut *writer))? {
                let kind = map.next_value_seed(Value(&mut *writer))?;
                writer.bytes[at] = kind;
            }
            writer.depth -= 1;
        }
        if writer.bytes.len() > i32::MAX as usize {
            return Err(A::Error::custom("a record of more than 2 GB"));
        }
        writer.close(open);
        Ok(kind::DOCUMENT)
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{Bson, Document, RawDocument, doc};
    use serde::Deserializer as _;

    use super::*;

    fn written(json: &str) -> (Vec<u8>, bool) {
        let mut writer = Writer::default();
        let mut from = serde_json::Deserializer::from_str(json);
        from.deserialize_any(Value(&mut writer)).unwrap();
        (writer.bytes, writer.is_lossy)
    }

    fn document(json: &str) -> Document {
        let (bytes, _) = written(json);
        RawDocument::from_bytes(&bytes).unwrap().try_into().unwrap()
    }

    #[test]
    fn every_kind_of_json_has_its_own() {
        let json = r#"{"a": null, "b": true, "c": 1, "d": 2147483648, "e": 1.0, "f": "x", "g": [1, [], {"y": 2, "x": 1}], "h": {}}"#;
        let expected = doc! {
            "a": Bson::Null, "b": true, "c": 1_i32, "d": 2_147_483_648_i64, "e": 1.0, "f": "x",
            "g": [1_i32, [], {"x": 1_i32, "y": 2_i32}], "h": {},
        };
        assert_eq!(document(json), expected);
    }

    #[test]
    fn keys_are_sorted_and_the_last_of_two_counts() {
        let json = r#"{"b": 1, "a": {"z": [{"n": 1, "m": 2}], "y": 1}, "b": 2, "": 0}"#;
        let sorted = document(json);
        let expected =
            doc! {"": 0_i32, "a": {"y": 1_i32, "z": [{"m": 2_i32, "n": 1_i32}]}, "b": 2_i32};
        assert_eq!(sorted.to_string(), expected.to_string());
    }

    #[test]
    fn an_array_of_many_items_has_all_indices() {
        let items: Vec<u32> = (0..1234).collect();
        let array = document(&serde_json::json!({"a": items}).to_string());
        let array = array.get_array("a").unwrap();
        assert_eq!(array.len(), 1234);
        assert_eq!(array[1233], Bson::Int32(1233));
    }

    #[test]
    fn large_whole_numbers_are_decimals_that_read_back() {
        for number in [u64::MAX, 1 << 63, (1 << 63) + 1] {
            let found = document(&format!(r#"{{"n": {number}}}"#));
            let Some(Bson::Decimal128(found)) = found.get("n") else { panic!("{found}") };
            assert_eq!(found.to_string(), number.to_string());
            assert_eq!(whole(found.bytes()), Some(number));
        }
        let half: mongodb::bson::Decimal128 = "1.5".parse().unwrap();
        assert_eq!(whole(half.bytes()), None);
    }

    #[test]
    fn what_bson_cannot_have_is_noticed() {
        assert!(written(r#"{"a\u0000b": 1}"#).1);
        assert!(!written(r#"{"a": "b\u0000"}"#).1);
        let deep =
            |levels: usize| written(&format!("{}{}", "[".repeat(levels), "]".repeat(levels)));
        assert!(!deep(90).1);
        assert!(deep(91).1);
    }
}
