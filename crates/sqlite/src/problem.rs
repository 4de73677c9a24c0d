//! What SQLite says went wrong, in a sentence.

use std::path::Path;

use rusqlite::ErrorCode;

use runlore_core::{Error, ErrorKind};

/// What was tried.
#[derive(Debug, Clone, Copy)]
pub(super) enum Problem {
    Read,
    Write,
}

/// The sentence for an error of SQLite about a file.
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

/// Whether another process has the database, so that it may work a moment later.
pub(super) fn is_busy(error: &Error) -> bool {
    matches!(code(error), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Whether a file that SQLite needs cannot be opened or made.
pub(super) fn is_unopenable(error: &Error) -> bool {
    matches!(code(error), Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly))
}

fn code(error: &Error) -> Option<ErrorCode> {
    error.get_ref()?.downcast_ref::<rusqlite::Error>()?.sqlite_error_code()
}
