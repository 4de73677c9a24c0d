//! Copies records from one store into another.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use twox_hash::XxHash3_128;

use super::Provenance;
use runlore_core::record::{Id, Record, TaskObject};
use runlore_core::store::{Sink, StoreChoice, Tally, create_folder, create_folders, jsonl};
use runlore_core::{Error, ErrorKind, Result};

/// The number of records between two progress calls.
const PROGRESS_EVERY: u64 = 1000;

/// The maximum number of open stores, where each run has a store of its own.
const OPEN_STORES: usize = 32;

/// The counts of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct Copied {
    /// Tasks written.
    pub tasks: u64,
    /// Workflows written.
    pub workflows: u64,
    /// Records of other kinds written.
    pub others: u64,
    /// Records skipped because the destination already has them.
    pub already_there: u64,
    /// Records that the destination refused. It keeps them apart from the others, or not at all.
    pub refused: u64,
}

impl Copied {
    /// Returns the number of all records written.
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
    /// Copies every record into another store, and calls `progress` from time to time.
    ///
    /// Stores identify a record by its id, so an interrupted copy can be repeated. If the copy
    /// creates a folder or an SQLite file, that appears only once it is complete.
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
    /// Returns an error if this store cannot be read or the other cannot be written. Records
    /// already written to an existing store stay there, and the error says how many they are.
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
            if count.is_multiple_of(PROGRESS_EVERY) {
                progress(&to.tally().into());
            }
        }
        to.filling.iter_mut().try_for_each(|(_, sink)| sink.end())
    }
}

/// The destination of a copy.
struct Destination {
    to: Layout,
    /// The name and process id of each run, if runs have their own files.
    runs: HashMap<String, (String, u32)>,
    /// The stores being filled, the most recently used one last.
    filling: Vec<(String, Sink)>,
    /// The counts of stores already closed, and of records that were skipped before reaching a
    /// store.
    done: Tally,
    staging: Option<Staging>,
}

/// The kind of destination.
enum Layout {
    /// A folder in which each run has its own files. `has` lists the records already there, because
    /// a file would take a record twice.
    FilePerRun { folder: String, has: ExistingRecords },
    /// A store that takes the records of any run and identifies them by their ids.
    Shared,
}

impl Destination {
    fn new(from: &Provenance, to: StoreChoice) -> Result<Self> {
        to.refuse_special()?;
        let mut staging = to.database().and_then(Staging::of_file).transpose()?;
        let to = match &staging {
            Some(staging) => StoreChoice::from(format!("sqlite://{}", staging.made.display())),
            None => to,
        };
        let (runs, filling, done) = (HashMap::new(), Vec::new(), Tally::default());
        let folder = match to.into_folder() {
            Ok(folder) => folder,
            Err(to) => {
                let filling = vec![(String::new(), Sink::open(to, "copy")?.looking())];
                return Ok(Self { to: Layout::Shared, runs, filling, done, staging });
            }
        };
        staging = Staging::of_folder(Path::new(&folder)).transpose()?;
        let to = match &staging {
            Some(staging) => {
                let folder = staging.made.to_string_lossy().into_owned();
                Layout::FilePerRun { folder, has: ExistingRecords::default() }
            }
            None => Layout::FilePerRun { has: ExistingRecords::of_folder(&folder)?, folder },
        };
        let mut destination = Self { to, runs, filling, done, staging };
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
            Layout::Shared => "",
            Layout::FilePerRun { has, .. } if has.has(record) => {
                self.done.known += 1;
                return Ok(());
            }
            Layout::FilePerRun { .. } => record.workflow_id().unwrap_or_default(),
        };
        self.store_of(run)?.add(record)
    }

    fn store_of(&mut self, run: &str) -> Result<&mut Sink> {
        if let Some(at) = self.filling.iter().rposition(|(id, _)| id == run) {
            let last = self.filling.len() - 1;
            // Consecutive records mostly belong to the same run.
            self.filling.swap(at, last);
        } else if let Layout::FilePerRun { folder, .. } = &self.to {
            let (name, pid) = self.runs.get(run).map_or(("copy", 0), |(name, pid)| (&**name, *pid));
            if self.filling.len() == OPEN_STORES {
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

    /// Returns the counts so far.
    fn tally(&self) -> Tally {
        let mut tally = self.done;
        self.filling.iter().for_each(|(_, sink)| tally.add(&sink.tally()));
        tally
    }

    /// Completes the copy after all records were written.
    fn finish(mut self) -> Result<Copied> {
        let tally = self.tally();
        // Close the stores: an open file cannot be moved on every system.
        self.filling.clear();
        if let Some(staging) = self.staging.take()
            && tally.written() > 0
        {
            staging.put_in_place()?;
        }
        Ok(tally.into())
    }

    /// Adds to the error how many records were copied before it.
    fn broken_off(mut self, error: Error) -> Error {
        if self.staging.is_some() {
            return error;
        }
        for (_, sink) in &mut self.filling {
            // Only the first error is reported.
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

/// The records that a folder already has. Stores only their hashes, to save memory.
#[derive(Debug, Default)]
struct ExistingRecords(HashSet<u128>);

impl ExistingRecords {
    fn of_folder(folder: &str) -> Result<Self> {
        let mut known = Self::default();
        // Add each record both joined and as written, so that a record with later additions still
        // counts.
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
        self.0.insert(record_key(record));
        match record {
            Record::Task(task) if task.is_finished() => {
                self.0.extend([task_key(task), ended_task_key(task)]);
            }
            Record::Workflow(run) if run.is_finished() => {
                self.0.insert(run_key(&run.workflow_id));
            }
            _ => {}
        }
    }

    /// Returns whether the folder has the record, or a later state of it.
    fn has(&self, record: &Record) -> bool {
        let has = |key: u128| self.0.contains(&key);
        !self.0.is_empty()
            && match record {
                Record::Task(task) if task.is_finished() => has(ended_task_key(task)),
                Record::Task(task) => has(task_key(task)) || has(record_key(record)),
                Record::Workflow(run) => has(run_key(&run.workflow_id)) || has(record_key(record)),
                Record::Other(_) => has(record_key(record)),
            }
    }
}

fn record_key(record: &Record) -> u128 {
    let mut sorted = record.to_json();
    // Maps are unsorted if the program enables serde_json's `preserve_order`.
    sorted.sort_all_objects();
    XxHash3_128::oneshot(sorted.to_string().as_bytes())
}

fn key(parts: &[&str]) -> u128 {
    XxHash3_128::oneshot(parts.join("\0").as_bytes())
}

/// The key of a task if one of the compared records has not ended. It includes the activity,
/// because task ids may collide.
fn task_key(task: &TaskObject) -> u128 {
    let workflow = task.workflow_id.as_deref().unwrap_or_default();
    key(&["task", workflow, &task.task_id, task.activity_id.as_deref().unwrap_or_default()])
}

/// The key of a task if both compared records have ended. It also includes the start time.
fn ended_task_key(task: &TaskObject) -> u128 {
    let started = task.started_at.map(|at| at.to_string()).unwrap_or_default();
    key(&["ended", &task_key(task).to_string(), &started])
}

fn run_key(workflow_id: &str) -> u128 {
    key(&["run", workflow_id])
}

/// A staging folder beside a store that does not exist yet. The store gets its final name once it
/// is complete. Until then, dropping this removes everything.
struct Staging {
    folder: PathBuf,
    /// The path to move into place: the staging folder itself, or a file in it.
    made: PathBuf,
    to: PathBuf,
}

impl Staging {
    /// Creates a staging folder for a folder. `None` if `to` exists.
    fn of_folder(to: &Path) -> Option<Result<Self>> {
        let folder = Self::beside(to)?;
        let staging = |folder: PathBuf| Self { made: folder.clone(), folder, to: to.to_owned() };
        Some(folder.map(staging))
    }

    /// Creates a staging folder for a file. `None` if `to` exists.
    fn of_file(to: &Path) -> Option<Result<Self>> {
        let name = to.file_name()?;
        let staging = |folder: PathBuf| Self { made: folder.join(name), folder, to: to.to_owned() };
        Some(Self::beside(to)?.map(staging))
    }

    /// Creates a folder that can later be renamed to `to`.
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
        let moved = if above.as_os_str().is_empty() { Ok(()) } else { create_folders(above) };
        let moved = moved.and_then(|()| match self.made == self.folder {
            true => fs::rename(&self.made, &self.to),
            // `hard_link` does not replace a file that appeared meanwhile. A rename might, but only
            // file systems without hard links need it.
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

impl Drop for Staging {
    fn drop(&mut self) {
        // A folder that was moved is gone; a file that was linked still has its name here.
        _ = fs::remove_dir_all(&self.folder);
    }
}

fn cannot_make(to: &Path, error: std::io::Error) -> Error {
    Error::new(ErrorKind::Store, format!("cannot make {}", to.display())).with_source(error)
}
