//! Where emitted records go.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::record::Emitted;
use crate::events::python;
use crate::{Error, ErrorKind, Result};

/// A place for emitted records.
pub trait Backend: Send {
    /// Writes a record.
    ///
    /// # Errors
    ///
    /// Where it cannot be written.
    fn write(&mut self, record: &Emitted) -> Result<()>;
}

/// The backends that have a name.
pub(super) fn named(name: &str, path: Option<&Path>) -> Result<Box<dyn Backend>> {
    let path_or = |default: &str| path.map_or_else(|| PathBuf::from(default), Path::to_owned);
    match name {
        "jsonl" | "json" => Ok(Box::new(Lines::open(&path_or("telemetry.jsonl"))?)),
        "text" => Ok(match path {
            Some(path) => Box::new(Text(append(path)?)),
            None => Box::new(Text(io::stdout())),
        }),
        "sqlite" => sqlite(&path_or("telemetry.db")),
        _ => Err(Error::new(
            ErrorKind::Store,
            format!("there is no backend `{name}`: choose jsonl, sqlite or text"),
        )),
    }
}

fn cannot_write(path: &Path, error: io::Error) -> Error {
    Error::new(ErrorKind::Store, format!("cannot write {}", path.display())).with_source(error)
}

fn append(path: &Path) -> Result<File> {
    let file = OpenOptions::new().append(true).read(true).create(true).open(path);
    file.map_err(|error| cannot_write(path, error))
}

/// A record a line.
struct Lines {
    file: File,
    path: PathBuf,
}

impl Lines {
    fn open(path: &Path) -> Result<Self> {
        let mut file = append(path)?;
        // A line that somebody could not write to its end must not take ours with it.
        let mut last = [b'\n'];
        let is_torn = file.seek(SeekFrom::End(-1)).is_ok()
            && file.read_exact(&mut last).is_ok()
            && last != *b"\n";
        if is_torn {
            file.write_all(b"\n").map_err(|error| cannot_write(path, error))?;
        }
        Ok(Self { file, path: path.to_owned() })
    }
}

impl Backend for Lines {
    fn write(&mut self, record: &Emitted) -> Result<()> {
        let mut line = serde_json::to_vec(record).map_err(|error| {
            Error::new(ErrorKind::Record, "cannot write a record as JSON").with_source(error)
        })?;
        line.push(b'\n');
        // In one piece, so that processes may share the file.
        self.file.write_all(&line).map_err(|error| cannot_write(&self.path, error))
    }
}

/// For people.
struct Text<W>(W);

impl<W: Write + Send> Backend for Text<W> {
    fn write(&mut self, record: &Emitted) -> Result<()> {
        let metrics: Vec<String> = record
            .metrics
            .iter()
            .map(|(name, value)| format!("{name}={}", python::str(value)))
            .collect();
        let text = format!(
            "[{}] {} | STATUS: {} | Metrics: {}\nMessage: {}\n{}\n",
            record.timestamp,
            record.command,
            record.status.to_uppercase(),
            metrics.join(", "),
            record.message.as_deref().unwrap_or_default(),
            "-".repeat(40)
        );
        let written = self.0.write_all(text.as_bytes()).and_then(|()| self.0.flush());
        written.map_err(|error| cannot_write(Path::new("text"), error))
    }
}

#[cfg(feature = "sqlite")]
fn sqlite(path: &Path) -> Result<Box<dyn Backend>> {
    Ok(Box::new(table::Table::open(path)?))
}

#[cfg(not(feature = "sqlite"))]
fn sqlite(_: &Path) -> Result<Box<dyn Backend>> {
    Err(Error::new(
        ErrorKind::Store,
        "this program was built without SQLite: add the feature `sqlite`",
    ))
}

#[cfg(feature = "sqlite")]
mod table {
    use std::path::Path;
    use std::time::Duration;

    use rusqlite::Connection;
    use serde_json::to_string;

    use super::{Backend, Emitted};
    use crate::{Error, ErrorKind, Result};

    /// Rows of cloudmesh's table.
    pub(super) struct Table(Connection);

    const CREATE: &str = "CREATE TABLE IF NOT EXISTS telemetry (id INTEGER PRIMARY KEY AUTOINCREMENT, \
        timestamp TEXT, command TEXT, status TEXT, metrics TEXT, system TEXT, message TEXT)";
    const INSERT: &str = "INSERT INTO telemetry (timestamp, command, status, metrics, system, message) \
        VALUES (?, ?, ?, ?, ?, ?)";

    impl Table {
        pub(super) fn open(path: &Path) -> Result<Self> {
            let open = || {
                let connection = Connection::open(path)?;
                // Other processes may be writing.
                connection.busy_timeout(Duration::from_secs(5))?;
                connection.execute(CREATE, [])?;
                Ok(connection)
            };
            open().map(Self).map_err(|error: rusqlite::Error| {
                let what = format!("cannot write {}", path.display());
                Error::new(ErrorKind::Store, what).with_source(error)
            })
        }
    }

    impl Backend for Table {
        fn write(&mut self, record: &Emitted) -> Result<()> {
            let json = |value: serde_json::Result<String>| value.unwrap_or_default();
            let row = (
                &record.timestamp,
                &record.command,
                &record.status,
                json(to_string(&record.metrics)),
                json(to_string(&record.system)),
                &record.message,
            );
            let written = self.0.prepare_cached(INSERT).and_then(|mut insert| insert.execute(row));
            written.map(drop).map_err(|error| {
                Error::new(ErrorKind::Store, "cannot write to the database").with_source(error)
            })
        }
    }
}
