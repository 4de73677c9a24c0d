//! A byte-wise scanner for the kernel's text files.

/// A cursor in a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scan<'a> {
    rest: &'a [u8],
}

impl<'a> Scan<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self { rest: text }
    }

    /// Parses the next number of the line, after blanks. Values beyond `u64` saturate.
    #[inline]
    pub(super) fn number(&mut self) -> Option<u64> {
        let mut rest = self.rest;
        while let [b' ' | b'\t', after @ ..] = rest {
            rest = after;
        }
        let mut value = 0_u64;
        let start = rest.len();
        while let [digit @ b'0'..=b'9', after @ ..] = rest {
            // Up to 19 digits cannot overflow.
            value = value.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
            rest = after;
        }
        let digits = start - rest.len();
        if digits == 0 {
            return None;
        }
        if digits > 19 {
            value = saturated(&self.rest[self.rest.len() - start..][..digits]);
        }
        self.rest = rest;
        Some(value)
    }

    /// Returns the next word of the line, after blanks.
    #[cfg(target_os = "linux")]
    pub(super) fn word(&mut self) -> Option<&'a [u8]> {
        let mut rest = self.rest;
        while let [b' ' | b'\t', after @ ..] = rest {
            rest = after;
        }
        let end = rest.iter().position(|byte| matches!(byte, b' ' | b'\t' | b'\n'))?;
        self.rest = &rest[end..];
        (end > 0).then(|| &rest[..end])
    }

    /// Returns the text after the cursor.
    #[cfg(target_os = "linux")]
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Moves past `text` if it is next. Returns whether it was.
    #[inline]
    pub(super) fn skip(&mut self, text: &[u8]) -> bool {
        // In most cases the first byte decides.
        if self.rest.first() != text.first() || !self.rest.starts_with(text) {
            return false;
        }
        self.rest = &self.rest[text.len()..];
        true
    }

    /// Moves to the start of the next line. Returns whether there is one.
    #[inline]
    pub(super) fn next_line(&mut self) -> bool {
        match newline(self.rest) {
            Some(at) => {
                self.rest = &self.rest[at + 1..];
                !self.rest.is_empty()
            }
            None => {
                self.rest = &[];
                false
            }
        }
    }
}

#[cold]
fn saturated(digits: &[u8]) -> u64 {
    digits.iter().fold(0_u64, |value, digit| {
        value.saturating_mul(10).saturating_add(u64::from(digit - b'0'))
    })
}

/// Finds the first line end, eight bytes at a time.
#[inline]
fn newline(text: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::MAX / 255;
    let (words, rest) = text.as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word) ^ (ONES * b'\n' as u64);
        let found = word.wrapping_sub(ONES) & !word & (ONES << 7);
        if found != 0 {
            return Some(at * 8 + found.trailing_zeros() as usize / 8);
        }
    }
    let at = rest.iter().position(|byte| *byte == b'\n')?;
    Some(words.len() * 8 + at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_end_with_their_line() {
        let mut scan = Scan::new(b"  12\t3x\n45");
        assert_eq!((scan.number(), scan.number(), scan.number()), (Some(12), Some(3), None));
        assert!(scan.next_line());
        assert_eq!((scan.number(), scan.number()), (Some(45), None));
        assert!(!scan.next_line());
    }

    #[test]
    fn numbers_beyond_their_type_become_the_largest() {
        let number = |text: &str| Scan::new(text.as_bytes()).number();
        assert_eq!(number("18446744073709551615"), Some(u64::MAX));
        assert_eq!(number("18446744073709551616"), Some(u64::MAX));
        assert_eq!(number("000000000000000000000000000007"), Some(7));
        assert_eq!(number("9999999999999999999"), Some(9_999_999_999_999_999_999));
    }

    proptest! {
        #[test]
        fn numbers_are_read_as_they_were_written(
            blanks in "[ \t]{0,20}", number: u64, zeros in 0..4_usize, after in "( |\n|x|/|:|\u{0}|\u{ff}|[ -~]{0,12})",
        ) {
            prop_assume!(!after.starts_with(|first: char| first.is_ascii_digit()));
            let text = format!("{blanks}{}{number}{after}", "0".repeat(zeros));
            let mut scan = Scan::new(text.as_bytes());
            prop_assert_eq!(scan.number(), Some(number));
            prop_assert_eq!(scan.rest(), after.as_bytes());
        }

        #[test]
        fn what_begins_with_no_digit_is_no_number(blanks in "[ \t]{0,20}", after in "[^0-9 \t][ -~]{0,20}") {
            let text = format!("{blanks}{after}");
            let mut scan = Scan::new(text.as_bytes());
            prop_assert_eq!(scan.number(), None);
            prop_assert_eq!(scan.rest(), text.as_bytes());
        }

        #[test]
        fn the_end_of_a_line_is_found(text in "[a\n\u{0b}\u{8a}]{0,40}") {
            let expected = text.bytes().position(|byte| byte == b'\n');
            prop_assert_eq!(newline(text.as_bytes()), expected);
        }
    }
}
