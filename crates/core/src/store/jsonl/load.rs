//! Loads all records of a path, joined: one entry per task and one per workflow.

use std::collections::HashMap;
use std::path::Path;

use serde_json::{Map, Value};
use twox_hash::XxHash3_128;

use super::read::read;
use crate::record::{Record, TaskObject, WorkflowObject};
use crate::store::join::{Workflows, join_task};
use crate::tree::Tree;
use crate::{Error, ErrorKind, Result};

/// The joined records of a file or folder.
///
/// * **Tasks**: the last line of an id wins, but a line of an ended task wins over one of a task
///   that has not ended. Fields that the winner lacks are taken from the other.
/// * **Workflows**: the records of one process are joined in the same way. Of several processes,
///   the one that started first speaks for the workflow.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Loaded {
    /// The workflows, in the order in which they were first seen.
    pub workflows: Vec<WorkflowObject>,
    /// The tasks, in the order in which they were first seen.
    pub tasks: Vec<TaskObject>,
    /// Records that are neither tasks nor workflows.
    pub others: Vec<Map<String, Value>>,
    /// Lines and files that could not be read, and ids that two different tasks share.
    pub problems: Vec<Error>,
}

impl Loaded {
    /// Builds the tree of tasks and workflows, each below what started it.
    pub fn into_tree(self) -> Tree {
        Tree::new(self.workflows, self.tasks)
    }
}

/// Loads and joins all records of a file or of a folder of `*.jsonl` files.
///
/// ```
/// # let file = std::env::temp_dir().join(format!("runlore-doc-load-{}.jsonl", std::process::id()));
/// std::fs::write(&file, concat!(
///     r#"{"type":"task","task_id":"t1","activity_id":"load","status":"RUNNING"}"#, "\n",
///     r#"{"type":"task","task_id":"t1","status":"FINISHED"}"#, "\n",
/// ))?;
/// let loaded = runlore::store::jsonl::load(&file)?;
/// assert_eq!(loaded.tasks.len(), 1);
/// assert_eq!(loaded.tasks[0].name(), "load");
/// assert!(loaded.tasks[0].is_finished());
/// # std::fs::remove_file(&file)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// If the path itself cannot be read. Problems inside it are in [`Loaded::problems`].
pub fn load(path: impl AsRef<Path>) -> Result<Loaded> {
    load_with(path, Some)
}

/// Loads and joins the records that `keep` returns. `keep` may drop records or change them, for
/// example to remove fields.
///
/// # Errors
///
/// The same as for [`load()`].
pub fn load_with(
    path: impl AsRef<Path>,
    mut keep: impl FnMut(Record) -> Option<Record>,
) -> Result<Loaded> {
    let mut loaded = Loaded::default();
    let mut workflows = Workflows::default();
    let mut places = HashMap::new();
    for record in read(path)? {
        match record {
            Ok(record) => match keep(record) {
                Some(Record::Task(task)) => join(&mut loaded, &mut places, *task),
                Some(Record::Workflow(workflow)) => workflows.add(*workflow),
                Some(Record::Other(map)) => loaded.others.push(map),
                None => {}
            },
            Err(problem) => loaded.problems.push(problem),
        }
    }
    loaded.workflows = workflows.joined();
    Ok(loaded)
}

pub(super) fn join(loaded: &mut Loaded, places: &mut HashMap<u128, usize>, task: TaskObject) {
    let place = *places.entry(key(&task)).or_insert(loaded.tasks.len());
    let Some(known) = loaded.tasks.get_mut(place) else {
        return loaded.tasks.push(task);
    };
    if let Err(other) = join_task(known, task) {
        loaded.problems.push(Error::new(
            ErrorKind::Record,
            format!(
                "two different tasks have the id {}: {} and {}; links to that id may name either",
                other.task_id,
                known.name(),
                other.name()
            ),
        ));
        loaded.tasks.push(*other);
    }
}

/// Returns a hash that identifies a task. A hash, so that the ids of a long run are not held in
/// memory twice. 128 bits, so that collisions do not occur in practice.
pub(super) fn key(task: &TaskObject) -> u128 {
    key_of(task.workflow_id.as_deref().unwrap_or_default(), &task.task_id)
}

pub fn key_of(workflow_id: &str, task_id: &str) -> u128 {
    let mut text = Vec::with_capacity(workflow_id.len() + 1 + task_id.len());
    text.extend_from_slice(workflow_id.as_bytes());
    text.push(0);
    text.extend_from_slice(task_id.as_bytes());
    XxHash3_128::oneshot(&text)
}
