//! A folder or file of JSON lines, to be asked.

use std::path::{Path, PathBuf};

use super::{joined, summaries};
use crate::query::{Collection, Documents, Records, Runs, Source};
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

    fn runs(&self) -> Result<Runs> {
        summaries(&self.path)
    }
}
