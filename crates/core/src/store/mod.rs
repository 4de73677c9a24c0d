//! Where records go: the [`Store`] trait, and the stores that come with the library.

mod batch;
#[doc(hidden)]
pub mod join;
pub mod jsonl;
#[doc(hidden)]
pub mod lock;
mod memory;
#[doc(hidden)]
mod own_file;
#[doc(hidden)]
pub mod plain;
#[doc(hidden)]
pub mod private;
#[doc(hidden)]
mod refused;
mod sink;
#[doc(hidden)]
pub mod unrecovered;

use std::any::Any;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

pub use batch::Batch;
pub use memory::MemoryStore;
pub use own_file::OwnFile;
pub use plain::{is_plain_folder, open_plain, refuse_special};
pub use private::{append_to_file, create_private_to_append};
pub use private::{create_file, create_folders, write_file};
pub use private::{create_folder, create_private, private_folder, private_folders, set_file_mode};
pub use private::{open_private, replace_private};
pub use refused::Refused;
pub use refused::{WhenRefused, take_refused};
pub use sink::Sink;
pub use sink::Tally;

use crate::record::WorkflowObject;
use crate::record::scrub;
use crate::settings::Settings;
use crate::{Error, ErrorKind, Result};

/// The folder that records go to, and are looked for in, unless something else is said.
pub const DEFAULT_FOLDER: &str = "runlore";

/// The folder or the URI that the settings name: a database where one is enabled that this program can open, else files of
/// JSON lines.
///
/// ```
/// let settings = runlore::settings::Settings::default();
/// assert_eq!(runlore::store::default_uri(&settings), "runlore");
/// ```
pub fn default_uri(settings: &Settings) -> String {
    default_uris(settings).swap_remove(0)
}

/// The URIs of all stores that records go to when nobody says: those that the settings enable.
///
/// ```
/// let mut settings = runlore::settings::Settings::default();
/// settings.databases.jsonl.path = "records".into();
/// assert_eq!(runlore::store::default_uris(&settings), ["records"]);
/// ```
pub fn default_uris(settings: &Settings) -> Vec<String> {
    let mut entries: Vec<_> = inventory::iter::<StoreEntry>().collect();
    // The order in which the linker found them says nothing.
    entries.sort_unstable_by_key(|entry| entry.scheme);
    let mut uris: Vec<_> =
        entries.into_iter().filter_map(|entry| (entry.enabled?)(settings)).collect();
    let databases = &settings.databases;
    if databases.jsonl.enabled || uris.is_empty() {
        uris.push(databases.jsonl.path.display().to_string());
    }
    uris
}

/// A place for records. It lives on the writer's thread: nothing of it is ever called from a task.
///
/// A call that returns an error has stored nothing: the writer keeps the records and calls again with the same.
pub trait Store: Send {
    /// Makes what is needed for a write of so many bytes; the file that records go to from here on, when it is a new one.
    fn prepare(&mut self, bytes: u64) -> Result<Option<PathBuf>> {
        _ = bytes;
        Ok(None)
    }

    /// Stores records, all or none.
    fn write(&mut self, batch: &Batch<'_>) -> Result<()>;

    /// Records of the writes before that it would not have among the others, whatever it was asked: each of them once, after a
    /// write that returned no error. They count as refused or lost, not as written.
    fn refused(&mut self) -> Vec<Refused> {
        Vec::new()
    }

    /// Sees to it that what was written survives the machine.
    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    /// Stores tasks that have been open for a while, so that they can be seen; each comes again through
    /// [`write`](Self::write) when it ends.
    fn write_open(&mut self, batch: &Batch<'_>) -> Result<()> {
        _ = batch;
        Ok(())
    }

    /// The workflow has ended, and its last record is written. Tasks that outlive it may still be written.
    fn close(&mut self) -> Result<()> {
        Ok(())
    }

    /// A local folder where the queue may be kept, so that it outlives the process. Its readers must call
    /// `recover` or be the library's own.
    fn folder(&self) -> Option<&Path> {
        None
    }

    /// Whether a call may take long, because it waits for another machine: such a store gets a thread of its own. Its records are
    /// not in its [`folder`](Self::folder): what a killed process leaves waits there in a spool, for the next run with the same store
    /// or for `replay`.
    fn is_remote(&self) -> bool {
        false
    }

    /// Which of these records are missing from the store, by their place. Asked before records are written that may be there
    /// already, by a replay or a copy: only those are then written, and the others counted as known. A store that writes a record by
    /// its id, however often, need not look: all are.
    fn missing(&mut self, batch: &Batch<'_>) -> Result<Vec<bool>> {
        Ok(vec![true; batch.len()])
    }

    /// The URI under which a child process finds the same store, if it can.
    fn uri(&self) -> Option<String> {
        None
    }

    /// What the store has of a run whose process died: how far each of these tasks is there, and whether the workflow's
    /// end is. Only the rest is then written. A store that does not know is given all of it, perhaps again.
    fn known(&mut self, run: &RunInfo, tasks: &HashSet<String>) -> Result<Known> {
        _ = (run, tasks);
        Ok(Known::default())
    }
}

/// What a store has of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Known {
    /// Ids of tasks that have ended in it.
    pub ended: HashSet<String>,
    /// Ids of tasks that have only begun in it.
    pub running: HashSet<String>,
    /// Whether it says how the workflow ended.
    pub has_end: bool,
    /// The record that says so. Recovery updates its totals when it adds tasks.
    pub end: Option<Box<WorkflowObject>>,
    /// How many tasks of the run's process there are; none where the store cannot count them.
    pub tasks: Option<StoredTasks>,
}

/// How many tasks of a process a store has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoredTasks {
    /// Those that ended well.
    pub finished: u64,
    /// Those that ended in an error.
    pub errors: u64,
    /// Those that have only begun.
    pub running: u64,
    /// Those that ended in an error and were called by no other task of the run.
    pub failed_roots: u64,
    /// Nanoseconds that reading telemetry took.
    pub capture_ns: u64,
}

impl StoredTasks {
    /// Adds the tasks of another store, or of another file.
    pub fn add(&mut self, more: &Self) {
        self.finished += more.finished;
        self.errors += more.errors;
        self.running += more.running;
        self.failed_roots += more.failed_roots;
        self.capture_ns += more.capture_ns;
    }
}

/// What a store may know of the run it is opened for.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RunInfo {
    /// The workflow's id.
    pub workflow_id: String,
    /// The workflow's name.
    pub name: String,
    /// The process.
    pub pid: u32,
    /// The settings in force.
    pub settings: &'static Settings,
}

impl RunInfo {
    /// A run of this process or of another.
    pub fn new(workflow_id: String, name: String, pid: u32, settings: &'static Settings) -> Self {
        Self { workflow_id, name, pid, settings }
    }
}

/// A kind of store, known by the scheme of its URIs.
#[derive(Debug)]
pub struct StoreEntry {
    scheme: &'static str,
    open: fn(&str, &RunInfo) -> Result<Box<dyn Store>>,
    recovers: Option<CheckUri>,
    enabled: Option<fn(&Settings) -> Option<String>>,
}

/// Makes sure of a URI that was found in a folder.
type CheckUri = fn(&str, &Path) -> Result<String>;

impl StoreEntry {
    /// `open` gets the URI as it was written. It fails where the URI is wrong; a place that cannot be
    /// reached for the moment is no error before the first write.
    pub const fn new(
        scheme: &'static str,
        open: fn(&str, &RunInfo) -> Result<Box<dyn Store>>,
    ) -> Self {
        Self { scheme, open, recovers: None, enabled: None }
    }

    /// What is left in the queues of a process that died goes to this store too. `check` gets the URI that the process left
    /// in its folder, and that folder; it returns the URI to open, or an error where the process could have meant something
    /// that is none of its business: the folder may come from anybody.
    ///
    /// Without this, what is left goes to files of JSON lines in the store's [`folder`](Store::folder), unless the store
    /// [is on another machine](Store::is_remote).
    #[must_use]
    pub const fn recovers(mut self, check: fn(&str, &Path) -> Result<String>) -> Self {
        self.recovers = Some(check);
        self
    }

    /// `uri` gives the URI of the store that the settings enable, if they do: records go there when nobody names a store.
    #[must_use]
    pub const fn enabled_by(mut self, uri: fn(&Settings) -> Option<String>) -> Self {
        self.enabled = Some(uri);
        self
    }

    fn of(uri: &str) -> Option<&'static Self> {
        let (scheme, _) = uri.split_once("://")?;
        inventory::iter::<Self>().find(|entry| entry.scheme == scheme)
    }
}

inventory::collect!(StoreEntry);

/// Whether this program has a store of this scheme.
pub fn is_known(scheme: &str) -> bool {
    inventory::iter::<StoreEntry>().any(|entry| entry.scheme == scheme)
}

/// Whether what is left of a run goes to the store of this URI.
pub fn is_recovered(uri: &str) -> bool {
    StoreEntry::of(uri).is_some_and(|entry| entry.recovers.is_some())
}

/// Opens the store of a URI that a dead process left in a folder.
pub fn open_left(uri: &str, folder: &Path, run: &RunInfo) -> Result<Box<dyn Store>> {
    let (scheme, _) = uri.split_once("://").unwrap_or((uri, ""));
    let entry = StoreEntry::of(uri).ok_or_else(|| unknown_scheme(scheme))?;
    let check = entry.recovers.ok_or_else(|| unknown_scheme(scheme))?;
    (entry.open)(&check(uri, folder)?, run)
}

/// What of a store must not be in use while the process forks: the result is dropped after the fork, in both processes.
#[derive(Debug)]
pub struct HoldForFork(pub fn() -> Box<dyn Any>);

inventory::collect!(HoldForFork);

/// Holds what stores must not use while the process forks.
pub fn hold_for_fork() -> Vec<Box<dyn Any>> {
    inventory::iter::<HoldForFork>().map(|hook| (hook.0)()).collect()
}

/// What is to be done before a folder of records is read: finish the work of processes that died.
#[derive(Debug)]
pub struct BeforeReading(pub fn(&Path));

inventory::collect!(BeforeReading);

/// Does what is to be done before a folder is read.
pub fn before_reading(folder: &Path) {
    let mut hooks = inventory::iter::<BeforeReading>().peekable();
    if hooks.peek().is_none() {
        unrecovered::tell(folder);
    }
    for hook in hooks {
        (hook.0)(folder);
    }
}

/// What is to be done before a store elsewhere is asked: write what waits for it on this machine.
#[derive(Debug)]
pub struct BeforeAsking(pub fn(&str));

inventory::collect!(BeforeAsking);

/// Does what is to be done before the store of this URI is asked.
pub fn before_asking(uri: &str) {
    for hook in inventory::iter::<BeforeAsking>() {
        (hook.0)(uri);
    }
}

/// What `WorkflowBuilder::store` takes: a path, a URI, or a store.
pub struct StoreChoice(Choice);

enum Choice {
    Uri(String),
    Made(Box<dyn Store>),
}

impl std::fmt::Debug for StoreChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Choice::Uri(uri) => f.debug_tuple("StoreChoice").field(&without_secrets(uri)).finish(),
            Choice::Made(_) => f.write_str("StoreChoice(..)"),
        }
    }
}

impl StoreChoice {
    /// A store of your own making.
    pub fn custom(store: impl Store + 'static) -> Self {
        Self(Choice::Made(Box::new(store)))
    }

    /// The folder, if it is one of JSON lines.
    pub fn into_folder(self) -> Result<String, Self> {
        match self.0 {
            Choice::Uri(uri) if names_database(&uri) => Err(Self(Choice::Uri(uri))),
            Choice::Uri(uri) => match uri.strip_prefix("jsonl://") {
                Some(folder) => Ok(folder.to_owned()),
                None if uri.contains("://") || lacks_slashes(&uri).is_some() => {
                    Err(Self(Choice::Uri(uri)))
                }
                None => Ok(uri),
            },
            made => Err(Self(made)),
        }
    }

    /// The path of the SQLite file, if it is one.
    pub fn database(&self) -> Option<&Path> {
        let Choice::Uri(uri) = &self.0 else { return None };
        let path = match uri.strip_prefix("sqlite://") {
            Some(path) if !path.is_empty() && !path.ends_with('/') && !path.contains('\0') => path,
            _ if names_database(uri) => uri,
            _ => return None,
        };
        Some(Path::new(path))
    }

    /// Refuses a pipe, a socket or a device: opening or reading one may never end. Starting a workflow does this too.
    ///
    /// ```
    /// # #[cfg(unix)]
    /// assert!(runlore::store::StoreChoice::from("/dev/zero").refuse_special().is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// Where the store is one of these.
    pub fn refuse_special(&self) -> Result<()> {
        match (&self.0, self.database()) {
            (_, Some(path)) => refuse_special(path),
            (Choice::Uri(uri), None) => {
                refuse_special(Path::new(uri.strip_prefix("jsonl://").unwrap_or(uri)))
            }
            (Choice::Made(_), None) => Ok(()),
        }
    }

    /// Opens the store for a run.
    pub fn open(self, run: &RunInfo) -> Result<Box<dyn Store>> {
        self.refuse_special()?;
        let uri = match self.0 {
            Choice::Made(store) => return Ok(store),
            Choice::Uri(uri) if names_database(&uri) => format!("sqlite://{uri}"),
            Choice::Uri(uri) => uri,
        };
        let Some((scheme, _)) = uri.split_once("://") else {
            if lacks_slashes(&uri).is_some() {
                return Err(slashes_missing(&uri));
            }
            return Ok(Box::new(jsonl::JsonlStore::in_folder(&uri, run)));
        };
        match StoreEntry::of(&uri) {
            Some(entry) => (entry.open)(&uri, run),
            None => Err(unknown_scheme(scheme)),
        }
    }
}

/// Whether a path is meant to be an SQLite file: by the end of its name, unless there is a folder of that name.
///
/// ```
/// use runlore::store::names_database;
/// assert!(names_database("runs.db") && !names_database("runs") && !names_database("sqlite://runs.db"));
/// ```
pub fn names_database(place: &str) -> bool {
    let path = Path::new(place);
    let end = path.extension().and_then(OsStr::to_str);
    !place.contains("://")
        && lacks_slashes(place).is_none()
        && end.is_some_and(|end| matches!(end, "db" | "sqlite" | "sqlite3"))
        && !path.is_dir()
}

/// A URI that somebody wrote without its slashes, taken apart.
#[doc(hidden)]
pub fn lacks_slashes(uri: &str) -> Option<(&str, &str)> {
    let schemes = ["jsonl", "sqlite", "mongodb", "mongodb+srv"];
    uri.split_once(':').filter(|(scheme, _)| schemes.contains(scheme))
}

#[doc(hidden)]
pub fn slashes_missing(uri: &str) -> Error {
    let (scheme, rest) = lacks_slashes(uri).unwrap_or_default();
    let whole = scrub(&format!("{scheme}://{rest}"));
    let text = format!("`{}` lacks slashes: write `{whole}`", without_secrets(uri));
    Error::new(ErrorKind::Store, text)
}

/// A URI as it may be shown, its slashes missing or not.
fn without_secrets(uri: &str) -> String {
    match lacks_slashes(uri) {
        Some((scheme, rest)) if !uri.contains("://") => {
            scrub(&format!("{scheme}://{rest}")).replacen("://", ":", 1)
        }
        _ => scrub(uri),
    }
}

/// Schemes that the library knows only with a feature.
const WITH_FEATURE: [(&str, &str); 3] =
    [("sqlite", "sqlite"), ("mongodb", "mongodb"), ("mongodb+srv", "mongodb-srv")];

/// Why there is no store of a scheme that could be there.
#[doc(hidden)]
pub fn needs_feature(scheme: &str) -> Option<Error> {
    let (_, feature) = WITH_FEATURE.iter().find(|(known, _)| *known == scheme)?;
    let text = format!(
        "this program is built without `{scheme}://`: add the feature `{feature}` of the crate `runlore`"
    );
    Some(Error::new(ErrorKind::Store, text))
}

fn unknown_scheme(scheme: &str) -> Error {
    if let Some(error) = needs_feature(scheme) {
        return error;
    }
    let mut known: Vec<_> = inventory::iter::<StoreEntry>().map(|entry| entry.scheme).collect();
    known.sort_unstable();
    let known = known.join("://, ");
    Error::new(
        ErrorKind::Store,
        format!(
            "no store for `{scheme}://`: give a folder, or a URI that begins with one of {known}://"
        ),
    )
}

impl From<&str> for StoreChoice {
    fn from(uri: &str) -> Self {
        Self(Choice::Uri(uri.to_owned()))
    }
}

impl From<String> for StoreChoice {
    fn from(uri: String) -> Self {
        Self(Choice::Uri(uri))
    }
}

impl From<&Path> for StoreChoice {
    fn from(path: &Path) -> Self {
        Self(Choice::Uri(path.to_string_lossy().into_owned()))
    }
}

impl From<&OsStr> for StoreChoice {
    fn from(place: &OsStr) -> Self {
        Self::from(Path::new(place))
    }
}

impl From<PathBuf> for StoreChoice {
    fn from(path: PathBuf) -> Self {
        Self::from(path.as_path())
    }
}

impl From<MemoryStore> for StoreChoice {
    fn from(store: MemoryStore) -> Self {
        Self::custom(store)
    }
}
