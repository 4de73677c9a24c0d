//! Hashes of values: equal values have equal hashes, in any run, process or language.
//!
//! A value is hashed in the form in which it is stored (JSON's data model), in one canonical
//! encoding. The order of a `HashMap` therefore does not matter, an `i32` and a `u64` of the same
//! number agree, and the hash can be computed again from a record.
//!
//! The encoding of a value starts with a tag byte:
//!
//! * `n`, `t`, `f`: null, true, false
//! * `i`, `u` or `d`, then the number: an integer, an integer above `i64::MAX`, a float
//! * `s`, then the length and the text
//! * `a`, then the length and the items
//! * `o`, then the length, and for each field the name's length, the name and the value; the fields
//!   are sorted by name
//!
//! Numbers and lengths have 8 bytes, little-endian. NaN and the infinities are encoded as numbers,
//! although JSON stores them as null, because different values must not share a hash.
//!
//! The writer thread hashes values that were copied completely. For all other values, the caller
//! hashes the whole value (module `whole`).

mod form;
mod whole;

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU8, Ordering};

use serde_json::Value;
use twox_hash::XxHash3_128;

pub use form::Form;
pub(crate) use whole::search;
pub use whole::{BLOCK, Budget, Hasher, of_slice, of_text, of_value};

use super::value::ValueView;
use crate::settings::HashKind;

/// Values with a shorter canonical form get no hash in records: too many unrelated ones are equal.
const MIN_HASHED_BYTES: usize = 16;

/// Returns the hash of a stored value, as records write it.
///
/// ```
/// use runlore::record::hash_of;
/// let a = serde_json::json!({"x": [1, 2.5], "y": "text"});
/// assert_eq!(hash_of(&a), "xxh3-128:48764c0ff8b8770da79bc46c68e79d4d");
/// ```
pub fn hash_of(value: &Value) -> String {
    Hash::Xxh3(XxHash3_128::oneshot(&Form::of(value).bytes)).text()
}

/// Returns the hash of a stored value, as records write it under `instrumentation.hash: blake3`.
///
/// ```
/// use runlore::record::blake3_of;
/// let a = serde_json::json!({"x": [1, 2.5], "y": "text"});
/// let hash = "blake3:fd398f3871dd48b9e21e3953c1e5a382e841fe4dd817639841869ba97fd0b8ab";
/// assert_eq!(blake3_of(&a), hash);
/// ```
#[cfg(feature = "blake3")]
pub fn blake3_of(value: &Value) -> String {
    Hash::Blake3(blake3::hash(&Form::of(value).bytes).into()).text()
}

/// Returns the value's hash by each available algorithm. Records may have any of them.
pub fn all_of(value: &Value) -> Vec<String> {
    vec![
        hash_of(value),
        #[cfg(feature = "blake3")]
        blake3_of(value),
    ]
}

/// The hash algorithm in use, as the index of a [`HashKind`] in `KINDS`.
static KIND: AtomicU8 = AtomicU8::new(0);
const KINDS: [HashKind; 3] = [HashKind::Xxh3, HashKind::Blake3, HashKind::None];

/// Sets the hash algorithm.
pub(crate) fn choose(kind: HashKind) {
    let available = if kind == HashKind::Blake3 && !cfg!(feature = "blake3") {
        HashKind::Xxh3 // The settings check warns about this.
    } else {
        kind
    };
    let place = KINDS.iter().position(|known| *known == available).unwrap_or_default();
    KIND.store(place as u8, Ordering::Relaxed);
}

#[inline]
fn chosen() -> HashKind {
    KINDS[usize::from(KIND.load(Ordering::Relaxed)) % KINDS.len()]
}

/// Whether values are hashed at all.
#[inline]
pub(crate) fn is_on() -> bool {
    chosen() != HashKind::None
}

/// A hash by one of the algorithms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Hash {
    Xxh3(u128),
    Blake3([u8; 32]),
}

impl Hash {
    fn of_form(bytes: &[u8]) -> Option<Self> {
        match chosen() {
            HashKind::Xxh3 => Some(Self::Xxh3(XxHash3_128::oneshot(bytes))),
            #[cfg(feature = "blake3")]
            HashKind::Blake3 => Some(Self::Blake3(blake3::hash(bytes).into())),
            _ => None,
        }
    }

    /// Writes the hash as its length and its bytes, for the queue to the writer thread.
    pub(crate) fn put(self, mut to: impl FnMut(&[u8])) {
        match self {
            Self::Xxh3(bits) => {
                to(&[16]);
                to(&bits.to_le_bytes());
            }
            Self::Blake3(bytes) => {
                to(&[32]);
                to(&bytes);
            }
        }
    }

    /// Parses a hash. `None` unless there are 16 or 32 bytes.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        match bytes.len() {
            16 => Some(Self::Xxh3(u128::from_le_bytes(bytes.try_into().ok()?))),
            32 => Some(Self::Blake3(bytes.try_into().ok()?)),
            _ => None,
        }
    }

    /// Returns the hash as records write it.
    pub fn text(self) -> String {
        match self {
            Self::Xxh3(bits) => format!("xxh3-128:{bits:032x}"),
            Self::Blake3(bytes) => {
                let mut text = "blake3:".to_owned();
                for byte in bytes {
                    _ = write!(text, "{byte:02x}");
                }
                text
            }
        }
    }
}

/// Whether a hash identifies one value. Older versions wrote `xxh3-128/prefix:…`, the hash of a
/// value's beginning, which different values can share.
pub fn identifies(hash: &str) -> bool {
    hash.split_once(':').is_none_or(|(algorithm, _)| !algorithm.ends_with("/prefix"))
}

/// Why a value has no hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum NoHash {
    /// The record has only a description or a name, such as facts about a tensor or a path.
    /// Different values can share it.
    Described = 1,
    /// The value contains a secret.
    Secret = 2,
    /// The time budget for hashing was used up.
    Slow = 3,
    /// The value is nested too deeply to be walked safely.
    Deep = 4,
    /// The value's `Serialize` panicked or returned an error after the copy was complete.
    Failed = 5,
    /// Only a part of the value was copied, and the rest is gone.
    Cut = 6,
}

impl NoHash {
    /// Returns the reason for a number of three bits. `None` if no reason has this number.
    pub fn from_bits(bits: u8) -> Option<Self> {
        let all = [Self::Described, Self::Secret, Self::Slow, Self::Deep, Self::Failed, Self::Cut];
        all.into_iter().find(|why| *why as u8 == bits)
    }

    /// Returns the reason as text for a record. `None` if the recorded value itself shows it.
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Self::Described | Self::Secret => None,
            Self::Slow => Some("hashing all of the value took too long"),
            Self::Deep => Some("it is nested too deeply to be hashed"),
            Self::Failed => Some("its own Serialize failed past the limits"),
            Self::Cut => Some("only its beginning was kept"),
        }
    }
}

/// Returns the hash of a captured value. `Ok(None)` if the value is too small to be distinctive, or
/// hashing is off.
///
/// `cut` means that a limit stopped the copying.
#[inline]
pub fn of_captured(
    value: ValueView<'_>,
    cut: bool,
    no_hash: Option<NoHash>,
    form: &mut Form,
) -> Result<Option<Hash>, NoHash> {
    if value.is_small() || !is_on() {
        return Ok(None);
    }
    if let Some(why @ (NoHash::Described | NoHash::Secret)) = no_hash {
        return Err(why);
    }
    if let Some(hash) = value.caller_hash() {
        // Older versions kept the hash of the beginning of a value that was too large for its
        // queue.
        return if cut && value.is_scalar() { Err(NoHash::Cut) } else { Ok(Some(hash)) };
    }
    if value.is_scalar() {
        return Ok(None);
    }
    // If the fields of a value are recorded separately, a field may be complete although the value
    // is not.
    if (cut || value.is_long_slice()) && !value.is_whole() {
        return Err(no_hash.unwrap_or(NoHash::Cut));
    }
    form.fill(value, &mut Budget::unlimited())?;
    let is_enough = form.bytes.len() >= MIN_HASHED_BYTES;
    Ok(is_enough.then(|| Hash::of_form(&form.bytes)).flatten())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_comes_back_from_its_number() {
        for bits in 0..8 {
            let why = NoHash::from_bits(bits);
            assert!(why.is_none_or(|why| why as u8 == bits));
            assert_eq!(why.is_some(), (1..=6).contains(&bits));
        }
    }

    #[test]
    fn only_hashes_of_whole_values_identify_them() {
        assert!(identifies("xxh3-128:48764c0f") && identifies("blake3:af13") && identifies("h1"));
        assert!(!identifies("xxh3-128/prefix:48764c0f") && !identifies("blake3/prefix:af13"));
    }
}
