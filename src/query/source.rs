//! What can be asked of a store, whichever it is.

use std::cell::RefCell;
use std::rc::Rc;

use serde_json::Value;

use super::{Find, Pipeline};
use crate::record::Record;
use crate::{Error, Result};

/// Documents as they are asked for.
pub type Documents<'a> = Box<dyn Iterator<Item = Result<Value>> + 'a>;

/// Records as they are asked for.
pub type Records<'a> = Box<dyn Iterator<Item = Result<Record>> + 'a>;

/// Which records are asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Collection {
    /// One document a task.
    Tasks,
    /// One document a workflow.
    Workflows,
}

/// What can be asked of a store.
///
/// A document is a record as JSON, joined of all that was written about it. Answers stream: what is not asked for
/// is not read. Whatever a store does by itself, by an index or on a server, gives the answer that
/// [`Find::apply`] and [`Pipeline::apply`] give for its [`documents`](Self::documents).
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
pub trait Source: Send {
    /// All documents, in the order they were first written.
    ///
    /// # Errors
    ///
    /// Where the store cannot be read.
    fn documents(&self, of: Collection) -> Result<Documents<'_>>;

    /// Every record of every kind, joined: what a copy of the store is made of.
    ///
    /// # Errors
    ///
    /// Where the store cannot be read.
    fn records(&self) -> Result<Records<'_>>;

    /// The documents that are asked for.
    ///
    /// # Errors
    ///
    /// Where the store cannot be read.
    fn find<'a>(&'a self, of: Collection, find: &'a Find) -> Result<Documents<'a>> {
        Ok(through(self.documents(of)?, |documents| find.apply(documents)))
    }

    /// What comes out of a pipeline.
    ///
    /// # Errors
    ///
    /// Where the store cannot be read.
    fn aggregate<'a>(&'a self, of: Collection, pipeline: &'a Pipeline) -> Result<Documents<'a>> {
        Ok(through(self.documents(of)?, |documents| pipeline.apply(documents)))
    }

    /// The tasks that used or generated a value of this hash, as `hashes` in their documents has it.
    ///
    /// # Errors
    ///
    /// Where the store cannot be read.
    fn tasks_with<'a>(&'a self, hash: &'a str) -> Result<Documents<'a>> {
        let tasks = self.documents(Collection::Tasks)?;
        let has = move |task: &Value| has_hash(task, hash);
        Ok(Box::new(tasks.filter(move |task| task.as_ref().map_or(true, has))))
    }
}

/// Whether a task's document has a value of this hash.
pub(crate) fn has_hash(task: &Value, hash: &str) -> bool {
    let side = |side: &str| task.get("hashes")?.get(side)?.as_object();
    let mut hashes = ["used", "generated"].into_iter().filter_map(side).flat_map(|it| it.values());
    hashes.any(|value| value == hash)
}

/// Sends documents through what knows nothing of errors. The first error is handed on as soon as it is met, and is the last
/// that comes out.
pub(crate) fn through<'a, I: Iterator<Item = Value> + 'a>(
    documents: Documents<'a>,
    work: impl FnOnce(Box<dyn Iterator<Item = Value> + 'a>) -> I,
) -> Documents<'a> {
    let failed: Rc<RefCell<Option<Error>>> = Rc::default();
    let noted = Rc::clone(&failed);
    let good = documents.map_while(move |document| match document {
        Ok(document) => Some(document),
        Err(error) => {
            *noted.borrow_mut() = Some(error);
            None
        }
    });
    let mut results = work(Box::new(good)).fuse();
    let mut has_failed = false;
    Box::new(std::iter::from_fn(move || {
        if has_failed {
            return None;
        }
        let next = results.next();
        match failed.borrow_mut().take() {
            Some(error) => {
                has_failed = true;
                Some(Err(error))
            }
            None => next.map(Ok),
        }
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ErrorKind;

    #[test]
    fn an_error_is_the_last_that_comes_out() {
        let documents =
            [Ok(json!(1)), Ok(json!(2)), Err(Error::new(ErrorKind::Store, "broken")), Ok(json!(3))];
        let all = through(Box::new(documents.into_iter()), |documents| documents);
        let all: Vec<_> = all.map(|it| it.map_err(|error| error.to_string())).collect();
        assert_eq!(all, [Ok(json!(1)), Ok(json!(2)), Err("broken".to_owned())]);
    }
}
