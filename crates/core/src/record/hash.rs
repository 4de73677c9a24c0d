//! The hash of a value: equal values have equal hashes, in any run, process or language.
//!
//! A value is hashed in the form in which it is stored (JSON's data model) and in one canonical
//! encoding: numbers as 8 bytes, text and lists with their length, maps sorted by key. So the
//! order of a `HashMap` does not matter, an `i32` and a `u64` of the same number agree, and whoever has a
//! record can compute the hash again.
//!
//! The encoding: `n`, `t`, `f` for null, true, false; `i` or `u` (above `i64::MAX`) or `d` and a number; `s`, a
//! length and the text; `a`, a length and the items; `o`, a length and for each field the name's length, the name and
//! the value. Numbers and lengths have 8 bytes, little-endian. NaN and the infinities are numbers here, although JSON
//! stores them as null: values that differ must not share a hash.
//!
//! The writer thread hashes values that were copied as a whole. Of others the caller hashes all, in `whole`.

mod form;
mod whole;

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU8, Ordering};

use serde_json::Value;
use twox_hash::XxHash3_128;

pub use form::Form;
pub use whole::{BLOCK, Budget, Hasher, of_slice, of_text, of_value};

use super::value::ValueView;
use crate::settings::HashKind;

/// Values whose canonical form is shorter are not hashed in records: too many unrelated ones are equal.
const MIN_HASHED_BYTES: usize = 16;

/// The hash of a stored value, as records write it.
///
/// ```
/// use runlore::record::hash_of;
/// let a = serde_json::json!({"x": [1, 2.5], "y": "text"});
/// assert_eq!(hash_of(&a), "xxh3-128:48764c0ff8b8770da79bc46c68e79d4d");
/// ```
pub fn hash_of(value: &Value) -> String {
    Hash::Xxh3(XxHash3_128::oneshot(&Form::of(value).bytes)).text()
}

/// The hash of a stored value, as records write it under `instrumentation.hash: blake3`.
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

/// A value's hashes by each algorithm that this program has: its records may have either.
pub fn all_of(value: &Value) -> Vec<String> {
    vec![
        hash_of(value),
        #[cfg(feature = "blake3")]
        blake3_of(value),
    ]
}

/// What is hashed with: the place of a [`HashKind`] in `KINDS`.
static KIND: AtomicU8 = AtomicU8::new(0);
const KINDS: [HashKind; 3] = [HashKind::Xxh3, HashKind::Blake3, HashKind::None];

/// Says what values are hashed with.
pub(crate) fn choose(kind: HashKind) {
    let available = if kind == HashKind::Blake3 && !cfg!(feature = "blake3") {
        HashKind::Xxh3 // The settings have said so.
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

/// A hash of one kind or the other.
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

    /// Its length and its bytes, on the way to the writer.
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

    /// As records write it.
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

/// Whether a hash stands for one value. Older versions wrote `xxh3-128/prefix:…` of a value's beginning, which
/// different values share.
pub fn identifies(hash: &str) -> bool {
    hash.split_once(':').is_none_or(|(algorithm, _)| !algorithm.ends_with("/prefix"))
}

/// Why a value has no hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum NoHash {
    /// What is recorded is a description or a name, which different things share: facts about a tensor, a path.
    Described = 1,
    /// It contains a secret.
    Secret = 2,
    /// The time for hashing was used up.
    Slow = 3,
    /// It is nested too deeply to be walked safely.
    Deep = 4,
    /// Its own `Serialize` panicked or returned an error after the copy was complete.
    Failed = 5,
    /// A part of it was copied, and the rest is gone.
    Cut = 6,
}

impl NoHash {
    /// The reason with this number, which is less than 8.
    pub fn from_bits(bits: u8) -> Option<Self> {
        let all = [Self::Described, Self::Secret, Self::Slow, Self::Deep, Self::Failed, Self::Cut];
        all.into_iter().find(|why| *why as u8 == bits)
    }

    /// The sentence for the reader of a record. `None` where the value itself shows why.
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

/// The hash of a captured value; `None` where the value is too small to be told from others. `cut` says that a limit
/// stopped the copying.
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
        // Older versions kept of a shed value the hash of its beginning.
        return if cut && value.is_scalar() { Err(NoHash::Cut) } else { Ok(Some(hash)) };
    }
    if value.is_scalar() {
        return Ok(None);
    }
    // A field that is spread may be whole although the value around it is not.
    if (cut || value.is_long_slice()) && !value.is_whole() {
        return Err(no_hash.unwrap_or(NoHash::Cut));
    }
    form.fill(&value.plain(cut))?;
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
