//! Reads documents from the tables, one page at a time. This limits the memory for large tables,
//! and no writer has to wait.

use std::fmt;
use std::path::Path;

use rusqlite::{OptionalExtension as _, Row, params};

use super::connections::Reader;
use runlore_core::record::Record;
use runlore_core::store::before_reading;
use runlore_core::{Error, ErrorKind, Result};

/// The size of the first page and the maximum size: callers often need only a few rows.
const PAGES: (usize, usize) = (16, 256);

/// An SQLite file of records, opened for reading.
///
/// Nothing is written to it, except for recovered records of processes that died while recording
/// into it.
pub struct SqliteSource {
    pub(super) reader: Reader,
}

impl fmt::Debug for SqliteSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SqliteSource").field(&self.reader.path()).finish()
    }
}

/// Checks whether Runlore can record into a file. It cannot if the file is no database, or belongs
/// to another program or to a newer version of Runlore. A file that does not exist passes. Creates
/// and changes nothing.
///
/// ```
/// # let path = std::env::temp_dir().join(format!("runlore-doc-check-file-{}.db", std::process::id()));
/// use runlore::store::sqlite::check_file;
///
/// assert!(check_file(&path).is_ok());
/// std::fs::write(&path, "a text that is no database")?;
/// assert!(check_file(&path).is_err());
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// Returns an error that says why the file cannot be used.
pub fn check_file(path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match path.try_exists() {
        Ok(false) => Ok(()),
        _ => Reader::check(&path),
    }
}

/// A table with records in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Table {
    Workflow,
    Task,
    Other,
}

impl Table {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Workflow => "workflow",
            Self::Task => "task",
            Self::Other => "other",
        }
    }
}

impl SqliteSource {
    /// Opens a file.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no file, or if it is not a database of this version of Runlore.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        if let Some(folder) = absolute.parent() {
            before_reading(folder);
        }
        if let Err(error) = std::fs::metadata(&absolute) {
            let text = format!("cannot read {}", path.display());
            return Err(Error::new(ErrorKind::Store, text).with_source(error));
        }
        Ok(Self { reader: Reader::open(&absolute)? })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        self.reader.path()
    }

    /// Checks the whole file for damage.
    ///
    /// # Errors
    ///
    /// Returns an error if the file is damaged.
    pub fn check(&self) -> Result<()> {
        self.reader.with(|connection| {
            let said: String =
                connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
            match &*said {
                "ok" => Ok(()),
                _ => Err(rusqlite::Error::SqliteFailure(
                    rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT),
                    Some("database disk image is malformed".to_owned()),
                )),
            }
        })
    }

    /// Returns every record, joined: the workflows, then the tasks, then records of other kinds.
    /// Each kind is in the order in which the records were first written.
    pub fn records(&self) -> impl Iterator<Item = Result<Record>> + use<'_> {
        let tables = [Table::Workflow, Table::Task, Table::Other];
        tables.into_iter().flat_map(|table| self.texts(Which::all(table))).map(|text| {
            let text = text?;
            let json = serde_json::from_str(&text).map_err(|error| self.bad_document(error))?;
            Record::from_json(json)
        })
    }

    /// Returns the JSON texts of these documents.
    pub(super) fn texts(&self, of: Which) -> Rows<'_, String> {
        self.rows(of, "doc", |row| row.get("doc"))
    }

    /// Selects columns of these rows, and converts each row with `make`.
    pub(super) fn rows<'a, T>(
        &'a self,
        of: Which,
        columns: &str,
        make: impl Fn(&Row<'_>) -> rusqlite::Result<T> + 'a,
    ) -> Rows<'a, T> {
        let table = of.table.name();
        let sql = match &of.left {
            Left::These(_) => format!("SELECT id, {columns} FROM {table} WHERE id = ?1"),
            _ => format!("SELECT id, {columns} FROM {table} WHERE id > ?1 ORDER BY id LIMIT ?2"),
        };
        let make = Box::new(make);
        Rows { source: self, sql, make, left: of.left, size: PAGES.0, page: Vec::new().into_iter() }
    }

    pub(super) fn bad_document(&self, error: serde_json::Error) -> Error {
        let text = format!("a record in {} is not JSON", self.path().display());
        Error::new(ErrorKind::Record, text).with_source(error)
    }
}

/// A selection of rows of a table.
pub(super) struct Which {
    table: Table,
    left: Left,
}

/// The rows that are still to be read.
enum Left {
    /// Every row after the one with this id.
    After(i64),
    These(std::vec::IntoIter<i64>),
    Nothing,
}

impl Which {
    /// Selects all rows, in the order in which they were first written.
    pub(super) fn all(table: Table) -> Self {
        Self { table, left: Left::After(0) }
    }

    pub(super) fn these(table: Table, ids: Vec<i64>) -> Self {
        Self { table, left: Left::These(ids.into_iter()) }
    }
}

/// Converts a row.
type Make<'a, T> = Box<dyn Fn(&Row<'_>) -> rusqlite::Result<T> + 'a>;

/// An iterator over rows.
pub(super) struct Rows<'a, T> {
    source: &'a SqliteSource,
    sql: String,
    make: Make<'a, T>,
    left: Left,
    size: usize,
    page: std::vec::IntoIter<T>,
}

impl<T> Rows<'_, T> {
    fn next_page(&mut self) -> Result<()> {
        let (size, sql, make) = (self.size, &*self.sql, &*self.make);
        self.size = (size * 4).min(PAGES.1);
        let page: Vec<T> = match &mut self.left {
            Left::Nothing => Vec::new(),
            Left::After(last) => {
                let rows: Vec<(i64, T)> = self.source.reader.with(|connection| {
                    let mut statement = connection.prepare_cached(sql)?;
                    let pair = |row: &Row<'_>| Ok((row.get(0)?, make(row)?));
                    statement.query_map(params![*last, size as i64], pair)?.collect()
                })?;
                if let Some((id, _)) = rows.last() {
                    *last = *id;
                }
                rows.into_iter().map(|(_, made)| made).collect()
            }
            Left::These(ids) => self.source.reader.with(|connection| {
                let mut statement = connection.prepare_cached(sql)?;
                let ids = ids.by_ref().take(size);
                let rows = ids.map(|id| statement.query_row([id], make).optional());
                rows.filter_map(Result::transpose).collect()
            })?,
        };
        if page.is_empty() {
            self.left = Left::Nothing;
        }
        self.page = page.into_iter();
        Ok(())
    }
}

impl<T> Iterator for Rows<'_, T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(made) = self.page.next() {
            return Some(Ok(made));
        }
        if let Err(error) = self.next_page() {
            self.left = Left::Nothing;
            return Some(Err(error));
        }
        self.page.next().map(Ok)
    }
}
