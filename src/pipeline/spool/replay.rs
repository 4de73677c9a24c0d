//! Writing what was left in spools to its store, each record once.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::{Left, folder_of, label};
use crate::once::Lock;
use crate::pipeline::config::settings;
use crate::pipeline::notice::notice;
use crate::pipeline::retry::Backoff;
use crate::pipeline::run::Lines;
use crate::pipeline::{file_size, recover, rings};
use crate::settings::Durability;
use crate::store::{RunInfo, Store, StoreChoice, take_refused};
use crate::{Error, ErrorKind, Result};

/// How far a [`replay`] has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Replayed {
    /// Records that were written.
    pub records: u64,
    /// Records that the store had already.
    pub known: u64,
    /// Bytes that were read so far.
    pub bytes: u64,
    /// Bytes that there are in all.
    pub all_bytes: u64,
}

/// Writes the records that wait in a folder of spools to a store, each once, and deletes what is stored. `progress` hears
/// after every batch how far it is. Spools of processes that are alive are left to them.
///
/// The next run with the same store does this by itself.
///
/// ```
/// # let folder = std::env::temp_dir().join("no-such-folder");
/// let replayed = runlore::replay(folder.join(".spool"), folder.to_str().unwrap(), |_| ())?;
/// assert_eq!(replayed.records, 0);
/// # Ok::<(), runlore::Error>(())
/// ```
pub fn replay(
    spool: impl AsRef<Path>,
    to: &str,
    mut progress: impl FnMut(&Replayed),
) -> Result<Replayed> {
    let spool = spool.as_ref();
    let left = found(spool)?;
    let all_bytes = left.iter().map(Left::bytes).sum();
    let mut replayed = Replayed { all_bytes, ..Replayed::default() };
    file_size::without_signal(|| {
        left.into_iter().try_for_each(|left| replay_one(left, to, &mut replayed, &mut progress))
    })?;
    Ok(replayed)
}

fn found(spool: &Path) -> Result<Vec<Left>> {
    Left::all_in(spool).map_err(|error| {
        let text = format!("cannot look for records in {}", spool.display());
        Error::new(ErrorKind::Store, text).with_source(error)
    })
}

/// While it is locked, records are being written that the end of the process must not cut in two.
static WRITING: Lock = Lock::new();

/// At the end of the process: sees to it that no replay is in the middle of a write, now or later.
pub(in crate::pipeline) fn stand_still(patience: Duration) {
    let until = Instant::now() + patience;
    while Instant::now() < until {
        if let Some(guard) = WRITING.try_lock() {
            return std::mem::forget(guard);
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn replay_one(
    mut left: Left,
    to: &str,
    replayed: &mut Replayed,
    progress: &mut impl FnMut(&Replayed),
) -> Result<()> {
    let head = left.head.clone();
    let info = RunInfo::new(head.workflow_id, head.name, head.pid, settings());
    let mut store = StoreChoice::from(to).open(&info)?;
    if let Some(folder) = store.folder() {
        // What the process left in its queues may be in the spool too: that comes first, and is then known.
        recover::recover_quietly(folder)?;
    }
    let unreadable = |error| {
        Error::new(ErrorKind::Store, "records that wait for their store cannot be read")
            .with_source(error)
    };
    while let Some(frame) = left.next().map_err(unreadable)? {
        let length = frame.bytes.len() as u64;
        let _whole = WRITING.lock();
        let written = write_missing(&mut *store, Lines::from_bytes(frame.bytes))?;
        replayed.records += written;
        replayed.known += u64::from(frame.records).saturating_sub(written);
        replayed.bytes += length;
        progress(replayed);
    }
    store.close()?;
    left.remove();
    Ok(())
}

/// Writes what the store does not have; how many records that are.
fn write_missing(store: &mut dyn Store, lines: Lines) -> Result<u64> {
    let is_missing = store.missing(&lines.batch())?;
    let lines = lines.only(&is_missing);
    if lines.ends.is_empty() {
        return Ok(0);
    }
    store.prepare(lines.bytes.len() as u64)?;
    store.write(&lines.batch())?;
    take_refused(store);
    if settings().recorder.durability == Durability::System {
        store.sync()?;
    }
    Ok(lines.ends.len() as u64)
}

/// Replays what earlier runs left for these stores, on a thread of its own, until all is stored or the process ends.
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

fn replay_in_background(folder: PathBuf, uris: Vec<String>) {
    let spawned = thread::Builder::new().name("runlore-replay".to_owned()).spawn(move || {
        rings::silence_thread();
        file_size::never_signal_thread();
        let mut backoff = Backoff::default();
        for uri in uris {
            while let Err(error) = replay_for(&folder, &uri) {
                notice(&format!(
                    "{error}; what earlier runs left in {} is tried again",
                    folder.display()
                ));
                thread::sleep(backoff.next());
            }
        }
    });
    if let Err(error) = spawned {
        notice(&format!("what earlier runs left cannot be replayed: {error}"));
    }
}

fn replay_for(folder: &Path, uri: &str) -> Result<()> {
    let wanted = label(uri);
    let mut replayed = Replayed::default();
    let mut found = found(folder)?;
    found.retain(|left| left.head.store.as_ref() == Some(&wanted));
    found.into_iter().try_for_each(|left| replay_one(left, uri, &mut replayed, &mut |_| ()))
}

/// Records that wait on disk for their store.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Spooled {
    /// The workflow that they are of.
    pub workflow_id: String,
    /// The store that they are for, without secrets; none where it has no name.
    pub store: Option<String>,
    /// Their bytes.
    pub bytes: u64,
}

/// What waits in a folder of spools, but for what a process that is alive takes care of.
///
/// ```
/// assert_eq!(runlore::spooled("no-such-folder")?, []);
/// # Ok::<(), runlore::Error>(())
/// ```
pub fn spooled(folder: impl AsRef<Path>) -> Result<Vec<Spooled>> {
    let spooled = |left: Left| Spooled {
        workflow_id: left.head.workflow_id.clone(),
        store: left.head.store.clone(),
        bytes: left.bytes(),
    };
    Ok(found(folder.as_ref())?.into_iter().map(spooled).collect())
}
