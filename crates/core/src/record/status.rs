//! The status of a task or workflow. The set is closed, so that every reader knows every value.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Error, ErrorKind};

/// The status of a task or workflow.
///
/// The set is closed, because Flowcept's readers reject any other word. A record with another word
/// is read as [`Status::Unknown`] and keeps its word (see [`crate::record`]).
///
/// ```
/// use runlore::record::Status;
///
/// assert_eq!(Status::Finished.to_string(), "FINISHED");
/// assert_eq!("ERROR".parse::<Status>().unwrap(), Status::Error);
/// assert!(Status::Error.is_final());
/// assert!("CANCELLED".parse::<Status>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Status {
    /// Submitted to the system that will run it.
    Submitted,
    /// Accepted, and waiting for something else.
    Waiting,
    /// Started, and not yet ended.
    Running,
    /// Ended successfully.
    Finished,
    /// Ended with an error, a panic or a cancellation.
    Error,
    /// Any other status.
    Unknown,
}

impl Status {
    /// Every status, in the order in which a task passes through them.
    pub const ALL: [Status; 6] = [
        Status::Submitted,
        Status::Waiting,
        Status::Running,
        Status::Finished,
        Status::Error,
        Status::Unknown,
    ];

    /// Returns the word that records use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Status::Submitted => "SUBMITTED",
            Status::Waiting => "WAITING",
            Status::Running => "RUNNING",
            Status::Finished => "FINISHED",
            Status::Error => "ERROR",
            Status::Unknown => "UNKNOWN",
        }
    }

    /// Whether the status cannot change any more: [`Status::Finished`] or [`Status::Error`].
    pub const fn is_final(self) -> bool {
        matches!(self, Status::Finished | Status::Error)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Status {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|status| status.as_str() == word).ok_or_else(|| {
            let all = Self::ALL.map(Self::as_str).join(", ");
            Error::new(ErrorKind::Record, format!("{word:?} is not a status; use one of {all}"))
        })
    }
}
