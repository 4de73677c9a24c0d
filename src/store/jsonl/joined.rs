//! Every record of a path once, as a stream: joined like [`load()`](super::load()), without holding them all.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::hash::{BuildHasherDefault, Hasher};
use std::io::BufReader;
use std::path::Path;

use serde::Deserialize;

use super::files::Files;
use super::lines::{LIMIT, Line, Lines};
use super::load::{Loaded, join, key_of};
use super::read::{Reader, read};
use crate::Result;
use crate::record::Record;
use crate::store::join::Workflows;

/// Streams the records of a file or of a folder of `*.jsonl` files, each task and each workflow once.
///
/// Almost every task has one line, and comes out as it is read. The files are looked through first for tasks that have
/// several; only these, and the workflows, are held, and come last. Of all others a few bytes are kept meanwhile.
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
/// Where the path itself cannot be read. What is wrong inside comes out of the [`Joined`]; the rest follows.
pub fn joined(path: impl AsRef<Path>) -> Result<Joined> {
    let path = path.as_ref();
    // Recovery first: it must not add lines between the two looks.
    let reader = read(path)?;
    let repeated = repeated(&Files::find(path)?);
    Ok(Joined {
        reader: Some(reader),
        repeated,
        held: Loaded::default(),
        places: HashMap::new(),
        workflows: Workflows::default(),
        last: Vec::new().into_iter(),
    })
}

/// An iterator over records, each once; made by [`joined()`].
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

impl Joined {
    /// Everything has been read: what was held can go.
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

/// What a task is told apart by. Where two tasks meet, both are held, and told apart there.
type Keys = HashSet<u64, BuildHasherDefault<AsItIs>>;

fn short_key(workflow_id: &str, task_id: &str) -> u64 {
    key_of(workflow_id, task_id) as u64
}

/// A key is a hash already.
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

/// The ids in a line, and nothing else of it.
#[derive(Deserialize)]
struct Ids<'a> {
    #[serde(borrow)]
    task_id: Cow<'a, str>,
    #[serde(borrow, default)]
    workflow_id: Option<Cow<'a, str>>,
}

/// The tasks that several lines tell of. What cannot be read here, the reader tells.
fn repeated(files: &Files) -> Keys {
    let mut seen = Keys::default();
    let mut repeated = Keys::default();
    for path in &files.main {
        let Ok(file) = File::open(path) else { continue };
        let mut lines = Lines::new(BufReader::with_capacity(128 * 1024, file), LIMIT);
        while let Ok(Some((_, line))) = lines.next() {
            let (Line::Text(bytes) | Line::Unended(bytes)) = line else { continue };
            let Ok(ids) = serde_json::from_slice::<Ids<'_>>(bytes) else { continue };
            let key = short_key(ids.workflow_id.as_deref().unwrap_or_default(), &ids.task_id);
            if !seen.insert(key) {
                repeated.insert(key);
            }
        }
    }
    repeated
}
