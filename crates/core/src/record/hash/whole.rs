//! Hashing a whole value on the caller's side, whatever a record keeps of it, within a time budget.
//!
//! The clock is read between blocks, so that it costs nothing for the values that programs usually pass.

use serde::Serialize;
use twox_hash::XxHash3_128;

use super::{Form, Hash, MIN_HASHED_BYTES, NoHash, chosen};
use crate::clock;
use crate::record::redact::Class;
use crate::settings::HashKind;

/// How many bytes are hashed between two looks at the clock.
pub const BLOCK: usize = 64 << 10;

/// How long the values of a task may take together. Less than the 5 ms that are promised, because the clock is read only now and then.
const LIMIT_NS: u64 = 4_000_000;

/// How much longer it may take on a busy machine, or while pages are read from a disk, when the thread itself worked
/// less.
const WAITING: u64 = 10;

/// The time that the values of a task may take: what it gets, or what it gives. It starts with the first look at the
/// clock, for which a value must be long.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// None where the author asked for the hash, however long it takes.
    limit_ns: Option<u64>,
    /// The first look: the time, and how long the thread had been on a processor.
    start: Option<(u64, u64)>,
}

impl Default for Budget {
    fn default() -> Self {
        Self { limit_ns: Some(LIMIT_NS), start: None }
    }
}

impl Budget {
    /// As much time as it takes.
    pub(crate) const fn unlimited() -> Self {
        Self { limit_ns: None, start: None }
    }

    /// Nothing, after the first block.
    #[cfg(test)]
    pub(crate) const fn none() -> Self {
        Self { limit_ns: Some(0), start: None }
    }

    /// Reads the clock, and returns whether the time is used up.
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
        // A thread that had to wait for a processor has not spent that time.
        clock::thread_cpu_ns().saturating_sub(start_cpu) > limit
    }
}

/// Hashes bytes that come in parts.
#[allow(missing_debug_implementations, reason = "the hashers have none")]
pub enum Hasher {
    Xxh3(Box<XxHash3_128>),
    #[cfg(feature = "blake3")]
    Blake3(Box<blake3::Hasher>),
}

impl Hasher {
    /// For the canonical form of a value; `None` where values are not hashed.
    fn new() -> Option<Self> {
        match chosen() {
            HashKind::Xxh3 => Some(Self::Xxh3(Box::new(XxHash3_128::new()))),
            #[cfg(feature = "blake3")]
            HashKind::Blake3 => Some(Self::Blake3(Box::default())),
            _ => None,
        }
    }

    /// For the bytes of a long slice, which have no other form. `kind` keeps equal bytes of different types apart: it
    /// is the seed of XXH3 and the first byte for BLAKE3. Bytes as such, `b'b'`, stand by themselves for BLAKE3, so
    /// that the hash is that of a file of them.
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

    /// Adds bytes within the budget.
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

/// The hash of a slice by its bytes; see [`Hasher::of_slice`]. `Ok(None)` where values are not hashed.
pub fn of_slice(kind: u8, bytes: &[u8], budget: &mut Budget) -> Result<Option<Hash>, NoHash> {
    if bytes.len() <= BLOCK && chosen() == HashKind::Xxh3 {
        // The usual case, for which XXH3 has a faster way.
        let hash = XxHash3_128::oneshot_with_seed(u64::from(kind), bytes);
        return Ok(Some(Hash::Xxh3(hash)));
    }
    let Some(mut hasher) = Hasher::of_slice(kind) else { return Ok(None) };
    hasher.write_within(bytes, budget)?;
    Ok(Some(hasher.finish()))
}

/// The hash of a value by all that its `Serialize` shows. `Ok(None)` where values are not hashed, or this one is too
/// small.
pub fn of_value<T: Serialize + ?Sized>(
    value: &T,
    class: Class,
    budget: &mut Budget,
) -> Result<Option<Hash>, NoHash> {
    let Some(mut hasher) = Hasher::new() else { return Ok(None) };
    let mut form = Form::default();
    form.fill_within(value, class, budget)?;
    if form.bytes.len() < MIN_HASHED_BYTES {
        return Ok(None);
    }
    hasher.write_within(&form.bytes, budget)?;
    Ok(Some(hasher.finish()))
}

/// The hash of a text, however long, which is not copied for it. A part of it that `has_secret` leaves no hash.
pub fn of_text(
    text: &str,
    has_secret: impl Fn(&str) -> bool,
    budget: &mut Budget,
) -> Result<Option<Hash>, NoHash> {
    let Some(mut hasher) = Hasher::new() else { return Ok(None) };
    for (at, part) in parts(text).enumerate() {
        if has_secret(part) {
            return Err(NoHash::Secret);
        }
        if at % (BLOCK / PART) == BLOCK / PART - 1 && budget.is_spent() {
            return Err(NoHash::Slow);
        }
    }
    hasher.write(b"s");
    hasher.write(&(text.len() as u64).to_le_bytes());
    hasher.write_within(text.as_bytes(), budget)?;
    Ok(Some(hasher.finish()))
}

/// How much of a text is looked at for secrets between two looks at the clock, at least.
const PART: usize = 4096;

/// The text in parts that overlap: a secret across the end of one is in the next one as well.
pub(super) fn parts(text: &str) -> impl Iterator<Item = &str> {
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
        // A value of the usual size is hashed before anybody looks at the clock.
        assert!(of_slice(b'b', &long[..BLOCK], &mut Budget::none()).unwrap().is_some());
        assert!(of_value(&long[..500], Class::Plain, &mut Budget::none()).unwrap().is_some());
    }
}
