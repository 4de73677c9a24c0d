//! Hashes a whole value on the caller's thread within a time budget, even if the record keeps only
//! a part of it.
//!
//! The clock is read only between blocks, so values of usual size never read it.

use serde::Serialize;
use twox_hash::XxHash3_128;

use super::{Form, Hash, MIN_HASHED_BYTES, NoHash, chosen};
use crate::clock;
use crate::record::redact::Class;
use crate::record::value::{Encoder, ValueView};
use crate::settings::HashKind;

/// How many bytes are hashed between two readings of the clock.
pub const BLOCK: usize = 64 << 10;

/// The time limit for all values of a budget. It is below the documented 5 ms, because the clock is
/// read only between blocks.
const LIMIT_NS: u64 = 4_000_000;

/// How many times the limit may elapse if the thread itself used less CPU time than the limit, for
/// example on a busy machine or while pages are read from disk.
const WAITING: u64 = 10;

/// The time budget for hashing all inputs, or all outputs, of one task.
///
/// The time starts at the first reading of the clock, which only long values cause.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// `None` if the author of the program requested the hash regardless of the time.
    limit_ns: Option<u64>,
    /// The first reading: the monotonic time and the thread's CPU time. `None` before it.
    start: Option<(u64, u64)>,
}

impl Default for Budget {
    fn default() -> Self {
        Self { limit_ns: Some(LIMIT_NS), start: None }
    }
}

impl Budget {
    /// A budget without a limit.
    pub(crate) const fn unlimited() -> Self {
        Self { limit_ns: None, start: None }
    }

    /// A budget that is spent after the first block.
    #[cfg(test)]
    pub(crate) const fn none() -> Self {
        Self { limit_ns: Some(0), start: None }
    }

    /// Reads the clock and returns whether the budget is spent.
    #[cold]
    pub(crate) fn is_spent(&mut self) -> bool {
        let Some(limit) = self.limit_ns else { return false };
        let now = clock::monotonic_ns();
        let Some((start, start_cpu)) = self.start else {
            self.start = Some((now, clock::thread_cpu_ns()));
            return limit == 0;
        };
        let passed = now.saturating_sub(start);
        if passed <= limit || passed > limit * WAITING {
            return passed > limit;
        }
        // Time in which the thread waited for a CPU does not count.
        clock::thread_cpu_ns().saturating_sub(start_cpu) > limit
    }
}

/// A hasher for bytes that arrive in parts.
#[allow(missing_debug_implementations, reason = "the hashers have none")]
pub enum Hasher {
    Xxh3(Box<XxHash3_128>),
    #[cfg(feature = "blake3")]
    Blake3(Box<blake3::Hasher>),
}

impl Hasher {
    /// Creates a hasher for the canonical form of a value. `None` if hashing is off.
    fn new() -> Option<Self> {
        match chosen() {
            HashKind::Xxh3 => Some(Self::Xxh3(Box::new(XxHash3_128::new()))),
            #[cfg(feature = "blake3")]
            HashKind::Blake3 => Some(Self::Blake3(Box::default())),
            _ => None,
        }
    }

    /// Creates a hasher for the raw bytes of a long slice. `None` if hashing is off.
    ///
    /// `kind` distinguishes equal bytes of different types: it is the seed for XXH3 and the first
    /// byte for BLAKE3. For plain bytes (`b'b'`), BLAKE3 gets no such byte, so the hash equals that
    /// of a file with this content.
    pub fn of_slice(kind: u8) -> Option<Self> {
        match chosen() {
            HashKind::Xxh3 => Some(Self::Xxh3(Box::new(XxHash3_128::with_seed(u64::from(kind))))),
            #[cfg(feature = "blake3")]
            HashKind::Blake3 => {
                let mut hasher = Box::<blake3::Hasher>::default();
                if kind != b'b' {
                    hasher.update(&[kind]);
                }
                Some(Self::Blake3(hasher))
            }
            _ => None,
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        match self {
            Self::Xxh3(hasher) => hasher.write(bytes),
            #[cfg(feature = "blake3")]
            Self::Blake3(hasher) => _ = hasher.update(bytes),
        }
    }

    /// Adds bytes, unless the budget is spent.
    fn write_within(&mut self, bytes: &[u8], budget: &mut Budget) -> Result<(), NoHash> {
        for block in bytes.chunks(BLOCK) {
            self.write(block);
            if block.len() == BLOCK && budget.is_spent() {
                return Err(NoHash::Slow);
            }
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Hash {
        match self {
            Self::Xxh3(hasher) => Hash::Xxh3(hasher.finish_128()),
            #[cfg(feature = "blake3")]
            Self::Blake3(hasher) => Hash::Blake3(hasher.finalize().into()),
        }
    }
}

/// Returns the hash of a slice's bytes; see [`Hasher::of_slice`]. `Ok(None)` if hashing is off.
pub fn of_slice(kind: u8, bytes: &[u8], budget: &mut Budget) -> Result<Option<Hash>, NoHash> {
    if bytes.len() <= BLOCK && chosen() == HashKind::Xxh3 {
        // The usual case, for which XXH3 has a faster function.
        let hash = XxHash3_128::oneshot_with_seed(u64::from(kind), bytes);
        return Ok(Some(Hash::Xxh3(hash)));
    }
    let Some(mut hasher) = Hasher::of_slice(kind) else { return Ok(None) };
    hasher.write_within(bytes, budget)?;
    Ok(Some(hasher.finish()))
}

/// Returns the hash of everything that the value's `Serialize` writes. `Ok(None)` if hashing is off
/// or the value is too small.
pub fn of_value<T: Serialize + ?Sized>(
    value: &T,
    class: Class,
    budget: &mut Budget,
) -> Result<Option<Hash>, NoHash> {
    let Some(mut hasher) = Hasher::new() else { return Ok(None) };
    let mut copy = Vec::with_capacity(BLOCK);
    let mut encoder = Encoder::without_limits(&mut copy, class, *budget);
    let done = encoder.copy_all(value);
    *budget = encoder.left();
    done?;
    let mut form = Form::default();
    form.fill(ValueView::new(&copy), budget)?;
    if form.bytes.len() < MIN_HASHED_BYTES {
        return Ok(None);
    }
    // Hashing takes much less time than the encoding, which was within the budget.
    hasher.write(&form.bytes);
    Ok(Some(hasher.finish()))
}

/// Returns the hash of a text of any length without copying it. Fails with [`NoHash::Secret`] if
/// `has_secret` accepts a part of the text.
pub fn of_text(
    text: &str,
    has_secret: impl Fn(&str) -> bool,
    budget: &mut Budget,
) -> Result<Option<Hash>, NoHash> {
    let Some(mut hasher) = Hasher::new() else { return Ok(None) };
    search(text, has_secret, budget)?;
    hasher.write(b"s");
    hasher.write(&(text.len() as u64).to_le_bytes());
    hasher.write_within(text.as_bytes(), budget)?;
    Ok(Some(hasher.finish()))
}

/// Fails if a part of the text contains a secret, or if the search takes too long.
pub(crate) fn search(
    text: &str,
    has_secret: impl Fn(&str) -> bool,
    budget: &mut Budget,
) -> Result<(), NoHash> {
    for (at, part) in parts(text).enumerate() {
        if has_secret(part) {
            return Err(NoHash::Secret);
        }
        if at % (BLOCK / PART) == BLOCK / PART - 1 && budget.is_spent() {
            return Err(NoHash::Slow);
        }
    }
    Ok(())
}

/// The size of the parts in which a text is searched for secrets. The clock is read once per
/// [`BLOCK`].
const PART: usize = 4096;

/// Splits a text into overlapping parts, so that a secret across the end of a part is whole in the
/// next one.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    const OVERLAP: usize = 1024;
    let mut next = Some(0);
    std::iter::from_fn(move || {
        let start = next?;
        let end = text.floor_char_boundary(start + PART + OVERLAP);
        next = (end < text.len()).then(|| text.floor_char_boundary(start + PART));
        Some(&text[start..end])
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::record::hash_of;

    fn never(_: &str) -> bool {
        false
    }

    #[test]
    fn parts_cover_a_text_and_overlap() {
        let text = "aé☃".repeat(5000);
        let all: Vec<&str> = parts(&text).collect();
        assert!(all.len() > 5 && all.iter().all(|part| part.len() <= PART + 1024));
        let at = |part: &str| part.as_ptr() as usize - text.as_ptr() as usize;
        assert_eq!(at(all[0]), 0);
        for pair in all.windows(2) {
            assert!(at(pair[1]) + 1000 < at(pair[0]) + pair[0].len());
        }
        assert_eq!(at(all[all.len() - 1]) + all[all.len() - 1].len(), text.len());
        assert_eq!(parts("").collect::<Vec<_>>(), [""]);
    }

    #[test]
    fn a_text_and_a_value_hash_as_their_canonical_form() {
        for length in [5000, 3 * BLOCK, 3 * BLOCK + 1] {
            let text = "x".repeat(length);
            let wanted = hash_of(&json!(text));
            let hash = of_text(&text, never, &mut Budget::default()).unwrap().unwrap();
            assert_eq!(hash.text(), wanted);
            let hash = of_value(&text, Class::Plain, &mut Budget::unlimited()).unwrap().unwrap();
            assert_eq!(hash.text(), wanted);
        }
    }

    #[test]
    fn blocks_hash_as_all_at_once() {
        let bytes: Vec<u8> = (0..3 * BLOCK + 5).map(|n| n as u8).collect();
        for length in [0, 1, 1000, BLOCK, BLOCK + 1, bytes.len()] {
            let bytes = &bytes[..length];
            let hash = of_slice(b'b', bytes, &mut Budget::unlimited()).unwrap();
            let wanted = XxHash3_128::oneshot_with_seed(u64::from(b'b'), bytes);
            assert_eq!(hash, Some(Hash::Xxh3(wanted)), "{length}");
        }
    }

    #[test]
    fn when_the_time_is_used_up_there_is_no_hash() {
        let long = vec![1_u8; 3 * BLOCK];
        let text = "x".repeat(3 * BLOCK);
        assert_eq!(of_slice(b'b', &long, &mut Budget::none()), Err(NoHash::Slow));
        assert_eq!(of_text(&text, never, &mut Budget::none()), Err(NoHash::Slow));
        assert_eq!(of_value(&text, Class::Plain, &mut Budget::none()), Err(NoHash::Slow));
        assert_eq!(of_value(&long, Class::Plain, &mut Budget::none()), Err(NoHash::Slow));
        // A value of usual size is hashed before the clock is read.
        assert!(of_slice(b'b', &long[..BLOCK], &mut Budget::none()).unwrap().is_some());
        assert!(of_value(&long[..500], Class::Plain, &mut Budget::none()).unwrap().is_some());
    }
}
