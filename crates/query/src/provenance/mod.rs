//! Queries over the records of any store.

mod asynchronous;
mod background;
mod copy;
mod lineage;
mod query;
mod series;

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

pub use asynchronous::{AsyncProvenance, QueryStream};
pub use copy::Copied;
pub use lineage::{Lineage, Subject, ValueLineage};
pub use query::{FromDocument, QueryIter, TaskQuery};
pub use series::{Point, TimeSeries};

use crate::query::{Collection, Filter, Find, Measured, Pipeline, Source, Summary, field};
use runlore_core::record::{TaskObject, WorkflowObject};
use runlore_core::runs::{RunSummary, Runs};
use runlore_core::tree::Tree;
use runlore_core::{Error, ErrorKind, Result};

/// The maximum number of problems kept: they are meant to be read by people.
const MOST_PROBLEMS: usize = 1000;

/// Read access to the records of a store.
///
/// Clones share the store and the list of problems. A record that cannot be read is skipped and
/// listed in [`problems`](Self::problems).
#[derive(Clone)]
pub struct Provenance {
    source: Arc<dyn Source>,
    problems: Arc<Mutex<Vec<Error>>>,
}

impl fmt::Debug for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provenance").finish_non_exhaustive()
    }
}

impl Provenance {
    /// Opens a store: a folder or file of JSON lines, an SQLite database, or the URI of any
    /// readable store.
    ///
    /// # Errors
    ///
    /// Returns an error if the store does not exist or cannot be read. Never creates a store.
    pub fn open(place: impl AsRef<OsStr>) -> Result<Self> {
        Ok(Self::shared(crate::reading::source(place.as_ref())?.into()))
    }

    /// Queries a source of your own, or a [`MemoryStore`](runlore_core::store::MemoryStore).
    pub fn of(source: impl Source + 'static) -> Self {
        Self::shared(Arc::new(source))
    }

    fn shared(source: Arc<dyn Source>) -> Self {
        Self { source, problems: Arc::default() }
    }

    /// Returns a handle to the same records whose queries do not block.
    pub fn into_async(self) -> AsyncProvenance {
        AsyncProvenance::new(self)
    }

    /// Returns what was wrong with the records that were skipped so far.
    pub fn problems(&self) -> Vec<String> {
        let problems = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
        problems.iter().map(Error::to_string).collect()
    }

    /// Removes errors about single records from a sequence of results, and adds them to `problems`.
    fn sound<T>(&self, found: Result<T>) -> Option<Result<T>> {
        match found {
            Err(problem) if problem.kind() == ErrorKind::Record => {
                let mut known = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
                let text = problem.to_string();
                if known.len() < MOST_PROBLEMS && !known.iter().any(|it| it.to_string() == text) {
                    known.push(problem);
                }
                None
            }
            other => Some(other),
        }
    }

    /// Starts a query for tasks.
    pub fn tasks(&self) -> TaskQuery<'_, TaskObject> {
        TaskQuery::new(self, Collection::Tasks)
    }

    /// Starts a query for workflows.
    pub fn workflows(&self) -> TaskQuery<'_, WorkflowObject> {
        TaskQuery::new(self, Collection::Workflows)
    }

    /// Returns the task with this id. `None` if there is none.
    pub fn task(&self, id: &str) -> Result<Option<TaskObject>> {
        self.tasks().filter(field("task_id").eq(id)).first()
    }

    /// Returns the workflow with this id. `None` if there is none.
    pub fn workflow(&self, id: &str) -> Result<Option<WorkflowObject>> {
        self.workflows().filter(field("workflow_id").eq(id)).first()
    }

    /// Returns the runs with the number of their tasks, oldest first.
    pub fn runs(&self) -> Result<Vec<RunSummary>> {
        self.noted(self.source.runs()?)
    }

    /// Returns the runs, oldest first, possibly without the number of their tasks.
    ///
    /// Use this to find a run: unlike [`runs`](Self::runs) it need not read all tasks.
    pub fn list_runs(&self) -> Result<Vec<RunSummary>> {
        self.noted(self.source.listed()?)
    }

    fn noted(&self, runs: Runs) -> Result<Vec<RunSummary>> {
        self.note(runs.problems)?;
        Ok(runs.runs)
    }

    /// Adds errors about single records to `problems`. Returns any other error.
    fn note(&self, problems: Vec<Error>) -> Result<()> {
        problems.into_iter().filter_map(|problem| self.sound(Err(problem))).collect()
    }

    /// Returns the tasks that a task called, in the order they started.
    pub fn children(&self, task_id: &str) -> Result<Vec<TaskObject>> {
        self.tasks().filter(field("parent_task_id").eq(task_id)).sort("started_at").to_vec()
    }

    /// Returns the tasks that enclose a task: its parent first, the outermost last.
    pub fn ancestors(&self, task_id: &str) -> Result<Vec<TaskObject>> {
        QueryIter::new(self, self.source.ancestors(task_id)?).collect()
    }

    /// Returns a workflow as a tree: its tasks, and the workflows it started with their tasks.
    pub fn tree(&self, workflow_id: &str) -> Result<Tree> {
        self.tree_of(workflow_id, &[])
    }

    /// Returns a workflow as a tree. Its tasks have only these fields and those that the tree
    /// itself needs; they have all fields if `fields` is empty.
    pub fn tree_of(&self, workflow_id: &str, fields: &[&str]) -> Result<Tree> {
        let workflows = self.workflow_and_started(workflow_id)?;
        let ids: Vec<String> = workflows.iter().map(|one| one.workflow_id.clone()).collect();
        let tasks = self.tasks().filter(match ids.is_empty() {
            // There may be no workflow record, only tasks that name the workflow.
            true => field("workflow_id").eq(workflow_id),
            false => field("workflow_id").is_in(ids),
        });
        let tasks = match fields {
            [] => tasks.to_vec()?,
            fields => tasks.only(TREE_FIELDS.iter().chain(fields).copied()).to_vec()?,
        };
        Ok(Tree::below(Some(workflow_id), workflows, tasks))
    }

    /// Returns the workflow and all workflows that it started, directly or indirectly.
    pub fn workflow_and_started(&self, workflow_id: &str) -> Result<Vec<WorkflowObject>> {
        let mut found: Vec<WorkflowObject> = self.workflow(workflow_id)?.into_iter().collect();
        let mut seen = HashSet::from([workflow_id.to_owned()]);
        let mut last = vec![workflow_id.to_owned()];
        while !last.is_empty() {
            let started = field("parent_workflow_id").is_in(std::mem::take(&mut last));
            for workflow in self.workflows().filter(started).to_vec()? {
                if seen.insert(workflow.workflow_id.clone()) {
                    last.push(workflow.workflow_id.clone());
                    found.push(workflow);
                }
            }
        }
        Ok(found)
    }

    /// Summarizes the matching tasks by activity.
    pub fn summary(&self, filter: impl Into<Filter>) -> Result<Summary> {
        self.summary_by("activity_id", filter)
    }

    /// Summarizes the matching tasks by one of their fields.
    pub fn summary_by(&self, by: &str, filter: impl Into<Filter>) -> Result<Summary> {
        let mut summary = Summary::by(by);
        let fields = Summary::FIELDS.into_iter().chain([by]);
        for task in self.tasks().filter(filter).only(fields).loosely().run()? {
            summary.add(&task?);
        }
        Ok(summary)
    }

    /// Measures a run so that it can be [compared](crate::query::Comparison) with another.
    pub fn measured(&self, workflow_id: &str) -> Result<Measured> {
        let duration = self.workflow(workflow_id)?.and_then(|workflow| workflow.duration());
        let tasks = self.summary(field("workflow_id").eq(workflow_id))?;
        Ok(Measured::new(duration, tasks))
    }

    /// Returns the matching documents as JSON, one at a time.
    pub fn find<'a>(&'a self, of: Collection, find: &'a Find) -> Result<QueryIter<'a, Value>> {
        self.matching(of, find)
    }

    /// Returns the number of matching documents.
    pub fn count(&self, of: Collection, find: &Find) -> Result<u64> {
        find.check()?;
        let (count, problems) = self.source.count(of, find)?;
        self.note(problems)?;
        Ok(count)
    }

    fn matching<'a, T>(&'a self, of: Collection, find: &'a Find) -> Result<QueryIter<'a, T>> {
        find.check()?;
        Ok(QueryIter::new(self, self.source.find(of, find)?))
    }

    /// Runs a pipeline over all tasks or workflows and returns its results, one document at a time.
    ///
    /// A stage keeps only what it needs in memory: `$group` keeps its groups, `$sort` keeps all
    /// documents unless a `$limit` follows.
    ///
    /// ```
    /// use runlore::Provenance;
    /// use runlore::query::{Collection, Gather, Pipeline};
    ///
    /// # let file = std::env::temp_dir().join(format!("runlore-doc-aggregate-{}.jsonl", std::process::id()));
    /// # std::fs::write(&file, concat!(
    /// #     r#"{"type":"task","task_id":"t1","activity_id":"load"}"#, "\n",
    /// #     r#"{"type":"task","task_id":"t2","activity_id":"load"}"#, "\n",
    /// # ))?;
    /// let records = Provenance::open(&file)?;
    /// let counts = Pipeline::new().group("activity_id", [("n", Gather::count())]);
    /// for group in records.aggregate(Collection::Tasks, &counts)? {
    ///     assert_eq!(group?["n"], 2);
    /// }
    /// # std::fs::remove_file(&file)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn aggregate<'a>(
        &'a self,
        of: Collection,
        pipeline: &'a Pipeline,
    ) -> Result<QueryIter<'a, Value>> {
        pipeline.check()?;
        Ok(QueryIter::new(self, self.source.aggregate(of, pipeline)?))
    }
}

/// The fields that the tree of tasks is built from, and those that its lines show.
const TREE_FIELDS: [&str; 13] = [
    "task_id",
    "workflow_id",
    "parent_task_id",
    "activity_id",
    "subtype",
    "status",
    "started_at",
    "ended_at",
    "duration_ns",
    "ended_early",
    "stderr",
    "error.message",
    "error.chain",
];
