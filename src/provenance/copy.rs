//! Records from one store into another.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::path::Path;

use super::Provenance;
use crate::Result;
use crate::record::Record;
use crate::store::{self, Sink, StoreChoice};

/// After how many records it is said how far the copy is.
const SAID: u64 = 1000;

/// How many stores are open at once, where each run has one of its own.
const OPEN: usize = 32;

/// What a copy has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Copied {
    /// Tasks that were written.
    pub tasks: u64,
    /// Workflows that were written.
    pub workflows: u64,
    /// Records of other kinds that were written.
    pub others: u64,
    /// Records that were left out, because the other store has them.
    pub already_there: u64,
}

impl Copied {
    /// All records that were written.
    pub fn records(&self) -> u64 {
        self.tasks + self.workflows + self.others
    }

    fn count(&mut self, record: &Record) {
        match record {
            Record::Task(_) => self.tasks += 1,
            Record::Workflow(_) => self.workflows += 1,
            Record::Other(_) => self.others += 1,
        }
    }
}

impl Provenance {
    /// Writes every record into another store, and says after each batch how far it is.
    ///
    /// Stores know a record by its id, so that a copy which was broken off may be begun again.
    ///
    /// ```
    /// use runlore::Provenance;
    /// # let folder = std::env::temp_dir().join(format!("runlore-doc-copy-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # std::fs::write(folder.join("one.jsonl"), r#"{"type":"task","task_id":"t1","workflow_id":"w1"}"#)?;
    /// let copied = Provenance::open(&folder)?.copy_to(folder.join("copy"), |_| {})?;
    /// assert_eq!(copied.tasks, 1);
    /// assert!(Provenance::open(folder.join("copy"))?.task("t1")?.is_some());
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Where the one cannot be read or the other cannot be written. What was written stays.
    pub fn copy_to(
        &self,
        to: impl Into<StoreChoice>,
        mut progress: impl FnMut(&Copied),
    ) -> Result<Copied> {
        let mut to = Destination::new(self, to.into())?;
        let mut copied = Copied::default();
        for record in self.source.records()? {
            let Some(record) = self.sound(record) else { continue };
            let record = record?;
            if to.has(&record) {
                copied.already_there += 1;
            } else {
                to.add(&record)?;
                copied.count(&record);
            }
            if (copied.records() + copied.already_there).is_multiple_of(SAID) {
                progress(&copied);
            }
        }
        to.finish()?;
        progress(&copied);
        Ok(copied)
    }
}

/// Where a copy goes.
struct Destination {
    to: Place,
    /// The name and process of each run, where runs have files of their own.
    runs: HashMap<String, (String, u32)>,
    /// The stores that are being filled, the one that was used last at the end.
    filling: Vec<(String, Sink)>,
}

/// What kind of store it is.
enum Place {
    /// A folder, in which each run has files of its own, and what it has already: a file would hold a record twice.
    Folder { folder: String, has: HashSet<Known> },
    /// A store that takes the records of any run, and knows them by their ids.
    Whole,
}

/// A record that has come to its end.
#[derive(PartialEq, Eq, Hash)]
enum Known {
    Workflow(String),
    Task(Option<String>, String),
}

impl Known {
    fn of(record: &Record) -> Option<Self> {
        match record {
            Record::Task(task) if task.is_finished() => {
                Some(Known::Task(task.workflow_id.clone(), task.task_id.clone()))
            }
            Record::Workflow(run) if run.is_finished() => {
                Some(Known::Workflow(run.workflow_id.clone()))
            }
            _ => None,
        }
    }
}

impl Destination {
    fn new(from: &Provenance, to: StoreChoice) -> Result<Self> {
        let mut destination = Self { to: Place::Whole, runs: HashMap::new(), filling: Vec::new() };
        match to.into_folder() {
            Ok(folder) => {
                for workflow in from.workflows().run()? {
                    let workflow = workflow?;
                    let pid = workflow.pid.and_then(|pid| u32::try_from(pid).ok());
                    let known = (workflow.display_name().to_owned(), pid.unwrap_or_default());
                    destination.runs.insert(workflow.workflow_id, known);
                }
                let mut has = HashSet::new();
                if Path::new(&folder).exists() {
                    for record in store::source(OsStr::new(&folder))?.records()? {
                        has.extend(record.ok().as_ref().and_then(Known::of));
                    }
                }
                destination.to = Place::Folder { folder, has };
            }
            Err(to) => {
                destination.filling.push((String::new(), Sink::open(to, "copy")?));
            }
        }
        Ok(destination)
    }

    fn has(&self, record: &Record) -> bool {
        match &self.to {
            Place::Whole => false,
            Place::Folder { has, .. } => {
                Known::of(record).is_some_and(|record| has.contains(&record))
            }
        }
    }

    fn add(&mut self, record: &Record) -> Result<()> {
        let run = match self.to {
            Place::Whole => "",
            Place::Folder { .. } => record.workflow_id().unwrap_or_default(),
        };
        self.store_of(run)?.add(record)
    }

    fn store_of(&mut self, run: &str) -> Result<&mut Sink> {
        if let Some(at) = self.filling.iter().rposition(|(id, _)| id == run) {
            let last = self.filling.len() - 1;
            // Records of one run mostly follow each other.
            self.filling.swap(at, last);
        } else if let Place::Folder { folder, .. } = &self.to {
            let (name, pid) = self.runs.get(run).map_or(("copy", 0), |(name, pid)| (&**name, *pid));
            if self.filling.len() == OPEN {
                self.filling.remove(0).1.finish()?;
            }
            let sink = Sink::for_run(folder.as_str(), run, name, pid)?;
            self.filling.push((run.to_owned(), sink));
        }
        let (_, sink) = self.filling.last_mut().expect("one was found or made");
        Ok(sink)
    }

    fn finish(self) -> Result<()> {
        self.filling.into_iter().try_for_each(|(_, sink)| sink.finish().map(|_| ()))
    }
}
