//! Ids that are unique across threads, processes and hosts: UUID version 7.

use std::cell::Cell;
use std::fmt;
use std::num::NonZeroU128;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{clock, fork};

/// The id of a task or workflow: a UUID version 7. Ids sort by creation time.
///
/// ```
/// let id: runlore::Id = "0199a0c5-7b6f-7a3e-9d4c-2f1e5b8a6c3d".parse()?;
/// assert_eq!(id.to_string(), "0199a0c5-7b6f-7a3e-9d4c-2f1e5b8a6c3d");
/// # Ok::<(), runlore::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(NonZeroU128);

thread_local! {
    /// The thread's position in its own random sequence. 0 until the sequence is seeded.
    static SEQUENCE: Cell<u64> = const { Cell::new(0) };
}

/// The increment of the sequence. An odd increment visits every 64-bit number before any repeats.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

impl Id {
    /// Creates an id for the current time.
    pub fn new() -> Self {
        Self::at(clock::system_ns())
    }

    /// Creates an id from a wall-clock reading that the caller has already taken.
    #[inline]
    pub fn at(wall_ns: u64) -> Self {
        let sequence = SEQUENCE.get();
        let random = if sequence == 0 { seed() } else { sequence.wrapping_add(STEP) };
        SEQUENCE.set(random);
        let ms = wall_ns / 1_000_000;
        let fraction = (wall_ns % 1_000_000) * 4096 / 1_000_000;
        let high = (ms << 16) | 0x7000 | fraction;
        let low = (random >> 2) | (0b10 << 62);
        let bits = (u128::from(high) << 64) | u128::from(low);
        // The version bits are set, so the number is never zero.
        Self(NonZeroU128::new(bits).unwrap_or(NonZeroU128::MIN))
    }

    /// Returns the id as a number, which is never zero.
    pub fn to_bits(self) -> u128 {
        self.0.get()
    }

    /// Returns the id with these bits. `None` if they are zero.
    pub fn from_bits(bits: u128) -> Option<Self> {
        NonZeroU128::new(bits).map(Self)
    }

    /// In a forked child, forgets this thread's sequence, so that the child does not repeat its
    /// parent's ids.
    #[cfg(unix)]
    pub(crate) fn forget_sequence() {
        SEQUENCE.set(0);
    }

    /// Writes the id as text into `buffer` and returns the text.
    pub fn text(self, buffer: &mut [u8; 36]) -> &str {
        *buffer = self.digits();
        std::str::from_utf8(buffer).unwrap_or_default()
    }

    /// Returns the characters of the id's text form, all of them ASCII.
    pub fn digits(self) -> [u8; 36] {
        let bits = self.to_bits();
        let [a, b, c, d] = [96, 64, 32, 0].map(|shift| hex((bits >> shift) as u32));
        let mut digits = [b'-'; 36];
        digits[..8].copy_from_slice(&a);
        digits[9..13].copy_from_slice(&b[..4]);
        digits[14..18].copy_from_slice(&b[4..]);
        digits[19..23].copy_from_slice(&c[..4]);
        digits[24..28].copy_from_slice(&c[4..]);
        digits[28..].copy_from_slice(&d);
        digits
    }
}

/// Returns the eight hexadecimal digits of a number, computed in parallel in one 64-bit word.
#[inline]
fn hex(number: u32) -> [u8; 8] {
    const EACH: u64 = u64::from_le_bytes([1; 8]);
    let mut word = u64::from(number);
    word = (word | word << 16) & 0x0000_FFFF_0000_FFFF;
    word = (word | word << 8) & 0x00FF_00FF_00FF_00FF;
    word = (word | word << 4) & 0x0F0F_0F0F_0F0F_0F0F;
    // 1 in each byte with a digit of ten or more: in ASCII the letters do not follow `9` directly.
    let letters = (word + EACH * 6) >> 4 & EACH;
    let distance = u64::from(b'a' - b'9' - 1);
    (word + EACH * u64::from(b'0') + letters * distance).to_be_bytes()
}

#[cold]
fn seed() -> u64 {
    // A fork must be noticed from now on.
    fork::generation();
    let mut bytes = [0; 8];
    if getrandom::fill(&mut bytes).is_err() {
        // Without a random source, mix values that differ between threads and processes.
        let here = &raw const bytes as u64;
        bytes =
            (clock::monotonic_ns() ^ here.rotate_left(32) ^ u64::from(std::process::id()) << 40)
                .wrapping_mul(STEP)
                .to_le_bytes();
    }
    u64::from_le_bytes(bytes) | 1
}

impl Default for Id {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.text(&mut [0; 36]))
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.text(&mut [0; 36]))
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl FromStr for Id {
    type Err = crate::Error;

    fn from_str(text: &str) -> crate::Result<Self> {
        let dashes_fit = text.len() == 36
            && text.bytes().enumerate().all(|(at, byte)| match at {
                8 | 13 | 18 | 23 => byte == b'-',
                _ => byte.is_ascii_hexdigit(),
            });
        let bits = if dashes_fit {
            let hex = text.replace('-', "");
            u128::from_str_radix(&hex, 16).ok().and_then(NonZeroU128::new)
        } else {
            None
        };
        bits.map(Self).ok_or_else(|| {
            crate::Error::new(crate::ErrorKind::Record, format!("`{text}` is not a UUID"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ids_are_unique_across_threads_and_sort_by_time() {
        let ids: Vec<Vec<Id>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| (0..20_000).map(|_| Id::new()).collect::<Vec<_>>()))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let distinct: HashSet<Id> = ids.iter().flatten().copied().collect();
        assert_eq!(distinct.len(), 80_000);
        let early = Id::at(1_700_000_000_000_000_000);
        let late = Id::at(1_700_000_000_001_000_000);
        assert!(early < late);
    }

    #[test]
    fn digits_are_those_of_the_number() {
        for number in [0, 1, 0x0123_4567, 0x89ab_cdef, 0x9a9a_a9a9, u32::MAX] {
            assert_eq!(str::from_utf8(&hex(number)).unwrap(), format!("{number:08x}"));
        }
    }

    #[test]
    fn text_has_version_and_variant_and_parses_back() {
        let id = Id::new();
        let text = id.to_string();
        assert_eq!(&text[14..15], "7");
        assert!(matches!(&text[19..20], "8" | "9" | "a" | "b"));
        assert_eq!(text.parse::<Id>().unwrap(), id);
        for bad in [
            "",
            "00000000-0000-0000-0000-000000000000",
            "not an id",
            "+199a0c5-7b6f-7a3e-9d4c-2f1e5b8a6c3d",
        ] {
            assert!(bad.parse::<Id>().is_err(), "{bad}");
        }
    }
}
