//! The SQLite connections of this process: one writing connection per file, shared by all runs, and
//! the reading connections.
//!
//! SQLite's locks belong to a process. A forked child inherits SQLite's bookkeeping of the locks,
//! but not the locks themselves, and it cannot leave SQLite's state behind for a new one. Therefore
//! no thread may be inside SQLite while the process forks, and a fork waits for that.
//! Writing connections are closed before a fork and reopened when needed, and a child does not
//! write to a file that its parent was reading.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::descriptors::Descriptors;
use super::matching;
use super::problem::{Problem, explain, is_busy, is_unopenable};
use super::schema;
use runlore_core::file_system;
use runlore_core::store::{create_folders, create_private, refuse_special};
use runlore_core::{Error, ErrorKind, Result};

/// The number of prepared statements that a connection caches.
const STATEMENTS: usize = 64;

static TABLE: LazyLock<Mutex<Table>> = LazyLock::new(Mutex::default);

/// Readers hold a shared lock while they are inside SQLite. A fork takes it exclusively.
static READING: RwLock<()> = RwLock::new(());

#[derive(Default)]
struct Table {
    /// The process that owns the writers. A forked child has none.
    process: u32,
    /// The number of stores that write to a file, and the connection that they share.
    writers: HashMap<PathBuf, (usize, Option<Open>)>,
    /// Files whose descriptors the program closed. SQLite would still use the descriptor numbers,
    /// so this process must not open these files again.
    lost: Vec<PathBuf>,
    /// The process and the file of each reading connection.
    readers: Vec<(u32, PathBuf)>,
}

struct Open {
    connection: Connection,
    /// The identity of the open file, to detect that the file was deleted.
    file: Option<(u64, u64)>,
    descriptors: Descriptors,
}

fn table() -> MutexGuard<'static, Table> {
    #[cfg(unix)]
    at_fork::watch();
    lock_table()
}

fn lock_table() -> MutexGuard<'static, Table> {
    let mut table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if table.process != process {
        // The parent's connections were closed before the fork.
        table.writers.clear();
        table.process = process;
    }
    table
}

impl Table {
    /// Returns an error if the program closed the descriptors of a file. The connection is leaked,
    /// not closed: SQLite would close whatever file has these descriptor numbers now.
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

#[cfg(unix)]
mod at_fork {
    use std::cell::RefCell;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{MutexGuard, PoisonError, RwLockWriteGuard};

    use rusqlite::config::DbConfig;

    use super::{READING, Table, lock_table};
    use runlore_core::fork;

    /// The locks on all of SQLite's state in this process.
    type Locks = (RwLockWriteGuard<'static, ()>, MutexGuard<'static, Table>);

    thread_local! {
        /// The locks that this thread holds while it forks.
        static LOCKS: RefCell<Option<Locks>> = const { RefCell::new(None) };
    }

    /// Makes forks wait until no thread is inside SQLite.
    pub(super) fn watch() {
        static IS_WATCHED: AtomicBool = AtomicBool::new(false);
        if !IS_WATCHED.load(Ordering::Relaxed) {
            fork::around(before, after);
            IS_WATCHED.store(true, Ordering::Relaxed);
        }
    }

    /// It may be called twice, if two threads began to watch at once.
    extern "C" fn before() {
        _ = LOCKS.try_with(|locks| _ = locks.borrow_mut().get_or_insert_with(lock));
    }

    extern "C" fn after() {
        _ = LOCKS.try_with(RefCell::take);
    }

    /// Waits until no thread is inside SQLite, and closes the writing connections.
    fn lock() -> Locks {
        let reading = READING.write().unwrap_or_else(PoisonError::into_inner);
        let mut table = lock_table();
        let paths: Vec<_> = table.writers.keys().cloned().collect();
        paths.iter().for_each(|path| _ = table.leave_lost(path));
        for (_, open) in table.writers.values_mut() {
            if let Some(open) = open.take() {
                // A checkpoint would take too long here.
                _ = open.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
            }
        }
        (reading, table)
    }
}

/// A handle for writing to a file.
#[derive(Debug)]
pub(super) struct Writer {
    path: PathBuf,
    syncs: bool,
}

impl Writer {
    /// Registers a writer. With `syncs`, every transaction survives a crash of the machine.
    pub(super) fn new(path: PathBuf, syncs: bool) -> Self {
        let mut table = table();
        table.writers.entry(path.clone()).or_default().0 += 1;
        Self { path, syncs }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Runs `work` with the connection, which is opened if necessary. If an error leaves a
    /// transaction open, the connection is closed, so that the next call starts afresh.
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

    /// Closes the connection for now, unless other stores use it. Closing checkpoints the log, so
    /// that the database file alone is complete.
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
        // Create the file with private permissions: SQLite copies them to the files beside it. If
        // this fails, opening the connection reports the reason.
        _ = create_private(path);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags).map_err(problem)?;
        // Never wait inside SQLite, because that would block forks. Callers retry instead.
        connection.busy_timeout(std::time::Duration::ZERO).map_err(problem)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        // Check this first: a file of another program must stay unchanged, including its journal.
        if !schema::is_current(&connection, path)? {
            connection.pragma_update(None, "page_size", 16 * 1024).map_err(problem)?;
        }
        // A write-ahead log needs shared memory, which processes on several machines cannot share.
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

/// Returns the identity of the file at a path: device and inode.
#[cfg(unix)]
fn file_at(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata(path).ok().map(|facts| (facts.dev(), facts.ino()))
}

/// On other systems an open file cannot be deleted.
#[cfg(not(unix))]
fn file_at(_: &Path) -> Option<(u64, u64)> {
    None
}

/// A connection for reading.
#[derive(Debug)]
pub(super) struct Reader {
    connection: Option<Mutex<Connection>>,
    path: PathBuf,
    process: u32,
}

impl Reader {
    /// Opens a file that has the tables of this version. Writes nothing to it.
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

    /// Returns an error if Runlore cannot record into an existing file.
    pub(super) fn check(path: &Path) -> Result<()> {
        let _inside = inside();
        match Self::look(path) {
            // A lock of another process is only temporary.
            Err(error) if is_busy(&error) => Ok(()),
            looked_at => looked_at.map(drop),
        }
    }

    /// Opens a connection, and returns whether the file has the tables of this version.
    fn look(path: &Path) -> Result<(Connection, bool)> {
        refuse_special(path)?;
        // Try it as immutable first. Otherwise SQLite would leave its shared-memory file beside a
        // file that turns out to be unusable.
        let looked_at = Self::connect(path, &unchanging(path));
        let opened = match looked_at {
            Err(error) if !has_beside(path, "-wal") && !has_beside(path, "-journal") => Err(error),
            _ => Self::connect(path, path),
        };
        match opened {
            // In a read-only folder SQLite cannot create the shared-memory file.
            Err(error) if is_unopenable(&error) && !has_beside(path, "-wal") => {
                Self::connect(path, &unchanging(path))
            }
            opened => opened,
        }
    }

    fn connect(path: &Path, name: &Path) -> Result<(Connection, bool)> {
        let problem = |error| explain(Problem::Read, path, error);
        // Open it for writing: a read-only connection could not remove the shared-memory file when
        // it is the last to close.
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
        // Do not checkpoint on close before it is known that the file is ours.
        leave_log(true)?;
        // A checkpoint by another process blocks readers for a moment.
        connection.busy_timeout(std::time::Duration::from_secs(5)).map_err(problem)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        let is_current = schema::is_current(&connection, path)?;
        leave_log(false)?;
        Ok((connection, is_current))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Runs `work` with the connection. It must be short, because a fork waits for it.
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

/// Returns a guard that allows calls into SQLite. Hold it only briefly, because a fork waits for
/// it.
pub fn inside() -> RwLockReadGuard<'static, ()> {
    #[cfg(unix)]
    at_fork::watch();
    READING.read().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Reader {
    fn drop(&mut self) {
        if !self.is_own() {
            // Closing the connection would affect the parent's files.
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

/// Returns whether a non-empty log or journal exists beside the file: changes that are not yet in
/// the file, or that must be rolled back.
fn has_beside(path: &Path, ending: &str) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push(ending);
    fs::metadata(log).is_ok_and(|facts| facts.len() > 0)
}

/// Returns the URI with which SQLite opens the file as immutable.
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
