//! Makes a folder or file of JSON lines available to queries.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use crate::engine::mask::mask_of;
use crate::query::source::{parent_of, through};
use crate::query::{Collection, Documents, Find, Records, Source};
use runlore_core::json::mask::FieldMask;
use runlore_core::runs::Runs;
use runlore_core::store::jsonl::files::Files;
use runlore_core::store::jsonl::joined::{Joined, Repeats, TaskDocuments, joined_workflows};
use runlore_core::store::jsonl::load::key_of;
use runlore_core::store::jsonl::read::{read_parts, text};
use runlore_core::store::jsonl::summary::listed;
use runlore_core::store::jsonl::{joined, summaries};
use runlore_core::store::refuse_special;
use runlore_core::{Error, ErrorKind, Result};

/// A folder or file of JSON lines. Every query reads all files again, so there is no index that
/// could be out of date.
#[derive(Debug)]
pub(crate) struct JsonlSource {
    path: PathBuf,
    /// The repeated tasks found by the last `listed` call, with the file lengths at that time. The
    /// cache is valid as long as no length has changed.
    known: Mutex<Option<(Lengths, Repeats)>>,
}

/// The files and their lengths in bytes.
type Lengths = Vec<(PathBuf, u64)>;

impl JsonlSource {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        match path.try_exists() {
            // Reading reports any other problem.
            Ok(true) | Err(_) => {
                refuse_special(path)?;
                Ok(Self { path: path.to_owned(), known: Mutex::default() })
            }
            Ok(false) => Err(Error::new(
                ErrorKind::Store,
                format!("there is no file or folder {}", path.display()),
            )),
        }
    }

    fn joined(&self, wanted: Option<FieldMask>) -> Result<Joined> {
        // Open the reader first: opening it runs recovery, which may append lines.
        let reader = read_parts(&self.path, wanted)?;
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let repeats = match &*known {
            Some((lengths, repeats)) if *lengths == self.lengths() => repeats.clone(),
            _ => Repeats::among(&Files::find(&self.path)?),
        };
        Ok(Joined::new(reader, repeats))
    }

    fn lengths(&self) -> Lengths {
        let files = Files::find(&self.path).map(|files| files.main).unwrap_or_default();
        let length = |path: &PathBuf| path.metadata().map_or(0, |facts| facts.len());
        files.into_iter().map(|path| (path.clone(), length(&path))).collect()
    }
}

/// The key of a task whose id is known but whose workflow is not.
fn id_key(task_id: &str) -> u128 {
    key_of("", task_id)
}

/// Returns the task. A task that cannot be read is pushed to `problems` and gives `None`; any
/// other error is returned.
fn unless_bad(task: Result<Value>, problems: &mut Vec<Error>) -> Result<Option<Value>> {
    match task {
        Ok(task) => Ok(Some(task)),
        Err(problem) if problem.kind() == ErrorKind::Record => {
            problems.push(problem);
            Ok(None)
        }
        Err(problem) => Err(problem),
    }
}

impl Source for JsonlSource {
    fn documents(&self, of: Collection) -> Result<Documents<'_>> {
        Ok(of.documents(self.records()?))
    }

    fn records(&self) -> Result<Records<'_>> {
        Ok(Box::new(joined(&self.path)?))
    }

    fn find<'a>(&'a self, of: Collection, find: &'a Find) -> Result<Documents<'a>> {
        let documents: Documents<'_> = match (of, mask_of(find)) {
            (Collection::Tasks, None) => self.documents(of)?,
            (Collection::Tasks, wanted) => Box::new(TaskDocuments(self.joined(wanted)?)),
            (Collection::Workflows, _) => of.documents(Box::new(joined_workflows(&self.path)?)),
        };
        Ok(through(documents, |documents| find.apply(documents)))
    }

    /// Reads the files at most twice, however many ancestors there are: once to collect the parent
    /// of each task, and once to load the ancestors.
    fn ancestors(&self, task_id: &str) -> Result<Documents<'_>> {
        let mut problems = Vec::new();
        let links = Find::new().fields(["task_id", "parent_task_id"]);
        // If several tasks share an id, the first one counts.
        let mut parents: HashMap<u128, Option<u128>> = HashMap::new();
        for task in self.find(Collection::Tasks, &links)? {
            if let Some(task) = unless_bad(task, &mut problems)? {
                let parent = parent_of(&task).map(|parent| id_key(&parent));
                parents.entry(id_key(text(&task, "task_id"))).or_insert(parent);
            }
        }
        let first = id_key(task_id);
        let parent = |key: &u128| parents.get(key).copied().flatten();
        let mut places = HashMap::new();
        let mut next = parent(&first);
        // Records of other programs may contain a cycle, or name a parent that does not exist.
        while let Some(key) = next
            .filter(|key| *key != first && !places.contains_key(key) && parents.contains_key(key))
        {
            places.insert(key, places.len());
            next = parent(&key);
        }
        let mut found: Vec<Option<Value>> = vec![None; places.len()];
        if !places.is_empty() {
            for task in self.documents(Collection::Tasks)? {
                if let Some(task) = unless_bad(task, &mut problems)?
                    && let Some(place) = places.remove(&id_key(text(&task, "task_id")))
                {
                    found[place] = Some(task);
                }
                if places.is_empty() {
                    break;
                }
            }
        }
        let found = found.into_iter().flatten().map(Ok);
        Ok(Box::new(problems.into_iter().map(Err).chain(found)))
    }

    fn listed(&self) -> Result<Runs> {
        let before = self.lengths();
        let (runs, repeats) = listed(&self.path)?;
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some((before, repeats));
        Ok(runs)
    }

    fn runs(&self) -> Result<Runs> {
        summaries(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// The same records, queried through the default methods of [`Source`].
    struct Plain<'a>(&'a JsonlSource);

    impl Source for Plain<'_> {
        fn documents(&self, of: Collection) -> Result<Documents<'_>> {
            self.0.documents(of)
        }

        fn records(&self) -> Result<Records<'_>> {
            self.0.records()
        }
    }

    fn in_file(lines: &str) -> (tempfile::TempDir, JsonlSource) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("tasks.jsonl"), lines).unwrap();
        let source = JsonlSource::open(folder.path()).unwrap();
        (folder, source)
    }

    fn line(id: &str, parent: &str, more: &str) -> String {
        format!(r#"{{"type":"task","task_id":"{id}","parent_task_id":"{parent}"{more}}}"#) + "\n"
    }

    #[test]
    fn ancestors_are_those_that_are_found_one_by_one() {
        let lines = [
            line("c", "b", r#","used":{"x":[1]}"#),
            line("b", "a", r#","status":"RUNNING","activity_id":"fit""#),
            line("other", "c", ""),
            line("a", "nowhere", ""),
            line("b", "a", r#","status":"FINISHED""#),
            "no record\n".to_owned(),
            line("twice", "a", r#","workflow_id":"one""#),
            line("twice", "c", r#","workflow_id":"two""#),
            line("below", "twice", ""),
            line("x", "y", ""),
            line("y", "z", ""),
            line("z", "y", ""),
            line("self", "self", ""),
            "{\"type\":\"task\",\"task_id\":\"top\"}\n".to_owned(),
            line("under", "top", ""),
        ];
        let (_folder, source) = in_file(&lines.concat());
        let mut deepest = 0;
        for id in
            ["c", "b", "a", "other", "twice", "below", "x", "y", "self", "top", "under", "none", ""]
        {
            let tasks = |found: Documents<'_>| found.flatten().collect::<Vec<_>>();
            let found = tasks(source.ancestors(id).unwrap());
            assert_eq!(found, tasks(Plain(&source).ancestors(id).unwrap()), "{id}");
            deepest = deepest.max(found.len());
            assert!(source.ancestors(id).unwrap().any(|found| found.is_err()), "{id}");
        }
        assert_eq!(deepest, 3);
    }

    #[test]
    fn ancestors_do_not_take_a_reading_each() {
        let lines: String =
            (0..500).map(|n| line(&format!("t{n}"), &format!("t{}", n + 1), "")).collect();
        let (_folder, source) = in_file(&lines);
        let quickest = |work: &dyn Fn() -> usize, expected: usize| -> Duration {
            let once = || {
                let begun = Instant::now();
                assert_eq!(work(), expected);
                begun.elapsed()
            };
            (0..3).map(|_| once()).min().unwrap_or_default()
        };
        let reading = quickest(&|| source.documents(Collection::Tasks).unwrap().count(), 500);
        let found = quickest(&|| source.ancestors("t0").unwrap().count(), 499);
        assert!(found < 50 * reading, "{found:?}, where reading once takes {reading:?}");
    }
}
