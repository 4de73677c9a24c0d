//! Records on their way to a store: their JSON lines, each with its head.

use super::RecordHead;

/// A batch of records for a store.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a>(&'a RecordLines);

impl<'a> Batch<'a> {
    /// Returns the records as lines of JSON. The last line ends with a line feed too.
    pub fn json_lines(&self) -> &'a [u8] {
        &self.0.bytes
    }

    /// Iterates over the records as JSON text.
    pub fn records(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let lines = self.0;
        lines.starts().zip(&lines.ends).map(|(start, end)| {
            std::str::from_utf8(&lines.bytes[start..end - 1]).unwrap_or_default()
        })
    }

    /// Iterates over the heads of the records, in the order of [`records`](Self::records).
    pub fn heads(&self) -> impl Iterator<Item = &'a RecordHead<'static>> + use<'a> {
        self.0.heads.iter()
    }

    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Records as lines of JSON, each with its head. A [`Batch`] borrows them.
///
/// ```
/// use runlore::store::RecordLines;
///
/// let lines = RecordLines::from_bytes(b"{\"type\":\"task\",\"task_id\":\"t1\"}\n".to_vec());
/// let batch = lines.batch();
/// assert_eq!(batch.heads().next().unwrap().task_id.as_deref(), Some("t1"));
/// ```
#[derive(Debug, Default)]
pub struct RecordLines {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    heads: Vec<RecordHead<'static>>,
}

impl RecordLines {
    /// Parses the heads of lines that were written before. A line that is not a record gets a
    /// default head.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        let mut lines = Self { bytes, ..Self::default() };
        lines.ends = memchr::memchr_iter(b'\n', &lines.bytes).map(|at| at + 1).collect();
        lines.heads = lines.batch().records().map(read_head).collect();
        lines
    }

    /// Appends a record: `write` appends its JSON text, and returns its head. If it fails, nothing
    /// is appended.
    ///
    /// # Errors
    ///
    /// The error of `write`.
    pub fn push<E>(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>) -> Result<RecordHead<'static>, E>,
    ) -> Result<(), E> {
        let start = self.bytes.len();
        let head = write(&mut self.bytes).inspect_err(|_| self.bytes.truncate(start))?;
        self.bytes.push(b'\n');
        self.ends.push(self.bytes.len());
        self.heads.push(head);
        Ok(())
    }

    /// Keeps only the wanted records.
    pub fn retain(&mut self, is_wanted: &[bool]) {
        if is_wanted.iter().all(|wanted| *wanted) {
            return;
        }
        let all = std::mem::take(self);
        let starts: Vec<usize> = all.starts().collect();
        for (((start, end), head), wanted) in
            starts.into_iter().zip(all.ends).zip(all.heads).zip(is_wanted)
        {
            if *wanted {
                self.bytes.extend_from_slice(&all.bytes[start..end]);
                self.ends.push(self.bytes.len());
                self.heads.push(head);
            }
        }
    }

    /// Removes all records and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.heads.clear();
    }

    /// Returns the records as a batch.
    pub fn batch(&self) -> Batch<'_> {
        Batch(self)
    }

    /// Returns the records as lines of JSON.
    pub fn json_lines(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the size of the allocated text buffer in bytes.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    fn starts(&self) -> impl Iterator<Item = usize> {
        std::iter::once(0).chain(self.ends.iter().copied())
    }
}

/// Appends a record as JSON, and returns its head.
///
/// # Errors
///
/// If the record cannot be written as JSON.
pub fn write_record(
    bytes: &mut Vec<u8>,
    record: &impl serde::Serialize,
) -> serde_json::Result<RecordHead<'static>> {
    let start = bytes.len();
    serde_json::to_writer(&mut *bytes, record)?;
    Ok(read_head(std::str::from_utf8(&bytes[start..]).unwrap_or_default()))
}

/// Parses the head of a record. Text that is not a record gives a default head.
fn read_head(text: &str) -> RecordHead<'static> {
    RecordHead::read(text).map(RecordHead::into_owned).unwrap_or_default()
}
