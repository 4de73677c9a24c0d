//! Converts SQLite errors to readable messages.

use std::path::Path;

use rusqlite::ErrorCode;

use runlore_core::{Error, ErrorKind};

/// The operation that failed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Problem {
    Read,
    Write,
}

/// Converts an SQLite error about a file.
pub(super) fn explain(tried: Problem, path: &Path, error: rusqlite::Error) -> Error {
    let place = path.display();
    let text = match error.sqlite_error_code() {
        _ if path.is_dir() => format!("{place} is a folder, and no SQLite database"),
        Some(ErrorCode::NotADatabase) => {
            format!(
                "{place} is not an SQLite database: give a file that Runlore made, or a new one"
            )
        }
        Some(ErrorCode::DatabaseCorrupt) => format!(
            "{place} is damaged: save what can be saved with `sqlite3 {place} .recover`, and record into a new file"
        ),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            format!("{place} is locked by another process")
        }
        _ => match tried {
            Problem::Read => format!("cannot read {place}"),
            Problem::Write => format!("cannot write to {place}"),
        },
    };
    Error::new(ErrorKind::Store, text).with_source(error)
}

/// Returns whether another process has locked the database, so that a retry may succeed.
pub(super) fn is_busy(error: &Error) -> bool {
    matches!(code(error), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Returns whether SQLite could not open or create a file that it needs.
pub(super) fn is_unopenable(error: &Error) -> bool {
    matches!(code(error), Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly))
}

fn code(error: &Error) -> Option<ErrorCode> {
    error.get_ref()?.downcast_ref::<rusqlite::Error>()?.sqlite_error_code()
}
