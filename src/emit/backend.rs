//! Backends for emitted records.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::record::Emitted;
use runlore_core::store::{OwnFile, append_to_file};
use runlore_core::{Error, ErrorKind, Result};
use runlore_events::events::python;

/// A destination for emitted records.
pub trait Backend: Send {
    /// Writes a record. A panic counts as an error.
    ///
    /// # Errors
    ///
    /// If the record cannot be written.
    fn write(&mut self, record: &Emitted) -> Result<()>;
}

/// Opens a backend by its name.
pub(super) fn named(name: &str, path: Option<&Path>) -> Result<Box<dyn Backend>> {
    let path_or = |default: &str| path.map_or_else(|| PathBuf::from(default), Path::to_owned);
    match name {
        "jsonl" | "json" => Ok(Box::new(Lines::open(&path_or("telemetry.jsonl"))?)),
        "text" | "txt" => Ok(match path {
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

fn append(path: &Path) -> Result<OwnFile> {
    OwnFile::open(path, append_to_file).map_err(|error| cannot_write(path, error))
}

/// Writes one JSON line per record.
struct Lines {
    file: OwnFile,
    path: PathBuf,
}

impl Lines {
    fn open(path: &Path) -> Result<Self> {
        let mut own = append(path)?;
        let (file, _) = own.check().map_err(|error| cannot_write(path, error))?;
        // An unfinished line of another writer must not swallow our first line.
        let mut last = [b'\n'];
        let is_torn = file.seek(SeekFrom::End(-1)).is_ok()
            && file.read_exact(&mut last).is_ok()
            && last != *b"\n";
        if is_torn {
            file.write_all(b"\n").map_err(|error| cannot_write(path, error))?;
        }
        Ok(Self { file: own, path: path.to_owned() })
    }
}

impl Backend for Lines {
    fn write(&mut self, record: &Emitted) -> Result<()> {
        let mut line = serde_json::to_vec(record).map_err(|error| {
            Error::new(ErrorKind::Record, "cannot write a record as JSON").with_source(error)
        })?;
        line.push(b'\n');
        // One write per line, so that several processes can share the file.
        self.file.write_all(&line).map_err(|error| cannot_write(&self.path, error))
    }
}

/// Writes text for people.
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
    Ok(Box::new(super::table::Table::new(path)))
}

#[cfg(not(feature = "sqlite"))]
fn sqlite(_: &Path) -> Result<Box<dyn Backend>> {
    Err(Error::new(
        ErrorKind::Store,
        "this program was built without SQLite: add the feature `sqlite`",
    ))
}
