//! A folder or file of JSON lines, to be asked.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::files::Files;
use super::joined::{Joined, Repeats, TaskDocuments, joined_workflows};
use super::read::read_parts;
use super::summary::listed;
use super::{joined, summaries};
use crate::query::source::through;
use crate::query::wanted::Wanted;
use crate::query::{Collection, Documents, Find, Records, Runs, Source};
use crate::{Error, ErrorKind, Result};

/// Answers questions by reading all files, each time anew: there is no index that could be wrong.
#[derive(Debug)]
pub(crate) struct JsonlSource {
    path: PathBuf,
    /// What was learned when the runs were listed, with how long the files were: as long as none has grown, it holds.
    known: Mutex<Option<(Lengths, Repeats)>>,
}

/// The files, with how long they are.
type Lengths = Vec<(PathBuf, u64)>;

impl JsonlSource {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        match path.try_exists() {
            // What else is wrong, reading tells.
            Ok(true) | Err(_) => Ok(Self { path: path.to_owned(), known: Mutex::default() }),
            Ok(false) => Err(Error::new(
                ErrorKind::Store,
                format!("there is no file or folder {}", path.display()),
            )),
        }
    }

    fn joined(&self, wanted: Option<Wanted>) -> Result<Joined> {
        // Recovery first: it may add lines.
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

impl Source for JsonlSource {
    fn documents(&self, of: Collection) -> Result<Documents<'_>> {
        Ok(of.documents(self.records()?))
    }

    fn records(&self) -> Result<Records<'_>> {
        Ok(Box::new(joined(&self.path)?))
    }

    fn find<'a>(&'a self, of: Collection, find: &'a Find) -> Result<Documents<'a>> {
        let documents: Documents<'_> = match (of, Wanted::of(find)) {
            (Collection::Tasks, None) => self.documents(of)?,
            (Collection::Tasks, wanted) => Box::new(TaskDocuments(self.joined(wanted)?)),
            (Collection::Workflows, _) => of.documents(Box::new(joined_workflows(&self.path)?)),
        };
        Ok(through(documents, |documents| find.apply(documents)))
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
