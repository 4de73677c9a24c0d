//! JSON into BSON, without a tree in between.
//!
//! What it takes, and what it makes of it, is what `serde_json` does.

use super::bytes::{Writer, decimal, head_of, kind};
pub(super) use crate::query::scan::Scanner;
use crate::query::scan::{Digits, Number};

/// MongoDB takes 100 levels; some of them are ours.
const MAX_DEPTH: usize = 90;

impl Scanner<'_> {
    /// Whether everything was read.
    pub(super) fn is_at_end(&self) -> bool {
        self.at == self.text.len()
    }

    /// Writes the key of the next field of an object as an element; where that begins, or none at the object's end.
    pub(super) fn key(&mut self, writer: &mut Writer) -> Option<Option<usize>> {
        if !self.has_more(b'}')? {
            return Some(None);
        }
        self.token()?;
        let start = self.at;
        let at = match self.plain_text()? {
            Some(quoted) => writer.element(quoted, self.head(start + 1, quoted.len() - 2)),
            None => writer.any_element(&self.escaped_text()?),
        };
        self.take(b':')?;
        Some(Some(at))
    }

    /// Writes a value; gives its kind.
    pub(super) fn write_value(&mut self, writer: &mut Writer) -> Option<u8> {
        Some(match self.token()? {
            b'"' => {
                match self.plain_text()? {
                    Some(quoted) => writer.quoted(quoted),
                    None => writer.text(&self.escaped_text()?),
                }
                kind::STRING
            }
            b'-' | b'0'..=b'9' => self.write_number(writer)?,
            b'{' => self.write_object(writer)?,
            b'[' => self.write_array(writer)?,
            b't' => {
                self.word("true")?;
                writer.bytes.push(1);
                kind::BOOL
            }
            b'f' => {
                self.word("false")?;
                writer.bytes.push(0);
                kind::BOOL
            }
            b'n' => self.word("null").map(|()| kind::NULL)?,
            _ => return None,
        })
    }

    // What is nested is rare: apart from it, less has to be put aside for each value.
    #[inline(never)]
    fn write_object(&mut self, writer: &mut Writer) -> Option<u8> {
        self.open(b'{')?;
        let open = writer.open();
        while let Some(at) = self.key(writer)? {
            let kind = self.write_value(writer)?;
            writer.bytes[at] = kind;
        }
        if self.depth >= MAX_DEPTH {
            writer.is_lossy = true;
            writer.empty(open);
        }
        writer.close(open);
        Some(kind::DOCUMENT)
    }

    #[inline(never)]
    fn write_array(&mut self, writer: &mut Writer) -> Option<u8> {
        self.open(b'[')?;
        let start = writer.bytes.len();
        writer.bytes.extend_from_slice(&[0; 4]);
        let mut index = 0;
        while self.has_more(b']')? {
            let at = writer.item(index);
            let kind = self.write_value(writer)?;
            writer.bytes[at] = kind;
            index += 1;
        }
        if self.depth >= MAX_DEPTH {
            writer.is_lossy = true;
            writer.bytes.truncate(start + 4);
        }
        writer.end(start);
        Some(kind::ARRAY)
    }

    /// The first bytes of a text as a number that compares like them, read in one go with what follows.
    fn head(&self, start: usize, length: usize) -> u64 {
        let bytes = &self.text.as_bytes()[start..];
        match bytes.first_chunk::<8>() {
            Some(eight) if length >= 8 => u64::from_be_bytes(*eight),
            Some(eight) => u64::from_be_bytes(*eight) & !(u64::MAX >> (8 * length)),
            None => head_of(&bytes[..length]),
        }
    }

    fn write_number(&mut self, writer: &mut Writer) -> Option<u8> {
        let number = self.number()?;
        if number.is_whole
            && let Some(kind) = write_whole(&number, writer)
        {
            return Some(kind);
        }
        writer.bytes.extend_from_slice(&number.float()?.to_le_bytes());
        Some(kind::DOUBLE)
    }
}

/// Writes a number without fraction, if there is a whole number for it: there is none for `-0`.
fn write_whole(whole: &Number<'_>, writer: &mut Writer) -> Option<u8> {
    if whole.digits.count < Digits::MOST {
        let number = whole.digits.number as i64;
        return (!whole.is_negative || number != 0)
            .then(|| writer.whole(if whole.is_negative { -number } else { number }));
    }
    if let Ok(number) = whole.text().parse() {
        return Some(writer.whole(number));
    }
    writer.bytes.extend_from_slice(&decimal(whole.text().parse().ok()?));
    Some(kind::DECIMAL)
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{Bson, Document, RawDocument, doc};
    use proptest::prelude::*;

    use super::super::bytes::whole;
    use super::*;

    fn try_written(json: &str) -> Option<(Vec<u8>, bool)> {
        let mut writer = Writer::default();
        let mut scanner = Scanner::new(json);
        scanner.write_value(&mut writer)?;
        scanner.end()?;
        Some((writer.bytes, writer.is_lossy))
    }

    fn written(json: &str) -> (Vec<u8>, bool) {
        try_written(json).unwrap()
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
    #[test]
    fn the_last_of_many_equal_keys_counts_whatever_the_order_before() {
        let mut writer = Writer::default();
        for json in [
            r#"{"b":1,"a":2}"#,
            r#"{"b":1,"b":2,"a":0,"b":3}"#,
            r#"{"a":1,"b":3}"#,
            r#"{"b":5,"a":6}"#,
        ] {
            writer.clear();
            Scanner::new(json).write_value(&mut writer).unwrap();
            let document: Document =
                RawDocument::from_bytes(&writer.bytes).unwrap().try_into().unwrap();
            let expected: serde_json::Value = serde_json::from_str(json).unwrap();
            assert_eq!(document.get_i32("b").unwrap(), expected["b"]);
            assert_eq!(document.keys().collect::<Vec<_>>(), ["a", "b"]);
        }
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(serde_json::Value::from),
            any::<i64>().prop_map(serde_json::Value::from),
            any::<u64>().prop_map(serde_json::Value::from),
            (-300_i64..300).prop_map(serde_json::Value::from),
            any::<f64>().prop_map(serde_json::Value::from),
            (-100_000_i32..100_000, 0_i32..30)
                .prop_map(|(n, e)| (f64::from(n) / 10_f64.powi(e)).into()),
            "\\PC{0,12}".prop_map(serde_json::Value::from),
            "[a-z\"\\\\\u{1}é😀]{0,12}".prop_map(serde_json::Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(serde_json::Value::from),
                prop::collection::btree_map("[a-z\"\\\\é_]{0,10}", inner, 0..6)
                    .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            ]
        })
    }

    fn back(json: &str) -> serde_json::Value {
        let (bytes, _) = written(json);
        let document = RawDocument::from_bytes(&bytes).unwrap();
        super::super::decode::json_of(mongodb::bson::RawBsonRef::Document(document)).unwrap()
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back_equal(value in json()) {
            let object = serde_json::json!({"value": value});
            prop_assert_eq!(&back(&object.to_string()), &object);
            prop_assert_eq!(&back(&serde_json::to_string_pretty(&object).unwrap()), &object);
        }

        #[test]
        fn a_text_is_taken_where_serde_json_takes_it(
            value in json(), at in any::<prop::sample::Index>(),
            with in prop::sample::select(vec!["", "0", "-", ".", "e", "+", "1", "\"", "\\", ",", ":", "[", "]", "{", "}", " ", "t", "null", "\u{1}", "\\u00", "\\ud800"]),
            cut in 0_usize..3,
        ) {
            let mut text = value.to_string();
            let places: Vec<usize> = text.char_indices().map(|(place, _)| place).chain([text.len()]).collect();
            let first = at.index(places.len());
            let last = (first + cut).min(places.len() - 1);
            text.replace_range(places[first]..places[last], with);
            let is_json = serde_json::from_str::<serde_json::Value>(&text).is_ok();
            prop_assert_eq!(try_written(&text).is_some(), is_json, "{}", text);
        }
    }
}
