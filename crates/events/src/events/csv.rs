//! Events as CSV rows. Reads those that Stormlog writes with pandas, and those that this module
//! writes.
//!
//! In our rows, metadata is JSON. A context that is empty or starts with a quote is written as a
//! JSON string, because an empty field means that there is no context.

use std::io::{self, BufRead, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use csv::{ReaderBuilder, StringRecord};
use serde_json::{Map, Value, json};

use super::event::{InTarget, Schema};
use super::fields::{IDENTITY, REQUIRED};
use super::literal;
use super::problem::What;
use super::record::{self, Options};
use super::source::Input;
use super::text::{self, Read as ReadText, Wrong};
use runlore_core::store::jsonl::LIMIT;

/// Returns the columns in the order of the schema.
fn columns(schema: Schema) -> impl Iterator<Item = &'static str> {
    let (before, after) = REQUIRED.split_at(8);
    let all = before.iter().chain(&IDENTITY).chain(after).copied();
    all.filter(move |name| schema != Schema::V2 || *name != "session_id")
}

/// Columns that stay text. `metadata` becomes an object, all others become numbers or scalars.
const TEXTS: [&str; 9] = [
    "session_id",
    "event_type",
    "type",
    "collector",
    "host",
    "job_id",
    "context",
    "message",
    "device",
];

pub(super) struct Rows {
    rows: csv::Reader<Bounded>,
    names: StringRecord,
    row: StringRecord,
    read: Arc<SoFar>,
    failed: bool,
}

/// The input, with a limit on the length of one row.
struct Bounded {
    input: Input,
    read: Arc<SoFar>,
}

/// How far the input was read. Shared by [`Rows`] and [`Bounded`].
#[derive(Default)]
struct SoFar {
    /// The number of bytes that the current row may still read.
    left: AtomicUsize,
    /// Whether the input has ended. A row that is returned only after that has no line end.
    has_ended: AtomicBool,
}

impl Read for Bounded {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let length = self.input.read(to)?;
        if length == 0 && !to.is_empty() {
            self.read.has_ended.store(true, Ordering::Relaxed);
        }
        let left = self.read.left.load(Ordering::Relaxed);
        match left.checked_sub(length) {
            Some(left) => self.read.left.store(left, Ordering::Relaxed),
            None => return Err(io::Error::other("a row is longer than 64 MiB")),
        }
        Ok(length)
    }
}

impl Rows {
    pub(super) fn new(mut input: Input) -> io::Result<Self> {
        if input.fill_buf()?.starts_with(b"\xef\xbb\xbf") {
            input.consume(3);
        }
        let read = Arc::new(SoFar { left: AtomicUsize::new(LIMIT), ..SoFar::default() });
        let bounded = Bounded { input, read: read.clone() };
        let mut rows = ReaderBuilder::new().flexible(true).from_reader(bounded);
        let names = rows.headers().map_err(cannot_read)?.clone();
        Ok(Self { rows, names, row: StringRecord::new(), read, failed: false })
    }

    /// Returns the next row and its line.
    pub(super) fn next(&mut self, options: &Options) -> Option<(u64, Result<ReadText, What>)> {
        if self.failed {
            return None;
        }
        self.read.left.store(LIMIT, Ordering::Relaxed);
        let line = self.rows.position().line();
        match self.rows.read_record(&mut self.row) {
            Ok(false) => None,
            Ok(true) => {
                let line = self.row.position().map_or(line, csv::Position::line);
                let is_torn = self.is_unended() && self.is_cut_off();
                Some((line, if is_torn { Err(What::Torn) } else { self.event(options) }))
            }
            Err(error) => {
                let is_text = matches!(error.kind(), csv::ErrorKind::Utf8 { .. });
                self.failed = !is_text;
                let line = error.position().map_or(line, csv::Position::line);
                let what = match is_text {
                    true if self.is_unended() => What::Torn,
                    true => What::File("a field is not UTF-8".to_owned()),
                    false => What::Cut(format!("cannot read on: {}", cannot_read(error))),
                };
                Some((line, Err(what)))
            }
        }
    }

    fn is_unended(&self) -> bool {
        self.read.has_ended.load(Ordering::Relaxed)
    }

    /// Whether fields are missing, or the last one is `metadata` and is incomplete.
    fn is_cut_off(&self) -> bool {
        let last =
            self.names.len().checked_sub(1).filter(|at| self.names.get(*at) == Some("metadata"));
        self.row.len() < self.names.len()
            || last
                .and_then(|at| self.row.get(at))
                .is_some_and(|field| field.trim().is_empty() || !metadata_of(field).0.is_object())
    }

    fn event(&self, options: &Options) -> Result<ReadText, What> {
        if self.row.len() != self.names.len() {
            let (row, names) = (self.row.len(), self.names.len());
            return Err(What::File(format!("{row} fields, where the header has {names}")));
        }
        let (record, rewritten) = self.record();
        let event =
            record::parse(&record, options).map_err(|wrong| What::Record(Wrong::Invalid(wrong)))?;
        Ok(ReadText { event, schema: record::schema(&record), rewritten })
    }

    /// Converts the row to a record, with the types of its columns.
    fn record(&self) -> (Value, usize) {
        let mut record = Map::new();
        let mut rewritten = 0;
        let is_versioned = self.names.iter().any(|name| name == "schema_version");
        let metadata = self.names.iter().position(|name| name == "metadata");
        let metadata = metadata.and_then(|at| self.row.get(at)).unwrap_or_default();
        // Python's notation: this program did not write the row.
        let is_foreign = metadata.trim_start().starts_with("{'");
        for (name, field) in self.names.iter().zip(&self.row) {
            let value = match name {
                "metadata" => {
                    let (value, count) = metadata_of(field);
                    rewritten += count;
                    value
                }
                _ if field.is_empty() => {
                    // An empty rank must be absent, because a null one is an error. In records
                    // without a version, all empty fields are absent.
                    let is_counter = name.ends_with("_bytes") || name == "context";
                    if is_versioned && is_counter {
                        Value::Null
                    } else {
                        continue;
                    }
                }
                "context" if !is_foreign && field.starts_with('"') => {
                    serde_json::from_str(field).unwrap_or_else(|_| field.into())
                }
                _ if TEXTS.contains(&name) => field.into(),
                _ => number(field).unwrap_or_else(|| scalar(field)),
            };
            record.insert(name.to_owned(), value);
        }
        (record.into(), rewritten)
    }
}

fn cannot_read(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        csv::ErrorKind::Utf8 { .. } => io::Error::other("it is no CSV: its headings are not UTF-8"),
        kind => io::Error::other(format!("{kind:?}")),
    }
}

/// Parses metadata as JSON, or else as a Python literal. An empty field is an empty object.
fn metadata_of(field: &str) -> (Value, usize) {
    if field.trim().is_empty() {
        return (json!({}), 0);
    }
    match text::value(field.as_bytes()) {
        Ok(read) => read,
        Err(_) => (literal::parse(field).map_or_else(|| field.into(), Value::Object), 0),
    }
}

/// Parses a number. pandas writes whole numbers as floats in columns with missing values.
fn number(field: &str) -> Option<Value> {
    if let Ok(number) = field.parse::<i64>() {
        return Some(number.into());
    }
    if let Ok(number) = field.parse::<u64>() {
        return Some(number.into());
    }
    let float: f64 = field.parse().ok().filter(|float: &f64| float.is_finite())?;
    // Above 2^53, several whole numbers share one float.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if float.fract() == 0.0 && float.abs() <= EXACT {
        return Some((float as i64).into());
    }
    Some(float.into())
}

fn scalar(field: &str) -> Value {
    match field {
        "True" | "true" => true.into(),
        "False" | "false" => false.into(),
        "None" => Value::Null,
        _ => field.into(),
    }
}

/// Writes rows.
pub(super) struct RowWriter<W: Write> {
    rows: csv::Writer<W>,
    schema: Schema,
}

impl<W: Write> RowWriter<W> {
    pub(super) fn new(to: W, schema: Schema) -> io::Result<Self> {
        let mut rows = csv::Writer::from_writer(to);
        rows.write_record(columns(schema)).map_err(cannot_read)?;
        Ok(Self { rows, schema })
    }

    pub(super) fn write(&mut self, event: &InTarget<'_>) -> io::Result<()> {
        let Value::Object(record) = serde_json::to_value(event)? else { return Ok(()) };
        let fields = columns(self.schema).map(|name| match (name, &record[name]) {
            (_, Value::Null) => String::new(),
            ("context", Value::String(text)) if text.is_empty() || text.starts_with('"') => {
                json!(text).to_string()
            }
            (_, Value::String(text)) => text.clone(),
            (_, value) => value.to_string(),
        });
        self.rows.write_record(fields).map_err(cannot_read)
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.rows.flush()
    }

    pub(super) fn into_inner(self) -> io::Result<W> {
        self.rows.into_inner().map_err(csv::IntoInnerError::into_error)
    }
}
