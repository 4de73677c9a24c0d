//! A JSON scanner that reads values on demand. Records consist mostly of short names and numbers,
//! and callers seldom need all of them.
//!
//! It accepts the same texts as `serde_json` and returns the same values. Rare cases, such as
//! strings with escapes, are passed on to `serde_json`.

use std::borrow::Cow;

use serde_json::{Map, Value};

/// The deepest nesting that is read. `serde_json` has the same limit.
const MAX_LEVELS: usize = 127;

/// Scans a text. All methods return `None` on invalid JSON. The scanner is of no use after that.
#[derive(Debug)]
pub(crate) struct Scanner<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
    /// Whether an object or an array was just opened.
    is_first: bool,
}

impl<'t> Scanner<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self { text, at: 0, depth: 0, is_first: false }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips white space and returns the next byte without consuming it.
    #[inline(always)]
    pub(crate) fn token(&mut self) -> Option<u8> {
        loop {
            match self.peek()? {
                b' ' | b'\t' | b'\n' | b'\r' => self.at += 1,
                byte => return Some(byte),
            }
        }
    }

    #[inline(always)]
    fn take(&mut self, expected: u8) -> Option<()> {
        (self.token()? == expected).then(|| self.at += 1)
    }

    fn word(&mut self, word: &str) -> Option<()> {
        self.text.as_bytes()[self.at..].starts_with(word.as_bytes()).then(|| self.at += word.len())
    }

    /// Succeeds if only white space is left.
    pub(crate) fn end(&mut self) -> Option<()> {
        self.token().is_none().then_some(())
    }

    /// Opens an object or an array, given its opening bracket.
    #[inline(always)]
    pub(crate) fn open(&mut self, bracket: u8) -> Option<()> {
        self.depth += 1;
        self.is_first = true;
        (self.depth <= MAX_LEVELS).then_some(())?;
        self.take(bracket)
    }

    /// Returns whether the open object or array has another element. If not, consumes its closing
    /// bracket, `bracket`.
    #[inline(always)]
    fn has_more(&mut self, bracket: u8) -> Option<bool> {
        let is_first = std::mem::take(&mut self.is_first);
        match self.token()? {
            byte if byte == bracket => {
                self.at += 1;
                self.depth -= 1;
                Some(false)
            }
            b',' if !is_first => {
                self.at += 1;
                Some(true)
            }
            _ => is_first.then_some(true),
        }
    }

    /// Reads the name of an object's next field. `Some(None)` at the end of the object.
    #[inline(always)]
    pub(crate) fn name(&mut self) -> Option<Option<Cow<'t, str>>> {
        if !self.has_more(b'}')? {
            return Some(None);
        }
        let name = self.string()?;
        self.take(b':')?;
        Some(Some(name))
    }

    /// Reads the next value, which must be a string.
    #[inline(always)]
    pub(crate) fn string(&mut self) -> Option<Cow<'t, str>> {
        self.token()?;
        let start = self.at + 1;
        Some(match self.plain_text()? {
            Some(_) => Cow::Borrowed(&self.text[start..self.at - 1]),
            None => Cow::Owned(self.escaped_text()?),
        })
    }

    /// Reads a string without escapes, including its quotes. `Some(None)` if it has escapes.
    #[inline(always)]
    fn plain_text(&mut self) -> Option<Option<&'t [u8]>> {
        let rest = &self.text.as_bytes()[self.at..];
        let [b'"', inside @ ..] = rest else { return None };
        let end = plain(inside);
        match inside.get(end)? {
            b'"' => {
                self.at += end + 2;
                Some(Some(&rest[..end + 2]))
            }
            b'\\' => Some(None),
            _ => None,
        }
    }

    #[cold]
    fn escaped_text(&mut self) -> Option<String> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let mut end = start + 1;
        // Find the closing quote: the first one that is not escaped.
        loop {
            end += plain(bytes.get(end..)?);
            match *bytes.get(end)? {
                b'"' => break,
                b'\\' => end += 2,
                _ => return None,
            }
        }
        self.at = end + 1;
        serde_json::from_str(&self.text[start..=end]).ok()
    }

    #[inline(always)]
    fn number(&mut self) -> Option<Number<'t>> {
        let start = self.at;
        let is_negative = self.peek()? == b'-';
        self.at += usize::from(is_negative);
        let first = self.peek();
        let mut digits = Digits::default();
        let whole = self.digits(&mut digits);
        if whole == 0 || (whole > 1 && first == Some(b'0')) {
            return None;
        }
        let (mut exponent, mut is_whole, mut has_power) = (0, true, false);
        if self.peek() == Some(b'.') {
            self.at += 1;
            is_whole = false;
            let fraction = self.digits(&mut digits);
            (fraction > 0).then_some(())?;
            exponent = -i64::try_from(fraction).ok()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            exponent += self.power()?;
            (is_whole, has_power) = (false, true);
        }
        let place = (start, self.at);
        Some(Number { of: self.text, place, is_negative, digits, exponent, is_whole, has_power })
    }

    #[cold]
    fn power(&mut self) -> Option<i64> {
        self.at += 1;
        let is_small = self.peek() == Some(b'-');
        self.at += usize::from(matches!(self.peek(), Some(b'-' | b'+')));
        let mut power = Digits::default();
        (self.digits(&mut power) > 0).then_some(())?;
        let power = power.exact().unwrap_or(u64::MAX).min(100_000) as i64;
        Some(if is_small { -power } else { power })
    }

    /// Reads digits. Returns how many there were.
    #[inline(always)]
    fn digits(&mut self, digits: &mut Digits) -> usize {
        let bytes = &self.text.as_bytes()[self.at..];
        let mut count = 0;
        while let Some(digit) = bytes.get(count).map(|byte| byte.wrapping_sub(b'0'))
            && digit < 10
        {
            digits.number = digits.number.wrapping_mul(10).wrapping_add(u64::from(digit));
            count += 1;
        }
        digits.count += count;
        self.at += count;
        count
    }

    /// Reads the next value.
    #[inline(always)]
    pub(crate) fn value(&mut self) -> Option<Value> {
        Some(match self.token()? {
            b'"' => Value::String(self.string()?.into_owned()),
            b'-' | b'0'..=b'9' => self.number()?.value()?,
            b'{' => self.object()?,
            b'[' => self.array()?,
            b't' => self.word("true").map(|()| Value::Bool(true))?,
            b'f' => self.word("false").map(|()| Value::Bool(false))?,
            b'n' => self.word("null").map(|()| Value::Null)?,
            _ => return None,
        })
    }

    // Not inlined because nested values are rare: this leaves fewer registers to save for each
    // value.
    #[inline(never)]
    fn object(&mut self) -> Option<Value> {
        let mut fields = Map::new();
        self.open(b'{')?;
        while let Some(name) = self.name()? {
            fields.insert(name.into_owned(), self.value()?);
        }
        Some(Value::Object(fields))
    }

    #[inline(never)]
    fn array(&mut self) -> Option<Value> {
        let mut items = Vec::new();
        self.open(b'[')?;
        while self.has_more(b']')? {
            items.push(self.value()?);
        }
        Some(Value::Array(items))
    }

    /// Skips a value. Fails if the value is invalid.
    #[inline(always)]
    pub(crate) fn skip(&mut self) -> Option<()> {
        match self.token()? {
            b'"' => self.skip_string(),
            b'-' | b'0'..=b'9' => self.number()?.is_in_range().then_some(()),
            b'{' => self.skip_object(),
            b'[' => self.skip_array(),
            b't' => self.word("true"),
            b'f' => self.word("false"),
            b'n' => self.word("null"),
            _ => None,
        }
    }

    #[inline(always)]
    fn skip_string(&mut self) -> Option<()> {
        match self.plain_text()? {
            Some(_) => Some(()),
            None => self.escaped_text().map(drop),
        }
    }

    #[inline(never)]
    fn skip_object(&mut self) -> Option<()> {
        self.open(b'{')?;
        while self.has_more(b'}')? {
            self.token()?;
            self.skip_string()?;
            self.take(b':')?;
            self.skip()?;
        }
        Some(())
    }

    #[inline(never)]
    fn skip_array(&mut self) -> Option<()> {
        self.open(b'[')?;
        while self.has_more(b']')? {
            self.skip()?;
        }
        Some(())
    }
}

/// Returns the number of bytes before the first quote, backslash or control character. Tests eight
/// bytes at a time.
#[inline(always)]
fn plain(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * ONES;
    // Bytes after the first match may be reported wrongly, because the subtraction borrows. Only
    // the first match is used.
    let is_zero = |word: u64| word.wrapping_sub(ONES) & !word & HIGH;
    let mut at = 0;
    while let Some(eight) = bytes[at..].first_chunk::<8>() {
        let word = u64::from_le_bytes(*eight);
        let is_control = word.wrapping_sub(0x20 * ONES) & !word & HIGH;
        let found = is_control
            | is_zero(word ^ (u64::from(b'"') * ONES))
            | is_zero(word ^ (u64::from(b'\\') * ONES));
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let is_special = |byte: &u8| *byte < 0x20 || matches!(byte, b'"' | b'\\');
    bytes[at..].iter().position(is_special).map_or(bytes.len(), |more| at + more)
}

/// A number in the text.
#[derive(Debug)]
struct Number<'t> {
    of: &'t str,
    place: (usize, usize),
    is_negative: bool,
    digits: Digits,
    exponent: i64,
    /// Whether it has neither a fraction nor an exponent.
    is_whole: bool,
    has_power: bool,
}

impl Number<'_> {
    #[inline(always)]
    fn text(&self) -> &str {
        &self.of[self.place.0..self.place.1]
    }

    #[inline(always)]
    fn value(&self) -> Option<Value> {
        if self.is_whole && self.digits.count < Digits::MOST {
            let number = self.digits.number as i64;
            match self.is_negative {
                false => return Some(number.into()),
                // `-0` is not an integer.
                true if number != 0 => return Some((-number).into()),
                true => {}
            }
        } else if self.is_whole {
            let whole = self.text().parse::<u64>().map(Value::from);
            if let Ok(whole) = whole.or_else(|_| self.text().parse::<i64>().map(Value::from)) {
                return Some(whole);
            }
        }
        self.float().map(Value::from)
    }

    /// Returns the number as a float. `None` if it is too large.
    fn float(&self) -> Option<f64> {
        match self.digits.times_ten_to(self.exponent) {
            Some(number) if self.is_negative => Some(-number),
            Some(number) => Some(number),
            None => finite(self.text()),
        }
    }

    #[inline(always)]
    fn is_in_range(&self) -> bool {
        // With so few digits and no exponent it is far from the largest float.
        (!self.has_power && self.digits.count < 300) || finite(self.text()).is_some()
    }
}

// Takes the text instead of the number, so that the number's other fields need not be kept.
#[cold]
fn finite(number: &str) -> Option<f64> {
    number.parse().ok().filter(|it: &f64| it.is_finite())
}

/// Digits that were read.
#[derive(Debug, Default)]
struct Digits {
    /// Their value. Wrong if there are more than `MOST` digits.
    number: u64,
    count: usize,
}

impl Digits {
    /// Any number with this many digits fits into 64 bits.
    const MOST: usize = 19;

    fn exact(&self) -> Option<u64> {
        (self.count <= Self::MOST).then_some(self.number)
    }

    /// Returns the number times a power of ten. `None` unless both factors are exact, so that the
    /// result is rounded only once.
    fn times_ten_to(&self, exponent: i64) -> Option<f64> {
        const POWERS: [f64; 23] = [
            1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
            1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
        ];
        let power = POWERS.get(usize::try_from(exponent.unsigned_abs()).ok()?)?;
        self.exact()
            .filter(|number| *number <= 1 << 53)
            .map(|number| if exponent < 0 { number as f64 / power } else { number as f64 * power })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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

    /// Reads all of a text as a value, and skips all of it.
    fn both(text: &str) -> (Option<Value>, Option<()>) {
        let mut from = Scanner::new(text);
        let made = from.value().filter(|_| from.end().is_some());
        let mut from = Scanner::new(text);
        (made, from.skip().and_then(|()| from.end()))
    }

    #[test]
    fn numbers_are_what_others_make_of_them() {
        let long = "9".repeat(400);
        let texts = [
            "0",
            "-0",
            "-0.0",
            "00",
            "1.",
            ".5",
            "1e5",
            "1e999",
            "-1e-999",
            "1E+2",
            "1e",
            "+1",
            "-",
            "18446744073709551615",
            "18446744073709551616",
            "-9223372036854775808",
            "-9223372036854775809",
            "1234567890123456789012",
            "0.1234567890123456789",
            "1.7e308",
            "9007199254740993.0",
            &long,
        ];
        for text in texts {
            let whole = serde_json::from_str::<Value>(text).ok();
            assert_eq!(both(text), (whole.clone(), whole.map(|_| ())), "{text}");
        }
    }

    #[test]
    fn as_many_levels_as_others_read() {
        for levels in [126, 127, 128, 200] {
            let text = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
            let whole = serde_json::from_str::<Value>(&text).ok();
            assert_eq!(both(&text), (whole.clone(), whole.map(|_| ())), "{levels}");
        }
    }

    proptest! {
        #[test]
        fn what_was_written_reads_back_equal(value in json()) {
            prop_assert_eq!(both(&value.to_string()), (Some(value.clone()), Some(())));
            let pretty = serde_json::to_string_pretty(&value).unwrap();
            prop_assert_eq!(both(&pretty), (Some(value), Some(())));
        }

        #[test]
        fn a_text_is_taken_where_others_take_it(
            value in json(), at in any::<prop::sample::Index>(),
            with in prop::sample::select(vec!["", "0", "-", ".", "e", "+", "1", "\"", "\\", ",", ":", "[", "]", "{", "}", " ", "t", "null", "\u{1}", "\\u00", "\\ud800"]),
            cut in 0_usize..3,
        ) {
            let mut text = value.to_string();
            let places: Vec<usize> = text.char_indices().map(|(place, _)| place).chain([text.len()]).collect();
            let first = at.index(places.len());
            let last = (first + cut).min(places.len() - 1);
            text.replace_range(places[first]..places[last], with);
            let whole = serde_json::from_str::<Value>(&text).ok();
            prop_assert_eq!(both(&text), (whole.clone(), whole.map(|_| ())), "{}", text);
        }
    }
}
