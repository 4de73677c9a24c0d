//! A question about tasks or workflows, put together step by step.

use std::fmt;
use std::marker::PhantomData;

use serde_json::Value;

use super::Provenance;
use crate::query::{Collection, Documents, Filter, Find};
use runlore_core::record::{Record, TaskObject, WorkflowObject};
use runlore_core::{Error, ErrorKind, Result};

/// What an [`Ask`] can be answered with: tasks, workflows, or plain JSON.
pub trait Answer: Sized + Send + 'static {
    /// Reads an answer.
    fn from_document(document: Value) -> Result<Self>;
}

impl Answer for Value {
    fn from_document(document: Value) -> Result<Self> {
        Ok(document)
    }
}

impl Answer for TaskObject {
    fn from_document(document: Value) -> Result<Self> {
        match Record::from_json(document)? {
            Record::Task(task) => Ok(*task),
            _ => Err(Error::new(ErrorKind::Record, "a record among the tasks is none")),
        }
    }
}

impl Answer for WorkflowObject {
    fn from_document(document: Value) -> Result<Self> {
        match Record::from_json(document)? {
            Record::Workflow(workflow) => Ok(*workflow),
            _ => Err(Error::new(ErrorKind::Record, "a record among the workflows is none")),
        }
    }
}

/// A question; made by [`Provenance::tasks`] and [`Provenance::workflows`].
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
#[must_use = "a question is asked by `run`, `to_vec`, `first` or `count`"]
pub struct Ask<'a, T> {
    records: &'a Provenance,
    collection: Collection,
    find: Find,
    answer: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for Ask<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask").field("of", &self.collection).field("find", &self.find).finish()
    }
}

impl<'a, T: Answer> Ask<'a, T> {
    pub(super) fn new(records: &'a Provenance, collection: Collection) -> Self {
        Self { records, collection, find: Find::new(), answer: PhantomData }
    }

    /// The same question with other answers.
    fn answered_by<U>(self) -> Ask<'a, U> {
        let Self { records, collection, find, answer: _ } = self;
        Ask { records, collection, find, answer: PhantomData }
    }

    /// What was asked before, and this too.
    pub(super) fn with(mut self, find: Find) -> Self {
        self.find = find;
        self
    }

    /// Only those that match. Called twice, both must.
    pub fn filter(mut self, filter: impl Into<Filter>) -> Self {
        self.find = self.find.and(filter.into());
        self
    }

    /// In the order of a field; from the greatest down where it begins with `-`. Called again, that field decides
    /// between those that are equal.
    pub fn sort(mut self, field: &str) -> Self {
        self.find = self.find.sort(field);
        self
    }

    /// So many at most.
    pub fn limit(mut self, most: u64) -> Self {
        self.find = self.find.limit(most);
        self
    }

    /// Without the first ones.
    pub fn skip(mut self, first: u64) -> Self {
        self.find = self.find.skip(first);
        self
    }

    /// Only these fields of each, as plain JSON.
    pub fn fields<'f>(self, fields: impl IntoIterator<Item = &'f str>) -> Ask<'a, Value> {
        self.only(fields).answered_by()
    }

    /// Only these fields of each, as the record that is left: without its telemetry a record is a tenth as large.
    pub fn only<'f>(mut self, fields: impl IntoIterator<Item = &'f str>) -> Self {
        self.find = self.find.fields(fields);
        self
    }

    /// Asks. The answers come one at a time, and are not held.
    ///
    /// A record that cannot be read is left out, and told by [`Provenance::problems`].
    pub fn run(&self) -> Result<Answers<'_, T>> {
        self.records.asked(self.collection, &self.find)
    }

    /// Asks, and holds all answers.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        self.run()?.collect()
    }

    /// The first answer, if there is one.
    pub fn first(&self) -> Result<Option<T>> {
        Self::new(self.records, self.collection)
            .with(self.find.clone().limit(1))
            .run()?
            .next()
            .transpose()
    }

    /// How many answers there are.
    pub fn count(&self) -> Result<u64> {
        let mut count = 0;
        // Of each document nothing is wanted.
        let find = self.find.clone().fields(["_id"]);
        for answer in self.records.find(self.collection, &find)? {
            answer?;
            count += 1;
        }
        Ok(count)
    }
}

/// The answers to an [`Ask`] or a pipeline, one at a time.
pub struct Answers<'a, T> {
    records: &'a Provenance,
    documents: Documents<'a>,
    answer: PhantomData<fn() -> T>,
}

impl<'a, T> Answers<'a, T> {
    pub(super) fn new(records: &'a Provenance, documents: Documents<'a>) -> Self {
        Self { records, documents, answer: PhantomData }
    }
}

impl<T> fmt::Debug for Answers<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answers").finish_non_exhaustive()
    }
}

impl<T: Answer> Iterator for Answers<'_, T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let found = self.documents.next()?.and_then(T::from_document);
            if let Some(answer) = self.records.sound(found) {
                return Some(answer);
            }
        }
    }
}
