//! Problems found while reading, with their positions.

use std::fmt;
use std::path::{Path, PathBuf};

use super::invalid::{Invalid, Reason};
use super::text::Wrong;
use runlore_core::{Error, ErrorKind};

/// A part of a file that is not a valid event. The rest of the file is still read, unless
/// [`is_cut`](Self::is_cut).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    path: PathBuf,
    line: Option<u64>,
    index: Option<u64>,
    what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum What {
    /// A record is not an event.
    Record(Wrong),
    /// The last line has no line end and is not complete: its writer was stopped.
    Torn,
    /// A session has no end, because its writer was stopped.
    Interrupted(String),
    /// A record is longer than the limit.
    TooLong,
    /// The file as a whole is wrong, or a part of it that is not a record.
    File(String),
    /// The rest of the file cannot be read, so that its content is unknown.
    Cut(String),
}

impl Problem {
    pub(super) fn of_file(path: &Path, what: impl Into<String>) -> Self {
        Self::new(path, None, None, What::File(what.into()))
    }

    pub(super) fn new(path: &Path, line: Option<u64>, index: Option<u64>, what: What) -> Self {
        Self { path: path.to_owned(), line, index, what }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the line on which the record begins.
    pub fn line(&self) -> Option<u64> {
        self.line
    }

    /// Returns the index of the record in a JSON array, from 0.
    pub fn index(&self) -> Option<u64> {
        self.index
    }

    /// Returns the validation error, if the problem is an invalid record.
    pub fn invalid(&self) -> Option<&Invalid> {
        match &self.what {
            What::Record(Wrong::Invalid(invalid)) => Some(invalid),
            _ => None,
        }
    }

    /// Whether a line or a session was merely not written to its end. The data itself is not at
    /// fault.
    pub fn is_torn(&self) -> bool {
        matches!(self.what, What::Torn | What::Interrupted(_))
    }

    /// Whether the rest of the file could not be read, so that it is unknown what is missing.
    pub fn is_cut(&self) -> bool {
        matches!(self.what, What::Cut(_))
    }

    /// Describes the problem without its position.
    pub fn reason(&self) -> String {
        match (&self.what, self.index) {
            (What::Record(Wrong::Invalid(invalid)), Some(index))
                if *invalid.reason() == Reason::NotARecord =>
            {
                format!("Event at index {index} must be an object")
            }
            (What::Record(wrong), _) => wrong.to_string(),
            (What::Torn, _) => "torn: the file ends in the middle of it".to_owned(),
            (What::TooLong, _) => "longer than 64 MiB".to_owned(),
            (What::File(what) | What::Cut(what) | What::Interrupted(what), _) => what.clone(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match (&self.what, self.line, self.index) {
            (What::Record(Wrong::Invalid(invalid)), Some(line), None)
                if *invalid.reason() == Reason::NotARecord =>
            {
                write!(f, "Telemetry record in {path} at line {line} must be an object")
            }
            (What::Record(wrong @ (Wrong::NotJson(..) | Wrong::NotUtf8(_))), Some(line), None) => {
                write!(f, "Malformed telemetry JSONL record in {path} at line {line}: {wrong}")
            }
            (_, Some(line), _) => write!(f, "{path}, line {line}: {}", self.reason()),
            (_, None, _) => write!(f, "{path}: {}", self.reason()),
        }
    }
}

impl std::error::Error for Problem {}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        Error::new(ErrorKind::Record, problem.to_string())
    }
}
