//! Streams every record of a path once: joined as by [`load()`](super::load()), but without holding
//! all of them in memory.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::io::BufReader;
use std::path::Path;

use serde_json::Value;

use super::files::Files;
use super::lines::{LIMIT, Line, Lines, read_head};
use super::load::{Loaded, join, key_of};
use super::read::{ParsedLine, Reader, read_parts, text};
use crate::Result;
use crate::json::mask::FieldMask;
use crate::record::{Record, TaskObject};
use crate::store::RecordHead;
use crate::store::join::Workflows;

/// Streams the records of a file or of a folder of `*.jsonl` files, each task and each workflow
/// once.
///
/// Almost every task has one line and is returned as it is read. A first pass over the files finds
/// the tasks that have several lines. Only these and the workflows are held in memory, and come
/// last. Of all other tasks a few bytes are kept during the first pass.
///
/// ```
/// # let file = std::env::temp_dir().join(format!("runlore-doc-joined-{}.jsonl", std::process::id()));
/// std::fs::write(&file, concat!(
///     r#"{"type":"task","task_id":"t1","activity_id":"load","status":"RUNNING"}"#, "\n",
///     r#"{"type":"task","task_id":"t1","status":"FINISHED"}"#, "\n",
///     r#"{"type":"task","task_id":"t2","activity_id":"train","status":"FINISHED"}"#, "\n",
/// ))?;
/// let names: Vec<_> = runlore::store::jsonl::joined(&file)?
///     .map(|record| record.map(|record| record.as_task().unwrap().name().to_owned()))
///     .collect::<Result<_, _>>()?;
/// assert_eq!(names, ["train", "load"]);
/// # std::fs::remove_file(&file)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// If the path itself cannot be read. Problems inside it are returned by the [`Joined`], which then
/// continues.
pub fn joined(path: impl AsRef<Path>) -> Result<Joined> {
    let path = path.as_ref();
    // Opening the reader runs recovery, which must not add lines between the two passes.
    let reader = read_parts(path, None)?;
    Ok(Joined::new(reader, Repeats::among(&Files::find(path)?)))
}

/// Like [`joined()`], for callers that need only the workflows: tasks are neither joined nor
/// complete.
pub fn joined_workflows(path: &Path) -> Result<Joined> {
    Ok(Joined::new(read_parts(path, Some(FieldMask::default()))?, Repeats::default()))
}

/// An iterator over records, each once. Made by [`joined()`].
#[derive(Debug)]
pub struct Joined {
    reader: Option<Reader>,
    repeated: Keys,
    held: Loaded,
    places: HashMap<u128, usize>,
    workflows: Workflows,
    last: std::vec::IntoIter<Result<Record>>,
}

impl Iterator for Joined {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(reader) = &mut self.reader {
            match reader.next() {
                Some(Ok(Record::Workflow(workflow))) => self.workflows.add(*workflow),
                Some(Ok(Record::Task(task))) => {
                    let workflow = task.workflow_id.as_deref().unwrap_or_default();
                    if !self.repeated.contains(&short_key(workflow, &task.task_id)) {
                        return Some(Ok(Record::Task(task)));
                    }
                    join(&mut self.held, &mut self.places, *task);
                }
                Some(other) => return Some(other),
                None => self.finish(),
            }
        }
        self.last.next()
    }
}

/// An iterator over the JSON documents of tasks, each task once.
#[derive(Debug)]
pub struct TaskDocuments(pub Joined);

impl Iterator for TaskDocuments {
    type Item = Result<Value>;

    fn next(&mut self) -> Option<Self::Item> {
        let Self(joined) = self;
        while let Some(reader) = &mut joined.reader {
            match reader.next_document() {
                Some(Ok(ParsedLine::Task(task))) => {
                    let key = short_key(text(&task, "workflow_id"), text(&task, "task_id"));
                    if !joined.repeated.contains(&key) {
                        return Some(Ok(task));
                    }
                    match Record::from_json(task) {
                        // The task has several lines, and is held until the end.
                        Ok(record) => _ = joined.take(record),
                        Err(problem) => return Some(Err(problem)),
                    }
                }
                Some(Ok(ParsedLine::Record(record))) => {
                    if let Some(task) = joined.take(record) {
                        return Some(Ok(Record::from(task).into_json()));
                    }
                }
                Some(Err(problem)) => return Some(Err(problem)),
                None => joined.finish(),
            }
        }
        joined.last.find_map(|record| match record {
            Ok(record) => record.as_task().is_some().then(|| Ok(record.into_json())),
            Err(problem) => Some(Err(problem)),
        })
    }
}

impl Joined {
    /// Adds a record. Returns it if it is a task that has only one line.
    fn take(&mut self, record: Record) -> Option<TaskObject> {
        let task = match record {
            Record::Task(task) => *task,
            Record::Workflow(workflow) => {
                self.workflows.add(*workflow);
                return None;
            }
            Record::Other(_) => return None,
        };
        let workflow = task.workflow_id.as_deref().unwrap_or_default();
        if !self.repeated.contains(&short_key(workflow, &task.task_id)) {
            return Some(task);
        }
        join(&mut self.held, &mut self.places, task);
        None
    }

    pub fn new(reader: Reader, repeats: Repeats) -> Self {
        Self {
            reader: Some(reader),
            repeated: repeats.repeated,
            held: Loaded::default(),
            places: HashMap::new(),
            workflows: Workflows::default(),
            last: Vec::new().into_iter(),
        }
    }

    /// Ends the reading: returns the held records from now on.
    fn finish(&mut self) {
        self.reader = None;
        let held = std::mem::take(&mut self.held);
        let workflows = std::mem::take(&mut self.workflows).joined();
        let problems = held.problems.into_iter().map(Err);
        let tasks = held.tasks.into_iter().map(|task| Ok(task.into()));
        let workflows = workflows.into_iter().map(|workflow| Ok(workflow.into()));
        self.last = problems.chain(tasks).chain(workflows).collect::<Vec<_>>().into_iter();
    }
}

/// The keys of tasks. If two tasks have the same key, both are held and then told apart by their
/// full ids.
type Keys = HashSet<u64, BuildHasherDefault<AsItIs>>;

pub(super) fn short_key(workflow_id: &str, task_id: &str) -> u64 {
    key_of(workflow_id, task_id) as u64
}

/// Returns the key of the task in a record.
pub(super) fn head_key(head: &RecordHead<'_>) -> Option<u64> {
    let workflow = head.workflow_id.as_deref().unwrap_or_default();
    Some(short_key(workflow, head.task_id.as_deref()?))
}

/// Uses a key as its own hash, because it is a hash already.
#[derive(Debug, Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

/// Finds tasks that have several lines, by their keys.
#[derive(Debug, Clone, Default)]
pub struct Repeats {
    seen: Keys,
    repeated: Keys,
}

impl Repeats {
    /// Finds the repeated tasks in files. Read errors are skipped here: the reader reports them.
    pub fn among(files: &Files) -> Self {
        let mut repeats = Self::default();
        for path in &files.main {
            let Ok(file) = files.open_main(path) else { continue };
            let mut lines = Lines::new(BufReader::with_capacity(128 * 1024, file), LIMIT);
            while let Ok(Some((_, line))) = lines.next_line() {
                let (Line::Text(bytes) | Line::Unended(bytes)) = line else { continue };
                repeats.note(read_head(bytes).and_then(|head| head_key(&head)));
            }
        }
        repeats.finish();
        repeats
    }

    /// Notes that a task has another line.
    pub(super) fn note(&mut self, key: Option<u64>) {
        if let Some(key) = key
            && !self.seen.insert(key)
        {
            self.repeated.insert(key);
        }
    }

    /// Ends the search and frees the keys that were seen once.
    pub(super) fn finish(&mut self) {
        self.seen = Keys::default();
    }
}
