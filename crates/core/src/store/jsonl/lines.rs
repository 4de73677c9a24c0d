//! Reads a file line by line. The length of a line is limited.

use std::io::{self, BufRead, Read};

use crate::store::RecordHead;

/// The longest line that is read: far longer than any record, far smaller than any machine's
/// memory.
pub const LIMIT: usize = 64 * 1024 * 1024;

/// If a long line made the buffer larger than this, the buffer is shrunk afterwards.
const KEEP: usize = 1024 * 1024;

#[derive(Debug)]
pub struct Lines<R> {
    from: R,
    /// The length of the last line in the reader's own buffer. 0 if the line was copied to
    /// `buffer`.
    in_place: usize,
    buffer: Vec<u8>,
    limit: usize,
    number: u64,
    /// The offsets of the last line and of the next one.
    place: (u64, u64),
}

/// The content of a line.
#[derive(Debug, PartialEq)]
pub enum Line<'a> {
    /// A line, without its line end and surrounding blanks.
    Text(&'a [u8]),
    /// The last line, if it has no line end. It may be torn.
    Unended(&'a [u8]),
    /// A line over the limit. It was skipped.
    TooLong,
}

/// Parses the head of a record in a line. `None` if the line is not a JSON object.
pub(super) fn read_head(line: &[u8]) -> Option<RecordHead<'_>> {
    RecordHead::read(std::str::from_utf8(line).ok()?).ok()
}

impl<R: BufRead> Lines<R> {
    pub fn new(from: R, limit: usize) -> Self {
        Self { from, in_place: 0, buffer: Vec::new(), limit, number: 0, place: (0, 0) }
    }

    /// Returns the offset of the last line.
    pub(crate) fn start(&self) -> u64 {
        self.place.0
    }

    /// Returns the next line that is not blank, with its number.
    pub fn next_line(&mut self) -> io::Result<Option<(u64, Line<'_>)>> {
        loop {
            self.from.consume(std::mem::take(&mut self.in_place));
            self.buffer.clear();
            self.buffer.shrink_to(KEEP);
            self.in_place = self.length_in_place()?;
            let length = match self.in_place {
                0 => {
                    let limit = self.limit as u64 + 1;
                    self.from.by_ref().take(limit).read_until(b'\n', &mut self.buffer)?
                }
                length => length,
            };
            if length == 0 {
                return Ok(None);
            }
            self.place = (self.place.1, self.place.1 + length as u64);
            self.number += 1;
            let has_end = self.line()?.last() == Some(&b'\n');
            if !has_end && length > self.limit {
                self.place.1 += self.from.skip_until(b'\n')? as u64;
                return Ok(Some((self.number, Line::TooLong)));
            }
            // Two calls of `line`, for the borrow checker: a blank line must not keep the buffer
            // borrowed.
            if !is_blank(self.line()?) {
                let number = self.number;
                let text = trim(self.line()?);
                let line = if has_end { Line::Text(text) } else { Line::Unended(text) };
                return Ok(Some((number, line)));
            }
        }
    }

    /// Returns the length of the next line with its line end, if the reader has buffered all of it,
    /// so that it need not be copied. Otherwise 0.
    fn length_in_place(&mut self) -> io::Result<usize> {
        match self.from.fill_buf() {
            Ok(at_hand) => Ok(length(at_hand).filter(|it| *it <= self.limit + 1).unwrap_or(0)),
            // The copying read retries.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Returns the last line.
    fn line(&mut self) -> io::Result<&[u8]> {
        match self.in_place {
            0 => Ok(&self.buffer),
            length => self.from.fill_buf().map(|at_hand| &at_hand[..length]),
        }
    }
}

/// Returns the length of the first line, with its line end.
fn length(bytes: &[u8]) -> Option<usize> {
    const MANY: usize = 64;
    // Without a branch, so that the compiler can vectorise it.
    let has_end = |many: &[u8]| many.iter().fold(false, |any, byte| any | (*byte == b'\n'));
    let chunk = bytes.chunks(MANY).position(has_end)?;
    let rest = &bytes[chunk * MANY..];
    Some(chunk * MANY + rest.iter().position(|byte| *byte == b'\n')? + 1)
}

/// Removes line ends, blanks and a byte order mark. In files that were concatenated, each part
/// begins with such a mark.
fn trim(line: &[u8]) -> &[u8] {
    let line = line.trim_ascii();
    line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line).trim_ascii_start()
}

fn is_blank(line: &[u8]) -> bool {
    trim(line).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &[u8], limit: usize) -> Vec<String> {
        let mut lines = Lines::new(text, limit);
        let mut found = Vec::new();
        while let Some((number, line)) = lines.next_line().unwrap() {
            found.push(match line {
                Line::Text(text) => format!("{number} {}", text.escape_ascii()),
                Line::Unended(text) => format!("{number} {} unended", text.escape_ascii()),
                Line::TooLong => format!("{number} too long"),
            });
        }
        found
    }

    #[test]
    fn blanks_marks_and_both_line_ends_are_taken_off() {
        assert_eq!(
            all(b"\xef\xbb\xbf{1}\r\n\r\n \t\n{2}\n\xef\xbb\xbf{3}\r\n{4}", 100),
            ["1 {1}", "4 {2}", "5 {3}", "6 {4} unended"]
        );
        assert_eq!(all(b"\xef\xbb\xbf\n", 100), [""; 0]);
    }

    #[test]
    fn lines_are_the_same_however_much_is_at_hand() {
        let text: String = (0..40).map(|length| "x".repeat(length * 7) + "\n").collect();
        let whole = all(text.as_bytes(), 1000);
        for size in [1, 2, 63, 64, 65, 100, 1000] {
            let mut lines = Lines::new(io::BufReader::with_capacity(size, text.as_bytes()), 1000);
            let mut found = Vec::new();
            while let Some((number, Line::Text(text))) = lines.next_line().unwrap() {
                found.push(format!("{number} {}", text.escape_ascii()));
            }
            assert_eq!(found, whole, "{size}");
        }
    }

    #[test]
    fn a_line_over_the_limit_is_passed_over() {
        assert_eq!(
            all(b"1234\n12345\n123456789\n1\n", 4),
            ["1 1234", "2 too long", "3 too long", "4 1"]
        );
        assert_eq!(all(b"12345", 4), ["1 too long"]);
        assert_eq!(all(b"1234", 4), ["1 1234 unended"]);
    }
}
