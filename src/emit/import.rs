//! Imports emitted records into a store, as a separate workflow.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde_json::{Value, json};
use uuid::Uuid;

use super::read::read;
use super::record::Emitted;
use runlore_core::record::{Record, Status};
use runlore_core::store;
use runlore_core::store::{Sink, StoreChoice};
use runlore_core::{Error, ErrorKind, Result};

/// The result of an import.
#[derive(Debug)]
#[non_exhaustive]
pub struct Imported {
    /// The workflow that contains the records as tasks.
    pub workflow_id: String,
    /// The number of imported tasks.
    pub tasks: u64,
    /// The file they were written to, if the store is a folder.
    pub file: Option<PathBuf>,
    /// The records that could not be read.
    pub problems: Vec<Error>,
}

/// Imports emitted records into a store. Each becomes a task: its metrics are the outputs, its
/// message and system are metadata. Ids are derived from the content of the records, so that
/// importing the same file again replaces the earlier import.
///
/// # Errors
///
/// If the records cannot be read, there are none, or the store cannot be written.
pub fn import(path: impl AsRef<Path>, to: impl Into<StoreChoice>) -> Result<Imported> {
    let path = path.as_ref();
    let mut problems = Vec::new();
    let mut records = Vec::new();
    for record in read(path)? {
        match record {
            Ok(record) => records.push(record),
            Err(problem) => problems.push(problem),
        }
    }
    let Some(first) = records.first() else {
        let what = format!("there is no record in {}", path.display());
        return Err(Error::new(ErrorKind::Record, what));
    };
    let text = serde_json::to_string(first).unwrap_or_default();
    let workflow = Uuid::new_v5(&Uuid::NAMESPACE_URL, text.as_bytes());
    let id = workflow.to_string();
    let times: Vec<f64> = records.iter().filter_map(unix_seconds).collect();
    let (began, ended) =
        (times.iter().copied().reduce(f64::min), times.iter().copied().reduce(f64::max));
    let workflow_record = json!({
        "type": "workflow", "workflow_id": id, "name": first.command, "status": "FINISHED",
        "utc_timestamp": began, "started_at": began, "ended_at": ended,
        "custom_metadata": {"imported_from": "cloudmesh-ai-common"},
    });
    let statuses = statuses(&records);
    let tasks = records.iter().zip(statuses).enumerate();
    let tasks = tasks.map(|(at, (record, status))| task(record, status, at, workflow));
    let all = std::iter::once(workflow_record).chain(tasks);
    let file = match to.into().into_folder() {
        Ok(folder) => Some(write_file(Path::new(&folder), &id, all)?),
        Err(store) => {
            let mut sink = Sink::open(store, "emitted")?;
            for record in all {
                sink.add(&Record::from_json(record)?)?;
            }
            sink.finish()?;
            None
        }
    };
    Ok(Imported { workflow_id: id, tasks: records.len() as u64, file, problems })
}

/// Writes the file atomically, so that no reader sees half of it. Replaces an earlier import of the
/// same records.
fn write_file(folder: &Path, id: &str, records: impl Iterator<Item = Value>) -> Result<PathBuf> {
    let lines: String = records.map(|record| format!("{record}\n")).collect();
    let file = folder.join(format!("emitted_{id}_0.jsonl"));
    let failed = |error| {
        Error::new(ErrorKind::Store, format!("cannot write {}", file.display())).with_source(error)
    };
    store::write_file(&file, lines.as_bytes()).map_err(failed)?;
    Ok(file)
}

/// Returns the status of each record's task. A start is finished if a later record of the same
/// command reports an end. A start without an end is unknown, because nothing is running any more.
fn statuses(records: &[Emitted]) -> Vec<Status> {
    let mut statuses = vec![Status::Unknown; records.len()];
    let mut started: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, record) in records.iter().enumerate() {
        let starts = started.entry(&record.command).or_default();
        statuses[at] = match record.status.as_str() {
            "completed" => Status::Finished,
            "failed" => Status::Error,
            "started" => {
                starts.push(at);
                continue;
            }
            _ => continue,
        };
        if let Some(start) = starts.pop() {
            statuses[start] = Status::Finished;
        }
    }
    statuses
}

fn task(record: &Emitted, status: Status, at: usize, workflow: Uuid) -> Value {
    let when = unix_seconds(record);
    let seconds = record.metrics.get("duration_sec").and_then(Value::as_f64);
    let mut task = json!({
        "type": "task",
        "task_id": Uuid::new_v5(&workflow, at.to_string().as_bytes()).to_string(),
        "workflow_id": workflow.to_string(),
        "activity_id": record.command,
        "status": status.as_str(),
        "generated": record.metrics,
        "custom_metadata": {"status": record.status, "message": record.message, "system": record.system},
    });
    if let Some(when) = when {
        task["ended_at"] = when.into();
        task["started_at"] = (when - seconds.unwrap_or(0.0)).into();
    }
    if status == Status::Error {
        task["stderr"] = record.message.clone().into();
    }
    task
}

/// Returns the time of a record. Timestamps have no time zone; this machine's is assumed.
fn unix_seconds(record: &Emitted) -> Option<f64> {
    let local: DateTime = record.timestamp.parse().ok()?;
    let time = local.to_zoned(TimeZone::system()).ok()?.timestamp();
    Some(time.as_microsecond() as f64 / 1e6)
}
