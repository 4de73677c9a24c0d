//! Formats values for people: durations, sizes, and untrusted strings made safe to print.
//!
//! ```
//! use std::time::Duration;
//! use runlore_core::text::{human_bytes, human_duration, printable};
//!
//! assert_eq!(human_duration(Duration::from_micros(1240)), "1.24 ms");
//! assert_eq!(human_bytes(1536), "1.5 KiB");
//! assert_eq!(printable("red: \x1b[31m").to_string(), "red: \\u{1b}[31m");
//! ```

use std::fmt::{self, Display, Write};
use std::time::Duration;

/// Formats a duration: `830 ns`, `1.24 ms`, `2.0 s`, `3 min 5 s`.
pub fn human_duration(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    // Each bound is where rounding would reach the next unit, so that `1000 ms` never occurs.
    match nanos {
        0..1_000 => format!("{nanos} ns"),
        1_000..999_500 => three_digits(nanos, 1_000, "µs"),
        999_500..999_500_000 => three_digits(nanos, 1_000_000, "ms"),
        999_500_000..59_950_000_000 => {
            let tenths = (nanos + 50_000_000) / 100_000_000;
            format!("{}.{} s", tenths / 10, tenths % 10)
        }
        _ => {
            let seconds = (nanos + 500_000_000) / 1_000_000_000;
            let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
            match (days, hours, minutes) {
                (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
                (0, _, _) => format!("{hours} h {} min", minutes % 60),
                _ => format!("{days} d {} h", hours % 24),
            }
        }
    }
}

/// Formats `nanos` in units of `unit`, with three digits and without trailing zeros.
fn three_digits(nanos: u128, unit: u128, name: &str) -> String {
    let decimals = match nanos / unit {
        0..10 => 2,
        10..100 => 1,
        _ => 0,
    };
    let scale = 10_u128.pow(decimals);
    let scaled = (nanos * scale + unit / 2) / unit;
    let mut text = (scaled / scale).to_string();
    if !scaled.is_multiple_of(scale) {
        let fraction = format!("{:0width$}", scaled % scale, width = decimals as usize);
        text.push('.');
        text.push_str(fraction.trim_end_matches('0'));
    }
    format!("{text} {name}")
}

/// Formats a number of bytes: `512 B`, `1.5 KiB`, `24 GiB`.
pub fn human_bytes(bytes: u64) -> String {
    let mut scaled = bytes as f64;
    let mut units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    // From here on rounding would print 1024 of a unit.
    while scaled >= 1023.5 {
        let Some(next) = units.next() else { break };
        scaled /= 1024.0;
        unit = next;
    }
    format!("{} {unit}", rounded(scaled))
}

/// Formats a whole number with thousands separators: `1,204`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Rounds a number to three digits, or to a whole number if that has more. Trailing zeros are
/// removed.
pub fn rounded(number: f64) -> String {
    let decimals = match number.abs() {
        0.0..9.995 => 2,
        9.995..99.95 => 1,
        _ => 0,
    };
    let text = format!("{number:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Returns the valid name that a mistyped word was probably meant to be. `None` if no name is near.
///
/// ```
/// use runlore_core::text::nearest;
///
/// assert_eq!(nearest("trian", &["evaluate", "train"]), Some("train"));
/// assert_eq!(nearest("x", &["evaluate", "train"]), None);
/// ```
pub fn nearest<'a>(word: &str, names: &[&'a str]) -> Option<&'a str> {
    crate::settings::nearest::nearest(word, names)
}

/// Makes a string safe to print on one line of a terminal. Control characters, line breaks and
/// marks that change the writing direction are escaped.
pub fn printable(text: &str) -> Printable<'_> {
    Printable { text, most: usize::MAX, lines: false }
}

/// A string that is safe to print. Made by [`printable()`].
#[derive(Debug, Clone, Copy)]
pub struct Printable<'a> {
    text: &'a str,
    most: usize,
    lines: bool,
}

impl Printable<'_> {
    /// Shows at most this many characters. If there are more, the last one shown is an ellipsis.
    #[must_use]
    pub fn at_most(mut self, characters: usize) -> Self {
        self.most = characters.max(1);
        self
    }

    /// Keeps line feeds and tabs.
    #[must_use]
    pub fn keep_lines(mut self) -> Self {
        self.lines = true;
        self
    }
}

impl Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_cut = self.text.chars().nth(self.most).is_some();
        let shown = if is_cut { self.most - 1 } else { self.most };
        for character in self.text.chars().take(shown) {
            match character {
                '\n' | '\t' if self.lines => f.write_char(character)?,
                '\n' | '\t' | '\r' => write!(f, "{}", character.escape_default())?,
                unsafe_to_print if is_unsafe(unsafe_to_print) => {
                    write!(f, "{}", unsafe_to_print.escape_unicode())?;
                }
                other => f.write_char(other)?,
            }
        }
        if is_cut { f.write_char('…') } else { Ok(()) }
    }
}

fn is_unsafe(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_well_at_every_size() {
        let human = |nanos| human_duration(Duration::from_nanos(nanos));
        let cases = [
            (0, "0 ns"),
            (830, "830 ns"),
            (999, "999 ns"),
            (1_000, "1 µs"),
            (1_240, "1.24 µs"),
            (12_345, "12.3 µs"),
            (999_499, "999 µs"),
            (999_500, "1 ms"),
            (1_240_000, "1.24 ms"),
            (9_996_000, "10 ms"),
            (30_000_000, "30 ms"),
            (830_400_000, "830 ms"),
            (999_499_999, "999 ms"),
            (999_500_000, "1.0 s"),
            (1_050_000_000, "1.1 s"),
            (2_000_000_000, "2.0 s"),
            (59_949_999_999, "59.9 s"),
            (59_950_000_000, "1 min 0 s"),
            (185_000_000_000, "3 min 5 s"),
            (3_599_600_000_000, "1 h 0 min"),
            (7_380_000_000_000, "2 h 3 min"),
            (187_200_000_000_000, "2 d 4 h"),
        ];
        for (nanos, text) in cases {
            assert_eq!(human(nanos), text, "{nanos} ns");
        }
        assert_eq!(human_duration(Duration::MAX), "213503982334601 d 7 h");
    }

    #[test]
    fn bytes_read_well_at_every_size() {
        for (number, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (1_048_575, "1 MiB"),
            (12_900_000, "12.3 MiB"),
            (25_274_793_984, "23.5 GiB"),
            (u64::MAX, "16 EiB"),
        ] {
            assert_eq!(human_bytes(number), text);
        }
    }

    #[test]
    fn what_could_harm_a_terminal_is_escaped() {
        let text = "a\x1b[2J\n\u{9b}31m\u{202e}\u{0}é";
        assert_eq!(printable(text).to_string(), r"a\u{1b}[2J\n\u{9b}31m\u{202e}\u{0}é");
        assert_eq!(printable("a\n\tb\r").keep_lines().to_string(), "a\n\tb\\r");
        assert_eq!(printable("abcd").at_most(4).to_string(), "abcd");
        assert_eq!(printable("abcde").at_most(4).to_string(), "abc…");
    }
}
