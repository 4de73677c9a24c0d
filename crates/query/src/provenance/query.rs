//! A builder for queries about tasks or workflows.

use std::fmt;
use std::marker::PhantomData;

use serde_json::Value;

use super::Provenance;
use crate::query::{Collection, Documents, Filter, Find};
use runlore_core::record::{Record, TaskObject, WorkflowObject};
use runlore_core::{Error, ErrorKind, Result};

/// The result type of a [`TaskQuery`]: a task, a workflow or plain JSON.
pub trait FromDocument: Sized + Send + 'static {
    /// Converts a document into the result type.
    fn from_document(document: Value) -> Result<Self>;
}

impl FromDocument for Value {
    fn from_document(document: Value) -> Result<Self> {
        Ok(document)
    }
}

impl FromDocument for TaskObject {
    fn from_document(document: Value) -> Result<Self> {
        match Record::from_json(document)? {
            Record::Task(task) => Ok(*task),
            _ => Err(Error::new(ErrorKind::Record, "expected a task record")),
        }
    }
}

impl FromDocument for WorkflowObject {
    fn from_document(document: Value) -> Result<Self> {
        match Record::from_json(document)? {
            Record::Workflow(workflow) => Ok(*workflow),
            _ => Err(Error::new(ErrorKind::Record, "expected a workflow record")),
        }
    }
}

/// A query, created by [`Provenance::tasks`] and [`Provenance::workflows`].
///
/// ```
/// use runlore::Provenance;
/// use runlore::query::{Filter, field};
///
/// # let file = std::env::temp_dir().join(format!("runlore-doc-ask-{}.jsonl", std::process::id()));
/// # std::fs::write(&file, concat!(
/// #     r#"{"type":"task","task_id":"t1","activity_id":"load","started_at":1.0,"used":{"n":3}}"#, "\n",
/// #     r#"{"type":"task","task_id":"t2","activity_id":"load","started_at":2.0,"used":{"n":5}}"#, "\n",
/// # ))?;
/// let records = Provenance::open(&file)?;
/// let newest = records.tasks().filter(field("used.n").gt(2)).sort("-started_at").first()?;
/// assert_eq!(newest.unwrap().task_id, "t2");
///
/// // The filter as text, and only a part of each record.
/// let asked = records.tasks().filter(Filter::parse(r#"{"activity_id": "load"}"#)?).fields(["used.n"]);
/// for document in asked.run()? {
///     assert!(document?["used"]["n"].is_number());
/// }
/// # std::fs::remove_file(&file)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a query does nothing until `run`, `to_vec`, `first` or `count` is called"]
pub struct TaskQuery<'a, T> {
    records: &'a Provenance,
    collection: Collection,
    find: Find,
    result: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for TaskQuery<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskQuery").field("of", &self.collection).field("find", &self.find).finish()
    }
}

impl<'a, T: FromDocument> TaskQuery<'a, T> {
    pub(super) fn new(records: &'a Provenance, collection: Collection) -> Self {
        Self { records, collection, find: Find::new(), result: PhantomData }
    }

    /// Replaces the filter and options of the query.
    pub(super) fn with(mut self, find: Find) -> Self {
        self.find = find;
        self
    }

    /// Keeps only records that match. If called twice, both filters must match.
    pub fn filter(mut self, filter: impl Into<Filter>) -> Self {
        self.find = self.find.and(filter.into());
        self
    }

    /// Sorts by a field, descending if it begins with `-`. Further calls add fields that break
    /// ties.
    pub fn sort(mut self, field: &str) -> Self {
        self.find = self.find.sort(field);
        self
    }

    /// Returns at most this many records.
    pub fn limit(mut self, most: u64) -> Self {
        self.find = self.find.limit(most);
        self
    }

    /// Skips the first records.
    pub fn skip(mut self, first: u64) -> Self {
        self.find = self.find.skip(first);
        self
    }

    /// Returns only these fields of each record, as plain JSON.
    pub fn fields<'f>(self, fields: impl IntoIterator<Item = &'f str>) -> TaskQuery<'a, Value> {
        let Self { records, collection, find, result: _ } = self.only(fields);
        TaskQuery { records, collection, find, result: PhantomData }
    }

    /// Reads only these fields of each record. Without its telemetry a record is a tenth as large.
    pub fn only<'f>(mut self, fields: impl IntoIterator<Item = &'f str>) -> Self {
        self.find = self.find.fields(fields);
        self
    }

    /// Allows records to have more fields than requested. For callers that ignore other fields.
    #[doc(hidden)]
    pub fn loosely(mut self) -> Self {
        self.find = self.find.loosely();
        self
    }

    /// Runs the query and returns the results one at a time, without keeping them in memory.
    ///
    /// A record that cannot be read is skipped and listed in [`Provenance::problems`].
    pub fn run(&self) -> Result<QueryIter<'_, T>> {
        self.records.matching(self.collection, &self.find)
    }

    /// Runs the query and collects all results.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        self.run()?.collect()
    }

    /// Returns the first result. `None` if there is none.
    pub fn first(&self) -> Result<Option<T>> {
        Self::new(self.records, self.collection)
            .with(self.find.clone().limit(1))
            .run()?
            .next()
            .transpose()
    }

    /// Returns the number of results.
    pub fn count(&self) -> Result<u64> {
        self.records.count(self.collection, &self.find)
    }
}

/// An iterator over the results of a [`TaskQuery`] or a pipeline.
pub struct QueryIter<'a, T> {
    records: &'a Provenance,
    documents: Documents<'a>,
    result: PhantomData<fn() -> T>,
}

impl<'a, T> QueryIter<'a, T> {
    pub(super) fn new(records: &'a Provenance, documents: Documents<'a>) -> Self {
        Self { records, documents, result: PhantomData }
    }
}

impl<T> fmt::Debug for QueryIter<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryIter").finish_non_exhaustive()
    }
}

impl<T: FromDocument> Iterator for QueryIter<'_, T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let found = self.documents.next()?.and_then(T::from_document);
            if let Some(result) = self.records.sound(found) {
                return Some(result);
            }
        }
    }
}
