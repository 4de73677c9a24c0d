//! A JSON writer whose output equals that of `serde_json` for the same values.

use serde::Serialize;

/// Starts a field of an object. `key` must need no escapes and end with `":`, so that it can be
/// copied in one go.
#[inline]
pub(super) fn key(key: &str, out: &mut Vec<u8>) {
    separate(out);
    out.push(b'"');
    out.extend_from_slice(key.as_bytes());
}

/// Starts a field of an object whose name may contain any bytes. Invalid UTF-8 is replaced.
#[inline]
pub(super) fn name(name: &[u8], out: &mut Vec<u8>) {
    separate(out);
    text(name, out);
    out.push(b':');
}

/// Writes a comma unless this is the first field of an object.
#[inline]
fn separate(out: &mut Vec<u8>) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
}

/// Writes any value. Floats without a JSON form become `null`.
pub(super) fn any(value: &impl Serialize, out: &mut Vec<u8>) -> Option<()> {
    serde_json::to_writer(out, value).ok()
}

/// Writes a string. Invalid UTF-8 is replaced.
pub(super) fn text(bytes: &[u8], out: &mut Vec<u8>) {
    if bytes.iter().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\')) {
        out.push(b'"');
        out.extend_from_slice(bytes);
        out.push(b'"');
        return;
    }
    _ = any(&String::from_utf8_lossy(bytes), out);
}

/// Writes the digits of a number to the end of the array and returns the index of the first.
fn digits(mut value: u64, to: &mut [u8; 20]) -> usize {
    const PAIRS: &[u8; 200] = b"0001020304050607080910111213141516171819\
        2021222324252627282930313233343536373839\
        4041424344454647484950515253545556575859\
        6061626364656667686970717273747576777879\
        8081828384858687888990919293949596979899";
    let mut at = to.len();
    while value >= 10 {
        let pair = (value % 100) as usize * 2;
        value /= 100;
        at -= 2;
        to[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    }
    if value > 0 || at == to.len() {
        at -= 1;
        to[at] = b'0' + value as u8;
    }
    at
}

#[inline]
pub(super) fn integer(value: u64, out: &mut Vec<u8>) {
    let mut text = [0; 20];
    let start = digits(value, &mut text);
    out.extend_from_slice(&text[start..]);
}

/// Writes `value` with the decimal point before its last `DIGITS` digits.
///
/// A decimal number of up to fifteen digits converts to a float and back without loss, so the
/// shortest text for that float is the number itself. Longer numbers are left to `serde_json`, and
/// so are very small ones, which it writes with an exponent.
#[inline]
pub(super) fn decimal<const DIGITS: u32>(value: u64, out: &mut Vec<u8>) {
    let unit = 10_u64.pow(DIGITS);
    let smallest = unit / 10_000;
    if value >= 1_000_000_000_000_000 || (value < smallest && value > 0) {
        _ = any(&(value as f64 / unit as f64), out);
        return;
    }
    integer(value / unit, out);
    out.push(b'.');
    // Adding the unit keeps the zeros after the decimal point.
    let mut text = [0; 20];
    let start = digits(value % unit + unit, &mut text) + 1;
    let mut end = text.len();
    while end > start + 1 && text[end - 1] == b'0' {
        end -= 1;
    }
    out.extend_from_slice(&text[start..end]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn same<const DIGITS: u32>(value: u64) -> Result<(), TestCaseError> {
        let mut ours = Vec::new();
        decimal::<DIGITS>(value, &mut ours);
        let theirs = serde_json::to_string(&(value as f64 / 10_f64.powi(DIGITS as i32))).unwrap();
        prop_assert_eq!(String::from_utf8(ours).unwrap(), theirs);
        Ok(())
    }

    proptest! {
        #[test]
        fn numbers_are_written_as_serde_json_does(value: u64, bits in 0_u32..64) {
            let value = value >> bits;
            let mut ours = Vec::new();
            integer(value, &mut ours);
            prop_assert_eq!(String::from_utf8(ours).unwrap(), value.to_string());
            same::<1>(value)?;
            same::<2>(value)?;
            same::<6>(value)?;
        }

        #[test]
        fn texts_are_written_as_serde_json_does(text: Vec<u8>) {
            let mut ours = Vec::new();
            super::text(&text, &mut ours);
            let theirs = serde_json::to_string(&String::from_utf8_lossy(&text)).unwrap();
            prop_assert_eq!(String::from_utf8(ours).unwrap(), theirs);
        }
    }
}
