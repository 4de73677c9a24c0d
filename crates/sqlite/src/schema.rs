//! The tables, the version of a file, and the migration of older versions.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use super::problem::{Problem, explain};
use runlore_core::{Error, ErrorKind, Result};

/// The application id that marks a file as ours: "Rlor".
const APPLICATION_ID: i32 = 0x526c_6f72;

/// The migrations: from an empty file to version 1, and from each version to the next.
const STEPS: &[&str] = &[concat!(include_str!("tables.sql"), include_str!("views.sql"))];

/// The version that this library writes.
pub(super) const VERSION: i32 = STEPS.len() as i32;

/// The state of a file.
#[derive(Debug, PartialEq, Eq)]
enum State {
    Empty,
    Ours(i32),
    Foreign,
}

fn state(connection: &Connection) -> rusqlite::Result<State> {
    let number = |pragma: &str| connection.pragma_query_value(None, pragma, |row| row.get(0));
    let (application, version): (i32, i32) = (number("application_id")?, number("user_version")?);
    if application == APPLICATION_ID {
        return Ok(State::Ours(version));
    }
    let has_tables: bool =
        connection
            .query_row("SELECT EXISTS (SELECT 1 FROM sqlite_schema)", [], |row| row.get(0))?;
    let is_empty = !has_tables && application == 0 && version == 0;
    Ok(if is_empty { State::Empty } else { State::Foreign })
}

/// Creates or migrates the tables to this version. Leaves files of other programs unchanged.
pub(super) fn prepare(connection: &mut Connection, path: &Path) -> Result<()> {
    if is_current(connection, path)? {
        return Ok(());
    }
    let problem = |error| explain(Problem::Write, path, error);
    let make = connection.transaction_with_behavior(TransactionBehavior::Immediate);
    let make = make.map_err(problem)?;
    // Another process may have done it in the meantime.
    let known = match state(&make).map_err(problem)? {
        State::Empty => 0,
        State::Ours(version) => version,
        State::Foreign => return Err(foreign(path)),
    };
    let missing = usize::try_from(known).ok().and_then(|known| STEPS.get(known..));
    for step in missing.unwrap_or_default() {
        make.execute_batch(step).map_err(problem)?;
    }
    make.pragma_update(None, "application_id", APPLICATION_ID).map_err(problem)?;
    make.pragma_update(None, "user_version", VERSION).map_err(problem)?;
    make.commit().map_err(problem)
}

/// Returns whether a file has the tables of this version. `false` if it is empty or older.
pub(super) fn is_current(connection: &Connection, path: &Path) -> Result<bool> {
    match state(connection).map_err(|error| explain(Problem::Read, path, error))? {
        State::Ours(version) if version == VERSION => Ok(true),
        State::Ours(version) if version > VERSION => Err(Error::new(
            ErrorKind::Store,
            format!(
                "{} was made by a newer version of Runlore (tables of version {version}, this one knows {VERSION}): \
                 use that version, or another file",
                path.display()
            ),
        )),
        State::Ours(_) | State::Empty => Ok(false),
        State::Foreign => Err(foreign(path)),
    }
}

fn foreign(path: &Path) -> Error {
    let text = format!(
        "{} is a database of another program: give a file that Runlore made, or a new one",
        path.display()
    );
    Error::new(ErrorKind::Store, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_version_is_brought_up_and_keeps_what_it_has() {
        let mut connection = Connection::open_in_memory().unwrap();
        // A file of version 0 would be marked as ours and have no tables.
        connection.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
        connection.execute_batch("CREATE TABLE kept (x); INSERT INTO kept VALUES (1)").unwrap();
        assert_eq!(state(&connection).unwrap(), State::Ours(0));
        prepare(&mut connection, Path::new("x.db")).unwrap();
        assert_eq!(state(&connection).unwrap(), State::Ours(VERSION));
        let count = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(count("SELECT count(*) FROM kept"), 1);
        assert_eq!(count("SELECT count(*) FROM tasks"), 0);
    }

    #[test]
    fn a_newer_version_and_a_foreign_database_are_left_alone() {
        let mut connection = Connection::open_in_memory().unwrap();
        prepare(&mut connection, Path::new("x.db")).unwrap();
        connection.pragma_update(None, "user_version", VERSION + 1).unwrap();
        let error = prepare(&mut connection, Path::new("x.db")).unwrap_err().to_string();
        assert_eq!(
            error,
            format!(
                "x.db was made by a newer version of Runlore (tables of version {}, this one knows {VERSION}): \
                 use that version, or another file",
                VERSION + 1
            )
        );
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE theirs (x)").unwrap();
        let error = prepare(&mut connection, Path::new("x.db")).unwrap_err().to_string();
        assert_eq!(
            error,
            "x.db is a database of another program: give a file that Runlore made, or a new one"
        );
    }
}
