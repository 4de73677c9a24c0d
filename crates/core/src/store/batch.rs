//! A batch of records for a store.

use std::ops::Range;

/// A batch of records for a store.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    lines: &'a [u8],
    ends: &'a [usize],
    inner: &'a [Range<usize>],
}

impl<'a> Batch<'a> {
    /// Creates a batch. `lines` contains JSON texts, each ended by a line feed. `ends` is the end
    /// offset of each.
    pub fn new(lines: &'a [u8], ends: &'a [usize]) -> Self {
        Self { lines, ends, inner: &[] }
    }

    /// Sets for each record a range of `lines` with fields of it that no store looks at.
    #[must_use]
    pub fn with_inner(self, inner: &'a [Range<usize>]) -> Self {
        Self { inner, ..self }
    }

    /// Returns the records as lines of JSON. The last line ends with a line feed too.
    pub fn json_lines(&self) -> &'a [u8] {
        self.lines
    }

    /// Iterates over the records as JSON text.
    pub fn records(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let batch = *self;
        (0..batch.len()).map(move |index| text(batch.line(index)))
    }

    /// Iterates over the records as JSON bytes, which are not checked to be UTF-8 again, each with
    /// its outline: the two parts of the record around the fields that no store looks at.
    pub fn outlined(&self) -> impl Iterator<Item = (&'a [u8], [&'a str; 2])> + use<'a> {
        let batch = *self;
        (0..batch.len()).map(move |index| {
            let outline = batch.without(index, batch.inner.get(index));
            (batch.line(index), outline)
        })
    }

    fn start(&self, index: usize) -> usize {
        if index == 0 { 0 } else { self.ends[index - 1] }
    }

    fn line(&self, index: usize) -> &'a [u8] {
        &self.lines[self.start(index)..self.ends[index] - 1]
    }

    /// Returns the text before and after a part of a record.
    fn without(&self, index: usize, part: Option<&Range<usize>>) -> [&'a str; 2] {
        let (start, end) = (self.start(index), self.ends[index] - 1);
        match part {
            Some(part) => [text(&self.lines[start..part.start]), text(&self.lines[part.end..end])],
            None => [text(&self.lines[start..end]), ""],
        }
    }

    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}
