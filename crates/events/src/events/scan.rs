//! Finds where JSON values begin and end, without parsing them. Each value is passed on as text. An
//! invalid value therefore affects only itself, and a file of any size needs only the memory of one
//! value.

use std::io::{self, BufRead};

use runlore_core::store::jsonl::LIMIT;

pub(super) struct Scanner<R> {
    input: R,
    /// The current line, from 1.
    pub(super) line: u64,
    /// The number of bytes consumed.
    pub(super) offset: u64,
}

/// How the scan of a value ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Whole,
    /// The value is longer than the limit and was skipped.
    TooLong,
    /// The text ends within the value.
    Torn,
}

impl<R: BufRead> Scanner<R> {
    /// Starts at the beginning of a text, skipping a byte order mark.
    pub(super) fn new(mut input: R) -> io::Result<Self> {
        let has_mark = input.fill_buf()?.starts_with(b"\xef\xbb\xbf");
        let mark = if has_mark { 3 } else { 0 };
        input.consume(mark);
        Ok(Self { input, line: 1, offset: mark as u64 })
    }

    /// Skips to a position that was found before.
    pub(super) fn go_to(&mut self, offset: u64, line: u64) -> io::Result<()> {
        while self.offset < offset {
            let length = self.input.fill_buf()?.len();
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let length = length.min(usize::try_from(offset - self.offset).unwrap_or(length));
            self.input.consume(length);
            self.offset += length as u64;
        }
        self.line = line;
        Ok(())
    }

    /// Skips blanks and returns the next byte without consuming it. `None` at the end.
    pub(super) fn peek(&mut self) -> io::Result<Option<u8>> {
        loop {
            let buffer = self.input.fill_buf()?;
            if buffer.is_empty() {
                return Ok(None);
            }
            let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
            let blanks = buffer.iter().take_while(|byte| is_blank(byte)).count();
            self.line += lines(&buffer[..blanks]);
            let next = buffer.get(blanks).copied();
            self.consume(blanks);
            if next.is_some() {
                return Ok(next);
            }
        }
    }

    /// Consumes the byte that [`peek`](Self::peek) returned.
    pub(super) fn pass(&mut self) {
        self.consume(1);
    }

    fn consume(&mut self, length: usize) {
        self.input.consume(length);
        self.offset += length as u64;
    }

    /// Consumes the next value. Stores its text in `keep`, if given.
    pub(super) fn value(&mut self, mut keep: Option<&mut Vec<u8>>) -> io::Result<Ended> {
        let mut inside = Inside::default();
        let mut too_long = false;
        if let Some(keep) = &mut keep {
            keep.clear();
            keep.shrink_to(1024 * 1024);
        }
        loop {
            let buffer = self.input.fill_buf()?;
            if buffer.is_empty() {
                let is_whole = inside.is_scalar();
                return Ok(if is_whole && !too_long { Ended::Whole } else { Ended::Torn });
            }
            let (length, ended) = inside.follow(buffer);
            self.line += lines(&buffer[..length]);
            if let Some(keep) = &mut keep {
                too_long |= keep.len() + length > LIMIT;
                if !too_long {
                    keep.extend_from_slice(&buffer[..length]);
                }
            }
            self.consume(length);
            if ended {
                return Ok(if too_long { Ended::TooLong } else { Ended::Whole });
            }
        }
    }
}

fn lines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// The position within a value.
#[derive(Default)]
struct Inside {
    depth: usize,
    string: bool,
    escaped: bool,
    scalar: bool,
}

impl Inside {
    /// Whether this is a number or a word, which ends only where the next token begins.
    fn is_scalar(&self) -> bool {
        self.scalar && self.depth == 0 && !self.string
    }

    /// Returns how many of these bytes belong to the value, and whether it ends there.
    fn follow(&mut self, bytes: &[u8]) -> (usize, bool) {
        for (at, &byte) in bytes.iter().enumerate() {
            if self.string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => {
                        self.string = false;
                        if self.depth == 0 {
                            return (at + 1, true);
                        }
                    }
                    _ => {}
                }
                continue;
            }
            match byte {
                b',' | b']' | b'}' | b' ' | b'\t' | b'\r' | b'\n' | b':' if self.depth == 0 => {
                    return (at, true);
                }
                b'"' if self.is_scalar() => return (at, true),
                b'"' => self.string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return (at + 1, true);
                    }
                }
                _ if self.depth == 0 => self.scalar = true,
                _ => {}
            }
        }
        (bytes.len(), false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> (Ended, String, Option<u8>) {
        // A buffer of three bytes, so that every value is split across reads.
        let input = io::BufReader::with_capacity(3, text.as_bytes());
        let mut scanner = Scanner::new(input).unwrap();
        scanner.peek().unwrap();
        let mut kept = Vec::new();
        let ended = scanner.value(Some(&mut kept)).unwrap();
        (ended, String::from_utf8(kept).unwrap(), scanner.peek().unwrap())
    }

    #[test]
    fn values_end_where_they_end() {
        for (text, kept, next) in [
            (r#" {"a":"}\"]"} ,1"#, r#"{"a":"}\"]"}"#, Some(b',')),
            ("[[1],[2]]]", "[[1],[2]]", Some(b']')),
            ("-1.5e3\n]", "-1.5e3", Some(b']')),
            ("true", "true", None),
            (r#""x\\"y"#, r#""x\\""#, Some(b'y')),
            ("\u{feff}nul{1}", "nul{1}", None),
        ] {
            assert_eq!(value(text), (Ended::Whole, kept.to_owned(), next), "{text}");
        }
        for text in [r#"{"a":"b"#, "[1,2", "\"", "{\"a\":1"] {
            assert_eq!(value(text).0, Ended::Torn, "{text}");
        }
    }
}
