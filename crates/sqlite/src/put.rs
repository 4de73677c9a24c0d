//! Upserts one record into its tables, joined with any record of the same id.

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension as _, Row, ToSql, params};
use serde_json::Value;
use twox_hash::XxHash3_128;

use super::skim::Columns;
use runlore_core::record::{Record, Status, TaskObject, WorkflowObject};
use runlore_core::store::join::{join_process, join_task, speak_as_one};

/// Why a record could not be stored.
#[derive(Debug)]
pub(super) enum Failed {
    /// SQLite returned an error.
    Sql(rusqlite::Error),
    /// The data is not a valid record.
    Record(runlore_core::Error),
}

impl From<rusqlite::Error> for Failed {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

type Done<T = ()> = Result<T, Failed>;

/// JSON that is known to be valid UTF-8, because it was a string when it was written.
struct Utf8<'a>(&'a [u8]);

impl ToSql for Utf8<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Text(self.0)))
    }
}

const INSERT_TASK: &str = "
    INSERT INTO task (
        task_id, workflow_id, campaign_id, parent_task_id, activity_id, status, started_at, duration_ns, copy, odd, doc
    ) VALUES (
        ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11
    ) ON CONFLICT DO NOTHING";

const UPDATE_TASK: &str = "
    UPDATE task SET
        task_id = ?1, workflow_id = ?2, campaign_id = ?3, parent_task_id = ?4,
        activity_id = ?5, status = ?6, started_at = ?7, duration_ns = ?8,
        odd = ?10, doc = ?11
    WHERE id = ?9";

/// Stores a record. `outline` must contain all fields of the record that have a column. The
/// connection must be in a transaction.
pub(super) fn put(connection: &Connection, record: &[u8], outline: &str) -> Done {
    let columns = Columns::of(outline);
    if let Ok(columns) = &columns
        && columns.is_plain
    {
        return put_task(connection, record, columns);
    }
    // Normalize the record as every reader would see it: without nulls, with its type and its id.
    let json: Value = serde_json::from_slice(record).map_err(not_json)?;
    let record = Record::from_json(json).map_err(Failed::Record)?;
    match record {
        Record::Task(task) => {
            let text = serde_json::to_string(&task).map_err(not_json)?;
            put_task(connection, text.as_bytes(), &Columns::of(&text).map_err(not_json)?)
        }
        Record::Workflow(workflow) => put_workflow(connection, *workflow),
        Record::Other(map) => {
            let mut sorted = Value::Object(map);
            let text = sorted.to_string();
            // Maps are unsorted if the program enables serde_json's `preserve_order`.
            sorted.sort_all_objects();
            let hash = XxHash3_128::oneshot(sorted.to_string().as_bytes()).to_be_bytes();
            let sql = "INSERT INTO other (hash, doc) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
            connection.prepare_cached(sql)?.execute(params![hash, text])?;
            Ok(())
        }
    }
}

fn not_json(error: serde_json::Error) -> Failed {
    Failed::Record(
        runlore_core::Error::new(runlore_core::ErrorKind::Record, "a record is not JSON")
            .with_source(error),
    )
}

fn put_task(connection: &Connection, text: &[u8], columns: &Columns<'_>) -> Done {
    if write_task(connection, INSERT_TASK, text, columns, 0)? == 1 {
        return put_hashes(connection, connection.last_insert_rowid(), columns);
    }
    join_with_known(connection, text, columns)
}

fn write_task(
    connection: &Connection,
    sql: &str,
    text: &[u8],
    columns: &Columns<'_>,
    number: i64,
) -> rusqlite::Result<usize> {
    connection.prepare_cached(sql)?.execute(params![
        columns.task_id,
        columns.workflow_id,
        columns.campaign_id,
        columns.parent_task_id,
        columns.activity_id,
        columns.status,
        columns.started_at,
        columns.duration_ns,
        number,
        columns.is_odd.then_some(1),
        Utf8(text),
    ])
}

/// Stores a task whose id is already in the table: joins it with an existing row, or adds a copy.
fn join_with_known(connection: &Connection, text: &[u8], columns: &Columns<'_>) -> Done {
    let sql = "SELECT id, doc FROM task WHERE task_id = ?1 AND ifnull(workflow_id, '') = ?2 ORDER BY copy";
    let mut known = connection.prepare_cached(sql)?;
    let pair = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?));
    let known = known.query_map(params![columns.task_id, columns.workflow_id.as_str()], pair)?;
    let known: Vec<(i64, String)> = known.collect::<rusqlite::Result<_>>()?;
    if known.iter().any(|(_, doc)| doc.as_bytes() == text) {
        return Ok(());
    }
    let mut task: Box<TaskObject> = serde_json::from_slice(text).map(Box::new).map_err(not_json)?;
    for (id, doc) in &known {
        let mut joined: TaskObject = serde_json::from_str(doc).map_err(not_json)?;
        match join_task(&mut joined, *task) {
            Ok(()) => return replace_task(connection, *id, doc, &joined),
            Err(another) => task = another,
        }
    }
    write_task(connection, INSERT_TASK, text, columns, known.len() as i64)?;
    put_hashes(connection, connection.last_insert_rowid(), columns)
}

fn replace_task(connection: &Connection, id: i64, old: &str, new: &TaskObject) -> Done {
    let text = serde_json::to_string(new).map_err(not_json)?;
    if text == old {
        return Ok(());
    }
    let sql = "DELETE FROM value_hash WHERE hash = ?1 AND task = ?2";
    let mut forget = connection.prepare_cached(sql)?;
    for (_, _, hash) in Columns::of(old).map_err(not_json)?.hashes() {
        forget.execute(params![hash, id])?;
    }
    let columns = Columns::of(&text).map_err(not_json)?;
    write_task(connection, UPDATE_TASK, text.as_bytes(), &columns, id)?;
    put_hashes(connection, id, &columns)
}

fn put_hashes(connection: &Connection, task: i64, columns: &Columns<'_>) -> Done {
    let hashes = columns.hashes();
    if !hashes.is_empty() {
        let sql = "INSERT INTO value_hash (hash, task, side, name) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
        let mut insert = connection.prepare_cached(sql)?;
        for (side, name, hash) in hashes {
            insert.execute(params![hash, task, side, name])?;
        }
    }
    Ok(())
}

/// Returns the documents that the processes of a workflow wrote about it, with their row ids.
pub(super) fn processes_of(
    connection: &Connection,
    workflow_id: &str,
) -> rusqlite::Result<Vec<(i64, String)>> {
    let sql = "SELECT id, doc FROM workflow_process WHERE workflow_id = ?1 ORDER BY id";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([workflow_id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

fn put_workflow(connection: &Connection, workflow: WorkflowObject) -> Done {
    let id = workflow.workflow_id.clone();
    let known = processes_of(connection, &id)?;
    let mut processes = Vec::with_capacity(known.len() + 1);
    for (_, doc) in &known {
        processes.push(serde_json::from_str(doc).map_err(not_json)?);
    }
    let at = join_process(&mut processes, workflow);
    let text = serde_json::to_string(&processes[at]).map_err(not_json)?;
    match known.get(at) {
        Some((_, doc)) if *doc == text => return Ok(()),
        Some((row, _)) => {
            let sql = "UPDATE workflow_process SET doc = ?2 WHERE id = ?1";
            connection.prepare_cached(sql)?.execute(params![row, text])?;
        }
        None => {
            let sql = "INSERT INTO workflow_process (workflow_id, doc) VALUES (?1, ?2)";
            connection.prepare_cached(sql)?.execute(params![id, text])?;
        }
    }
    if let Some(joined) = speak_as_one(processes) {
        let text = serde_json::to_string(&joined).map_err(not_json)?;
        let is_odd = Columns::of(&text).map_err(not_json)?.is_workflow_odd;
        let sql = "INSERT INTO workflow (workflow_id, odd, doc) VALUES (?1, ?2, ?3)
            ON CONFLICT (workflow_id) DO UPDATE SET odd = excluded.odd, doc = excluded.doc";
        connection.prepare_cached(sql)?.execute(params![id, is_odd.then_some(1), text])?;
    }
    Ok(())
}

/// Returns whether the record is a task whose id is not in the table yet.
pub(super) fn is_new_task(connection: &Connection, outline: &str) -> rusqlite::Result<bool> {
    let Ok(columns) = Columns::of(outline) else { return Ok(false) };
    let (workflow, task) = (columns.workflow_id.as_str(), columns.task_id.as_str());
    Ok(columns.is_plain && status_of(connection, workflow, task)?.is_none())
}

/// Returns the status of the task with this id in this workflow. `None` if there is no such task.
pub(super) fn status_of(
    connection: &Connection,
    workflow_id: &str,
    task_id: &str,
) -> rusqlite::Result<Option<Option<Status>>> {
    let sql = "SELECT status FROM task WHERE task_id = ?1 AND ifnull(workflow_id, '') = ?2 ORDER BY copy LIMIT 1";
    let mut statement = connection.prepare_cached(sql)?;
    let word = statement.query_row([task_id, workflow_id], |row| row.get::<_, Option<String>>(0));
    Ok(word.optional()?.map(|word| word.and_then(|word| word.parse().ok())))
}
