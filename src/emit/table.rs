//! Writes emitted records as rows of cloudmesh's table in an SQLite file.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, params};
use serde_json::to_string;

use super::backend::Backend;
use super::record::Emitted;
use runlore_core::store::create_private;
use runlore_core::{Error, ErrorKind, Result};
use runlore_sqlite::inside;

/// How long to wait while other processes lock the file.
const PATIENCE: Duration = Duration::from_secs(5);

const CREATE: &str = "CREATE TABLE IF NOT EXISTS telemetry (id INTEGER PRIMARY KEY AUTOINCREMENT, \
    timestamp TEXT, command TEXT, status TEXT, metrics TEXT, system TEXT, message TEXT)";
const INSERT: &str = "INSERT INTO telemetry (timestamp, command, status, metrics, system, message) \
    VALUES (?, ?, ?, ?, ?, ?)";

/// The database file. It is open only during a write, because a connection must not survive a fork.
#[derive(Debug)]
pub(super) struct Table(PathBuf);

impl Table {
    pub(super) fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    fn insert(&self, record: &Emitted) -> rusqlite::Result<()> {
        let json = |value: serde_json::Result<String>| value.unwrap_or_default();
        let (metrics, system) = (json(to_string(&record.metrics)), json(to_string(&record.system)));
        let _inside = inside();
        // SQLite gives its side files the permissions of this file. Errors are ignored here,
        // because opening the database reports them.
        _ = create_private(&self.0);
        let connection = Connection::open(&self.0)?;
        // Wait outside of SQLite, so that other threads can fork meanwhile.
        connection.busy_timeout(Duration::ZERO)?;
        connection.execute(CREATE, [])?;
        let Emitted { timestamp, command, status, message, .. } = record;
        connection
            .execute(INSERT, params![timestamp, command, status, metrics, system, message])
            .map(drop)
    }
}

impl Backend for Table {
    fn write(&mut self, record: &Emitted) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.insert(record) {
                Err(error) if is_busy(&error) && Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                written => {
                    let what = || format!("cannot write {}", self.0.display());
                    return written
                        .map_err(|error| Error::new(ErrorKind::Store, what()).with_source(error));
                }
            }
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}
