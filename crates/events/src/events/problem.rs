//! What could not be read, and where it stands.

use std::fmt;
use std::path::{Path, PathBuf};

use super::invalid::{Invalid, Reason};
use super::text::Wrong;
use runlore_core::{Error, ErrorKind};

/// Something in a file that is no event. The rest of the file is read all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    path: PathBuf,
    line: Option<u64>,
    index: Option<u64>,
    what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum What {
    /// A record is no event.
    Record(Wrong),
    /// The last line has no end and says nothing: whoever wrote it was stopped.
    Torn,
    /// A session has no end, because its writer was stopped.
    Interrupted(String),
    /// A record over the limit.
    TooLong,
    /// The file as a whole.
    File(String),
    /// The rest of the file: nobody knows what was in it.
    Cut(String),
}

impl Problem {
    pub(super) fn of_file(path: &Path, what: impl Into<String>) -> Self {
        Self::new(path, None, None, What::File(what.into()))
    }

    pub(super) fn new(path: &Path, line: Option<u64>, index: Option<u64>, what: What) -> Self {
        Self { path: path.to_owned(), line, index, what }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The line in which the record begins.
    pub fn line(&self) -> Option<u64> {
        self.line
    }

    /// The record's place in a JSON array, from 0.
    pub fn index(&self) -> Option<u64> {
        self.index
    }

    /// What is wrong with the record, if it is one.
    pub fn invalid(&self) -> Option<&Invalid> {
        match &self.what {
            What::Record(Wrong::Invalid(invalid)) => Some(invalid),
            _ => None,
        }
    }

    /// Whether it is only that a line or a session was not written to its end, which is no fault of the data.
    pub fn is_torn(&self) -> bool {
        matches!(self.what, What::Torn | What::Interrupted(_))
    }

    /// Whether the rest of the file could not be read, so that what is missing cannot be known.
    pub fn is_cut(&self) -> bool {
        matches!(self.what, What::Cut(_))
    }

    /// What is wrong, without where.
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
