//! Keeps records that a store did not accept on disk until it does.
//!
//! A spool belongs to one store of one run. It consists of files in a folder `.spool`: `<id>.lock`,
//! which its process locks, and `<id>.<number>.spool`, each a header followed by frames. A frame is
//! a batch of complete records with a checksum. A file is deleted once all of it is stored. Other
//! processes replay what is left when the process ends ([`left`]), and trust only complete frames.
//! A damaged file is kept as `<id>.<number>.damaged`.

#[cfg(feature = "mongodb")]
mod before_asking;
pub(crate) mod frame;
mod label;
mod left;
mod replay;

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub(super) use label::label;
use left::KeepReason;
pub(crate) use replay::replay_left;
pub use replay::{Replayed, Spooled, replay, replay_from, spooled};
pub(super) use replay::{replay_run, stand_still};

use frame::{Form, Next};

use super::run::Lines;
use runlore_core::record::Id;
use runlore_core::settings::{Durability, RecorderSettings};
use runlore_core::store::{OwnFile, RecordLines, RunInfo, Store};
use runlore_core::store::{create_private, private_folders};

/// The folder of all spools, inside the folder of a store.
pub(super) const FOLDER: &str = ".spool";

/// The size at which a new file is begun.
const FILE_BYTES: u64 = 8 << 20;

/// The header of a spool: whose records it contains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) workflow_id: String,
    pub(super) name: String,
    pub(super) pid: u32,
    /// The store that they are for, without secrets. `None` if it has no URI.
    pub(super) store: Option<String>,
}

/// Returns the folder for the spools of a store. `None` if the store has no folder and the settings
/// name none.
pub(super) fn folder_of(store: &dyn Store, settings: &RecorderSettings) -> Option<PathBuf> {
    // The process may change its working directory.
    std::path::absolute(folder_in(store.folder(), settings)?).ok()
}

fn folder_in(store: Option<&Path>, settings: &RecorderSettings) -> Option<PathBuf> {
    match &settings.spool {
        Some(folder) => Some(folder.clone()),
        None => store.map(|folder| folder.join(FOLDER)),
    }
}

/// Why a spool did not accept records.
#[derive(Debug)]
pub(super) enum Refused {
    /// It has reached its size limit.
    Full,
    Io(io::Error),
}

/// The records of one run that wait for one store.
#[derive(Debug)]
pub(super) struct Spool {
    folder: PathBuf,
    head: Head,
    id: Id,
    /// Held as long as the spool is not empty.
    lock: Option<OwnFile>,
    files: VecDeque<SpoolFile>,
    /// The number of files created so far.
    made: u64,
    /// The total size of all files, and its limit.
    bytes: u64,
    limit: u64,
    syncs: bool,
    records: u64,
}

/// One file of a spool.
#[derive(Debug)]
struct SpoolFile {
    path: PathBuf,
    file: OwnFile,
    length: u64,
    /// Everything is stored up to here.
    stored: u64,
    /// The size and the number of records of each later batch. They are kept in memory, because the
    /// numbers in the file may be damaged.
    waiting: VecDeque<(u64, u64)>,
    is_damaged: bool,
}

impl Spool {
    /// Creates the spool of a run for a store. Creates no file before there is something to keep.
    /// `None` if there is no folder for it.
    pub(super) fn new(store: &dyn Store, run: &RunInfo) -> Option<Self> {
        let recorder = &run.settings.recorder;
        Some(Self {
            folder: folder_of(store, recorder)?,
            head: Head {
                workflow_id: run.workflow_id.clone(),
                name: run.name.clone(),
                pid: run.pid,
                store: store.uri().map(|uri| label(&uri)),
            },
            id: Id::new(),
            lock: None,
            files: VecDeque::new(),
            made: 0,
            bytes: 0,
            limit: recorder.spool_bytes.get(),
            syncs: recorder.durability == Durability::System,
            records: 0,
        })
    }

    /// Leaves records in a spool for another process to replay.
    pub(super) fn leave(
        folder: &Path,
        head: Head,
        lines: &Lines,
        settings: &RecorderSettings,
    ) -> Result<(), Refused> {
        let id = Id::new();
        let (lock, files) = (None, VecDeque::new());
        let folder = folder_in(Some(folder), settings).unwrap_or_default();
        let (made, bytes, limit, records) = (0, 0, u64::MAX, 0);
        let mut spool =
            Self { folder, head, id, lock, files, made, bytes, limit, syncs: false, records };
        spool.append(lines)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the number of records that wait in it.
    pub(super) fn records(&self) -> u64 {
        self.records
    }

    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Appends a batch, completely or not at all.
    pub(super) fn append(&mut self, lines: &Lines) -> Result<(), Refused> {
        let records = lines.records.len() as u64;
        let frame = frame::of(lines.records.json_lines(), lines.records.len());
        if self.bytes + frame.len() as u64 > self.limit {
            return Err(Refused::Full);
        }
        self.append_frame(&frame, records).map_err(Refused::Io)?;
        self.bytes += frame.len() as u64;
        self.records += records;
        Ok(())
    }

    fn append_frame(&mut self, frame: &[u8], records: u64) -> io::Result<()> {
        self.keep_lock()?;
        if self.files.back().is_none_or(|part| part.length >= FILE_BYTES) {
            let part = self.new_part()?;
            self.bytes += part.length;
            self.files.push_back(part);
        }
        let syncs = self.syncs;
        let Some(part) = self.files.back_mut() else { return Ok(()) };
        let written = part.file.check().and_then(|(file, _)| {
            file.write_all(frame)?;
            if syncs { file.sync_data() } else { Ok(()) }
        });
        match written {
            Ok(()) => {
                part.length += frame.len() as u64;
                part.waiting.push_back((frame.len() as u64, records));
            }
            // An incomplete frame would hide the frames after it.
            Err(_) => {
                let whole = part.length;
                let back = part.file.check().and_then(|(file, _)| {
                    file.set_len(whole)?;
                    file.seek(SeekFrom::Start(whole))
                });
                self.remove_stored();
                back?;
            }
        }
        written
    }

    fn new_part(&mut self) -> io::Result<SpoolFile> {
        private_folders(&self.folder)?;
        if self.lock.is_none() {
            let path = left::lock_path(&self.folder, &self.id.to_string());
            let lock = self.lock.insert(OwnFile::new(create_private(&path)?, &path)?);
            // If the file system has no locks, other processes cannot lock it either, and leave it
            // alone.
            _ = lock.check()?.0.try_lock();
        }
        self.made += 1;
        let path = left::part_path(&self.folder, &self.id.to_string(), self.made);
        let mut file = create_private(&path)?;
        let head = serde_json::to_vec(&self.head).unwrap_or_default();
        let head = [&frame::MAGIC[..], &frame::of(&head, 0)].concat();
        if let Err(error) = file.write_all(&head) {
            _ = fs::remove_file(&path);
            return Err(error);
        }
        let length = head.len() as u64;
        let (waiting, is_damaged) = (VecDeque::new(), false);
        let file = OwnFile::new(file, &path)?;
        Ok(SpoolFile { path, file, length, stored: length, waiting, is_damaged })
    }

    /// Takes the lock again if the program closed its descriptor: otherwise other processes would
    /// replay this spool.
    fn keep_lock(&mut self) -> io::Result<()> {
        if let Some(lock) = &mut self.lock
            && let (file, true) = lock.check()?
        {
            _ = file.try_lock();
        }
        Ok(())
    }

    /// Returns the oldest batch that is not stored.
    pub(super) fn first(&mut self) -> io::Result<Option<Lines>> {
        let Some(part) = self.files.front_mut() else { return Ok(None) };
        let Some((mut left, records)) = part.waiting.front().copied() else { return Ok(None) };
        let mut file = File::open(&part.path)?;
        file.seek(SeekFrom::Start(part.stored))?;
        match frame::read(&mut file, &mut left, Form::Now)? {
            Next::Frame(frame) if u64::from(frame.records) == records => {
                let records = RecordLines::from_bytes(frame.bytes);
                Ok(Some(Lines { records, ..Lines::default() }))
            }
            _ => {
                part.is_damaged = true;
                let text = format!("{} was damaged", part.path.display());
                Err(io::Error::new(io::ErrorKind::InvalidData, text))
            }
        }
    }

    /// Removes the oldest batch, because it is stored or cannot be read.
    pub(super) fn forget_first(&mut self) {
        let Some(part) = self.files.front_mut() else { return };
        if let Some((length, records)) = part.waiting.pop_front() {
            part.stored += length;
            self.records = self.records.saturating_sub(records);
        }
        self.remove_stored();
    }

    /// Removes the files that contain no waiting batch.
    fn remove_stored(&mut self) {
        while let Some(part) = self.files.pop_front_if(|part| part.waiting.is_empty()) {
            self.bytes = self.bytes.saturating_sub(part.length);
            _ = match part.is_damaged {
                true => KeepReason::Damaged.put_aside(&part.path),
                false => fs::remove_file(&part.path),
            };
        }
        if self.files.is_empty() {
            self.records = 0;
            self.lock = None;
            _ = fs::remove_file(left::lock_path(&self.folder, &self.id.to_string()));
            // This removes the folder only if it is empty.
            _ = fs::remove_dir(&self.folder);
        }
    }
}

#[cfg(test)]
mod tests;
