//! Writes events to files.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use super::csv::RowWriter;
use super::event::{InTarget, Target, TelemetryEvent};
use super::reader::Format;
use runlore_core::store::{create_file, write_file};
use runlore_core::{Error, ErrorKind, Result};

/// Writes events in one of the formats, one at a time.
///
/// ```
/// use runlore::events::{Format, Options, Schema, TelemetryEvent, Writer};
///
/// let event = TelemetryEvent { session_id: "s".into(), ..TelemetryEvent::default() };
/// let mut writer = Writer::new(Vec::new(), Format::JsonLines, Schema::V4)?;
/// writer.write(&event)?;
/// let text = writer.finish()?;
/// let back = TelemetryEvent::from_json(&text, &Options::default())?;
/// assert_eq!(back.session_id, "s");
/// # Ok::<(), runlore::Error>(())
/// ```
pub struct Writer<W: Write> {
    to: To<W>,
    target: Target,
    count: u64,
    /// Buffer for the current line.
    line: Vec<u8>,
}

enum To<W: Write> {
    Json(W),
    Lines(W),
    Csv(Box<RowWriter<W>>),
}

/// Writes events to a file. The file name determines the format: `.json`, `.jsonl` or `.csv`.
/// Missing folders are created.
///
/// The file is written completely or not at all: the events go to a temporary file, which replaces
/// the target at the end.
///
/// ```
/// use runlore::events::{self, Schema, TelemetryEvent};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("artifacts/events.csv");
/// let event = TelemetryEvent { session_id: "s".into(), ..TelemetryEvent::default() };
/// events::save(&path, [&event], Schema::V4)?;
///
/// // Schema 3 cannot express unknown counters.
/// assert!(events::save(&path, [&event], Schema::V3).is_err());
/// assert_eq!(events::load(&path)?.sessions[0].events.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// If the file name determines no format, the file cannot be written, or the schema cannot express
/// an event.
pub fn save<'a>(
    path: impl AsRef<Path>,
    events: impl IntoIterator<Item = &'a TelemetryEvent>,
    target: impl Into<Target>,
) -> Result<()> {
    let path = path.as_ref();
    let format = Format::to_write(path)?;
    let mut writer = Writer::new(Vec::new(), format, target)?;
    for event in events {
        writer.write(event)?;
    }
    let bytes = writer.finish()?;
    write_file(path, &bytes).map_err(|error| {
        Error::new(ErrorKind::Store, format!("cannot write {}: {error}", path.display()))
    })
}

impl<W: Write> std::fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("count", &self.count).finish_non_exhaustive()
    }
}

impl Writer<BufWriter<File>> {
    /// Creates a file and writes to it, in the format of its name.
    ///
    /// # Errors
    ///
    /// If the file name determines no format, or the file cannot be created.
    pub fn create(path: impl AsRef<Path>, target: impl Into<Target>) -> Result<Self> {
        let path = path.as_ref();
        let format = Format::to_write(path)?;
        let file = create_file(path).map_err(|error| {
            Error::new(ErrorKind::Store, format!("cannot write {}: {error}", path.display()))
        })?;
        Self::new(BufWriter::with_capacity(256 * 1024, file), format, target)
    }
}

impl Format {
    /// Returns the format for writing a file with this name.
    pub(crate) fn to_write(path: &Path) -> Result<Self> {
        let is_packed = path.extension().is_some_and(|kind| kind == "gz" || kind == "zst");
        Self::of_name(path).filter(|_| !is_packed).ok_or_else(|| {
            let what = "name it *.json, *.jsonl or *.csv; that is how its format is chosen";
            let path = path.display();
            Error::new(ErrorKind::Store, format!("cannot write {path}: {what}"))
        })
    }
}

impl<W: Write> Writer<W> {
    /// Writes in the given format.
    ///
    /// # Errors
    ///
    /// If `to` cannot be written.
    pub fn new(mut to: W, format: Format, target: impl Into<Target>) -> Result<Self> {
        let target = target.into();
        let to = match format {
            Format::Json => {
                to.write_all(b"[").map_err(cannot_write)?;
                To::Json(to)
            }
            Format::JsonLines => To::Lines(to),
            Format::Csv => {
                let rows = RowWriter::new(to, target.schema).map_err(cannot_write)?;
                To::Csv(Box::new(rows))
            }
        };
        Ok(Self { to, target, count: 0, line: Vec::new() })
    }

    /// Writes an event.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Record`] if the schema cannot express the event, of which nothing is then
    /// written. [`ErrorKind::Store`] if the output cannot be written.
    pub fn write(&mut self, event: &TelemetryEvent) -> Result<()> {
        let record = event.as_target(self.target)?;
        let written = match &mut self.to {
            To::Csv(rows) => rows.write(&record),
            To::Json(to) => {
                let before: &[u8] = if self.count == 0 { b"\n" } else { b",\n" };
                to.write_all(before).and_then(|()| Ok(serde_json::to_writer(to, &record)?))
            }
            To::Lines(to) => {
                self.line.clear();
                put_line(&record, &mut self.line)
                    .map_err(io::Error::from)
                    .and_then(|()| to.write_all(&self.line))
            }
        };
        written.map_err(cannot_write)?;
        self.count += 1;
        Ok(())
    }

    /// Flushes the buffer. A file of JSON lines or CSV is complete after that.
    ///
    /// # Errors
    ///
    /// If the output cannot be written.
    pub fn flush(&mut self) -> Result<()> {
        let flushed = match &mut self.to {
            To::Csv(rows) => rows.flush(),
            To::Json(to) | To::Lines(to) => to.flush(),
        };
        flushed.map_err(cannot_write)
    }

    /// Writes the end of the file and flushes it. Without it, the file may be incomplete.
    ///
    /// # Errors
    ///
    /// If the output cannot be written.
    pub fn finish(self) -> Result<W> {
        let finished = match self.to {
            To::Csv(rows) => rows.into_inner().and_then(flushed),
            To::Json(mut to) => to.write_all(b"\n]\n").and_then(|()| flushed(to)),
            To::Lines(to) => flushed(to),
        };
        finished.map_err(cannot_write)
    }
}

/// Appends a record as one line. Escapes characters that some readers treat as line ends, such as
/// U+2028, which a string may contain. JSON parsers read the escape as the same character.
pub(super) fn put_line(record: &InTarget<'_>, to: &mut Vec<u8>) -> serde_json::Result<()> {
    let start = to.len();
    serde_json::to_writer(&mut *to, record)?;
    escape_line_ends(to, start);
    to.push(b'\n');
    Ok(())
}

/// Escapes the characters that some readers treat as line ends, in the JSON from `start` on.
fn escape_line_ends(to: &mut Vec<u8>, start: usize) {
    // The escaped characters all start with one of these bytes, and few others do.
    if !to[start..].is_ascii() && to[start..].iter().any(|byte| matches!(byte, 0xC2 | 0xE2)) {
        let line = to.split_off(start);
        let mut rest = &line[..];
        while let [first, after @ ..] = rest {
            let (escaped, length): (&[u8], usize) = match rest {
                [0xC2, 0x85, ..] => (b"\\u0085", 2),
                [0xE2, 0x80, 0xA8, ..] => (b"\\u2028", 3),
                [0xE2, 0x80, 0xA9, ..] => (b"\\u2029", 3),
                _ => {
                    to.push(*first);
                    rest = after;
                    continue;
                }
            };
            to.extend_from_slice(escaped);
            rest = &rest[length..];
        }
    }
}

fn flushed<W: Write>(mut to: W) -> io::Result<W> {
    to.flush()?;
    Ok(to)
}

fn cannot_write(error: io::Error) -> Error {
    Error::new(ErrorKind::Store, "cannot write events").with_source(error)
}
