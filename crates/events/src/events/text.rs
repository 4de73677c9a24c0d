//! Parses one record from JSON text.

use std::fmt;

use serde_json::Value;

use super::event::{Schema, TelemetryEvent};
use super::fast::{self, Repeated};
use super::invalid::Invalid;
use super::python::is_blank;
use super::record::{self, Options};
use super::repair::repair;
use super::{Reason, session_id};
use runlore_core::{Error, ErrorKind, Result};

/// Why a text is not an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wrong {
    /// The text is not UTF-8 from this byte on, counted from 1.
    NotUtf8(usize),
    /// The text is not JSON at this column.
    NotJson(usize, String),
    /// The text is JSON, but not an event.
    Invalid(Invalid),
}

/// An event, the schema of its record, and the number of values that were rewritten because they
/// could not be represented.
pub(super) struct Read {
    pub(super) event: TelemetryEvent,
    pub(super) schema: Schema,
    pub(super) rewritten: usize,
}

impl TelemetryEvent {
    /// Parses a record from JSON text. Ordinary records take a fast path, with the same result as
    /// [`from_record`](Self::from_record).
    ///
    /// ```
    /// use runlore::events::{Options, TelemetryEvent};
    ///
    /// let text = br#"{"timestamp": 1, "memory_allocated": 5, "metadata": {"loss": NaN}}"#;
    /// let event = TelemetryEvent::from_json(text, &Options::default())?;
    /// assert_eq!(event.metadata["loss"], serde_json::Value::Null);
    /// # Ok::<(), runlore::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the text is not JSON, or the record is not an event.
    pub fn from_json(text: &[u8], options: &Options) -> Result<Self> {
        let mut event = parse(text, options, &mut Repeated::default())?.event;
        if event.session_id.is_empty() {
            event.session_id = match &options.default_session_id {
                Some(id) if is_blank(id) => {
                    return Err(Invalid::new("session_id", Reason::Blank).into());
                }
                Some(id) => (**id).into(),
                None => {
                    let record = value(text)?.0;
                    record.as_object().map(session_id::of_record).unwrap_or_default().into()
                }
            };
        }
        Ok(event)
    }
}

/// Parses an event. Its session is empty if the record names none. Pass the same `repeated` for all
/// records of a file, so that they share equal values.
pub(super) fn parse(
    text: &[u8],
    options: &Options,
    repeated: &mut Repeated,
) -> Result<Read, Wrong> {
    if let Some((event, schema)) = fast::parse(text, repeated) {
        return Ok(Read { event, schema, rewritten: 0 });
    }
    let (value, mut rewritten) = value(text)?;
    let mut event = record::parse(&value, options).map_err(Wrong::Invalid)?;
    if rewritten == 0 && event.metadata.values().any(is_huge) {
        let (repaired, count) = repair(text);
        let value = strictly(&repaired)?;
        event = record::parse(&value, options).map_err(Wrong::Invalid)?;
        rewritten = count;
    }
    Ok(Read { event, schema: record::schema(&value), rewritten })
}

/// Whether a value contains a float that may have been a whole number too large for 64 bits.
pub(super) fn is_huge(value: &Value) -> bool {
    match value {
        Value::Number(number) => {
            number.is_f64() && number.as_f64().is_some_and(|float| float.abs() >= 9.2e18)
        }
        Value::Array(items) => items.iter().any(is_huge),
        Value::Object(entries) => entries.values().any(is_huge),
        _ => false,
    }
}

/// Parses any JSON text. Also returns the number of values that were rewritten.
pub fn value(text: &[u8]) -> Result<(Value, usize), Wrong> {
    strictly(text).map(|value| (value, 0)).or_else(|wrong| {
        let (repaired, count) = repair(text);
        // Report the error of the original text: positions in the rewritten one differ.
        if count == 0 {
            Err(wrong)
        } else {
            strictly(&repaired).map(|v| (v, count)).map_err(|_| wrong)
        }
    })
}

fn strictly(text: &[u8]) -> Result<Value, Wrong> {
    let text =
        std::str::from_utf8(text).map_err(|error| Wrong::NotUtf8(error.valid_up_to() + 1))?;
    serde_json::from_str(text).map_err(|error| {
        // The message ends with a line number within this one record, which would mislead.
        let said = error.to_string();
        let what = said.rsplit_once(" at line ").map_or(&*said, |(what, _)| what);
        Wrong::NotJson(error.column(), what.to_owned())
    })
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::NotUtf8(byte) => write!(f, "not UTF-8 from byte {byte}"),
            Wrong::NotJson(column, what) => write!(f, "not JSON at column {column} ({what})"),
            Wrong::Invalid(invalid) => invalid.fmt(f),
        }
    }
}

impl From<Wrong> for Error {
    fn from(wrong: Wrong) -> Self {
        match wrong {
            Wrong::Invalid(invalid) => invalid.into(),
            wrong => Error::new(ErrorKind::Record, wrong.to_string()),
        }
    }
}
