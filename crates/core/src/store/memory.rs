//! A store that keeps its records in memory, for tests.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Batch, Store};
use crate::Result;
use crate::record::{Record, TaskObject, WorkflowObject};

/// A store that keeps its records in memory. Clones share the records: keep one to inspect them.
///
/// ```
/// use runlore::{record::Status, store::MemoryStore, telemetry_task};
///
/// #[telemetry_task]
/// fn double(n: i32) -> i32 { n * 2 }
///
/// let store = MemoryStore::new();
/// let run = runlore::workflow("test").store(store.clone()).start()?;
/// double(21);
/// run.finish()?;
///
/// let task = &store.tasks()[0];
/// assert_eq!(task.status, Some(Status::Finished));
/// assert_eq!(task.used.as_ref().unwrap()["n"], 21);
/// assert_eq!(task.generated.as_ref().unwrap()["value"], 42);
/// # Ok::<(), runlore::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    records: Arc<Mutex<Vec<Record>>>,
    open: Arc<Mutex<Vec<Record>>>,
}

impl MemoryStore {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns all records, in the order in which they were written.
    pub fn records(&self) -> Vec<Record> {
        lock(&self.records).clone()
    }

    /// Returns all tasks, in the order in which they were written. A task is written when it ends.
    pub fn tasks(&self) -> Vec<TaskObject> {
        lock(&self.records).iter().filter_map(Record::as_task).cloned().collect()
    }

    /// Returns all workflow records. A workflow has one when it starts and one when it ends.
    pub fn workflows(&self) -> Vec<WorkflowObject> {
        lock(&self.records).iter().filter_map(Record::as_workflow).cloned().collect()
    }

    /// Returns the tasks that were reported as open for a while. Those that have ended since are
    /// among [`tasks`](Self::tasks) too.
    pub fn open_tasks(&self) -> Vec<TaskObject> {
        lock(&self.open).iter().filter_map(Record::as_task).cloned().collect()
    }
}

fn lock(records: &Mutex<Vec<Record>>) -> MutexGuard<'_, Vec<Record>> {
    records.lock().unwrap_or_else(PoisonError::into_inner)
}

fn parse(batch: &Batch<'_>) -> Result<Vec<Record>> {
    batch
        .records()
        .map(|json| {
            let value = serde_json::from_str(json).map_err(|error| {
                crate::Error::new(crate::ErrorKind::Record, "a record is not JSON")
                    .with_source(error)
            })?;
            Record::from_json(value)
        })
        .collect()
}

impl Store for MemoryStore {
    fn write(&mut self, batch: &Batch<'_>) -> Result<()> {
        lock(&self.records).extend(parse(batch)?);
        Ok(())
    }

    fn write_open(&mut self, batch: &Batch<'_>) -> Result<()> {
        lock(&self.open).extend(parse(batch)?);
        Ok(())
    }
}
