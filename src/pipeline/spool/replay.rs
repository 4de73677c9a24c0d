//! Writes the records left in spools to their stores, each exactly once.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use super::folder_of;
use super::label::{is_same, label};
use super::left::{Left, Leftovers};
use crate::pipeline::retry::Backoff;
use crate::pipeline::{recover, rings};
use runlore_core::config::settings;
use runlore_core::contain::contain;
use runlore_core::file_size;
use runlore_core::fork::PerProcess;
use runlore_core::notice::notice;
use runlore_core::settings::Durability;
use runlore_core::store::{RecordLines, Refused, RunInfo, Store, StoreChoice, take_refused};
use runlore_core::{Error, ErrorKind, Result};

/// The progress of a [`replay`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[non_exhaustive]
pub struct Replayed {
    /// The number of records written.
    pub records: u64,
    /// The number of records that the store already had.
    pub known: u64,
    /// The number of records that the store refused. It keeps them elsewhere, or their spool file
    /// is kept.
    pub refused: u64,
    /// The number of bytes read so far.
    pub bytes: u64,
    /// The total number of bytes to read.
    pub all_bytes: u64,
}

/// Writes the records that wait for a store in a folder of spools to that store, each exactly once,
/// and deletes them afterwards. Calls `progress` after every batch. Spools of live processes and
/// spools for other stores are left alone; [`spooled`] lists them.
///
/// The next run with the same store does this automatically.
///
/// ```
/// # let folder = std::env::temp_dir().join("no-such-folder");
/// let replayed = runlore::replay(folder.join(".spool"), folder.to_str().unwrap(), |_| ())?;
/// assert_eq!(replayed.records, 0);
/// # Ok::<(), runlore::Error>(())
/// ```
///
/// # Errors
///
/// If the store does not accept them, or some of them cannot be read. Records that were not stored
/// stay.
pub fn replay(
    spool: impl AsRef<Path>,
    to: &str,
    progress: impl FnMut(&Replayed),
) -> Result<Replayed> {
    let own = label_of(to)?;
    replay_those(spool.as_ref(), own.as_deref(), to, progress)
}

/// Like [`replay`], for records that were meant for another store, such as one that is gone. They
/// go to this store instead, and the other never gets them. `from` is the other store's label as
/// returned by [`spooled`], or its URI. It is empty for records whose store has no URI, or whose
/// spool lost it by damage.
///
/// ```
/// # let folder = std::env::temp_dir().join("no-such-folder");
/// # let (old, new) = ("sqlite:///gone/runs.db", folder.to_str().unwrap());
/// let replayed = runlore::replay_from(folder.join(".spool"), old, new, |_| ())?;
/// assert_eq!(replayed.records, 0);
/// # Ok::<(), runlore::Error>(())
/// ```
///
/// # Errors
///
/// See [`replay`].
pub fn replay_from(
    spool: impl AsRef<Path>,
    from: &str,
    to: &str,
    progress: impl FnMut(&Replayed),
) -> Result<Replayed> {
    // A store that this program cannot open still has a label.
    let given = label_of(from).unwrap_or_else(|_| Some(label(from)));
    let from = given.filter(|_| !from.is_empty());
    replay_those(spool.as_ref(), from.as_deref(), to, progress)
}

/// Returns the label of a store in its spools.
fn label_of(to: &str) -> Result<Option<String>> {
    Ok(StoreChoice::from(to).open(&unnamed_run())?.uri().map(|uri| label(&uri)))
}

/// The run for which a store is opened that is only asked what it is.
fn unnamed_run() -> RunInfo {
    RunInfo::new(String::new(), String::new(), std::process::id(), settings())
}

fn is_for(store: Option<&str>, wanted: Option<&str>) -> bool {
    match (store, wanted) {
        (Some(store), Some(wanted)) => is_same(store, wanted),
        (store, wanted) => store.is_none() && wanted.is_none(),
    }
}

/// Replays the spools with this label. A problem with one spool does not affect the others.
fn replay_those(
    spool: &Path,
    labelled: Option<&str>,
    to: &str,
    mut progress: impl FnMut(&Replayed),
) -> Result<Replayed> {
    // Recovery replays the spools of killed processes itself, and needs their locks.
    if let Some(folder) = StoreChoice::from(to).open(&unnamed_run())?.folder() {
        recover::recover_quietly(folder)?;
    }
    let left = found(spool, |store| is_for(store, labelled))?.left;
    let all_bytes = left.iter().map(Left::bytes).sum();
    let mut replayed = Replayed { all_bytes, ..Replayed::default() };
    let mut problem = None;
    file_size::without_signal(|| {
        left.into_iter().try_for_each(|left| {
            match replay_one(left, to, &mut replayed, &mut progress) {
                Err(error) if error.kind() == ErrorKind::Record => {
                    problem.get_or_insert(error);
                    Ok(())
                }
                done => done,
            }
        })
    })?;
    problem.map_or(Ok(replayed), Err)
}

fn found(spool: &Path, is_wanted: impl Fn(Option<&str>) -> bool) -> Result<Leftovers> {
    Left::all_in(spool, is_wanted).map_err(|error| {
        let text = format!("cannot look for records in {}", spool.display());
        Error::new(ErrorKind::Store, text).with_source(error)
    })
}

/// Locked while records are being written, which the end of the process must not interrupt.
static WRITING: PerProcess<Mutex<()>> = PerProcess::new();

/// At the end of the process, makes sure that no replay is in the middle of a write, now or later.
pub(in crate::pipeline) fn stand_still(patience: Duration) {
    let until = Instant::now() + patience;
    while Instant::now() < until {
        match WRITING.try_lock() {
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(1)),
            taken => return std::mem::forget(taken),
        }
    }
}

/// Replays one spool. An error of the kind [`Record`](ErrorKind::Record) concerns this spool, any
/// other the store.
fn replay_one(
    mut left: Left,
    to: &str,
    replayed: &mut Replayed,
    progress: &mut impl FnMut(&Replayed),
) -> Result<()> {
    let head = left.head.clone();
    let info = RunInfo::new(head.workflow_id, head.name, head.pid, settings());
    let mut store = StoreChoice::from(to).open(&info)?;
    write_spool(&mut left, &mut *store, replayed, progress)?;
    store.close()?;
    finish(left)
}

/// Replays the spools of a run whose process died to its store, before recovery asks the store
/// which tasks it has.
pub(in crate::pipeline) fn replay_run(store: &mut dyn Store, run: &RunInfo) -> Result<()> {
    let Some(folder) = folder_of(store, &run.settings.recorder) else { return Ok(()) };
    let label = store.uri().map(|uri| label(&uri));
    for mut left in found(&folder, |store| is_for(store, label.as_deref()))?.left {
        if left.head.workflow_id == run.workflow_id && left.head.pid == run.pid {
            write_spool(&mut left, store, &mut Replayed::default(), &mut |_| ())?;
            // The readable part is stored, and the rest must not hold up the run's queues.
            if let Err(error) = finish(left) {
                notice(&error.to_string());
            }
        }
    }
    Ok(())
}

/// Writes the records of a spool that the store does not have.
fn write_spool(
    left: &mut Left,
    store: &mut dyn Store,
    replayed: &mut Replayed,
    progress: &mut impl FnMut(&Replayed),
) -> Result<()> {
    while let Some(frame) = left.next() {
        let length = frame.bytes.len() as u64;
        let _whole = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
        let (written, refused) = write_missing(store, RecordLines::from_bytes(frame.bytes))?;
        let count = refused.len() as u64;
        replayed.records += written.saturating_sub(count);
        replayed.refused += count;
        replayed.known += u64::from(frame.records).saturating_sub(written);
        replayed.bytes += length;
        if refused.iter().any(|one| one.kept.is_none()) {
            left.keep_file();
        }
        progress(replayed);
    }
    Ok(())
}

/// Deletes a spool that is stored. Fails if part of it could not be read.
fn finish(left: Left) -> Result<()> {
    left.finish().map_err(|error| {
        let text = "not all records that wait for their store can be replayed; what is left stays";
        Error::new(ErrorKind::Record, text).with_source(error)
    })
}

/// Writes the records that the store does not have. Returns their number, and those that the store
/// refused.
fn write_missing(store: &mut dyn Store, mut lines: RecordLines) -> Result<(u64, Vec<Refused>)> {
    let is_missing = store.missing(&lines.batch())?;
    lines.retain(&is_missing);
    if lines.is_empty() {
        return Ok((0, Vec::new()));
    }
    store.prepare(lines.json_lines().len() as u64)?;
    store.write(&lines.batch())?;
    let refused = take_refused(store);
    if settings().recorder.durability == Durability::System {
        store.sync()?;
    }
    Ok((lines.len() as u64, refused))
}

/// Replays the records that earlier runs left for these stores. Runs on a separate thread until
/// everything is stored or the process ends.
pub(crate) fn replay_left(stores: &[Box<dyn Store>]) {
    let folders = stores.iter().filter_map(|store| folder_of(&**store, &settings().recorder));
    let folders: BTreeSet<PathBuf> = folders.collect();
    for folder in folders {
        if matches!(Left::any_in(&folder), Ok(true)) {
            let uris = stores.iter().filter_map(|store| store.uri()).collect();
            replay_in_background(folder, uris);
        }
    }
}

fn replay_in_background(folder: PathBuf, mut uris: Vec<String>) {
    let spawned = thread::Builder::new().name("runlore-replay".to_owned()).spawn(move || {
        rings::silence_thread();
        file_size::never_signal_thread();
        let mut backoff = Backoff::default();
        loop {
            // Try all stores in each round, so that an unreachable one does not block the others.
            uris.retain(|uri| match contain(|| replay(&folder, uri, |_| ())) {
                Some(Ok(_)) => false,
                None => {
                    notice(&format!(
                        "the store panicked; what waits in {} stays",
                        folder.display()
                    ));
                    false
                }
                Some(Err(error)) => {
                    let folder = folder.display();
                    notice(&format!("{error}; what earlier runs left in {folder} is tried again"));
                    true
                }
            });
            if uris.is_empty() {
                return;
            }
            thread::sleep(backoff.next());
        }
    });
    if let Err(error) = spawned {
        notice(&format!("what earlier runs left cannot be replayed: {error}"));
    }
}

/// Records that wait on disk for their store.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Spooled {
    /// The workflow of the records. Empty if it is unknown.
    pub workflow_id: String,
    /// The store that they are for, without secrets. `None` if it has no URI or is unknown.
    pub store: Option<String>,
    /// Their size in bytes.
    pub bytes: u64,
    /// If something is wrong with the spool: why no run will write the records automatically, and
    /// what to do.
    pub problem: Option<String>,
}

/// Returns the records that wait in a folder of spools, except those of live processes.
///
/// ```
/// assert_eq!(runlore::spooled("no-such-folder")?, []);
/// # Ok::<(), runlore::Error>(())
/// ```
///
/// # Errors
///
/// If the folder cannot be read.
pub fn spooled(folder: impl AsRef<Path>) -> Result<Vec<Spooled>> {
    let folder = folder.as_ref();
    let Leftovers { left, unreadable } = found(folder, |_| true)?;
    let left = left.into_iter().map(|left| Spooled {
        bytes: left.bytes(),
        problem: left.is_head_lost.then(|| {
            let folder = folder.display();
            format!(
                "a spool is damaged where it names its store: `runlore replay {folder} --from '' --to URI` writes its records to one that you name"
            )
        }),
        workflow_id: left.head.workflow_id,
        store: left.head.store,
    });
    let unreadable = unreadable.into_iter().map(|spool| Spooled {
        workflow_id: String::new(),
        store: None,
        bytes: spool.bytes,
        problem: Some(spool.why.to_string()),
    });
    Ok(left.chain(unreadable).collect())
}
