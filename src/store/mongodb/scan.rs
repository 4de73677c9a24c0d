//! JSON into BSON, without a tree in between.
//!
//! Every record goes through here, and most of it is short keys and numbers: so this reads them itself, a few bytes at a time.
//! What is rare is left to `serde_json`: texts with escapes. What it takes, and what it makes of it, is what `serde_json` does.

use super::bytes::{Writer, decimal, head_of, kind};

/// MongoDB takes 100 levels; some of them are ours.
const MAX_DEPTH: usize = 90;
/// What is nested more deeply than this is not read; others would not read it either.
const MAX_LEVELS: usize = 127;

/// A text being read. Whatever is not JSON gives none, and then there is no more to be had of it.
#[derive(Debug)]
pub(super) struct Scanner<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

impl<'t> Scanner<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self::inside(text, 0)
    }

    /// Of a text that has so many objects and arrays open around it.
    pub(super) fn inside(text: &'t str, depth: usize) -> Self {
        Self { text, at: 0, depth }
    }

    /// Whether everything was read.
    pub(super) fn is_at_end(&self) -> bool {
        self.at == self.text.len()
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// The next byte that is no space.
    fn token(&mut self) -> Option<u8> {
        loop {
            match self.peek()? {
                b' ' | b'\t' | b'\n' | b'\r' => self.at += 1,
                byte => return Some(byte),
            }
        }
    }

    fn take(&mut self, expected: u8) -> Option<()> {
        (self.token()? == expected).then(|| self.at += 1)
    }

    fn word(&mut self, word: &str) -> Option<()> {
        self.text.as_bytes()[self.at..].starts_with(word.as_bytes()).then(|| self.at += word.len())
    }

    /// There must be nothing more.
    pub(super) fn end(&mut self) -> Option<()> {
        self.token().is_none().then_some(())
    }

    /// Begins an object.
    pub(super) fn open(&mut self) -> Option<()> {
        self.depth += 1;
        (self.depth <= MAX_LEVELS).then_some(())?;
        self.take(b'{')
    }

    /// Writes the key of the next field of an object as an element; where that begins, or none at the object's end.
    pub(super) fn key(&mut self, writer: &mut Writer, is_first: bool) -> Option<Option<usize>> {
        match self.token()? {
            b'}' => {
                self.at += 1;
                self.depth -= 1;
                return Some(None);
            }
            b',' if !is_first => {
                self.at += 1;
                self.token()?;
            }
            _ if is_first => {}
            _ => return None,
        }
        let start = self.at;
        let at = match self.plain_text()? {
            Some(quoted) => writer.element(quoted, self.head(start + 1, quoted.len() - 2)),
            None => writer.any_element(&self.escaped_text()?),
        };
        self.take(b':')?;
        Some(Some(at))
    }

    /// Writes a value; gives its kind.
    pub(super) fn value(&mut self, writer: &mut Writer) -> Option<u8> {
        Some(match self.token()? {
            b'"' => {
                match self.plain_text()? {
                    Some(quoted) => writer.quoted(quoted),
                    None => writer.text(&self.escaped_text()?),
                }
                kind::STRING
            }
            b'-' | b'0'..=b'9' => self.number(writer)?,
            b'{' => self.object(writer)?,
            b'[' => self.array(writer)?,
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
    fn object(&mut self, writer: &mut Writer) -> Option<u8> {
        self.open()?;
        let open = writer.open();
        let mut is_first = true;
        while let Some(at) = self.key(writer, is_first)? {
            let kind = self.value(writer)?;
            writer.bytes[at] = kind;
            is_first = false;
        }
        if self.depth >= MAX_DEPTH {
            writer.is_lossy = true;
            writer.empty(open);
        }
        writer.close(open);
        Some(kind::DOCUMENT)
    }

    #[inline(never)]
    fn array(&mut self, writer: &mut Writer) -> Option<u8> {
        self.depth += 1;
        (self.depth <= MAX_LEVELS).then_some(())?;
        self.take(b'[')?;
        let start = writer.bytes.len();
        writer.bytes.extend_from_slice(&[0; 4]);
        let mut index = 0;
        loop {
            match self.token()? {
                b']' => break,
                b',' if index > 0 => self.at += 1,
                _ if index == 0 => {}
                _ => return None,
            }
            let at = writer.item(index);
            let kind = self.value(writer)?;
            writer.bytes[at] = kind;
            index += 1;
        }
        self.at += 1;
        self.depth -= 1;
        if self.depth >= MAX_DEPTH {
            writer.is_lossy = true;
            writer.bytes.truncate(start + 4);
        }
        writer.end(start);
        Some(kind::ARRAY)
    }

    /// A text without escapes, with its quotes; none where there are some.
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
        // Up to the quote that no backslash stands before.
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

    /// The first bytes of a text as a number that compares like them, read in one go with what follows.
    fn head(&self, start: usize, length: usize) -> u64 {
        let bytes = &self.text.as_bytes()[start..];
        match bytes.first_chunk::<8>() {
            Some(eight) if length >= 8 => u64::from_be_bytes(*eight),
            Some(eight) => u64::from_be_bytes(*eight) & !(u64::MAX >> (8 * length)),
            None => head_of(&bytes[..length]),
        }
    }

    fn number(&mut self, writer: &mut Writer) -> Option<u8> {
        let start = self.at;
        let is_negative = self.peek()? == b'-';
        self.at += usize::from(is_negative);
        let mut digits = Digits::default();
        let whole = self.digits(&mut digits);
        let first = self.text.as_bytes()[self.at - whole..].first();
        if whole == 0 || (whole > 1 && first == Some(&b'0')) {
            return None;
        }
        let mut exponent = 0;
        let mut is_whole = true;
        if self.peek() == Some(b'.') {
            self.at += 1;
            is_whole = false;
            let fraction = self.digits(&mut digits);
            (fraction > 0).then_some(())?;
            exponent = -i64::try_from(fraction).ok()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            is_whole = false;
            let is_small = self.peek() == Some(b'-');
            self.at += usize::from(matches!(self.peek(), Some(b'-' | b'+')));
            let mut power = Digits::default();
            (self.digits(&mut power) > 0).then_some(())?;
            let power = power.exact().unwrap_or(u64::MAX).min(100_000) as i64;
            exponent += if is_small { -power } else { power };
        }
        if is_whole && let Some(kind) = self.whole(start, is_negative, &digits, writer) {
            return Some(kind);
        }
        let number = match digits.times_ten_to(exponent) {
            Some(number) if is_negative => -number,
            Some(number) => number,
            None => self.text[start..self.at].parse().ok().filter(|it: &f64| it.is_finite())?,
        };
        writer.bytes.extend_from_slice(&number.to_le_bytes());
        Some(kind::DOUBLE)
    }

    /// Writes a number without fraction, if there is a whole number for it: there is none for `-0`.
    fn whole(
        &self,
        start: usize,
        is_negative: bool,
        digits: &Digits,
        writer: &mut Writer,
    ) -> Option<u8> {
        if digits.count < Digits::MOST {
            let number = digits.number as i64;
            return (!is_negative || number != 0)
                .then(|| writer.whole(if is_negative { -number } else { number }));
        }
        let text = &self.text[start..self.at];
        if let Ok(number) = text.parse() {
            return Some(writer.whole(number));
        }
        writer.bytes.extend_from_slice(&decimal(text.parse().ok()?));
        Some(kind::DECIMAL)
    }

    /// Reads digits; how many there were.
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
}

/// How many bytes there are before a quote, a backslash or a control character, eight at a time.
fn plain(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * ONES;
    // Above the first such byte the answer may be wrong, for the subtraction borrows; only the first is asked for.
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

/// Digits that were read.
#[derive(Debug, Default)]
struct Digits {
    /// The number that they are, while there are not too many of them.
    number: u64,
    count: usize,
}

impl Digits {
    /// So many digits are a number of 64 bits, whatever they are.
    const MOST: usize = 19;

    fn exact(&self) -> Option<u64> {
        (self.count <= Self::MOST).then_some(self.number)
    }

    /// The number times a power of ten, where one operation on numbers that are exact gives it: it is rounded once.
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
    use mongodb::bson::{Bson, Document, RawDocument, doc};
    use proptest::prelude::*;

    use super::super::bytes::whole;
    use super::*;

    fn try_written(json: &str) -> Option<(Vec<u8>, bool)> {
        let mut writer = Writer::default();
        let mut scanner = Scanner::new(json);
        scanner.value(&mut writer)?;
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
            Scanner::new(json).value(&mut writer).unwrap();
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
