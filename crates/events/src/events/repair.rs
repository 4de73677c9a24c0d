//! Rewrites JSON as Python writes it to strict JSON.

/// Rewrites values that Python's `json` module accepts but strict JSON or 64 bits cannot represent.
///
/// `NaN`, `Infinity` and numbers beyond the range of floats become null. Whole numbers of more than
/// 64 bits become strings. Unpaired surrogates become the replacement character. Everything else
/// stays as it is, valid or not. Returns the text and the number of rewritten values.
pub(super) fn repair(text: &[u8]) -> (Vec<u8>, usize) {
    let mut repaired = Vec::with_capacity(text.len() + 16);
    let mut count = 0;
    let mut rest = text;
    while let Some(&byte) = rest.first() {
        let (length, instead) = match byte {
            b'"' => {
                let length = string_length(rest);
                let (string, repaired_here) = repair_string(&rest[..length]);
                count += usize::from(repaired_here);
                repaired.extend_from_slice(&string);
                rest = &rest[length..];
                continue;
            }
            b'N' if rest.starts_with(b"NaN") => (3, Some(&b"null"[..])),
            b'I' if rest.starts_with(b"Infinity") => (8, Some(&b"null"[..])),
            b'-' if rest.starts_with(b"-Infinity") => (9, Some(&b"null"[..])),
            b'-' | b'0'..=b'9' => {
                let is_part =
                    |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
                let length = rest.iter().take_while(|byte| is_part(byte)).count();
                let number = std::str::from_utf8(&rest[..length]).unwrap_or_default();
                match beyond(number) {
                    Some(Beyond::Float) => (length, Some(&b"null"[..])),
                    Some(Beyond::Integer) => {
                        count += 1;
                        repaired.push(b'"');
                        repaired.extend_from_slice(&rest[..length]);
                        repaired.push(b'"');
                        rest = &rest[length..];
                        continue;
                    }
                    None => (length, None),
                }
            }
            _ => (1, None),
        };
        match instead {
            Some(instead) => {
                count += 1;
                repaired.extend_from_slice(instead);
            }
            None => repaired.extend_from_slice(&rest[..length]),
        }
        rest = &rest[length..];
    }
    (repaired, count)
}

enum Beyond {
    Float,
    Integer,
}

fn beyond(number: &str) -> Option<Beyond> {
    let digits = number.strip_prefix('-').unwrap_or(number);
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let fits = number.parse::<u64>().is_ok() || number.parse::<i64>().is_ok();
        return (!fits).then_some(Beyond::Integer);
    }
    let float: f64 = number.parse().ok()?;
    float.is_infinite().then_some(Beyond::Float)
}

/// Returns the length of the string at the start of the text, including both quotes. If the string
/// has no end, returns the length of the whole text.
fn string_length(text: &[u8]) -> usize {
    let mut at = 1;
    while at < text.len() {
        match text[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

fn repair_string(string: &[u8]) -> (Vec<u8>, bool) {
    let mut repaired = Vec::with_capacity(string.len());
    let mut any = false;
    let mut rest = string;
    while let Some(&byte) = rest.first() {
        let length =
            match (byte, unit(rest)) {
                (b'\\', Some(0xd800..=0xdbff)) => {
                    if matches!(unit(&rest[6..]), Some(0xdc00..=0xdfff)) { 12 } else { 0 }
                }
                (b'\\', Some(0xdc00..=0xdfff)) => 0,
                (b'\\', _) => rest.len().min(2),
                _ => 1,
            };
        if length == 0 {
            any = true;
            repaired.extend_from_slice(b"\\ufffd");
            rest = &rest[6..];
        } else {
            repaired.extend_from_slice(&rest[..length]);
            rest = &rest[length..];
        }
    }
    (repaired, any)
}

/// Parses the escape `\uXXXX` at the start of a text.
fn unit(text: &[u8]) -> Option<u16> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::repair;

    fn repaired(text: &str) -> (String, usize) {
        let (text, count) = repair(text.as_bytes());
        (String::from_utf8(text).unwrap(), count)
    }

    #[test]
    fn what_python_alone_can_read_is_rewritten() {
        for (text, expected, count) in [
            (r#"{"a":NaN,"b":[Infinity,-Infinity]}"#, r#"{"a":null,"b":[null,null]}"#, 3),
            (r#"{"NaN":"Infinity \" NaN"}"#, r#"{"NaN":"Infinity \" NaN"}"#, 0),
            (
                "[18446744073709551616,-9223372036854775809]",
                r#"["18446744073709551616","-9223372036854775809"]"#,
                2,
            ),
            (
                "[18446744073709551615,-9223372036854775808,1e999,-1e400,1e300]",
                "[18446744073709551615,-9223372036854775808,null,null,1e300]",
                2,
            ),
            (
                r#"["\ud83d\ude00","\ud83d","\ude00x","\\ud83d"]"#,
                r#"["\ud83d\ude00","\ufffd","\ufffdx","\\ud83d"]"#,
                2,
            ),
            (r#"{"torn":"\ud8"#, r#"{"torn":"\ud8"#, 0),
            ("--1 1-2 Nan", "--1 1-2 Nan", 0),
            ("\"\\", "\"\\", 0),
        ] {
            assert_eq!(repaired(text), (expected.to_owned(), count), "{text}");
        }
    }
}
