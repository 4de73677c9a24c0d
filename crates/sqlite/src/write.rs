//! Writes batches. Each batch is a transaction, and writing a record twice has no effect.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::connections::Writer;
use super::problem::{Problem, explain, is_busy};
use super::turn::{PAUSE, Turn};
use super::upsert::{self, Failed, upsert};
use runlore_core::record::{Status, WorkflowObject};
use runlore_core::settings::Durability;
use runlore_core::store::{Batch, Known, RunInfo, Store, StoreEntry, StoredTasks, refuse_special};
use runlore_core::{Error, ErrorKind, Result};

inventory::submit! {
    StoreEntry::new("sqlite", |uri, run| Ok(Box::new(SqliteStore::open(path_of(uri)?, run)?)))
        .recovers(left_in)
        .enabled_by(|settings| {
            let sqlite = &settings.databases.sqlite;
            sqlite.enabled.then(|| format!("sqlite://{}", sqlite.path.display()))
        })
}

/// The maximum time that a write waits for other processes.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// Returns the file that a URI names: `sqlite://runs.db` is relative to the current folder,
/// `sqlite:///data/runs.db` is absolute.
pub(super) fn path_of(uri: &str) -> Result<PathBuf> {
    let path = uri.strip_prefix("sqlite://").unwrap_or(uri);
    let wrong = |what: &str| {
        let text = format!(
            "`{uri}` {what}: write `sqlite://runs.db`, or `sqlite:///data/runs.db` for a path from the root"
        );
        Err(Error::new(ErrorKind::Store, text))
    };
    if path.is_empty() {
        return wrong("names no file");
    }
    if path.ends_with('/') {
        return wrong("names a folder");
    }
    if path.contains('\0') {
        return wrong("has a NUL in it");
    }
    Ok(Path::new(path).to_owned())
}

/// Converts the URI that a dead process logged to the URI of a file in `folder`. Uses only the file
/// name, because the folder may have been moved. Rejects symbolic links, so that nothing outside of
/// the folder is touched.
fn left_in(uri: &str, folder: &Path) -> Result<String> {
    let logged = path_of(uri)?;
    let refuse = |why: &str| {
        let text = format!("a killed process recorded into {uri}, and {why}");
        Error::new(ErrorKind::Store, text)
    };
    let name = logged.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| refuse("that names no file"))?;
    let folder = std::path::absolute(folder).map_err(|error| refuse("").with_source(error))?;
    for part in ["", "-wal", "-shm", "-journal"] {
        let file = folder.join(format!("{name}{part}"));
        if fs::symlink_metadata(&file).is_ok_and(|facts| !facts.is_file()) {
            return Err(refuse(&format!("{} is not a plain file", file.display())));
        }
    }
    let path = folder.join(name);
    let path = path.to_str().ok_or_else(|| refuse("its folder's name is not text"))?;
    Ok(format!("sqlite://{path}"))
}

/// An SQLite file into which runs are recorded. It is created at the first record.
///
/// Several runs, of this process and of others, may share a file.
#[derive(Debug)]
pub struct SqliteStore {
    writer: Writer,
    folder: PathBuf,
    /// How long to wait for other processes. This is much shorter than tasks wait for room in their
    /// queue, so that no task is dropped because of it. After this time records wait in memory.
    wait: Duration,
}

impl SqliteStore {
    /// Opens the store of a run in a file, which is created if necessary.
    ///
    /// # Errors
    ///
    /// Returns an error if the path cannot name a file. Whether it can be written is only known at
    /// the first record.
    pub fn open(path: impl AsRef<Path>, run: &RunInfo) -> Result<Self> {
        let path = path.as_ref();
        // Make the path absolute: a child process may start in another folder.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let Some(folder) = path.parent().map(Path::to_owned) else {
            let text = format!("{} is a folder: name a file for the database", path.display());
            return Err(Error::new(ErrorKind::Store, text));
        };
        refuse_special(&path)?;
        let recorder = &run.settings.recorder;
        let wait = (recorder.max_wait_ms / 2).min(LONGEST_WAIT);
        let syncs = recorder.durability == Durability::System;
        Ok(Self { writer: Writer::new(path, syncs), folder, wait })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        self.writer.path()
    }
}

/// Runs `work` with the connection, and retries until `until` while another process has a lock.
fn patiently<R>(
    writer: &Writer,
    until: Instant,
    mut work: impl FnMut(&Connection) -> Result<R>,
) -> Result<R> {
    loop {
        match writer.with(&mut work) {
            Err(error) if is_busy(&error) && Instant::now() < until => std::thread::sleep(PAUSE),
            result => return result,
        }
    }
}

impl Store for SqliteStore {
    fn write(&mut self, batch: &Batch<'_>) -> Result<()> {
        let until = Instant::now() + self.wait;
        let mut turn = Turn::take(&self.folder, until);
        patiently(&self.writer, until, |connection| {
            write(connection, batch, self.writer.path(), || turn = None)
        })
    }

    // `sync` is not implemented: if the settings ask for it, every transaction is synced.

    fn write_open(&mut self, batch: &Batch<'_>) -> Result<()> {
        self.write(batch)
    }

    fn close(&mut self) -> Result<()> {
        self.writer.rest();
        Ok(())
    }

    fn missing(&mut self, batch: &Batch<'_>) -> Result<Vec<bool>> {
        patiently(&self.writer, Instant::now() + self.wait, |connection| {
            missing(connection, batch, self.writer.path())
        })
    }

    fn folder(&self) -> Option<&Path> {
        Some(&self.folder)
    }

    fn uri(&self) -> Option<String> {
        Some(format!("sqlite://{}", self.path().to_str()?))
    }

    fn known(&mut self, run: &RunInfo, tasks: &HashSet<String>) -> Result<Known> {
        patiently(&self.writer, Instant::now() + self.wait, |connection| {
            known(connection, run, tasks)
                .map_err(|error| explain(Problem::Read, self.writer.path(), error))
        })
    }
}

/// Writes a batch in one transaction. Calls `begun` as soon as the transaction has the lock.
fn write(
    connection: &Connection,
    batch: &Batch<'_>,
    path: &Path,
    begun: impl FnOnce(),
) -> Result<()> {
    let problem = |error| explain(Problem::Write, path, error);
    let run = |sql: &str| connection.prepare_cached(sql)?.execute([]);
    run("BEGIN IMMEDIATE").map_err(problem)?;
    begun();
    let mut records = batch.heads().zip(batch.records());
    let stored = records.try_for_each(|(head, text)| upsert(connection, head, text));
    let done = match stored {
        Ok(()) => run("COMMIT").map(|_| ()).map_err(problem),
        Err(Failed::Sql(error)) => Err(problem(error)),
        Err(Failed::Record(error)) => Err(error),
    };
    if done.is_err() && !connection.is_autocommit() {
        // If this fails too, the connection is closed, which has the same effect.
        _ = run("ROLLBACK");
    }
    done
}

/// Returns which records would change the database. For records whose id exists, it writes them
/// and rolls back.
fn missing(connection: &Connection, batch: &Batch<'_>, path: &Path) -> Result<Vec<bool>> {
    let problem = |error| explain(Problem::Write, path, error);
    let run = |sql: &str| connection.prepare_cached(sql)?.execute([]);
    run("BEGIN").map_err(problem)?;
    let looked = batch.heads().zip(batch.records()).map(|(head, text)| {
        if upsert::is_new_task(connection, head)? {
            return Ok(true);
        }
        let before = connection.total_changes();
        upsert(connection, head, text)?;
        Ok(connection.total_changes() != before)
    });
    let missing = looked.collect::<Result<_, Failed>>().map_err(|failed| match failed {
        Failed::Sql(error) => problem(error),
        Failed::Record(error) => error,
    });
    if !connection.is_autocommit() {
        run("ROLLBACK").map_err(problem)?;
    }
    missing
}

fn known(
    connection: &Connection,
    run: &RunInfo,
    tasks: &HashSet<String>,
) -> rusqlite::Result<Known> {
    let mut known = Known::default();
    for task in tasks {
        match upsert::status_of(connection, &run.workflow_id, task)? {
            Some(status) if status.is_some_and(Status::is_final) => {
                known.ended.insert(task.clone())
            }
            Some(_) => known.running.insert(task.clone()),
            None => false,
        };
    }
    let mut around = None;
    for (_, doc) in upsert::processes_of(connection, &run.workflow_id)? {
        let workflow: WorkflowObject = serde_json::from_str(&doc).unwrap_or_default();
        around = around.or_else(|| workflow.parent_task_id.clone());
        let is_it = workflow.pid.is_none_or(|pid| pid == u64::from(run.pid));
        if is_it && workflow.status != Some(Status::Running) {
            known.has_end = true;
            known.end = Some(Box::new(workflow));
        }
    }
    known.tasks = Some(count_tasks(connection, run, around.as_deref())?);
    Ok(known)
}

/// Counts the tasks of a process by status. `around` is the task that started the workflow.
fn count_tasks(
    connection: &Connection,
    run: &RunInfo,
    around: Option<&str>,
) -> rusqlite::Result<StoredTasks> {
    let sql = "SELECT status, count(*), total(json_extract(doc, '$.capture.start_ns')),
            total(json_extract(doc, '$.capture.end_ns')),
            total(ifnull(json_extract(doc, '$.parent_task_id') = ?3, 1))
        FROM task WHERE workflow_id = ?1 AND ifnull(json_extract(doc, '$.pid'), ?2) = ?2 GROUP BY status";
    let around = around.unwrap_or_default();
    let mut tasks = StoredTasks::default();
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query((&run.workflow_id, run.pid, around))?;
    while let Some(row) = rows.next()? {
        let status: Option<String> = row.get(0)?;
        let count = row.get::<_, i64>(1)? as u64;
        match status.and_then(|word| word.parse().ok()) {
            Some(Status::Finished) => tasks.finished += count,
            Some(Status::Error) => {
                tasks.errors += count;
                tasks.failed_roots += row.get::<_, f64>(4)? as u64;
            }
            _ => tasks.running += count,
        }
        tasks.capture_ns += (row.get::<_, f64>(2)? + row.get::<_, f64>(3)?) as u64;
    }
    Ok(tasks)
}
