//! Records on their way into a store.

use std::ops::Range;

/// Records on their way into a store.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    lines: &'a [u8],
    ends: &'a [usize],
    inner: &'a [Range<usize>],
}

impl<'a> Batch<'a> {
    /// `lines` holds JSON texts, each ended by a line feed; `ends` says where each of them ends.
    pub fn new(lines: &'a [u8], ends: &'a [usize]) -> Self {
        Self { lines, ends, inner: &[] }
    }

    /// For each record, a part of `lines` that is fields of it which no store looks for.
    #[must_use]
    pub fn with_inner(self, inner: &'a [Range<usize>]) -> Self {
        Self { inner, ..self }
    }

    /// The records as lines of JSON, the last one ended too.
    pub fn json_lines(&self) -> &'a [u8] {
        self.lines
    }

    /// Each record as JSON text.
    pub fn records(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let batch = *self;
        (0..batch.len()).map(move |index| text(batch.line(index)))
    }

    /// Each record as JSON text, not checked again to be text, and its outline: the record without fields that no store looks
    /// for, in two parts.
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

    /// What stands before and after a part of a record.
    fn without(&self, index: usize, part: Option<&Range<usize>>) -> [&'a str; 2] {
        let (start, end) = (self.start(index), self.ends[index] - 1);
        match part {
            Some(part) => [text(&self.lines[start..part.start]), text(&self.lines[part.end..end])],
            None => [text(&self.lines[start..end]), ""],
        }
    }

    /// How many records there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}
