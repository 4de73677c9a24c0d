//! Records from one store into another.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use twox_hash::XxHash3_128;

use super::Provenance;
use runlore_core::record::{Id, Record, TaskObject};
use runlore_core::store::{Sink, StoreChoice, Tally, create_folder, create_folders, jsonl};
use runlore_core::{Error, ErrorKind, Result};

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
    /// Records that the other store would not have among the others: it keeps them apart, or they are not in it.
    pub refused: u64,
}

impl Copied {
    /// All records that were written.
    pub fn records(&self) -> u64 {
        self.tasks + self.workflows + self.others
    }
}

impl From<Tally> for Copied {
    fn from(tally: Tally) -> Self {
        let Tally { tasks, workflows, others, known: already_there, refused } = tally;
        Self { tasks, workflows, others, already_there, refused }
    }
}

impl Provenance {
    /// Writes every record into another store, and says now and then how far it is.
    ///
    /// Stores know a record by its id, so that a copy which was broken off may be begun again. A folder or an SQLite file that is
    /// made for the copy is there when all is in it, and not before.
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
    /// Where the one cannot be read or the other cannot be written. What was written to a store that was there stays, and the error
    /// says how much that is.
    pub fn copy_to(
        &self,
        to: impl Into<StoreChoice>,
        mut progress: impl FnMut(&Copied),
    ) -> Result<Copied> {
        let mut to = Destination::new(self, to.into())?;
        if let Err(error) = self.fill(&mut to, &mut progress) {
            return Err(to.broken_off(error));
        }
        let copied = to.finish()?;
        progress(&copied);
        Ok(copied)
    }

    fn fill(&self, to: &mut Destination, progress: &mut impl FnMut(&Copied)) -> Result<()> {
        let sound = self.source.records()?.filter_map(|record| self.sound(record));
        for (record, count) in sound.zip(1_u64..) {
            to.add(&record?)?;
            if count.is_multiple_of(SAID) {
                progress(&to.tally().into());
            }
        }
        to.filling.iter_mut().try_for_each(|(_, sink)| sink.end())
    }
}

/// Where a copy goes.
struct Destination {
    to: Place,
    /// The name and process of each run, where runs have files of their own.
    runs: HashMap<String, (String, u32)>,
    /// The stores that are being filled, the one that was used last at the end.
    filling: Vec<(String, Sink)>,
    /// What became of the records of the stores before them, and of those that need no store.
    done: Tally,
    aside: Option<Aside>,
}

/// What kind of store it is.
enum Place {
    /// A folder, in which each run has files of its own, and what it has already: a file would hold a record twice.
    Folder { folder: String, has: Known },
    /// A store that takes the records of any run, and knows them by their ids.
    Whole,
}

impl Destination {
    fn new(from: &Provenance, to: StoreChoice) -> Result<Self> {
        to.refuse_special()?;
        let mut aside = to.database().and_then(Aside::of_file).transpose()?;
        let to = match &aside {
            Some(aside) => StoreChoice::from(format!("sqlite://{}", aside.made.display())),
            None => to,
        };
        let (runs, filling, done) = (HashMap::new(), Vec::new(), Tally::default());
        let folder = match to.into_folder() {
            Ok(folder) => folder,
            Err(to) => {
                let filling = vec![(String::new(), Sink::open(to, "copy")?.looking())];
                return Ok(Self { to: Place::Whole, runs, filling, done, aside });
            }
        };
        aside = Aside::of_folder(Path::new(&folder)).transpose()?;
        let to = match &aside {
            Some(aside) => {
                let folder = aside.made.to_string_lossy().into_owned();
                Place::Folder { folder, has: Known::default() }
            }
            None => Place::Folder { has: Known::of_folder(&folder)?, folder },
        };
        let mut destination = Self { to, runs, filling, done, aside };
        for workflow in from.workflows().run()? {
            let workflow = workflow?;
            let pid = workflow.pid.and_then(|pid| u32::try_from(pid).ok());
            let known = (workflow.display_name().to_owned(), pid.unwrap_or_default());
            destination.runs.insert(workflow.workflow_id, known);
        }
        Ok(destination)
    }

    fn add(&mut self, record: &Record) -> Result<()> {
        let run = match &self.to {
            Place::Whole => "",
            Place::Folder { has, .. } if has.has(record) => {
                self.done.known += 1;
                return Ok(());
            }
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
                let (_, mut full) = self.filling.remove(0);
                let ended = full.end();
                self.done.add(&full.tally());
                ended?;
            }
            let sink = Sink::for_run(folder.as_str(), run, name, pid)?;
            self.filling.push((run.to_owned(), sink));
        }
        let (_, sink) = self.filling.last_mut().expect("one was found or made");
        Ok(sink)
    }

    /// What became of the records so far.
    fn tally(&self) -> Tally {
        let mut tally = self.done;
        self.filling.iter().for_each(|(_, sink)| tally.add(&sink.tally()));
        tally
    }

    /// All is written.
    fn finish(mut self) -> Result<Copied> {
        let tally = self.tally();
        // What is open cannot be moved everywhere.
        self.filling.clear();
        if let Some(aside) = self.aside.take()
            && tally.written() > 0
        {
            aside.put_in_place()?;
        }
        Ok(tally.into())
    }

    /// The error with what becomes of the records that were copied before it.
    fn broken_off(mut self, error: Error) -> Error {
        if self.aside.is_some() {
            return error;
        }
        for (_, sink) in &mut self.filling {
            // It is the first error that is told.
            _ = sink.end();
        }
        let records = match self.tally().written() {
            0 => return error,
            1 => "1 record was".to_owned(),
            more => format!("{more} records were"),
        };
        let text =
            format!("{error}; {records} copied before that, and copying again adds the rest");
        Error::new(error.kind(), text)
    }
}

/// What a folder has already, by hashes: not all of it is held at once.
#[derive(Debug, Default)]
struct Known(HashSet<u128>);

impl Known {
    fn of_folder(folder: &str) -> Result<Self> {
        let mut known = Self::default();
        // As they are joined, and as each was written: what is added to a record does not make it unknown.
        let joined = crate::reading::source(OsStr::new(folder))?;
        for record in joined.records()?.chain(jsonl::read(folder)?) {
            match record {
                Ok(record) => known.add(&record),
                Err(error) if error.kind() == ErrorKind::Record => {}
                Err(error) => return Err(error),
            }
        }
        Ok(known)
    }

    fn add(&mut self, record: &Record) {
        self.0.insert(of_all(record));
        match record {
            Record::Task(task) if task.is_finished() => {
                self.0.extend([of_task(task), of_ended_task(task)]);
            }
            Record::Workflow(run) if run.is_finished() => {
                self.0.insert(of_run(&run.workflow_id));
            }
            _ => {}
        }
    }

    /// Whether a record is there, as it is or further on.
    fn has(&self, record: &Record) -> bool {
        let has = |key: u128| self.0.contains(&key);
        !self.0.is_empty()
            && match record {
                Record::Task(task) if task.is_finished() => has(of_ended_task(task)),
                Record::Task(task) => has(of_task(task)) || has(of_all(record)),
                Record::Workflow(run) => has(of_run(&run.workflow_id)) || has(of_all(record)),
                Record::Other(_) => has(of_all(record)),
            }
    }
}

fn of_all(record: &Record) -> u128 {
    let mut sorted = record.to_json();
    // A program may be built with serde_json's `preserve_order`.
    sorted.sort_all_objects();
    XxHash3_128::oneshot(sorted.to_string().as_bytes())
}

fn of_parts(parts: &[&str]) -> u128 {
    XxHash3_128::oneshot(parts.join("\0").as_bytes())
}

/// Ids collide: by what two tasks of one id are told apart where one of them has not ended.
fn of_task(task: &TaskObject) -> u128 {
    let workflow = task.workflow_id.as_deref().unwrap_or_default();
    of_parts(&["task", workflow, &task.task_id, task.activity_id.as_deref().unwrap_or_default()])
}

/// The same where both have ended.
fn of_ended_task(task: &TaskObject) -> u128 {
    let started = task.started_at.map(|at| at.to_string()).unwrap_or_default();
    of_parts(&["ended", &of_task(task).to_string(), &started])
}

fn of_run(workflow_id: &str) -> u128 {
    of_parts(&["run", workflow_id])
}

/// A place beside a store that is not there yet. The store gets its name when all is in it; until then, whatever is made is ours
/// to take away.
struct Aside {
    folder: PathBuf,
    /// What is to be moved: the folder, or a file in it.
    made: PathBuf,
    to: PathBuf,
}

impl Aside {
    /// None where there is something of that name.
    fn of_folder(to: &Path) -> Option<Result<Self>> {
        let folder = Self::beside(to)?;
        let aside = |folder: PathBuf| Self { made: folder.clone(), folder, to: to.to_owned() };
        Some(folder.map(aside))
    }

    /// None where there is something of that name.
    fn of_file(to: &Path) -> Option<Result<Self>> {
        let name = to.file_name()?;
        let aside = |folder: PathBuf| Self { made: folder.join(name), folder, to: to.to_owned() };
        Some(Self::beside(to)?.map(aside))
    }

    /// A folder that can be moved to where this is to be.
    fn beside(to: &Path) -> Option<Result<PathBuf>> {
        if fs::symlink_metadata(to).is_ok() {
            return None;
        }
        let here = |above: &&Path| above.as_os_str().is_empty() || above.is_dir();
        let above = to.ancestors().skip(1).find(here)?;
        let name = to.file_name()?.to_string_lossy();
        let folder = above.join(format!("{name}.{}.part", Id::new()));
        Some(match create_folder(&folder) {
            Ok(()) => Ok(folder),
            Err(error) => Err(cannot_make(to, error)),
        })
    }

    fn put_in_place(self) -> Result<()> {
        let above = self.to.parent().unwrap_or(Path::new(""));
        let moved = match above.as_os_str().is_empty() {
            true => Ok(()),
            false => create_folders(above),
        };
        let moved = moved.and_then(|()| match self.made == self.folder {
            true => fs::rename(&self.made, &self.to),
            // It replaces nothing that came there meanwhile; where the file system has no links, nobody is that fast.
            false => match fs::hard_link(&self.made, &self.to) {
                Err(_) if fs::symlink_metadata(&self.to).is_err() => {
                    fs::rename(&self.made, &self.to)
                }
                linked => linked,
            },
        });
        moved.map_err(|error| cannot_make(&self.to, error))
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // Once it is in place, there is nothing here.
        _ = fs::remove_dir_all(&self.folder);
    }
}

fn cannot_make(to: &Path, error: std::io::Error) -> Error {
    Error::new(ErrorKind::Store, format!("cannot make {}", to.display())).with_source(error)
}
