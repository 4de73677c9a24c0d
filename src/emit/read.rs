//! Reads emitted records, ours or cloudmesh's, from a file or a database.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use super::record::Emitted;
use runlore_core::store::jsonl::{LIMIT, Line, Lines};
use runlore_core::{Error, ErrorKind, Result};
use runlore_events::events::text;

/// An iterator over emitted records. Created by [`read`]. A record that cannot be read yields an
/// error with its location, and the iteration continues.
#[derive(Debug)]
pub struct Reader(From);

#[derive(Debug)]
enum From {
    Lines {
        path: PathBuf,
        lines: Lines<BufReader<File>>,
    },
    #[cfg(feature = "sqlite")]
    Rows(table::Rows),
    Nothing,
}

/// Streams the records of a file of JSON lines, or of a database with the table `telemetry`.
///
/// # Errors
///
/// If the file cannot be read, or if it is a database and the feature `sqlite` is off.
pub fn read(path: impl AsRef<Path>) -> Result<Reader> {
    let path = path.as_ref();
    let failed = |error| {
        Error::new(ErrorKind::Store, format!("cannot read {}", path.display())).with_source(error)
    };
    let mut start = Vec::new();
    File::open(path).and_then(|file| file.take(16).read_to_end(&mut start)).map_err(failed)?;
    if start == b"SQLite format 3\0" {
        return rows(path);
    }
    let file = File::open(path).map_err(failed)?;
    let lines = Lines::new(BufReader::with_capacity(128 * 1024, file), LIMIT);
    Ok(Reader(From::Lines { path: path.to_owned(), lines }))
}

#[cfg(feature = "sqlite")]
fn rows(path: &Path) -> Result<Reader> {
    table::Rows::open(path).map(|rows| Reader(From::Rows(rows)))
}

#[cfg(not(feature = "sqlite"))]
fn rows(path: &Path) -> Result<Reader> {
    let what = format!("{} is a database: add the feature `sqlite` to read it", path.display());
    Err(Error::new(ErrorKind::Store, what))
}

impl Iterator for Reader {
    type Item = Result<Emitted>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            From::Nothing => None,
            #[cfg(feature = "sqlite")]
            From::Rows(rows) => rows.next(),
            From::Lines { path, lines } => match lines.next_line() {
                Ok(None) => None,
                Ok(Some((number, line))) => {
                    let record = match line {
                        Line::TooLong => Err("longer than 64 MiB".to_owned()),
                        Line::Text(text) => parse(text),
                        Line::Unended(text) => parse(text)
                            .map_err(|_| "torn: the file ends in the middle of it".to_owned()),
                    };
                    Some(record.map_err(|what| {
                        let what = format!("{}, line {number}: {what}", path.display());
                        Error::new(ErrorKind::Record, what)
                    }))
                }
                Err(error) => {
                    let what = format!("cannot read {} on", path.display());
                    self.0 = From::Nothing;
                    Some(Err(Error::new(ErrorKind::Store, what).with_source(error)))
                }
            },
        }
    }
}

/// Parses a record. Cloudmesh writes `NaN`, which becomes null here.
fn parse(text: &[u8]) -> Result<Emitted, String> {
    let (value, _) = text::value(text).map_err(|wrong| wrong.to_string())?;
    serde_json::from_value(value).map_err(|error| format!("no emitted record ({error})"))
}

#[cfg(feature = "sqlite")]
mod table {
    use std::path::{Path, PathBuf};

    use rusqlite::{Connection, OpenFlags, OptionalExtension, Row};
    use serde_json::{Value, json};

    use super::{Emitted, Error, ErrorKind, Result, text};

    /// The rows of the table, read with one query each: a statement cannot be stored beside its
    /// connection.
    #[derive(Debug)]
    pub(super) struct Rows {
        path: PathBuf,
        connection: Connection,
        last: i64,
        is_done: bool,
    }

    const NEXT: &str = "SELECT id, timestamp, command, status, metrics, system, message FROM telemetry \
        WHERE id > ? ORDER BY id LIMIT 1";

    impl Rows {
        pub(super) fn open(path: &Path) -> Result<Self> {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let connection = Connection::open_with_flags(path, flags);
            let connection = connection.and_then(|connection| {
                connection.prepare_cached(NEXT)?;
                Ok(connection)
            });
            let path = path.to_owned();
            match connection {
                Ok(connection) => Ok(Self { path, connection, last: i64::MIN, is_done: false }),
                Err(error) => Err(Error::new(
                    ErrorKind::Store,
                    format!("cannot read the table `telemetry` of {}", path.display()),
                )
                .with_source(error)),
            }
        }

        pub(super) fn next(&mut self) -> Option<Result<Emitted>> {
            if self.is_done {
                return None;
            }
            let row = self.connection.prepare_cached(NEXT).and_then(|mut next| {
                next.query_row([self.last], |row| Ok((row.get(0)?, record(row)?))).optional()
            });
            let found: Option<(i64, Result<Emitted, String>)> = match row {
                Ok(found) => found,
                Err(error) => {
                    self.is_done = true;
                    let what = format!("cannot read {} on", self.path.display());
                    return Some(Err(Error::new(ErrorKind::Store, what).with_source(error)));
                }
            };
            let (id, record) = found?;
            self.last = id;
            Some(record.map_err(|what| {
                let what = format!("{}, row {id}: {what}", self.path.display());
                Error::new(ErrorKind::Record, what)
            }))
        }
    }

    fn record(row: &Row<'_>) -> rusqlite::Result<Result<Emitted, String>> {
        let text = |at: usize| {
            let text = row.get_ref(at)?.as_str_or_null().map(|text| text.map(str::to_owned));
            Ok::<_, rusqlite::Error>(text.unwrap_or_default().unwrap_or_default())
        };
        let (timestamp, command, status, message) = (text(1)?, text(2)?, text(3)?, text(6)?);
        let (metrics, system) = (text(4)?, text(5)?);
        let object = |text: &str| match text {
            "" | "null" => Ok(json!({})),
            _ => text::value(text.as_bytes()).map(|(value, _)| value).map_err(|e| e.to_string()),
        };
        let whole = || -> Result<Emitted, String> {
            let message = if message.is_empty() { Value::Null } else { message.clone().into() };
            let record = json!({
                "timestamp": timestamp, "command": command, "status": status,
                "metrics": object(&metrics)?, "system": object(&system)?, "message": message,
            });
            serde_json::from_value(record).map_err(|error| format!("no emitted record ({error})"))
        };
        Ok(whole())
    }
}
