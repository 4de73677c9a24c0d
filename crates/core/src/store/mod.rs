//! Stores, which receive the records: the [`Store`] trait, and the stores that come with the
//! library.

mod batch;
mod head;
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

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

#[doc(hidden)]
pub use batch::write_record;
pub use batch::{Batch, RecordLines};
pub use head::{RecordHead, RecordKind, ValueHash};
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

/// The default folder: records are written there and read from there if no store is named.
pub const DEFAULT_FOLDER: &str = "runlore";

/// Returns the URI or folder of the first store in [`default_uris`].
///
/// An enabled database that this program can open comes before the folder of JSON lines.
///
/// ```
/// let settings = runlore::settings::Settings::default();
/// assert_eq!(runlore::store::default_uri(&settings), "runlore");
/// ```
pub fn default_uri(settings: &Settings) -> String {
    default_uris(settings).swap_remove(0)
}

/// Returns the URIs of all stores that the settings enable. Records go to them if no store is
/// named.
///
/// Falls back to the folder of JSON lines if they enable no store that this program has.
///
/// ```
/// let mut settings = runlore::settings::Settings::default();
/// settings.databases.jsonl.path = "records".into();
/// assert_eq!(runlore::store::default_uris(&settings), ["records"]);
/// ```
pub fn default_uris(settings: &Settings) -> Vec<String> {
    let mut entries: Vec<_> = inventory::iter::<StoreEntry>().collect();
    // The linker's order is arbitrary.
    entries.sort_unstable_by_key(|entry| entry.scheme);
    let mut uris: Vec<_> =
        entries.into_iter().filter_map(|entry| (entry.enabled?)(settings)).collect();
    let databases = &settings.databases;
    if databases.jsonl.enabled || uris.is_empty() {
        uris.push(databases.jsonl.path.display().to_string());
    }
    uris
}

/// A destination for records. Background threads of the recorder call it, never a task.
///
/// A call that returns an error must have stored nothing. The writer then keeps the records and
/// retries the same call.
pub trait Store: Send {
    /// Prepares a write of `bytes` bytes. Returns the path of the new file if the store has just
    /// created one.
    fn prepare(&mut self, bytes: u64) -> Result<Option<PathBuf>> {
        _ = bytes;
        Ok(None)
    }

    /// Stores a batch of records: all of them or none.
    fn write(&mut self, batch: &Batch<'_>) -> Result<()>;

    /// Returns the records of earlier writes that the store rejected for good, each once.
    ///
    /// Called after a write that returned no error. The records count as refused or lost, not as
    /// written.
    fn refused(&mut self) -> Vec<Refused> {
        Vec::new()
    }

    /// Syncs everything written so far to disk, so that it survives a crash of the machine.
    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    /// Stores tasks that have been open for a while, so that readers can see them.
    ///
    /// Each of them is written again through [`write`](Self::write) when it ends.
    fn write_open(&mut self, batch: &Batch<'_>) -> Result<()> {
        _ = batch;
        Ok(())
    }

    /// Closes the store after the workflow's last record was written. Tasks that outlive the
    /// workflow may still be written.
    fn close(&mut self) -> Result<()> {
        Ok(())
    }

    /// Returns a local folder for the queue files, so that queued events outlive the process.
    ///
    /// Whoever reads that folder must call `recover` first. The library's own readers do.
    fn folder(&self) -> Option<&Path> {
        None
    }

    /// Returns whether calls may take long because they wait for another machine. Such a store gets
    /// a thread of its own.
    ///
    /// Its records are not in its [`folder`](Self::folder). Records that a killed process could not
    /// send wait there in a spool, until the next run with the same store or until `replay`.
    fn is_remote(&self) -> bool {
        false
    }

    /// Returns for each record of the batch whether the store lacks it.
    ///
    /// A replay or a copy calls this before it writes records that may be stored already. It writes
    /// the missing ones and counts the others as known. A store that upserts by id need not look:
    /// the default reports every record as missing.
    fn missing(&mut self, batch: &Batch<'_>) -> Result<Vec<bool>> {
        Ok(vec![true; batch.len()])
    }

    /// Returns the URI under which a child process can open the same store. `None` if it cannot.
    fn uri(&self) -> Option<String> {
        None
    }

    /// Returns which records of a dead process's run are stored: the state of each of these tasks,
    /// and whether the workflow's end is there.
    ///
    /// Recovery writes only the rest. The default reports nothing, so that recovery writes
    /// everything, possibly again.
    fn known(&mut self, run: &RunInfo, tasks: &HashSet<String>) -> Result<Known> {
        _ = (run, tasks);
        Ok(Known::default())
    }
}

/// What a store already has of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Known {
    /// Ids of tasks that are stored as ended.
    pub ended: HashSet<String>,
    /// Ids of tasks that are stored as running only.
    pub running: HashSet<String>,
    /// Whether the store has a record of how the workflow ended.
    pub has_end: bool,
    /// That record. Recovery updates its totals when it adds tasks.
    pub end: Option<Box<WorkflowObject>>,
    /// How many tasks of the run's process are stored. `None` if the store cannot count them.
    pub tasks: Option<StoredTasks>,
}

/// How many tasks of one process a store has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoredTasks {
    /// Tasks that finished without an error.
    pub finished: u64,
    /// Tasks that ended with an error.
    pub errors: u64,
    /// Tasks that have started but not ended.
    pub running: u64,
    /// Tasks that ended with an error and whose parent is not a task of the run.
    pub failed_roots: u64,
    /// Nanoseconds spent on reading telemetry.
    pub capture_ns: u64,
}

impl StoredTasks {
    /// Adds the counts of another store or file.
    pub fn add(&mut self, more: &Self) {
        self.finished += more.finished;
        self.errors += more.errors;
        self.running += more.running;
        self.failed_roots += more.failed_roots;
        self.capture_ns += more.capture_ns;
    }
}

/// Information about the run that a store is opened for.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RunInfo {
    /// The workflow's id.
    pub workflow_id: String,
    /// The workflow's name.
    pub name: String,
    /// The process id.
    pub pid: u32,
    /// The settings in force.
    pub settings: &'static Settings,
}

impl RunInfo {
    /// Describes a run of this process or of another one.
    pub fn new(workflow_id: String, name: String, pid: u32, settings: &'static Settings) -> Self {
        Self { workflow_id, name, pid, settings }
    }
}

/// A registered kind of store, identified by the scheme of its URIs.
#[derive(Debug)]
pub struct StoreEntry {
    scheme: &'static str,
    open: fn(&str, &RunInfo) -> Result<Box<dyn Store>>,
    recovers: Option<CheckUri>,
    enabled: Option<fn(&Settings) -> Option<String>>,
}

/// Validates a URI that was found in a folder.
type CheckUri = fn(&str, &Path) -> Result<String>;

impl StoreEntry {
    /// Creates the entry of a kind of store. `open` gets the URI as the user wrote it.
    ///
    /// `open` fails if the URI is invalid. An unreachable server is not an error before the first
    /// write.
    pub const fn new(
        scheme: &'static str,
        open: fn(&str, &RunInfo) -> Result<Box<dyn Store>>,
    ) -> Self {
        Self { scheme, open, recovers: None, enabled: None }
    }

    /// Lets recovery write to this store what a dead process left in its queues.
    ///
    /// `check` gets the URI that the process left in its folder, and that folder. It returns the
    /// URI to open. It must return an error if the URI points to something that the process had no
    /// business with: anybody may have written to the folder.
    ///
    /// Without this, recovery writes to JSON lines files in the store's [`folder`](Store::folder),
    /// unless the store [is remote](Store::is_remote).
    #[must_use]
    pub const fn recovers(mut self, check: fn(&str, &Path) -> Result<String>) -> Self {
        self.recovers = Some(check);
        self
    }

    /// Sets how the settings enable this store. `uri` returns the store's URI, or `None` if it is
    /// not enabled. Records go to enabled stores if no store is named.
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

/// Returns whether this program was built with a store for this scheme.
pub fn is_known(scheme: &str) -> bool {
    inventory::iter::<StoreEntry>().any(|entry| entry.scheme == scheme)
}

/// Returns whether recovery writes to the store of this URI.
pub fn is_recovered(uri: &str) -> bool {
    StoreEntry::of(uri).is_some_and(|entry| entry.recovers.is_some())
}

/// Opens the store whose URI a dead process left in a folder, after checking that URI.
pub fn open_left(uri: &str, folder: &Path, run: &RunInfo) -> Result<Box<dyn Store>> {
    let (scheme, _) = uri.split_once("://").unwrap_or((uri, ""));
    let entry = StoreEntry::of(uri).ok_or_else(|| unknown_scheme(scheme))?;
    let check = entry.recovers.ok_or_else(|| unknown_scheme(scheme))?;
    (entry.open)(&check(uri, folder)?, run)
}

/// A hook that runs before a folder of records is read. It completes the runs of dead processes.
#[derive(Debug)]
pub struct BeforeReading(pub fn(&Path));

inventory::collect!(BeforeReading);

/// Calls all [`BeforeReading`] hooks.
pub fn before_reading(folder: &Path) {
    let mut hooks = inventory::iter::<BeforeReading>().peekable();
    if hooks.peek().is_none() {
        unrecovered::tell(folder);
    }
    for hook in hooks {
        (hook.0)(folder);
    }
}

/// A hook that runs before a remote store is queried. It sends the records that wait for that store
/// on this machine.
#[derive(Debug)]
pub struct BeforeAsking(pub fn(&str));

inventory::collect!(BeforeAsking);

/// Calls all [`BeforeAsking`] hooks for the store of this URI.
pub fn before_asking(uri: &str) {
    for hook in inventory::iter::<BeforeAsking>() {
        (hook.0)(uri);
    }
}

/// The argument of `WorkflowBuilder::store`: a path, a URI, or a store.
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
    /// Uses the caller's own [`Store`].
    pub fn custom(store: impl Store + 'static) -> Self {
        Self(Choice::Made(Box::new(store)))
    }

    /// Returns the folder if this is a folder of JSON lines, otherwise `self`.
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

    /// Returns the path if this is an SQLite file.
    pub fn database(&self) -> Option<&Path> {
        let Choice::Uri(uri) = &self.0 else { return None };
        let path = match uri.strip_prefix("sqlite://") {
            Some(path) if !path.is_empty() && !path.ends_with('/') && !path.contains('\0') => path,
            _ if names_database(uri) => uri,
            _ => return None,
        };
        Some(Path::new(path))
    }

    /// Rejects a pipe, a socket or a device, because opening or reading one may block for ever.
    /// Starting a workflow checks this too.
    ///
    /// ```
    /// # #[cfg(unix)]
    /// assert!(runlore::store::StoreChoice::from("/dev/zero").refuse_special().is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// If the store is one of these.
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

/// Returns whether a path names an SQLite file: its extension is `db`, `sqlite` or `sqlite3`, and
/// no folder has that path.
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

/// Splits a URI that lacks its slashes, such as `sqlite:runs.db`, into scheme and rest.
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

/// Returns the URI without its secrets, for messages. Accepts URIs that lack their slashes.
fn without_secrets(uri: &str) -> String {
    match lacks_slashes(uri) {
        Some((scheme, rest)) if !uri.contains("://") => {
            scrub(&format!("{scheme}://{rest}")).replacen("://", ":", 1)
        }
        _ => scrub(uri),
    }
}

/// Schemes that need a feature of the crate `runlore`, with that feature.
const WITH_FEATURE: [(&str, &str); 3] =
    [("sqlite", "sqlite"), ("mongodb", "mongodb"), ("mongodb+srv", "mongodb-srv")];

/// Returns the error for a known scheme whose feature is not enabled.
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
