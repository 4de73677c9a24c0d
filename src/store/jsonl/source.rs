//! A folder or file of JSON lines, to be asked.

use std::path::{Path, PathBuf};

use super::joined::{TaskDocuments, joined_parts, joined_workflows};
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
}

impl JsonlSource {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        match path.try_exists() {
            // What else is wrong, reading tells.
            Ok(true) | Err(_) => Ok(Self { path: path.to_owned() }),
            Ok(false) => Err(Error::new(
                ErrorKind::Store,
                format!("there is no file or folder {}", path.display()),
            )),
        }
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
            (Collection::Tasks, wanted) => {
                Box::new(TaskDocuments(joined_parts(&self.path, wanted)?))
            }
            (Collection::Workflows, _) => of.documents(Box::new(joined_workflows(&self.path)?)),
        };
        Ok(through(documents, |documents| find.apply(documents)))
    }

    fn listed(&self) -> Result<Runs> {
        listed(&self.path)
    }

    fn runs(&self) -> Result<Runs> {
        summaries(&self.path)
    }
}
