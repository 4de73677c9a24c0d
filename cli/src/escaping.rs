//! Escapes output that could control a terminal.
//!
//! JSON escapes the control characters below U+0020, and texts are made printable. Some terminals
//! also react to characters that JSON leaves as they are: DEL, the control characters from U+0080
//! to U+009F, and marks that change the writing direction. They are written as `\uXXXX`, which
//! means the same in JSON.

use std::io::{self, Write};

/// A writer that escapes these characters. It escapes nothing if the output is not a terminal.
#[derive(Debug)]
pub(crate) struct Escaping<W> {
    to: W,
    is_on: bool,
    /// The first bytes of a character whose remaining bytes have not been written yet.
    begun: Vec<u8>,
}

impl<W: Write> Escaping<W> {
    pub(crate) fn new(to: W, is_on: bool) -> Self {
        Self { to, is_on, begun: Vec::new() }
    }
}

impl<W: Write> Write for Escaping<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_on {
            return self.to.write(bytes);
        }
        let mut all = std::mem::take(&mut self.begun);
        all.extend_from_slice(bytes);
        let mut rest = all.as_slice();
        while let Some(at) = rest.iter().position(|byte| could_begin(*byte)) {
            self.to.write_all(&rest[..at])?;
            rest = &rest[at..];
            let length = length(rest[0]);
            if rest.len() < length {
                self.begun = rest.to_vec();
                return Ok(bytes.len());
            }
            let (character, after) = rest.split_at(length);
            match std::str::from_utf8(character).ok().and_then(|text| text.chars().next()) {
                Some(acts) if acts_on_a_terminal(acts) => {
                    write!(self.to, "\\u{:04x}", u32::from(acts))?;
                }
                _ => self.to.write_all(character)?,
            }
            rest = after;
        }
        self.to.write_all(rest)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

fn acts_on_a_terminal(character: char) -> bool {
    matches!(character, '\u{7f}'..='\u{9f}' | '\u{61c}' | '\u{200e}' | '\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether a byte may be the first of such a character.
fn could_begin(byte: u8) -> bool {
    matches!(byte, 0x7f | 0xc2 | 0xd8 | 0xe2)
}

fn length(first: u8) -> usize {
    match first {
        0x7f => 1,
        0xe2 => 3,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "a\u{7f}\u{9b}31m\u{202e}é\u{a0}…\u{61c}ب\u{2067}\u{1b}[1mb\n";

    #[test]
    fn what_acts_on_a_terminal_is_escaped_however_the_bytes_come() {
        for size in 1..TEXT.len() {
            let mut out = Escaping::new(Vec::new(), true);
            TEXT.as_bytes().chunks(size).for_each(|part| out.write_all(part).unwrap());
            let text = String::from_utf8(out.to).unwrap();
            let escaped = "a\\u007f\\u009b31m\\u202eé\u{a0}…\\u061cب\\u2067\u{1b}[1mb\n";
            assert_eq!(text, escaped, "{size}");
        }
    }

    #[test]
    fn elsewhere_nothing_changes() {
        let mut out = Escaping::new(Vec::new(), false);
        out.write_all(TEXT.as_bytes()).unwrap();
        assert_eq!(out.to, TEXT.as_bytes());
    }
}
