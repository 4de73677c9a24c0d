//! Converts JSON values to BSON values.

use mongodb::bson::{Bson, Decimal128, Document};
use serde_json::{Number, Value};

/// The maximum nesting depth. MongoDB accepts 100 levels, and the fields that we add need some.
const MAX_DEPTH: usize = 90;

/// The upper half of a decimal that is a whole number: no sign, and the exponent 0.
const WHOLE: u64 = 0x3040_0000_0000_0000;

/// Converts a whole number to a decimal. Above `i64::MAX` no other number type of MongoDB can
/// represent it exactly.
pub(super) fn decimal(number: u64) -> Decimal128 {
    Decimal128::from_bytes((u128::from(WHOLE) << 64 | u128::from(number)).to_le_bytes())
}

/// Returns the whole number in a decimal. `None` if it has a sign, an exponent or more than 64
/// bits.
pub(super) fn whole(decimal: Decimal128) -> Option<u64> {
    let bits = u128::from_le_bytes(decimal.bytes());
    (bits >> 64 == u128::from(WHOLE)).then_some(bits as u64)
}

/// Converts a value that is nested in `depth` objects and arrays. Objects keep the order of their
/// keys.
///
/// `None` if BSON cannot represent it: a key contains NUL, or the nesting is too deep. The
/// conversions of the `bson` crate are not suitable: they interpret keys such as `$oid` as extended
/// JSON, and reject large whole numbers.
pub(super) fn bson_of(value: &Value, depth: usize) -> Option<Bson> {
    if depth >= MAX_DEPTH && (value.is_array() || value.is_object()) {
        return None;
    }
    Some(match value {
        Value::Null => Bson::Null,
        Value::Bool(yes) => Bson::Boolean(*yes),
        Value::Number(number) => bson_of_number(number)?,
        Value::String(text) => Bson::String(text.clone()),
        Value::Array(items) => {
            let items = items.iter().map(|item| bson_of(item, depth + 1));
            Bson::Array(items.collect::<Option<_>>()?)
        }
        Value::Object(object) => {
            let mut document = Document::new();
            for (key, value) in object {
                if key.contains('\0') {
                    return None;
                }
                document.insert(key, bson_of(value, depth + 1)?);
            }
            Bson::Document(document)
        }
    })
}

/// Converts a number. Whole numbers get the smallest type that fits.
fn bson_of_number(number: &Number) -> Option<Bson> {
    Some(match (number.as_i64(), number.as_u64()) {
        (Some(whole), _) => i32::try_from(whole).map_or(Bson::Int64(whole), Bson::Int32),
        (None, Some(large)) => Bson::Decimal128(decimal(large)),
        (None, None) => Bson::Double(number.as_f64()?),
    })
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{RawBsonRef, RawDocumentBuf, doc};
    use proptest::prelude::*;

    use super::super::decode::json_of;
    use super::*;

    fn converted(json: &str) -> Option<Bson> {
        let mut value: Value = serde_json::from_str(json).unwrap();
        value.sort_all_objects();
        bson_of(&value, 0)
    }

    fn document(json: &str) -> Document {
        match converted(json) {
            Some(Bson::Document(document)) => document,
            other => panic!("{other:?}"),
        }
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
    fn numbers_keep_their_type_at_the_limits() {
        let cases = [
            ("-0", Bson::Double(-0.0)),
            ("0", Bson::Int32(0)),
            ("1e2", Bson::Double(100.0)),
            ("-2147483648", Bson::Int32(i32::MIN)),
            ("-2147483649", Bson::Int64(-2_147_483_649)),
            ("9223372036854775807", Bson::Int64(i64::MAX)),
            ("-9223372036854775808", Bson::Int64(i64::MIN)),
            ("9223372036854775808", Bson::Decimal128("9223372036854775808".parse().unwrap())),
            ("-9223372036854775809", Bson::Double(-9_223_372_036_854_775_809.0)),
            ("18446744073709551616", Bson::Double(18_446_744_073_709_551_616.0)),
        ];
        for (json, expected) in cases {
            // Compare the text, because -0.0 equals 0.0.
            assert_eq!(format!("{:?}", converted(json)), format!("{:?}", Some(expected)), "{json}");
        }
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
            assert_eq!(whole(*found), Some(number));
        }
        assert_eq!(whole("1.5".parse().unwrap()), None);
    }

    #[test]
    fn what_bson_cannot_have_is_noticed() {
        assert_eq!(converted(r#"{"a\u0000b": 1}"#), None);
        assert_eq!(converted(r#"[{"a": {"\u0000": 1}}]"#), None);
        assert!(converted(r#"{"a": "b\u0000"}"#).is_some());
        let deep =
            |levels: usize| converted(&format!("{}{}", "[".repeat(levels), "]".repeat(levels)));
        assert!(deep(90).is_some());
        assert!(deep(91).is_none());
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-300_i64..300).prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            (-100_000_i32..100_000, 0_i32..30)
                .prop_map(|(n, e)| (f64::from(n) / 10_f64.powi(e)).into()),
            "\\PC{0,12}".prop_map(Value::from),
            "[a-z\"\\\\\u{1}é😀]{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map("[a-z\"\\\\é_]{0,10}", inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    fn back(json: &str) -> Value {
        let bytes = RawDocumentBuf::try_from(&document(json)).unwrap();
        json_of(RawBsonRef::Document(&bytes)).unwrap()
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back_equal(value in json()) {
            let object = serde_json::json!({"value": value});
            prop_assert_eq!(&back(&object.to_string()), &object);
            prop_assert_eq!(&back(&serde_json::to_string_pretty(&object).unwrap()), &object);
        }
    }
}
