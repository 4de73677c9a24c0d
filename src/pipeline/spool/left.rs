//! Spools that other processes left behind. Nothing in them is trusted but frames whose checksum is right.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::frame::{self, Frame, Next};
use super::{FOLDER, Head};
use crate::store::{is_plain_folder, open_plain};

const LOCK: &str = "lock";
const PART: &str = "spool";
/// What becomes of a file that is damaged: it is kept, and nobody reads it again by itself.
const DAMAGED: &str = "damaged";

pub(super) fn lock_path(folder: &Path, id: &str) -> PathBuf {
    folder.join(format!("{id}.{LOCK}"))
}

pub(super) fn part_path(folder: &Path, id: &str, number: u64) -> PathBuf {
    folder.join(format!("{id}.{number}.{PART}"))
}

/// A spool whose process has ended, and which nobody else replays.
#[derive(Debug)]
pub(crate) struct Left {
    folder: PathBuf,
    id: String,
    pub(super) head: Head,
    files: VecDeque<PathBuf>,
    /// The file that is read, and how many of its bytes are left.
    current: Option<(File, u64)>,
    is_damaged: bool,
    /// Held until all is replayed.
    _lock: File,
}

impl Left {
    /// All spools in a folder, or in the folder of spools inside it, that can be had.
    pub(crate) fn all_in(folder: &Path) -> io::Result<Vec<Self>> {
        let inside = folder.join(FOLDER);
        let folder = if is_plain_folder(&inside) { inside } else { folder.to_owned() };
        let mut found = Vec::new();
        for (id, files) in names_in(&folder)? {
            // Whoever is faster has it.
            if let Ok(left) = Self::open(&folder, id, files) {
                found.extend(left);
            }
        }
        Ok(found)
    }

    /// Whether there is any spool in a folder, of whomever.
    pub(super) fn any_in(folder: &Path) -> io::Result<bool> {
        Ok(!names_in(folder)?.is_empty())
    }

    fn open(folder: &Path, id: String, mut files: VecDeque<PathBuf>) -> io::Result<Option<Self>> {
        let lock = open_plain(&lock_path(folder, &id), true)?;
        if lock.try_lock().is_err() {
            return Ok(None);
        }
        // Another may have finished it before the lock was ours.
        files.retain(|file| file.exists());
        let folder = folder.to_owned();
        while let Some(first) = files.front() {
            match open_part(first) {
                Ok((head, ..)) => {
                    let (current, is_damaged) = (None, false);
                    return Ok(Some(Self {
                        folder,
                        id,
                        head,
                        files,
                        current,
                        is_damaged,
                        _lock: lock,
                    }));
                }
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    fs::remove_file(first)?;
                    files.pop_front();
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// The bytes of what is left.
    pub(super) fn bytes(&self) -> u64 {
        let length = |file: &PathBuf| fs::symlink_metadata(file).map_or(0, |facts| facts.len());
        self.files.iter().map(length).sum()
    }

    /// The next batch. What came before it is stored: its file may be deleted.
    pub(super) fn next(&mut self) -> io::Result<Option<Frame>> {
        loop {
            let Some(path) = self.files.front() else { return Ok(None) };
            let (file, left) = match &mut self.current {
                Some(current) => (&mut current.0, &mut current.1),
                None => match open_part(path) {
                    Ok((_, file, left)) => {
                        let current = self.current.insert((file, left));
                        (&mut current.0, &mut current.1)
                    }
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                        self.finish_file()?;
                        continue;
                    }
                    Err(error) => return Err(error),
                },
            };
            match frame::read(file, left)? {
                Next::Frame(frame) => return Ok(Some(frame)),
                Next::Damaged => self.is_damaged = true,
                Next::End => self.finish_file()?,
            }
        }
    }

    /// A file has been read to its end.
    fn finish_file(&mut self) -> io::Result<()> {
        self.current = None;
        let Some(path) = self.files.pop_front() else { return Ok(()) };
        if std::mem::take(&mut self.is_damaged) {
            let kept = path.with_extension(DAMAGED);
            super::super::notice(&format!(
                "{} is damaged: what could be read of it was replayed, and it is kept",
                kept.display()
            ));
            return fs::rename(path, kept);
        }
        fs::remove_file(path)
    }

    /// All is replayed.
    pub(super) fn remove(self) {
        _ = fs::remove_file(lock_path(&self.folder, &self.id));
        // Only when it is empty.
        _ = fs::remove_dir(&self.folder);
    }
}

/// Opens a file of a spool behind its head. One that its process died over has half a head, and nothing in it.
fn open_part(path: &Path) -> io::Result<(Head, File, u64)> {
    let mut file = open_plain(path, false)?;
    let mut left = file.metadata()?.len();
    let mut magic = [0; frame::MAGIC.len()];
    file.read_exact(&mut magic)?;
    left = left.saturating_sub(magic.len() as u64);
    let damaged = || io::Error::other(format!("{} is not a spool", path.display()));
    if magic != *frame::MAGIC {
        return Err(damaged());
    }
    match frame::read(&mut file, &mut left)? {
        Next::Frame(head) => {
            let head = serde_json::from_slice(&head.bytes).map_err(|_| damaged())?;
            Ok((head, file, left))
        }
        Next::End => Err(io::ErrorKind::UnexpectedEof.into()),
        Next::Damaged => Err(damaged()),
    }
}

/// The files of each spool in a folder, in their order.
fn names_in(folder: &Path) -> io::Result<BTreeMap<String, VecDeque<PathBuf>>> {
    let mut numbered: BTreeMap<(String, u64), PathBuf> = BTreeMap::new();
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(error),
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let mut parts = name.to_str().unwrap_or_default().split('.');
        let (id, number, kind) = (parts.next(), parts.next(), parts.next());
        if let (Some(id), Some(Ok(number)), Some(PART), None) =
            (id, number.map(str::parse), kind, parts.next())
            && entry.file_type().is_ok_and(|kind| kind.is_file())
        {
            numbered.insert((id.to_owned(), number), entry.path());
        }
    }
    let mut spools: BTreeMap<String, VecDeque<PathBuf>> = BTreeMap::new();
    for ((id, _), path) in numbered {
        spools.entry(id).or_default().push_back(path);
    }
    Ok(spools)
}
