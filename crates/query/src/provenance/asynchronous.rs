//! Queries for programs that must not block.

use std::ffi::OsStr;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use serde_json::Value;

use super::background::{self, Receiver};
use super::{FromDocument, Provenance, QueryIter};
use crate::query::{Collection, Find, Pipeline};
use runlore_core::Result;
use runlore_core::record::{TaskObject, WorkflowObject};

/// Read access to the records of a store without blocking. Each query runs on its own thread, so
/// no particular async runtime is needed.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use runlore::AsyncProvenance;
/// use runlore::query::{Find, field};
///
/// # let file = std::env::temp_dir().join(format!("runlore-doc-async-provenance-{}.jsonl", std::process::id()));
/// # std::fs::write(&file, concat!(
/// #     r#"{"type":"task","task_id":"t1","activity_id":"load","status":"ERROR"}"#, "\n",
/// #     r#"{"type":"task","task_id":"t2","activity_id":"load","status":"FINISHED"}"#, "\n",
/// # ))?;
/// let records = AsyncProvenance::open(&file).await?;
/// // Anything that the blocking `Provenance` can do:
/// let count = records.ask(|records| records.tasks().count()).await?;
/// assert_eq!(count, 2);
/// // Results one by one, as a `Stream`:
/// let mut failed = records.tasks(Find::new().filter(field("status").eq("ERROR")))?;
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

    /// Streams tasks. Reading pauses while unread tasks fill the queue.
    pub fn tasks(&self, find: Find) -> Result<QueryStream<TaskObject>> {
        self.stream(move |records, send| records.tasks().with(find).run().map(send))
    }

    /// Streams workflows. Reading pauses while unread workflows fill the queue.
    pub fn workflows(&self, find: Find) -> Result<QueryStream<WorkflowObject>> {
        self.stream(move |records, send| records.workflows().with(find).run().map(send))
    }

    /// Streams documents as plain JSON: the async version of [`Provenance::find`].
    pub fn find(&self, of: Collection, find: Find) -> Result<QueryStream<Value>> {
        self.stream(move |records, send| records.find(of, &find).map(send))
    }

    /// Streams the results of a pipeline: the async version of [`Provenance::aggregate`].
    pub fn aggregate(&self, of: Collection, pipeline: Pipeline) -> Result<QueryStream<Value>> {
        self.stream(move |records, send| records.aggregate(of, &pipeline).map(send))
    }

    /// Same as [`Provenance::problems`], which does not block.
    pub fn problems(&self) -> Vec<String> {
        self.records.problems()
    }

    /// Runs a query on its own thread and streams its results.
    fn stream<T: FromDocument>(
        &self,
        question: impl FnOnce(&Provenance, &dyn Fn(QueryIter<'_, T>)) -> Result<()> + Send + 'static,
    ) -> Result<QueryStream<T>> {
        let records = self.records.clone();
        let receiver = background::stream(move |sender| {
            let send = |mut results: QueryIter<'_, T>| {
                while results.next().is_some_and(|it| sender.send(it)) {}
            };
            if let Err(error) = question(&records, &send) {
                sender.send(Err(error));
            }
        })?;
        Ok(QueryStream(receiver))
    }
}

/// A stream of the results of a query. Dropping it stops the query.
#[derive(Debug)]
pub struct QueryStream<T>(Receiver<Result<T>>);

impl<T> QueryStream<T> {
    /// Returns the next result. `None` after the last one.
    pub async fn next(&mut self) -> Option<Result<T>> {
        std::future::poll_fn(|context| self.0.poll_next(context)).await
    }
}

impl<T> Stream for QueryStream<T> {
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next(context)
    }
}
