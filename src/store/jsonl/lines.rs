//! The lines of a file, one at a time, none longer than a limit.

use std::io::{self, BufRead, Read};

/// The longest line that is read: far above any record, far below any machine's memory.
pub(crate) const LIMIT: usize = 64 * 1024 * 1024;

/// A buffer that a long line made larger than this is given back after it.
const KEEP: usize = 1024 * 1024;

#[derive(Debug)]
pub(crate) struct Lines<R> {
    from: R,
    buffer: Vec<u8>,
    limit: usize,
    number: u64,
    /// Where the line that was read last begins, and where the next one does.
    place: (u64, u64),
}

/// What a line turned out to be.
#[derive(Debug, PartialEq)]
pub(crate) enum Line<'a> {
    /// A line, without its end and without blanks around it.
    Text(&'a [u8]),
    /// The last line, which has no end: perhaps torn.
    Unended(&'a [u8]),
    /// A line over the limit; it has been passed over.
    TooLong,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(from: R, limit: usize) -> Self {
        Self { from, buffer: Vec::new(), limit, number: 0, place: (0, 0) }
    }

    /// Where the line that was read last begins.
    pub(crate) fn start(&self) -> u64 {
        self.place.0
    }

    /// The next line that is not blank, with its number.
    pub(crate) fn next(&mut self) -> io::Result<Option<(u64, Line<'_>)>> {
        loop {
            self.buffer.clear();
            self.buffer.shrink_to(KEEP);
            let limit = self.limit as u64 + 1;
            let length = self.from.by_ref().take(limit).read_until(b'\n', &mut self.buffer)?;
            if length == 0 {
                return Ok(None);
            }
            self.place = (self.place.1, self.place.1 + length as u64);
            self.number += 1;
            let has_end = self.buffer.last() == Some(&b'\n');
            if !has_end && self.buffer.len() > self.limit {
                self.place.1 += self.from.skip_until(b'\n')? as u64;
                return Ok(Some((self.number, Line::TooLong)));
            }
            // Split in two steps, for the borrow checker: a blank line must leave the buffer free.
            if !is_blank(&self.buffer) {
                let text = trim(&self.buffer);
                let line = if has_end { Line::Text(text) } else { Line::Unended(text) };
                return Ok(Some((self.number, line)));
            }
        }
    }
}

/// Takes off line ends, blanks and byte order marks; a mark stands at the start of each of several files
/// that were put together.
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
        while let Some((number, line)) = lines.next().unwrap() {
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
    fn a_line_over_the_limit_is_passed_over() {
        assert_eq!(
            all(b"1234\n12345\n123456789\n1\n", 4),
            ["1 1234", "2 too long", "3 too long", "4 1"]
        );
        assert_eq!(all(b"12345", 4), ["1 too long"]);
        assert_eq!(all(b"1234", 4), ["1 1234 unended"]);
    }
}
