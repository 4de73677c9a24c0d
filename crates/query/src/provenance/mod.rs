//! Ask anything of what was recorded, wherever that is.

mod ask;
mod asynchronous;
mod background;
mod copy;
mod lineage;
mod series;

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

pub use ask::{Answer, Answers, Ask};
pub use asynchronous::{AnswerStream, AsyncAsk, AsyncProvenance};
pub use copy::Copied;
pub use lineage::{Lineage, Subject, ValueLineage};
pub use series::{Point, TimeSeries};

use crate::query::{
    Collection, Filter, Find, Measured, Pipeline, SUMMARISED, Source, Summary, field,
};
use runlore_core::record::{TaskObject, WorkflowObject};
use runlore_core::runs::{RunSummary, Runs};
use runlore_core::tree::Tree;
use runlore_core::{Error, ErrorKind, Result};

/// How many problems are kept: they are told to people.
const MOST_PROBLEMS: usize = 1000;

/// The records of a store, to be asked.
///
/// Clones share what they read from. What is wrong with single records does not keep the others from being read: see
/// [`problems`](Self::problems).
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
    /// Opens a store: a folder or file of JSON lines, an SQLite database, or a URI of any store that can be read.
    ///
    /// # Errors
    ///
    /// Where there is nothing, or nothing that could be read; nothing is made.
    pub fn open(place: impl AsRef<OsStr>) -> Result<Self> {
        Ok(Self::shared(crate::reading::source(place.as_ref())?.into()))
    }

    /// Asks a source of your own, or a [`MemoryStore`](runlore_core::store::MemoryStore).
    pub fn of(source: impl Source + 'static) -> Self {
        Self::shared(Arc::new(source))
    }

    fn shared(source: Arc<dyn Source>) -> Self {
        Self { source, problems: Arc::default() }
    }

    /// The same records, asked without blocking.
    pub fn into_async(self) -> AsyncProvenance {
        AsyncProvenance::new(self)
    }

    /// What was wrong with single records that were to be read so far: each was left out.
    pub fn problems(&self) -> Vec<String> {
        let problems = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
        problems.iter().map(Error::to_string).collect()
    }

    /// Takes what is wrong with one record out of what is read, and remembers it.
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

    /// Asks for tasks.
    pub fn tasks(&self) -> Ask<'_, TaskObject> {
        Ask::new(self, Collection::Tasks)
    }

    /// Asks for workflows.
    pub fn workflows(&self) -> Ask<'_, WorkflowObject> {
        Ask::new(self, Collection::Workflows)
    }

    /// The task with this id.
    pub fn task(&self, id: &str) -> Result<Option<TaskObject>> {
        self.tasks().filter(field("task_id").eq(id)).first()
    }

    /// The workflow with this id.
    pub fn workflow(&self, id: &str) -> Result<Option<WorkflowObject>> {
        self.workflows().filter(field("workflow_id").eq(id)).first()
    }

    /// The runs with their tasks counted, oldest first.
    pub fn runs(&self) -> Result<Vec<RunSummary>> {
        self.found(self.source.runs()?)
    }

    /// The runs, oldest first, whose tasks need not be counted: for whoever looks for one of them, as reading all tasks takes its
    /// time.
    pub fn list_runs(&self) -> Result<Vec<RunSummary>> {
        self.found(self.source.listed()?)
    }

    fn found(&self, found: Runs) -> Result<Vec<RunSummary>> {
        for problem in found.problems {
            self.sound::<()>(Err(problem)).transpose()?;
        }
        Ok(found.runs)
    }

    /// The tasks that a task called, in the order they began.
    pub fn children(&self, task_id: &str) -> Result<Vec<TaskObject>> {
        self.tasks().filter(field("parent_task_id").eq(task_id)).sort("started_at").to_vec()
    }

    /// The tasks around a task: its parent first, the outermost last.
    pub fn ancestors(&self, task_id: &str) -> Result<Vec<TaskObject>> {
        Answers::new(self, self.source.ancestors(task_id)?).collect()
    }

    /// A workflow with everything in it: its tasks, and the workflows that it started with theirs.
    pub fn tree(&self, workflow_id: &str) -> Result<Tree> {
        self.tree_of(workflow_id, &[])
    }

    /// A workflow as a tree, of whose tasks only these fields are kept, beside those that make the tree; all, where
    /// none is named.
    pub fn tree_of(&self, workflow_id: &str, fields: &[&str]) -> Result<Tree> {
        let workflows = self.workflow_and_started(workflow_id)?;
        let ids: Vec<String> = workflows.iter().map(|one| one.workflow_id.clone()).collect();
        let tasks = self.tasks().filter(match ids.is_empty() {
            // Where only tasks tell of the workflow.
            true => field("workflow_id").eq(workflow_id),
            false => field("workflow_id").is_in(ids),
        });
        let tasks = match fields {
            [] => tasks.to_vec()?,
            fields => tasks.only(TREE_FIELDS.iter().chain(fields).copied()).to_vec()?,
        };
        Ok(Tree::below(Some(workflow_id), workflows, tasks))
    }

    /// The workflow and those that it started, at any distance.
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

    /// What the tasks that match come to, by activity.
    pub fn summary(&self, filter: impl Into<Filter>) -> Result<Summary> {
        self.summary_by("activity_id", filter)
    }

    /// What the tasks that match come to, by a field of theirs.
    pub fn summary_by(&self, by: &str, filter: impl Into<Filter>) -> Result<Summary> {
        let mut summary = Summary::by(by);
        let fields = SUMMARISED.into_iter().chain([by]);
        for task in self.tasks().filter(filter).fields(fields).run()? {
            summary.add(&task?);
        }
        Ok(summary)
    }

    /// A run as it is [compared](crate::query::Comparison) with another.
    pub fn measured(&self, workflow_id: &str) -> Result<Measured> {
        let duration = self.workflow(workflow_id)?.and_then(|workflow| workflow.duration());
        let tasks = self.summary(field("workflow_id").eq(workflow_id))?;
        Ok(Measured::new(duration, tasks))
    }

    /// The documents that are asked for, as plain JSON, one at a time.
    pub fn find<'a>(&'a self, of: Collection, find: &'a Find) -> Result<Answers<'a, Value>> {
        self.asked(of, find)
    }

    fn asked<'a, T>(&'a self, of: Collection, find: &'a Find) -> Result<Answers<'a, T>> {
        find.check()?;
        Ok(Answers::new(self, self.source.find(of, find)?))
    }

    /// What a pipeline makes of all tasks or workflows, one document at a time. Its stages hold no more of them than they must: a `$group`
    /// its groups, a `$sort` all that it sorts, unless a `$limit` follows.
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
    ) -> Result<Answers<'a, Value>> {
        pipeline.check()?;
        Ok(Answers::new(self, self.source.aggregate(of, pipeline)?))
    }
}

/// What the tree of tasks is made of, and what its lines show.
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
