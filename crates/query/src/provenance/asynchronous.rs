//! Queries for programs that must not block.

use std::ffi::OsStr;
use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use serde_json::Value;

use super::background::{self, Receiver};
use super::{Answer, Answers, Ask, Copied, Lineage, Provenance, Subject, TimeSeries};
use crate::query::{Collection, Filter, Find, Measured, Pipeline, Summary};
use runlore_core::Result;
use runlore_core::record::{TaskObject, WorkflowObject};
use runlore_core::runs::RunSummary;
use runlore_core::store::StoreChoice;
use runlore_core::tree::Tree;

/// Read access to the records of a store without blocking. Each query runs on its own thread, so
/// no particular async runtime is needed.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use runlore::AsyncProvenance;
/// use runlore::query::field;
///
/// # let file = std::env::temp_dir().join(format!("runlore-doc-async-provenance-{}.jsonl", std::process::id()));
/// # std::fs::write(&file, concat!(
/// #     r#"{"type":"task","task_id":"t1","activity_id":"load","status":"ERROR"}"#, "\n",
/// #     r#"{"type":"task","task_id":"t2","activity_id":"load","status":"FINISHED"}"#, "\n",
/// # ))?;
/// let records = AsyncProvenance::open(&file).await?;
/// let mut failed = records.tasks().filter(field("status").eq("ERROR")).stream()?;
/// while let Some(task) = failed.next().await {
///     assert_eq!(task?.task_id, "t1");
/// }
/// # std::fs::remove_file(&file)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct AsyncProvenance {
    records: Provenance,
}

impl AsyncProvenance {
    pub(super) fn new(records: Provenance) -> Self {
        Self { records }
    }

    /// Async version of [`Provenance::open`].
    pub async fn open(place: impl AsRef<OsStr>) -> Result<Self> {
        let place = place.as_ref().to_owned();
        background::one(move || Provenance::open(place)).await.map(Self::new)
    }

    /// Runs a closure with the blocking [`Provenance`] on its own thread.
    pub async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Provenance) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let records = self.records.clone();
        background::one(move || question(&records)).await
    }

    /// Async version of [`Provenance::tasks`].
    pub fn tasks(&self) -> AsyncAsk<TaskObject> {
        AsyncAsk::new(self.records.clone(), Collection::Tasks)
    }

    /// Async version of [`Provenance::workflows`].
    pub fn workflows(&self) -> AsyncAsk<WorkflowObject> {
        AsyncAsk::new(self.records.clone(), Collection::Workflows)
    }

    /// Async version of [`Provenance::task`].
    pub async fn task(&self, id: &str) -> Result<Option<TaskObject>> {
        let id = id.to_owned();
        self.ask(move |records| records.task(&id)).await
    }

    /// Async version of [`Provenance::workflow`].
    pub async fn workflow(&self, id: &str) -> Result<Option<WorkflowObject>> {
        let id = id.to_owned();
        self.ask(move |records| records.workflow(&id)).await
    }

    /// Async version of [`Provenance::runs`].
    pub async fn runs(&self) -> Result<Vec<RunSummary>> {
        self.ask(Provenance::runs).await
    }

    /// Async version of [`Provenance::list_runs`].
    pub async fn list_runs(&self) -> Result<Vec<RunSummary>> {
        self.ask(Provenance::list_runs).await
    }

    /// Same as [`Provenance::problems`], which does not block.
    pub fn problems(&self) -> Vec<String> {
        self.records.problems()
    }

    /// Async version of [`Provenance::children`].
    pub async fn children(&self, task_id: &str) -> Result<Vec<TaskObject>> {
        let id = task_id.to_owned();
        self.ask(move |records| records.children(&id)).await
    }

    /// Async version of [`Provenance::ancestors`].
    pub async fn ancestors(&self, task_id: &str) -> Result<Vec<TaskObject>> {
        let id = task_id.to_owned();
        self.ask(move |records| records.ancestors(&id)).await
    }

    /// Async version of [`Provenance::tree`].
    pub async fn tree(&self, workflow_id: &str) -> Result<Tree> {
        let id = workflow_id.to_owned();
        self.ask(move |records| records.tree(&id)).await
    }

    /// Async version of [`Provenance::tree_of`].
    pub async fn tree_of(&self, workflow_id: &str, fields: &[&str]) -> Result<Tree> {
        let (id, fields) = (workflow_id.to_owned(), owned(fields));
        self.ask(move |records| records.tree_of(&id, &borrowed(&fields))).await
    }

    /// Async version of [`Provenance::summary`].
    pub async fn summary(&self, filter: impl Into<Filter>) -> Result<Summary> {
        let filter = filter.into();
        self.ask(move |records| records.summary(filter)).await
    }

    /// Async version of [`Provenance::summary_by`].
    pub async fn summary_by(&self, by: &str, filter: impl Into<Filter>) -> Result<Summary> {
        let (by, filter) = (by.to_owned(), filter.into());
        self.ask(move |records| records.summary_by(&by, filter)).await
    }

    /// Async version of [`Provenance::measured`].
    pub async fn measured(&self, workflow_id: &str) -> Result<Measured> {
        let id = workflow_id.to_owned();
        self.ask(move |records| records.measured(&id)).await
    }

    /// Async version of [`Provenance::timeseries`].
    pub async fn timeseries(
        &self,
        filter: impl Into<Filter>,
        fields: &[&str],
    ) -> Result<TimeSeries> {
        let (filter, fields) = (filter.into(), owned(fields));
        self.ask(move |records| records.timeseries(filter, &borrowed(&fields))).await
    }

    /// Async version of [`Provenance::lineage_of`].
    pub async fn lineage_of(&self, subject: impl Into<Subject>) -> Result<Lineage> {
        let subject = subject.into();
        self.ask(move |records| records.lineage_of(subject)).await
    }

    /// Async version of [`Provenance::find`].
    pub fn find(&self, of: Collection, find: Find) -> Result<AnswerStream<Value>> {
        self.stream(move |records, send| records.find(of, &find).map(send))
    }

    /// Async version of [`Provenance::aggregate`].
    pub fn aggregate(&self, of: Collection, pipeline: Pipeline) -> Result<AnswerStream<Value>> {
        self.stream(move |records, send| records.aggregate(of, &pipeline).map(send))
    }

    /// Async version of [`Provenance::copy_to`].
    pub async fn copy_to(
        &self,
        to: impl Into<StoreChoice>,
        progress: impl FnMut(&Copied) + Send + 'static,
    ) -> Result<Copied> {
        let to = to.into();
        self.ask(move |records| records.copy_to(to, progress)).await
    }

    /// Runs a query on its own thread and streams its results.
    fn stream<T: Answer>(
        &self,
        question: impl FnOnce(&Provenance, &dyn Fn(Answers<'_, T>)) -> Result<()> + Send + 'static,
    ) -> Result<AnswerStream<T>> {
        let records = self.records.clone();
        let receiver = background::stream(move |sender| {
            let send = |mut answers: Answers<'_, T>| {
                while answers.next().is_some_and(|it| sender.send(it)) {}
            };
            if let Err(error) = question(&records, &send) {
                sender.send(Err(error));
            }
        })?;
        Ok(AnswerStream(receiver))
    }
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

fn borrowed(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}

/// A query that does not block. Otherwise like [`Ask`].
#[must_use = "a question is asked by `stream`, `to_vec`, `first` or `count`"]
pub struct AsyncAsk<T> {
    records: Provenance,
    collection: Collection,
    find: Find,
    answer: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for AsyncAsk<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncAsk").field("of", &self.collection).field("find", &self.find).finish()
    }
}

impl<T: Answer> AsyncAsk<T> {
    fn new(records: Provenance, collection: Collection) -> Self {
        Self { records, collection, find: Find::new(), answer: PhantomData }
    }

    /// Same as [`Ask::filter`].
    pub fn filter(mut self, filter: impl Into<Filter>) -> Self {
        self.find = self.find.and(filter.into());
        self
    }

    /// Same as [`Ask::sort`].
    pub fn sort(mut self, field: &str) -> Self {
        self.find = self.find.sort(field);
        self
    }

    /// Same as [`Ask::limit`].
    pub fn limit(mut self, most: u64) -> Self {
        self.find = self.find.limit(most);
        self
    }

    /// Same as [`Ask::skip`].
    pub fn skip(mut self, first: u64) -> Self {
        self.find = self.find.skip(first);
        self
    }

    /// Same as [`Ask::fields`].
    pub fn fields<'f>(self, fields: impl IntoIterator<Item = &'f str>) -> AsyncAsk<Value> {
        let Self { records, collection, find, answer: _ } = self.only(fields);
        AsyncAsk { records, collection, find, answer: PhantomData }
    }

    /// Same as [`Ask::only`].
    pub fn only<'f>(mut self, fields: impl IntoIterator<Item = &'f str>) -> Self {
        self.find = self.find.fields(fields);
        self
    }

    fn blocking(records: &Provenance, collection: Collection, find: Find) -> Ask<'_, T> {
        Ask::new(records, collection).with(find)
    }

    /// Runs the query and streams its results. Reading pauses while unread results fill the queue.
    pub fn stream(self) -> Result<AnswerStream<T>> {
        let Self { records, collection, find, answer: _ } = self;
        AsyncProvenance::new(records).stream(move |records, send| {
            let asked = Self::blocking(records, collection, find);
            asked.run().map(send)
        })
    }

    /// Async version of [`Ask::to_vec`].
    pub async fn to_vec(self) -> Result<Vec<T>> {
        self.ask(|asked| asked.to_vec()).await
    }

    /// Async version of [`Ask::first`].
    pub async fn first(self) -> Result<Option<T>> {
        self.ask(|asked| asked.first()).await
    }

    /// Async version of [`Ask::count`].
    pub async fn count(self) -> Result<u64> {
        self.ask(|asked| asked.count()).await
    }

    async fn ask<U: Send + 'static>(
        self,
        question: impl FnOnce(Ask<'_, T>) -> Result<U> + Send + 'static,
    ) -> Result<U> {
        let Self { records, collection, find, answer: _ } = self;
        background::one(move || question(Self::blocking(&records, collection, find))).await
    }
}

/// A stream of the results of an [`AsyncAsk`] or a pipeline. Dropping it stops the query.
#[derive(Debug)]
pub struct AnswerStream<T>(Receiver<Result<T>>);

impl<T> AnswerStream<T> {
    /// Returns the next result. `None` after the last one.
    pub async fn next(&mut self) -> Option<Result<T>> {
        std::future::poll_fn(|context| self.0.poll_next(context)).await
    }
}

impl<T> Stream for AnswerStream<T> {
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next(context)
    }
}
