//! Python's rules for blanks, whole numbers and the text of numbers. Stormlog's validation depends
//! on them, and its ids are hashes of such text.

use serde_json::Value;

/// Whether `str.strip` removes a character: white space, and four separators that Unicode does not
/// count as white space.
fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}

/// Whether a text contains only blanks, or nothing.
pub(crate) fn is_blank(text: &str) -> bool {
    text.chars().all(is_space)
}

/// Removes the blanks around a text.
pub(super) fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// The zeros of all decimal digits of Unicode 14. The digits 1 to 9 follow each of them.
const ZEROS: [u32; 66] = [
    0x30, 0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66,
    0xde6, 0xe50, 0xed0, 0xf20, 0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90,
    0x1b50, 0x1bb0, 0x1c40, 0x1c50, 0xa620, 0xa8d0, 0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10,
    0x104a0, 0x10d30, 0x11066, 0x110f0, 0x11136, 0x111d0, 0x112f0, 0x11450, 0x114d0, 0x11650,
    0x116c0, 0x11730, 0x118e0, 0x11950, 0x11c50, 0x11d50, 0x11da0, 0x16a60, 0x16ac0, 0x16b50,
    0x1d7ce, 0x1d7d8, 0x1d7e2, 0x1d7ec, 0x1d7f6, 0x1e140, 0x1e2f0, 0x1e950, 0x1fbf0,
];

fn digit(character: char) -> Option<u32> {
    let code = u32::from(character);
    let zero = ZEROS[..ZEROS.partition_point(|zero| *zero <= code)].last()?;
    Some(code - zero).filter(|digit| *digit < 10)
}

/// Parses a whole number as `int(text)` does: blanks around it, a sign, digits of any script, and
/// single underscores between them. Numbers beyond 128 bits are clamped.
pub(super) fn int(text: &str) -> Option<i128> {
    let text = strip(text);
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut number = 0_i128;
    let mut after_digit = false;
    for character in digits.chars() {
        match digit(character) {
            Some(digit) => {
                number = number.saturating_mul(10).saturating_add(i128::from(digit));
                after_digit = true;
            }
            None if character == '_' && after_digit => after_digit = false,
            None => return None,
        }
    }
    after_digit.then_some(sign * number)
}

/// Formats a float as `repr` does: the shortest digits that identify it, always with a point or an
/// exponent.
pub(super) fn float(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..16).contains(&exponent) {
        // `{}` omits the point of whole numbers.
        let plain = format!("{number}");
        return if plain.contains('.') { plain } else { format!("{plain}.0") };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// Formats a value as `str` does, except that lists and objects are formatted as JSON.
pub fn str(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_f64() {
            Some(value) if number.is_f64() => float(value),
            _ => number.to_string(),
        },
        Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

/// Formats a value as `json.dumps(value, sort_keys=True)` does.
pub(super) fn json(value: &Value, to: &mut String) {
    match value {
        Value::Null => to.push_str("null"),
        Value::Bool(is) => to.push_str(if *is { "true" } else { "false" }),
        Value::Number(_) => to.push_str(&str(value)),
        Value::String(text) => quote(text, to),
        Value::Array(items) => {
            to.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    to.push_str(", ");
                }
                json(item, to);
            }
            to.push(']');
        }
        Value::Object(entries) => {
            // Python sorts keys by code point, which is the order of their UTF-8 bytes too.
            let mut entries: Vec<_> = entries.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            to.push('{');
            for (at, (key, value)) in entries.into_iter().enumerate() {
                if at > 0 {
                    to.push_str(", ");
                }
                quote(key, to);
                to.push_str(": ");
                json(value, to);
            }
            to.push('}');
        }
    }
}

fn quote(text: &str, to: &mut String) {
    use std::fmt::Write as _;
    to.push('"');
    for character in text.chars() {
        match character {
            '"' => to.push_str("\\\""),
            '\\' => to.push_str("\\\\"),
            '\n' => to.push_str("\\n"),
            '\r' => to.push_str("\\r"),
            '\t' => to.push_str("\\t"),
            '\u{8}' => to.push_str("\\b"),
            '\u{c}' => to.push_str("\\f"),
            ' '..='~' => to.push(character),
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    // Writing to a string cannot fail.
                    let _ = write!(to, "\\u{unit:04x}");
                }
            }
        }
    }
    to.push('"');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whole_numbers_are_what_python_reads() {
        for (text, number) in [
            (" 2 ", Some(2)),
            ("+1", Some(1)),
            ("-0", Some(0)),
            ("007", Some(7)),
            ("1_0", Some(10)),
            ("\u{663}\u{6f4}", Some(34)),
            ("\u{1d7f6}", Some(0)),
            ("\u{1c}5", Some(5)),
            ("1.0", None),
            ("0x1", None),
            ("", None),
            ("_1", None),
            ("1__0", None),
            ("1_", None),
            ("+", None),
            ("+ 1", None),
            ("--1", None),
            ("\u{b2}", None),
        ] {
            assert_eq!(int(text), number, "{text:?}");
        }
        assert_eq!(int(&"9".repeat(60)), Some(i128::MAX));
    }

    #[test]
    fn floats_are_written_as_python_does() {
        for (number, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1_709_480_430.123, "1709480430.123"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.234e22, "1.234e+22"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
        ] {
            assert_eq!(float(number), text);
        }
    }

    #[test]
    fn json_is_written_as_python_does() {
        let mut text = String::new();
        json(&json!({"b": [1, 2.0, null], "a": "\u{e9}\u{1f600}\u{7f}\n\"", "": {}}), &mut text);
        assert_eq!(text, r#"{"": {}, "a": "\u00e9\ud83d\ude00\u007f\n\"", "b": [1, 2.0, null]}"#);
    }
}
