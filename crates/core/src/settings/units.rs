//! Sizes and durations with units.

use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};

/// A number of bytes. Settings write it as a plain number or with a unit: `4096`, `256KiB`, `64
/// MiB`, `1GB`.
///
/// ```
/// use runlore::settings::Bytes;
/// let size: Bytes = "256KiB".parse()?;
/// assert_eq!(size.get(), 262_144);
/// assert_eq!(size.to_string(), "256KiB");
/// assert_eq!("1.5 MB".parse::<Bytes>()?.get(), 1_500_000);
/// # Ok::<(), runlore::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(u64);

impl Bytes {
    /// Creates a size of `bytes` bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Returns the number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }
}

const SIZES: [(&str, u64); 14] = [
    ("", 1),
    ("b", 1),
    ("k", 1 << 10),
    ("kb", 1_000),
    ("kib", 1 << 10),
    ("m", 1 << 20),
    ("mb", 1_000_000),
    ("mib", 1 << 20),
    ("g", 1 << 30),
    ("gb", 1_000_000_000),
    ("gib", 1 << 30),
    ("t", 1 << 40),
    ("tb", 1_000_000_000_000),
    ("tib", 1 << 40),
];

/// The time units that settings accept, in nanoseconds.
const TIMES: [(&str, u64); 9] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// Parses a number with a unit, and converts it to the smallest unit.
fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let unit = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '_')))?;
    let (number, unit) = text.split_at(unit);
    let unit = unit.trim().to_lowercase();
    let (_, scale) = units.iter().find(|(name, _)| *name == unit)?;
    let number = number.replace('_', "");
    match number.parse::<u64>() {
        Ok(whole) => whole.checked_mul(*scale),
        Err(_) => {
            let value = number.parse::<f64>().ok()? * *scale as f64;
            (value.is_finite() && value < u64::MAX as f64).then_some(value.round() as u64)
        }
    }
}

/// Parses a size. The unit is optional.
pub(super) fn bytes(text: &str) -> Option<Bytes> {
    text.trim().parse().ok().or_else(|| scaled(text, &SIZES)).map(Bytes)
}

/// Parses a duration with its unit.
pub(super) fn duration(text: &str) -> Option<Duration> {
    scaled(text, &TIMES).map(Duration::from_nanos)
}

impl std::str::FromStr for Bytes {
    type Err = crate::Error;

    fn from_str(text: &str) -> Result<Self, crate::Error> {
        bytes(text).ok_or_else(|| {
            let message = "a size must be a number of bytes, or one with a unit such as `256KiB`";
            crate::Error::new(crate::ErrorKind::Settings, message)
        })
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, scale) in [("GiB", 1_u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
            if self.0 >= scale && self.0.is_multiple_of(scale) {
                return write!(f, "{}{unit}", self.0 / scale);
            }
        }
        write!(f, "{}", self.0)
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// Formats a duration as settings write it: `200ms`.
pub(super) fn duration_text(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    let units: [(&str, u128); 6] = [
        ("h", 3_600_000_000_000),
        ("min", 60_000_000_000),
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
        ("ns", 1),
    ];
    let fits = |scale: &u128| nanos >= *scale && nanos.is_multiple_of(*scale);
    match units.iter().find(|(_, scale)| fits(scale)) {
        Some((unit, scale)) => format!("{}{unit}", nanos / scale),
        None => "0s".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written() {
        for (text, value) in [
            ("0", 0),
            ("4096", 4096),
            ("4_096 b", 4096),
            ("256KiB", 262_144),
            ("256k", 262_144),
            ("1.5 MB", 1_500_000),
            ("2 gib", 2 << 30),
        ] {
            assert_eq!(bytes(text).map(Bytes::get), Some(value), "{text}");
        }
        for wrong in ["", " ", "KiB", "-1", "1 KiBB", "1e3", "nan", "99999999999 TiB", "1.2.3 MB"] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
        for size in [0, 1, 1000, 1024, 1536, 262_144, 64 << 20, 3 << 30] {
            assert_eq!(bytes(&Bytes(size).to_string()), Some(Bytes(size)));
        }
    }

    #[test]
    fn times_are_read_and_written() {
        for (text, millis) in
            [("200ms", 200), ("1.5 s", 1500), ("2min", 120_000), ("1h", 3_600_000), ("0s", 0)]
        {
            assert_eq!(duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for wrong in ["", "200", "ms", "1 year", "-1s", "999999999999999 h"] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
        for nanos in [0, 1, 1_000, 1_500, 200_000_000, 90_000_000_000, 3_600_000_000_000] {
            let time = Duration::from_nanos(nanos);
            assert_eq!(duration(&duration_text(time)), Some(time));
        }
    }
}
