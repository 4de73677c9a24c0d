//! Where the records are, and what to say when there are none.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use runlore::Error;
use runlore::record::Record;
use runlore::settings::Settings;
use runlore::store::jsonl::{self, Loaded, RunSummary};

use crate::failure::{Failure, say};

/// How many problems are told one by one.
const TOLD: usize = 3;

/// The store that the command line names.
#[derive(Debug)]
pub(crate) struct Store {
    path: PathBuf,
    /// What has been told: a command may read the store twice.
    told: RefCell<HashSet<String>>,
}

impl Store {
    /// `--store`, else the variable that names the store of a program, else the folder that the settings name.
    pub(crate) fn new(path: Option<PathBuf>) -> Self {
        let named = || std::env::var_os("RUNLORE_STORE").filter(|path| !path.is_empty());
        // Of several stores, the first.
        let first = |uris: OsString| match uris.to_str().and_then(|uris| uris.lines().next()) {
            Some(uri) => PathBuf::from(uri),
            None => PathBuf::from(uris),
        };
        let path = path.or_else(|| named().map(first));
        let path = path.unwrap_or_else(|| {
            let path = Settings::load().settings.databases.jsonl.path;
            if path.is_relative() { Path::new(".").join(path) } else { path }
        });
        let path = match path.to_str().and_then(|path| path.strip_prefix("jsonl://")) {
            Some(folder) => PathBuf::from(folder),
            None => path,
        };
        Self { path, told: RefCell::default() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The runs, oldest first: at least one.
    pub(crate) fn runs(&self) -> Result<Vec<RunSummary>, Failure> {
        self.check()?;
        let found = jsonl::summaries(&self.path)?;
        self.tell(&found.problems);
        if found.runs.is_empty() {
            let path = self.path.display();
            return Err(nothing(&format!("there is no record in {path}")));
        }
        Ok(found.runs)
    }

    /// The records that `keep` returns, joined.
    pub(crate) fn load(
        &self,
        keep: impl FnMut(Record) -> Option<Record>,
    ) -> Result<Loaded, Failure> {
        self.check()?;
        let loaded = jsonl::load_with(&self.path, keep)?;
        self.tell(&loaded.problems);
        Ok(loaded)
    }

    /// Tells what could not be read: the rest was.
    fn tell(&self, problems: &[Error]) {
        let mut told = self.told.borrow_mut();
        let problems: Vec<String> = problems
            .iter()
            .map(Error::to_string)
            .filter(|problem| told.insert(problem.clone()))
            .collect();
        for problem in problems.iter().take(TOLD) {
            say(problem);
        }
        if problems.len() > TOLD {
            say(&format!("{} more problems like these", problems.len() - TOLD));
        }
    }

    fn check(&self) -> Result<(), Failure> {
        match self.path.try_exists() {
            Ok(false) => Err(nothing(&format!("no folder {}", self.path.display()))),
            // What else is wrong, reading tells.
            _ => Ok(()),
        }
    }
}

fn nothing(why: &str) -> Failure {
    Failure::new(format!(
        "nothing recorded here yet: {why}; run a program that starts a workflow, or try `runlore demo`"
    ))
}
