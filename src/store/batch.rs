//! Records on their way into a store.

use std::ops::Range;

use crate::telemetry::Snapshot;

/// Records on their way into a store.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    lines: &'a [u8],
    ends: &'a [usize],
    #[cfg_attr(not(feature = "sqlite"), expect(dead_code, reason = "only SQLite has columns"))]
    inner: &'a [Range<usize>],
    captures: Option<&'a Captures>,
}

impl<'a> Batch<'a> {
    /// `lines` holds JSON texts, each ended by a line feed; `ends` says where each of them ends.
    pub(crate) fn new(lines: &'a [u8], ends: &'a [usize]) -> Self {
        Self { lines, ends, inner: &[], captures: None }
    }

    /// For each record, a part of `lines` that is fields of it which no store looks for.
    pub(crate) fn with_inner(self, inner: &'a [Range<usize>]) -> Self {
        Self { inner, ..self }
    }

    /// The captures of each record.
    pub(crate) fn with_captures(self, captures: &'a Captures) -> Self {
        Self { captures: Some(captures), ..self }
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

    /// The captures of each record, at its start and at its end, where they are known: in a batch of tasks that have ended, for a
    /// store that [asks for them](super::Store::wants_captures).
    pub fn captures(&self) -> impl Iterator<Item = [Option<Snapshot<'a>>; 2]> + use<'a> {
        let batch = *self;
        (0..batch.len()).map(move |index| batch.captures_of(index).map_or([None; 2], |it| it.1))
    }

    /// Where the captures of a record are in the lines, and what they are.
    fn captures_of(&self, index: usize) -> Option<(Range<usize>, [Option<Snapshot<'a>>; 2])> {
        let captures = self.captures?;
        let of = captures.of.get(index)?;
        let capture = |at: &Option<Range<usize>>| Some(Snapshot(&captures.bytes[at.clone()?]));
        Some((of.text.clone(), [capture(&of.at_start), capture(&of.at_end)]))
    }

    /// Each record as JSON text, not checked again to be text, and its outline: the record without fields that no store looks
    /// for, in two parts.
    #[cfg(feature = "sqlite")]
    pub(crate) fn outlined(&self) -> impl Iterator<Item = (&'a [u8], [&'a str; 2])> + use<'a> {
        let batch = *self;
        (0..batch.len()).map(move |index| {
            let outline = batch.without(index, batch.inner.get(index));
            (batch.line(index), outline)
        })
    }

    /// Each record with what is known of its captures.
    #[cfg(feature = "mongodb")]
    pub(crate) fn captured(&self) -> impl Iterator<Item = CapturedRecord<'a>> + use<'a> {
        let batch = *self;
        (0..batch.len()).map(move |index| CapturedRecord {
            line: batch.line(index),
            captured: batch.captures_of(index).map(|(text, captures)| {
                let outline = batch.without(index, Some(&text));
                Captured { outline, captures }
            }),
        })
    }

    fn start(&self, index: usize) -> usize {
        if index == 0 { 0 } else { self.ends[index - 1] }
    }

    fn line(&self, index: usize) -> &'a [u8] {
        &self.lines[self.start(index)..self.ends[index] - 1]
    }

    /// What stands before and after a part of a record.
    #[cfg(any(feature = "sqlite", feature = "mongodb"))]
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

/// The captures of records as bytes.
#[derive(Debug, Default)]
pub(crate) struct Captures {
    bytes: Vec<u8>,
    /// For each record those that it has.
    of: Vec<CapturesOf>,
}

impl Captures {
    /// Adds the captures of a record that stand in this part of the lines.
    pub(crate) fn push(&mut self, text: Range<usize>, [at_start, at_end]: [Option<&[u8]>; 2]) {
        let mut keep = |capture: Option<&[u8]>| {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(capture?);
            Some(start..self.bytes.len())
        };
        let (at_start, at_end) = (keep(at_start), keep(at_end));
        self.of.push(CapturesOf { text, at_start, at_end });
    }

    /// How many bytes they are.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.of.clear();
    }
}

/// The captures of one record.
#[derive(Debug)]
struct CapturesOf {
    /// The part of the lines that they are, with the comma before them.
    text: Range<usize>,
    at_start: Option<Range<usize>>,
    at_end: Option<Range<usize>>,
}

/// A record, not checked again to be text, and what is known of its captures.
#[cfg(feature = "mongodb")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct CapturedRecord<'a> {
    line: &'a [u8],
    captured: Option<Captured<'a>>,
}

/// A record without its captures, in two parts, and these.
#[cfg(feature = "mongodb")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Captured<'a> {
    pub(crate) outline: [&'a str; 2],
    pub(crate) captures: [Option<Snapshot<'a>>; 2],
}

#[cfg(feature = "mongodb")]
impl<'a> CapturedRecord<'a> {
    pub(crate) fn text(&self) -> &'a str {
        text(self.line)
    }

    /// None where the text is all there is.
    pub(crate) fn captured(&self) -> Option<Captured<'a>> {
        self.captured
    }
}

#[cfg(feature = "mongodb")]
impl<'a> From<&'a str> for CapturedRecord<'a> {
    fn from(text: &'a str) -> Self {
        Self { line: text.as_bytes(), captured: None }
    }
}
