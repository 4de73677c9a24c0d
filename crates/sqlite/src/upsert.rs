//! Upserts one record into its tables, joined with any record of the same id.

use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde_json::Value;
use twox_hash::XxHash3_128;

use runlore_core::record::{Record, Status, TaskObject, WorkflowObject};
use runlore_core::store::join::{join_process, join_task, speak_as_one};
use runlore_core::store::{RecordHead, RecordKind};

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

/// Stores a record. The connection must be in a transaction.
pub(super) fn upsert(connection: &Connection, head: &RecordHead<'_>, text: &str) -> Done {
    if is_exact_task(head) {
        return upsert_task(connection, head, text);
    }
    // Normalize the record as every reader would see it: without nulls, with its type and its id.
    let json: Value = serde_json::from_str(text).map_err(not_json)?;
    let record = Record::from_json(json).map_err(Failed::Record)?;
    match record {
        Record::Task(task) => {
            let text = serde_json::to_string(&task).map_err(not_json)?;
            upsert_task(connection, &RecordHead::read(&text).map_err(not_json)?, &text)
        }
        Record::Workflow(workflow) => upsert_workflow(connection, *workflow),
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

fn is_exact_task(head: &RecordHead<'_>) -> bool {
    head.kind == RecordKind::Task && head.is_exact
}

fn upsert_task(connection: &Connection, head: &RecordHead<'_>, text: &str) -> Done {
    if write_task(connection, INSERT_TASK, head, text, 0)? == 1 {
        return insert_hashes(connection, connection.last_insert_rowid(), head);
    }
    join_with_known(connection, head, text)
}

fn write_task(
    connection: &Connection,
    sql: &str,
    head: &RecordHead<'_>,
    text: &str,
    number: i64,
) -> rusqlite::Result<usize> {
    // SQLite has no unsigned numbers.
    let duration_ns = head.duration_ns.and_then(|duration| i64::try_from(duration).ok());
    let needs_recheck = !head.is_exact || duration_ns.is_some() != head.duration_ns.is_some();
    connection.prepare_cached(sql)?.execute(params![
        head.task_id,
        head.workflow_id,
        head.campaign_id,
        head.parent_task_id,
        head.activity_id,
        head.status.map(Status::as_str),
        head.started_at,
        duration_ns,
        number,
        needs_recheck.then_some(1),
        text,
    ])
}

/// Stores a task whose id is already in the table: joins it with an existing row, or adds a copy.
fn join_with_known(connection: &Connection, head: &RecordHead<'_>, text: &str) -> Done {
    let sql = "SELECT id, doc FROM task WHERE task_id = ?1 AND ifnull(workflow_id, '') = ?2 ORDER BY copy";
    let mut known = connection.prepare_cached(sql)?;
    let pair = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?));
    let known = known
        .query_map(params![head.task_id, head.workflow_id.as_deref().unwrap_or_default()], pair)?;
    let known: Vec<(i64, String)> = known.collect::<rusqlite::Result<_>>()?;
    if known.iter().any(|(_, doc)| doc == text) {
        return Ok(());
    }
    let mut task: Box<TaskObject> = serde_json::from_str(text).map(Box::new).map_err(not_json)?;
    for (id, doc) in &known {
        let mut joined: TaskObject = serde_json::from_str(doc).map_err(not_json)?;
        match join_task(&mut joined, *task) {
            Ok(()) => return replace_task(connection, *id, doc, &joined),
            Err(another) => task = another,
        }
    }
    write_task(connection, INSERT_TASK, head, text, known.len() as i64)?;
    insert_hashes(connection, connection.last_insert_rowid(), head)
}

fn replace_task(connection: &Connection, id: i64, old: &str, new: &TaskObject) -> Done {
    let text = serde_json::to_string(new).map_err(not_json)?;
    if text == old {
        return Ok(());
    }
    let sql = "DELETE FROM value_hash WHERE hash = ?1 AND task = ?2";
    let mut forget = connection.prepare_cached(sql)?;
    for known in RecordHead::read(old).map_err(not_json)?.hashes {
        forget.execute(params![known.hash, id])?;
    }
    let head = RecordHead::read(&text).map_err(not_json)?;
    write_task(connection, UPDATE_TASK, &head, &text, id)?;
    insert_hashes(connection, id, &head)
}

fn insert_hashes(connection: &Connection, task: i64, head: &RecordHead<'_>) -> Done {
    if !head.hashes.is_empty() {
        let sql = "INSERT INTO value_hash (hash, task, side, name) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
        let mut insert = connection.prepare_cached(sql)?;
        for value in &head.hashes {
            insert.execute(params![value.hash, task, value.side, value.name])?;
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

fn upsert_workflow(connection: &Connection, workflow: WorkflowObject) -> Done {
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
        let needs_recheck = !RecordHead::read(&text).map_err(not_json)?.is_exact;
        let sql = "INSERT INTO workflow (workflow_id, odd, doc) VALUES (?1, ?2, ?3)
            ON CONFLICT (workflow_id) DO UPDATE SET odd = excluded.odd, doc = excluded.doc";
        connection.prepare_cached(sql)?.execute(params![id, needs_recheck.then_some(1), text])?;
    }
    Ok(())
}

/// Returns whether the record is a task whose id is not in the table yet.
pub(super) fn is_new_task(
    connection: &Connection,
    head: &RecordHead<'_>,
) -> rusqlite::Result<bool> {
    let workflow = head.workflow_id.as_deref().unwrap_or_default();
    let task = head.task_id.as_deref().unwrap_or_default();
    Ok(is_exact_task(head) && status_of(connection, workflow, task)?.is_none())
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
