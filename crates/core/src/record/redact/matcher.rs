//! A matcher that searches a text for several hundred patterns, called beginnings.
//!
//! It tests only every second position, with a table of all three-byte sequences at the first and
//! second byte of a beginning. Few positions of an ordinary text pass this test, and most of these
//! fail the next one, a table of four-byte sequences. This takes about a nanosecond for two bytes,
//! whatever the number of beginnings. The vector search of `aho-corasick` is faster for about sixty
//! beginnings, but was several times slower for the three hundred in use.

/// A set of beginnings of at least four bytes, each with its kind.
pub(super) struct Matcher<K> {
    three: Table,
    four: Table,
    /// Sorted.
    beginnings: Vec<(Vec<u8>, K)>,
}

impl<K: Copy> Matcher<K> {
    pub(super) fn new(beginnings: impl IntoIterator<Item = (String, K)>) -> Self {
        let mut beginnings: Vec<(Vec<u8>, K)> =
            beginnings.into_iter().map(|(text, kind)| (text.into_bytes(), kind)).collect();
        beginnings.retain(|(text, _)| text.len() >= 4);
        beginnings.sort_by(|(one, _), (other, _)| one.cmp(other));
        let (mut three, mut four) = (Table::new(), Table::new());
        for (beginning, _) in &beginnings {
            if let [a, b, c, d, ..] = beginning[..] {
                three.set(u32::from_le_bytes([a, b, c, 0]));
                three.set(u32::from_le_bytes([b, c, d, 0]));
                four.set(u32::from_le_bytes([a, b, c, d]));
            }
        }
        Self { three, four, beginnings }
    }

    /// Returns the first position from `from` on where a beginning matches, and the kind of the
    /// beginning.
    pub(super) fn find(&self, text: &[u8], from: usize) -> Option<(usize, K)> {
        /// Eight bytes hold three positions that are two bytes apart.
        const STEP: usize = 6;
        let mut at = from;
        while let Some(&letters) = text.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
            let letters = u64::from_le_bytes(letters);
            let has = |shift: u32| self.three.has((letters >> shift) as u32 & 0xFF_FFFF);
            if has(0) | has(16) | has(32)
                && let Some(found) = self.among(text, at.saturating_sub(1).max(from)..at + STEP)
            {
                return Some(found);
            }
            at += STEP;
        }
        self.among(text, at.saturating_sub(1).max(from)..text.len())
    }

    /// Returns the first of these positions where a beginning matches, and its kind.
    fn among(&self, text: &[u8], mut places: std::ops::Range<usize>) -> Option<(usize, K)> {
        places.find_map(|at| Some((at, self.at(&text[at..])?)))
    }

    /// Returns the kind of the longest beginning that matches at the start of `text`.
    #[inline]
    fn at(&self, text: &[u8]) -> Option<K> {
        let letters = text.first_chunk::<4>()?;
        if self.four.has(u32::from_le_bytes(*letters)) { self.exactly(text, letters) } else { None }
    }

    fn exactly(&self, text: &[u8], letters: &[u8; 4]) -> Option<K> {
        let first = self.beginnings.partition_point(|(beginning, _)| beginning[..4] < letters[..]);
        let same = self.beginnings[first..]
            .iter()
            .take_while(|(beginning, _)| beginning[..4] == letters[..]);
        same.filter(|(beginning, _)| text.starts_with(beginning)).last().map(|&(_, kind)| kind)
    }
}

/// A hashed set of byte sequences. It may also report sequences that were not added.
struct Table(Box<[u64; Self::BITS / 64]>);

impl Table {
    const BITS: usize = 1 << 16;

    fn new() -> Self {
        Self(Box::new([0; Self::BITS / 64]))
    }

    #[inline]
    fn place(letters: u32) -> usize {
        (letters.wrapping_mul(0x9E37_79B1) >> 16) as usize
    }

    fn set(&mut self, letters: u32) {
        let place = Self::place(letters);
        self.0[place / 64] |= 1 << (place % 64);
    }

    #[inline]
    fn has(&self, letters: u32) -> bool {
        let place = Self::place(letters);
        self.0[place / 64] >> (place % 64) & 1 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_beginning_is_found_at_every_place() {
        let words = ["pass", "passw", "toke", "xoxb-", "-----BEGIN "];
        let matcher =
            Matcher::new(words.iter().enumerate().map(|(kind, word)| ((*word).to_owned(), kind)));
        for (kind, word) in words.iter().enumerate() {
            for before in 0..20 {
                for after in 0..20 {
                    let text = format!("{}{word}{}", ".".repeat(before), ".".repeat(after));
                    for from in 0..=before {
                        assert_eq!(
                            matcher.find(text.as_bytes(), from),
                            Some((before, kind)),
                            "{text} {from}"
                        );
                    }
                    assert_eq!(matcher.find(text.as_bytes(), before + 1), None, "{text}");
                }
            }
        }
        assert_eq!(matcher.find(b"password", 0), Some((0, 1)), "the longest");
        assert_eq!(matcher.find(b"pas", 0), None);
    }
}
