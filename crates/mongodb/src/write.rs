//! Writes batches: inserts new tasks together. Writing a record twice has no effect.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mongodb::bson::RawDocumentBuf;
use mongodb::bson::oid::ObjectId;

use super::address::Address;
use super::collections::Collections;
use super::connection::{Connection, Link};
use super::document::Label;
use super::problem::{code, explain};
use super::upsert::{Refusals, Task, Upserts, not_json};
use super::{indexes, processes, shrink};
use runlore_core::record::Record;
use runlore_core::store::{Batch, RecordHead, RecordKind, Refused, RunInfo, Store};
use runlore_core::{Error, ErrorKind, Result};

/// The timeout for creating indexes, which takes long on a large collection.
const INDEXING: Duration = Duration::from_secs(60);

/// The folder for queues and spools, inside `databases.jsonl.path`.
pub const FOLDER: &str = "mongodb";

/// Generates document ids in the order of creation. Across stores the order is exact to the
/// millisecond.
#[derive(Debug)]
struct Ids {
    /// Unique to this store: a forked child must not generate the same ids.
    unique: [u8; 3],
    count: u32,
}

impl Ids {
    fn new() -> Self {
        let mut unique = [0; 3];
        // Without random numbers, use the time and the process id.
        if getrandom::fill(&mut unique).is_err() {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let number = since.subsec_nanos() ^ std::process::id();
            unique.copy_from_slice(&number.to_le_bytes()[..3]);
        }
        Self { unique, count: 0 }
    }

    fn next(&mut self) -> ObjectId {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.count = self.count.wrapping_add(1);
        let [_, count @ ..] = self.count.to_be_bytes();
        let [high, low] = (since.subsec_millis() as u16).to_be_bytes();
        let [a, b, c] = self.unique;
        ObjectId::from_parts(since.as_secs() as u32, [high, low, a, b, c], count)
    }
}

/// Converts records to documents, one batch after the other.
#[derive(Debug)]
pub struct Documents {
    ids: Ids,
}

impl Default for Documents {
    fn default() -> Self {
        Self { ids: Ids::new() }
    }
}

impl Documents {
    /// Returns the documents of the tasks in a batch. Public so that benchmarks can measure the
    /// cost.
    ///
    /// # Errors
    ///
    /// Returns an error if a record is not valid.
    pub fn of(&mut self, batch: &Batch<'_>) -> Result<Vec<RawDocumentBuf>> {
        let mut documents = Vec::with_capacity(batch.len());
        for (head, text) in batch.heads().zip(batch.records()) {
            if let Sorted::Task(task) = self.sort_out(head, text)? {
                documents.push(task.document);
            }
        }
        Ok(documents)
    }

    pub(super) fn next_id(&mut self) -> ObjectId {
        self.ids.next()
    }

    fn sort_out<'a>(&mut self, head: &RecordHead<'_>, text: &'a str) -> Result<Sorted<'a>> {
        let label = Label::new(self.next_id());
        if let Some(id) = head.task_id.as_deref()
            && head.is_exact
            && head.kind == RecordKind::Task
        {
            let (id, document) = (id.to_owned(), shrink::fitting(text, &label)?);
            return Ok(Sorted::Task(Task { id, document, text: Cow::Borrowed(text) }));
        }
        // Normalize the record as every reader would see it: without nulls, with its type and its
        // id.
        let json = serde_json::from_str(text).map_err(not_json)?;
        Ok(match Record::from_json(json)? {
            Record::Task(task) => {
                let text = serde_json::to_string(&task).map_err(not_json)?;
                let document = shrink::fitting(&text, &label)?;
                Sorted::Task(Task { id: task.task_id, document, text: Cow::Owned(text) })
            }
            Record::Workflow(workflow) => Sorted::Workflow(workflow),
            Record::Other(map) => Sorted::Other(serde_json::Value::Object(map).to_string()),
        })
    }
}

/// A MongoDB database into which runs are recorded.
///
/// It uses its own thread and async runtime. Many runs, of this process and of others, may share a
/// database.
pub struct MongodbStore {
    link: Link,
    /// The folder of the queues and the spool. It is not beside files of JSON lines, which would be
    /// taken for the same store.
    folder: Option<PathBuf>,
    documents: Documents,
    refusals: Refusals,
    has_indexes: bool,
}

impl fmt::Debug for MongodbStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MongodbStore").field(&self.link.address().shown()).finish()
    }
}

impl MongodbStore {
    /// Opens the store of a run: `mongodb://host:27017/database`, with any other options of a
    /// connection string.
    ///
    /// # Errors
    ///
    /// Returns an error if the URI is invalid. Whether the server answers is only known at the
    /// first record.
    pub fn open(uri: &str, run: &RunInfo) -> Result<Self> {
        let databases = &run.settings.databases;
        let address = Address::new(uri, &databases.mongodb)?;
        Ok(Self {
            link: Link::new(address),
            folder: std::path::absolute(databases.jsonl.path.join(FOLDER)).ok(),
            documents: Documents::default(),
            refusals: Refusals::default(),
            has_indexes: false,
        })
    }

    fn make_indexes(&mut self, connection: &Connection) -> Result<()> {
        if self.has_indexes || !self.link.address().makes_indexes() {
            return Ok(());
        }
        let collections = Collections::new(connection.database());
        let shown = connection.shown().to_owned();
        connection.run_for(INDEXING, async move {
            indexes::make(&collections).await.map_err(|error| match code(&error) {
                None => explain(&shown, &error),
                Some(_) => {
                    let text = format!(
                        "{}; it has no indexes: let this user make them, or make them by hand and set databases.mongodb.create_collection_index: no",
                        explain(&shown, &error)
                    );
                    Error::new(ErrorKind::Store, text)
                }
            })
        })?;
        self.has_indexes = true;
        Ok(())
    }
}

impl Store for MongodbStore {
    fn write(&mut self, batch: &Batch<'_>) -> Result<()> {
        let connection = self.link.get()?;
        self.make_indexes(&connection)?;
        let (documents, refusals) = (&mut self.documents, &mut self.refusals);
        let mut upserts = Upserts { connection: &connection, documents, refusals };
        let mut tasks = Vec::new();
        let (mut workflows, mut others) = (Vec::new(), Vec::new());
        for (head, text) in batch.heads().zip(batch.records()) {
            match upserts.documents.sort_out(head, text) {
                Ok(Sorted::Task(task)) => tasks.push(task),
                Ok(Sorted::Workflow(workflow)) => workflows.push(workflow),
                Ok(Sorted::Other(other)) => others.push((processes::other(&other)?, text)),
                Err(error) => upserts.refused(text, &error.to_string(), true)?,
            }
        }
        upserts.tasks(tasks)?;
        for workflow in &workflows {
            upserts.workflow(workflow)?;
        }
        if !others.is_empty() {
            upserts.insert_new(&upserts.collections().others(), others)?;
        }
        Ok(())
    }

    fn write_open(&mut self, batch: &Batch<'_>) -> Result<()> {
        let written = self.write(batch);
        // These tasks are written again when they end, and their refusals count then.
        self.refusals.clear();
        written
    }

    fn refused(&mut self) -> Vec<Refused> {
        self.refusals.drain().map(|(_, refused)| refused).collect()
    }

    fn missing(&mut self, batch: &Batch<'_>) -> Result<Vec<bool>> {
        let connection = self.link.get()?;
        let (documents, refusals) = (&mut self.documents, &mut self.refusals);
        Upserts { connection: &connection, documents, refusals }.missing(batch)
    }

    fn close(&mut self) -> Result<()> {
        self.link.close();
        Ok(())
    }

    fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn uri(&self) -> Option<String> {
        Some(self.link.address().uri().to_owned())
    }
}

/// A record, sorted by the collection it belongs to.
enum Sorted<'a> {
    Task(Task<'a>),
    Workflow(Box<runlore_core::record::WorkflowObject>),
    Other(String),
}
