//! The connections of this process: one that writes to each file, shared by all runs, and those that read.
//!
//! SQLite keeps locks by process, and a forked child has a copy of what its parent thought of them, but not the locks. So
//! nobody is inside SQLite while the process forks, connections that write are closed before and opened again when
//! they are needed, and a child does not write to a file that its parent was reading.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{
    LazyLock, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::descriptors::Descriptors;
use super::matching;
use super::problem::{Problem, explain, is_busy, is_unopenable};
use super::schema;
use runlore_core::file_system;
use runlore_core::store::{create_folders, create_private, refuse_special};
use runlore_core::{Error, ErrorKind, Result};

/// Statements that a connection keeps.
const STATEMENTS: usize = 64;

static TABLE: LazyLock<Mutex<Table>> = LazyLock::new(Mutex::default);

/// Held, shared, by whoever reads.
static READING: RwLock<()> = RwLock::new(());

#[derive(Default)]
struct Table {
    /// Whose the writers are: a forked child has none.
    process: u32,
    /// How many stores write to a file, and the connection they share while there is one.
    writers: HashMap<PathBuf, (usize, Option<Open>)>,
    /// Files whose descriptors the program closed. SQLite would still use their numbers, so that nobody may open them again.
    lost: Vec<PathBuf>,
    /// The process and the file of each connection that reads.
    readers: Vec<(u32, PathBuf)>,
}

struct Open {
    connection: Connection,
    /// Which file it is, so that one that was deleted is noticed.
    file: Option<(u64, u64)>,
    descriptors: Descriptors,
}

fn table() -> MutexGuard<'static, Table> {
    let mut table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if table.process != process {
        // Their connections were closed before the fork.
        table.writers.clear();
        table.process = process;
    }
    table
}

impl Table {
    /// An error if the program closed the descriptors of a file. The connection is not closed: SQLite would close what
    /// has their numbers now.
    fn leave_lost(&mut self, path: &Path) -> Result<()> {
        if let Some((_, open)) = self.writers.get_mut(path)
            && let Some(lost) = open.take_if(|open| !open.descriptors.are_ours())
        {
            std::mem::forget(lost.connection);
            self.lost.push(path.to_owned());
        }
        if !self.lost.iter().any(|lost| lost == path) {
            return Ok(());
        }
        let text = format!(
            "{} cannot be used by this process any more: the program closed its descriptors",
            path.display()
        );
        Err(Error::new(ErrorKind::Store, text))
    }
}

/// Everything of SQLite that is ours, held while the process forks.
pub(crate) struct Held {
    _reading: RwLockWriteGuard<'static, ()>,
    _table: MutexGuard<'static, Table>,
}

/// Waits until nobody is inside SQLite, closes what writes, and keeps others out until it is dropped.
pub(crate) fn hold() -> Held {
    let reading = READING.write().unwrap_or_else(PoisonError::into_inner);
    let mut table = table();
    let paths: Vec<_> = table.writers.keys().cloned().collect();
    paths.iter().for_each(|path| _ = table.leave_lost(path));
    for (_, open) in table.writers.values_mut() {
        if let Some(open) = open.take() {
            // To bring the file up to date would take too long here.
            _ = open.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        }
    }
    Held { _reading: reading, _table: table }
}

/// Leave to write to a file.
#[derive(Debug)]
pub(super) struct Writer {
    path: PathBuf,
    syncs: bool,
}

impl Writer {
    /// `syncs` makes every transaction survive the machine.
    pub(super) fn new(path: PathBuf, syncs: bool) -> Self {
        let mut table = table();
        table.writers.entry(path.clone()).or_default().0 += 1;
        Self { path, syncs }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Works with the connection, which is made if need be. After an error it is closed: the next call starts afresh.
    pub(super) fn with<R>(&self, work: impl FnOnce(&Connection) -> Result<R>) -> Result<R> {
        let mut table = table();
        let is_inherited =
            |(process, path): &(u32, PathBuf)| *process != table.process && *path == self.path;
        if table.readers.iter().any(is_inherited) {
            let text = format!(
                "{} cannot be written to by this process: it was forked while the file was being read",
                self.path.display()
            );
            return Err(Error::new(ErrorKind::Store, text));
        }
        table.leave_lost(&self.path)?;
        let open = &mut table.writers.entry(self.path.clone()).or_insert((1, None)).1;
        if open.as_ref().is_some_and(|open| open.file != file_at(&self.path)) {
            *open = None;
            let text = format!("{} was deleted while it was written to", self.path.display());
            return Err(Error::new(ErrorKind::Store, text));
        }
        if open.is_none() {
            *open = Some(self.open()?);
        }
        let Some(ready) = open else { unreachable!("it was opened") };
        let result = work(&ready.connection);
        if result.is_err() && !ready.connection.is_autocommit() {
            *open = None;
        }
        result
    }

    /// Closes the connection for now, unless others use it: the file is then brought up to date, and is all there is.
    pub(super) fn rest(&self) {
        let mut table = table();
        if table.leave_lost(&self.path).is_ok()
            && let Some((1, open)) = table.writers.get_mut(&self.path)
        {
            *open = None;
        }
    }

    fn open(&self) -> Result<Open> {
        let path = &*self.path;
        let problem = |error| explain(Problem::Write, path, error);
        refuse_special(path)?;
        let folder = path.parent().unwrap_or(Path::new("/"));
        create_folders(folder).map_err(|error| {
            Error::new(ErrorKind::Store, format!("cannot make the folder {}", folder.display()))
                .with_source(error)
        })?;
        // SQLite gives the files beside it the permissions of the file. Why there can be none, it tells itself.
        _ = create_private(path);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags).map_err(problem)?;
        // Who waits must not keep others from forking: waiting is done outside.
        connection.busy_timeout(std::time::Duration::ZERO).map_err(problem)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        // A file that is not ours must stay as it is, its journal too.
        if !schema::is_current(&connection, path)? {
            connection.pragma_update(None, "page_size", 16 * 1024).map_err(problem)?;
        }
        // Processes of several machines cannot share the memory that a write-ahead log needs.
        let journal = if file_system::is_local(folder) { "WAL" } else { "TRUNCATE" };
        connection
            .pragma_update_and_check(None, "journal_mode", journal, |_| Ok(()))
            .map_err(problem)?;
        let synchronous = if self.syncs { "FULL" } else { "NORMAL" };
        connection.pragma_update(None, "synchronous", synchronous).map_err(problem)?;
        schema::prepare(&mut connection, path)?;
        Ok(Open { connection, file: file_at(path), descriptors: Descriptors::of(path) })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let mut table = table();
        _ = table.leave_lost(&self.path);
        if let Some((stores, _)) = table.writers.get_mut(&self.path) {
            *stores -= 1;
            if *stores == 0 {
                table.writers.remove(&self.path);
            }
        }
    }
}

/// Which file a path leads to.
#[cfg(unix)]
fn file_at(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata(path).ok().map(|facts| (facts.dev(), facts.ino()))
}

/// Elsewhere a file that is open cannot be deleted.
#[cfg(not(unix))]
fn file_at(_: &Path) -> Option<(u64, u64)> {
    None
}

/// A connection that reads.
#[derive(Debug)]
pub(super) struct Reader {
    connection: Option<Mutex<Connection>>,
    path: PathBuf,
    process: u32,
}

impl Reader {
    /// Opens a file of this version, and writes nothing to it.
    pub(super) fn open(path: &Path) -> Result<Self> {
        table().leave_lost(path)?;
        let _inside = inside();
        let (connection, is_current) = Self::look(path)?;
        if !is_current {
            let text = format!(
                "{} has no records of Runlore, or of a version before this: record into it once to bring it up",
                path.display()
            );
            return Err(Error::new(ErrorKind::Store, text));
        }
        let process = std::process::id();
        table().readers.push((process, path.to_owned()));
        Ok(Self { connection: Some(Mutex::new(connection)), path: path.to_owned(), process })
    }

    /// Tells what keeps a file, which is there, from being recorded into.
    pub(super) fn check(path: &Path) -> Result<()> {
        let _inside = inside();
        match Self::look(path) {
            // A moment later it may be another's no more.
            Err(error) if is_busy(&error) => Ok(()),
            looked_at => looked_at.map(drop),
        }
    }

    /// A connection, and whether the file has the tables of this version.
    fn look(path: &Path) -> Result<(Connection, bool)> {
        refuse_special(path)?;
        // Beside a file that cannot be used, SQLite would leave what readers share with writers.
        let looked_at = Self::connect(path, &unchanging(path));
        let opened = match looked_at {
            Err(error) if !has_beside(path, "-wal") && !has_beside(path, "-journal") => Err(error),
            _ => Self::connect(path, path),
        };
        match opened {
            // In a folder that may not be written to, there is no place for what readers share with writers.
            Err(error) if is_unopenable(&error) && !has_beside(path, "-wal") => {
                Self::connect(path, &unchanging(path))
            }
            opened => opened,
        }
    }

    fn connect(path: &Path, name: &Path) -> Result<(Connection, bool)> {
        let problem = |error| explain(Problem::Read, path, error);
        // A reader that may not write at all could not take away what it shared with writers, where it is the last.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_URI;
        let connection = Connection::open_with_flags(name, flags).map_err(problem)?;
        connection.pragma_update(None, "query_only", true).map_err(problem)?;
        matching::register(&connection).map_err(problem)?;
        let leave_log = |yes| {
            connection
                .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, yes)
                .map_err(problem)
        };
        // What is not ours stays as it is.
        leave_log(true)?;
        // A process that brings the file up to date keeps others out for a moment.
        connection.busy_timeout(std::time::Duration::from_secs(5)).map_err(problem)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        let is_current = schema::is_current(&connection, path)?;
        leave_log(false)?;
        Ok((connection, is_current))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Works with the connection. It must be done soon: a fork waits for it.
    pub(super) fn with<R>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<R>,
    ) -> Result<R> {
        let _inside = inside();
        let Some(connection) = self.connection.as_ref().filter(|_| self.is_own()) else {
            let text = format!("{} was opened before a fork: open it again", self.path.display());
            return Err(Error::new(ErrorKind::Store, text));
        };
        let connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
        work(&connection).map_err(|error| explain(Problem::Read, &self.path, error))
    }

    fn is_own(&self) -> bool {
        self.process == std::process::id()
    }
}

/// Whoever has it may be inside SQLite, for a moment: a fork waits for it.
pub fn inside() -> RwLockReadGuard<'static, ()> {
    READING.read().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Reader {
    fn drop(&mut self) {
        if !self.is_own() {
            // To close it would touch the parent's files.
            std::mem::forget(self.connection.take());
            return;
        }
        let _inside = inside();
        self.connection = None;
        let readers = &mut table().readers;
        let own = |(process, path): &(u32, PathBuf)| *process == self.process && *path == self.path;
        if let Some(at) = readers.iter().position(own) {
            readers.swap_remove(at);
        }
    }
}

/// Whether there is something that has not been brought into the file, or would have to be taken back out of it.
fn has_beside(path: &Path, ending: &str) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push(ending);
    fs::metadata(log).is_ok_and(|facts| facts.len() > 0)
}

/// A path as the URI by which SQLite opens a file that nobody changes.
fn unchanging(path: &Path) -> PathBuf {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' => {
                uri.push(char::from(*byte));
            }
            other => uri.push_str(&format!("%{other:02x}")),
        }
    }
    uri.push_str("?immutable=1");
    uri.into()
}
