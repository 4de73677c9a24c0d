//! The interface for querying a store.

use std::cell::RefCell;
use std::collections::{HashSet, VecDeque};
use std::rc::Rc;

use serde_json::Value;

use super::trace::value_hashes;
use super::{Find, Pipeline, field};
use runlore_core::record::Record;
use runlore_core::runs::{CountedRuns, Runs};
use runlore_core::{Error, ErrorKind, Result};

/// A lazy iterator over documents.
///
/// An error of the kind [`Record`](ErrorKind::Record) affects one document, and iteration
/// continues. Any other error is the last item.
pub type Documents<'a> = Box<dyn Iterator<Item = Result<Value>> + 'a>;

/// A lazy iterator over records.
pub type Records<'a> = Box<dyn Iterator<Item = Result<Record>> + 'a>;

/// The kind of records to query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Collection {
    /// One document per task.
    Tasks,
    /// One document per workflow.
    Workflows,
}

impl Collection {
    /// Selects the documents of this collection. For stores that keep all kinds of records
    /// together.
    pub fn documents<'a>(self, records: Records<'a>) -> Documents<'a> {
        Box::new(records.filter_map(move |record| match record {
            Ok(record) => self.has(&record).then(|| Ok(record.into_json())),
            Err(problem) => Some(Err(problem)),
        }))
    }

    fn has(self, record: &Record) -> bool {
        match self {
            Collection::Tasks => record.as_task().is_some(),
            Collection::Workflows => record.as_workflow().is_some(),
        }
    }
}

/// A store that can be queried.
///
/// A document is a record as JSON, joined from everything that was written about it. Results are
/// lazy: a store reads only what the caller consumes. A store may use an index or a server, but
/// its results must equal those of [`Find::apply`] and [`Pipeline::apply`] over its
/// [`documents`](Self::documents).
///
/// ```
/// use runlore::query::{Collection, Documents, Find, Records, Source, field};
/// use serde_json::json;
///
/// struct Two;
///
/// impl Source for Two {
///     fn documents(&self, _: Collection) -> runlore::Result<Documents<'_>> {
///         Ok(Box::new([json!({"n": 1}), json!({"n": 2})].map(Ok).into_iter()))
///     }
///
///     fn records(&self) -> runlore::Result<Records<'_>> {
///         Ok(Box::new(std::iter::empty()))
///     }
/// }
///
/// let find = Find::new().filter(field("n").gt(1));
/// let found: Vec<_> = Two.find(Collection::Tasks, &find)?.collect::<Result<_, _>>()?;
/// assert_eq!(found, [json!({"n": 2})]);
/// # Ok::<(), runlore::Error>(())
/// ```
pub trait Source: Send + Sync {
    /// Returns all documents, in the order they were first written.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    fn documents(&self, of: Collection) -> Result<Documents<'_>>;

    /// Returns every record of every kind, joined. Copies of the store are made from these.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    fn records(&self) -> Result<Records<'_>>;

    /// Returns the documents that `find` selects.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    fn find<'a>(&'a self, of: Collection, find: &'a Find) -> Result<Documents<'a>> {
        Ok(through(self.documents(of)?, |documents| find.apply(documents)))
    }

    /// Returns the number of documents that `find` selects, and the errors of the records that
    /// could not be read. A store that counts by an index does not read records, and does not find
    /// these errors.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    fn count(&self, of: Collection, find: &Find) -> Result<(u64, Vec<Error>)> {
        count(self.find(of, &find.for_count())?)
    }

    /// Returns the results of a pipeline.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    fn aggregate<'a>(&'a self, of: Collection, pipeline: &'a Pipeline) -> Result<Documents<'a>> {
        Ok(through(self.documents(of)?, |documents| pipeline.apply(documents)))
    }

    /// Returns the tasks that used or generated a value with one of these hashes, as listed in the
    /// field `hashes` of their documents.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    fn tasks_with<'a>(&'a self, hashes: &'a HashSet<String>) -> Result<Documents<'a>> {
        let tasks = self.documents(Collection::Tasks)?;
        let has = move |task: &Value| has_hash(task, hashes);
        Ok(Box::new(tasks.filter(move |task| task.as_ref().map_or(true, has))))
    }

    /// Returns the tasks that enclose a task: its parent first, the outermost last.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    fn ancestors(&self, task_id: &str) -> Result<Documents<'_>> {
        let mut found = Vec::new();
        // Records of other programs may contain a cycle.
        let mut seen = HashSet::new();
        let mut next = Some(task_id.to_owned());
        while let Some(id) = next.take().filter(|id| seen.insert(id.clone())) {
            let is_first = seen.len() == 1;
            let find = Find::new().filter(field("task_id").eq(id)).limit(1);
            for task in self.find(Collection::Tasks, &find)? {
                match task {
                    Ok(task) => {
                        next = parent_of(&task);
                        found.extend((!is_first).then_some(Ok(task)));
                    }
                    // The unreadable record need not be one of the ancestors.
                    Err(problem) if problem.kind() == ErrorKind::Record => found.push(Err(problem)),
                    Err(problem) => return Err(problem),
                }
            }
        }
        Ok(Box::new(found.into_iter()))
    }

    /// Returns the runs, oldest first, as far as the store knows them without reading all tasks.
    /// The tasks need not be counted, and problems with single records need not be reported.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    fn listed(&self) -> Result<Runs> {
        self.runs()
    }

    /// Returns the runs with the number of their tasks, oldest first.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    fn runs(&self) -> Result<Runs> {
        let mut counted = CountedRuns::default();
        for record in self.records()? {
            counted.add(record);
        }
        Ok(counted.finish())
    }
}

/// Counts documents, and collects the errors of single records.
pub fn count(documents: Documents<'_>) -> Result<(u64, Vec<Error>)> {
    let (mut count, mut problems) = (0, Vec::new());
    for document in documents {
        match document {
            Ok(_) => count += 1,
            Err(problem) if problem.kind() == ErrorKind::Record => problems.push(problem),
            Err(problem) => return Err(problem),
        }
    }
    Ok((count, problems))
}

/// Returns the id of the task that called this one.
pub fn parent_of(task: &Value) -> Option<String> {
    task.get("parent_task_id").and_then(Value::as_str).map(str::to_owned)
}

/// Returns whether a task's document lists one of these hashes.
pub fn has_hash(task: &Value, hashes: &HashSet<String>) -> bool {
    let listed = task.get("hashes").and_then(Value::as_object);
    listed.is_some_and(|listed| value_hashes(listed).any(|value| hashes.contains(&*value.hash)))
}

/// Applies `work`, which handles plain documents only, to documents that may contain errors.
///
/// Errors bypass `work` and are returned as soon as they occur. An error about one record drops
/// that record. Any other error is the last item.
pub fn through<'a, I: Iterator<Item = Value> + 'a>(
    documents: Documents<'a>,
    work: impl FnOnce(Box<dyn Iterator<Item = Value> + 'a>) -> I,
) -> Documents<'a> {
    let problems: Rc<RefCell<VecDeque<Error>>> = Rc::default();
    let noted = Rc::clone(&problems);
    let mut documents = documents.fuse();
    let good = std::iter::from_fn(move || {
        loop {
            match documents.next()? {
                Ok(document) => return Some(document),
                Err(problem) => {
                    let is_last = problem.kind() != ErrorKind::Record;
                    noted.borrow_mut().push_back(problem);
                    if is_last {
                        return None;
                    }
                }
            }
        }
    });
    let mut results = work(Box::new(good)).fuse();
    // A result that waits until the problems before it have been returned.
    let mut found = None;
    let mut is_over = false;
    Box::new(std::iter::from_fn(move || {
        if is_over {
            return None;
        }
        if found.is_none() {
            found = results.next();
        }
        if let Some(problem) = problems.borrow_mut().pop_front() {
            // Once the store fails, a partial result must not look complete.
            is_over = problem.kind() != ErrorKind::Record;
            return Some(Err(problem));
        }
        found.take().map(Ok)
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn all(documents: Vec<Result<Value>>) -> Vec<Result<Value, String>> {
        let all = through(Box::new(documents.into_iter()), |documents| documents);
        all.map(|it| it.map_err(|error| error.to_string())).collect()
    }

    #[test]
    fn a_store_that_breaks_is_the_last_that_is_told() {
        let broken = Err(Error::new(ErrorKind::Store, "broken"));
        let told = all(vec![Ok(json!(1)), Ok(json!(2)), broken, Ok(json!(3))]);
        assert_eq!(told, [Ok(json!(1)), Ok(json!(2)), Err("broken".to_owned())]);
    }

    #[test]
    fn a_bad_record_costs_itself() {
        let bad = || Err(Error::new(ErrorKind::Record, "bad"));
        let told = all(vec![bad(), Ok(json!(1)), bad(), bad()]);
        assert_eq!(told, [Err("bad".into()), Ok(json!(1)), Err("bad".into()), Err("bad".into())]);
    }

    /// A task, a record that cannot be read, and the task's parent.
    struct Broken(ErrorKind);

    impl Source for Broken {
        fn documents(&self, _: Collection) -> Result<Documents<'_>> {
            let task =
                |id: &str, parent: &str| Ok(json!({"task_id": id, "parent_task_id": parent}));
            let bad = Err(Error::new(self.0, "bad"));
            Ok(Box::new([task("c", "b"), bad, task("b", "a")].into_iter()))
        }

        fn records(&self) -> Result<Records<'_>> {
            Ok(Box::new(std::iter::empty()))
        }
    }

    #[test]
    fn a_store_that_breaks_gives_no_part_of_the_ancestors() {
        let told = Broken(ErrorKind::Store).ancestors("c").err().map(|error| error.to_string());
        assert_eq!(told.as_deref(), Some("bad"));
        let around: Vec<_> = Broken(ErrorKind::Record).ancestors("c").unwrap().collect();
        let ids: Vec<_> = around.iter().flatten().map(|task| &task["task_id"]).collect();
        assert_eq!(ids, ["b"]);
        assert!(around.iter().any(Result::is_err));
    }
}
