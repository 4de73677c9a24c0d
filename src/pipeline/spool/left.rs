//! Spools that other processes left behind. Only frames with a correct checksum are trusted.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::frame::{self, Form, Frame, Next};
use super::{FOLDER, Head};
use runlore_core::notice::notice;
use runlore_core::store::{is_plain_folder, open_plain};

const LOCK: &str = "lock";
const PART: &str = "spool";

pub(super) fn lock_path(folder: &Path, id: &str) -> PathBuf {
    folder.join(format!("{id}.{LOCK}"))
}

pub(super) fn part_path(folder: &Path, id: &str, number: u64) -> PathBuf {
    folder.join(format!("{id}.{number}.{PART}"))
}

/// Why a file is kept although everything possible in it is stored. No run reads it again
/// automatically.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeepReason {
    /// The file is damaged.
    Damaged,
    /// The store refused some of its records and keeps them nowhere.
    Refused,
}

impl KeepReason {
    /// Renames a file, so that it no longer belongs to its spool, and prints a notice.
    pub(super) fn put_aside(self, path: &Path) -> io::Result<()> {
        let kept = path.with_extension(match self {
            Self::Damaged => "damaged",
            Self::Refused => "refused",
        });
        fs::rename(path, &kept)?;
        let kept = kept.display();
        notice(&match self {
            Self::Damaged => {
                format!("{kept} is damaged: what could be read of it was replayed, and it is kept")
            }
            Self::Refused => {
                format!("{kept} is kept: it holds records that their store would not have")
            }
        });
        Ok(())
    }
}

/// The spools in a folder, except those of live processes.
#[derive(Debug, Default)]
pub(super) struct Leftovers {
    pub(super) left: Vec<Left>,
    pub(super) unreadable: Vec<Unreadable>,
}

/// A spool that cannot be read.
#[derive(Debug)]
pub(super) struct Unreadable {
    pub(super) bytes: u64,
    pub(super) why: io::Error,
}

/// A spool whose process has ended, locked so that no other process replays it.
#[derive(Debug)]
pub(crate) struct Left {
    folder: PathBuf,
    id: String,
    pub(super) head: Head,
    /// Whether the header is damaged, and `head` was reconstructed from the records.
    pub(super) is_head_lost: bool,
    files: VecDeque<PathBuf>,
    /// The file that is being read.
    current: Option<LeftFile>,
    kept: Option<KeepReason>,
    /// Why a file stays in place.
    problem: Option<io::Error>,
    /// Held until everything is replayed.
    _lock: File,
}

/// A file of a spool, positioned after its header.
#[derive(Debug)]
struct LeftFile {
    file: File,
    left: u64,
    form: Form,
    /// `None` if it is damaged.
    head: Option<Head>,
}

impl Left {
    /// Returns all spools in a folder, or in the spool folder inside it, that can be locked and are
    /// for a wanted store.
    pub(super) fn all_in(
        folder: &Path,
        is_wanted: impl Fn(Option<&str>) -> bool,
    ) -> io::Result<Leftovers> {
        let inside = folder.join(FOLDER);
        let folder = if is_plain_folder(&inside) { inside } else { folder.to_owned() };
        let mut found = Leftovers::default();
        for (id, mut files) in names_in(&folder)? {
            match Self::open(&folder, id, files.clone(), &is_wanted) {
                Ok(left) => found.left.extend(left),
                Err(why) => {
                    // Files that are gone were replayed by another process.
                    files.retain(|file| file.exists());
                    let bytes = bytes_of(&files);
                    if !files.is_empty() {
                        found.unreadable.push(Unreadable { bytes, why });
                    }
                }
            }
        }
        Ok(found)
    }

    /// Returns whether a folder contains any spool.
    pub(super) fn any_in(folder: &Path) -> io::Result<bool> {
        Ok(!names_in(folder)?.is_empty())
    }

    fn open(
        folder: &Path,
        id: String,
        mut files: VecDeque<PathBuf>,
        is_wanted: impl Fn(Option<&str>) -> bool,
    ) -> io::Result<Option<Self>> {
        // Check this before locking: a process that replays to another store must not block this
        // spool.
        let head = head_of(&files)?;
        if head.as_ref().is_some_and(|(head, _)| !is_wanted(head.store.as_deref())) {
            return Ok(None);
        }
        let path = lock_path(folder, &id);
        let lock = open_plain(&path, true).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => io::Error::other(format!(
                "the spool {id} has lost its lock: make an empty file {} if its process has ended",
                path.display()
            )),
            _ => error,
        })?;
        if lock.try_lock().is_err() {
            return Ok(None);
        }
        // Another process may have finished it before we got the lock.
        files.retain(|file| file.exists());
        let Some((head, is_head_lost)) = head.filter(|_| !files.is_empty()) else {
            // The process died before it had written anything.
            for file in &files {
                fs::remove_file(file)?;
            }
            _ = fs::remove_file(path);
            _ = fs::remove_dir(folder);
            return Ok(None);
        };
        Ok(Some(Self {
            folder: folder.to_owned(),
            id,
            head,
            is_head_lost,
            files,
            current: None,
            kept: None,
            problem: None,
            _lock: lock,
        }))
    }

    /// Returns the size of the remaining files.
    pub(super) fn bytes(&self) -> u64 {
        bytes_of(&self.files)
    }

    /// Returns the next batch. The previous ones are stored, so their files can be deleted.
    /// Unreadable files are skipped and stay.
    pub(super) fn next(&mut self) -> Option<Frame> {
        while !self.files.is_empty() {
            let finished = match self.next_of_file() {
                Ok(Some(frame)) => return Some(frame),
                Ok(None) => self.finish_file(),
                Err(error) => Err(error),
            };
            if let Err(error) = finished {
                self.problem.get_or_insert(error);
            }
            self.files.pop_front();
            (self.current, self.kept) = (None, None);
        }
        None
    }

    fn next_of_file(&mut self) -> io::Result<Option<Frame>> {
        let (Some(path), is_last) = (self.files.front(), self.files.len() == 1) else {
            return Ok(None);
        };
        let part = match &mut self.current {
            Some(part) => part,
            None => {
                let Some(part) = open_part(path)? else { return Ok(None) };
                if part.head.is_none() {
                    self.kept = Some(KeepReason::Damaged);
                }
                self.current.insert(part)
            }
        };
        loop {
            let before = part.left;
            match frame::read(&mut part.file, &mut part.left, part.form)? {
                Next::Frame(frame) if frame.records == 0 => {}
                Next::Frame(frame) => return Ok(Some(frame)),
                Next::Damaged => self.kept = Some(KeepReason::Damaged),
                Next::End => {
                    // A process can only have died while writing its last file.
                    if before > 0 && !is_last {
                        self.kept = Some(KeepReason::Damaged);
                    }
                    return Ok(None);
                }
            }
        }
    }

    /// Keeps the current file, because not everything in it is stored.
    pub(super) fn keep_file(&mut self) {
        self.kept.get_or_insert(KeepReason::Refused);
    }

    /// Removes a file that has been read to its end, or puts it aside.
    fn finish_file(&self) -> io::Result<()> {
        match (self.files.front(), self.kept) {
            (Some(path), Some(kept)) => kept.put_aside(path),
            (Some(path), None) => fs::remove_file(path),
            (None, _) => Ok(()),
        }
    }

    /// Removes the spool after everything is replayed.
    ///
    /// # Errors
    ///
    /// If not everything could be replayed. The rest stays.
    pub(super) fn finish(self) -> io::Result<()> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        _ = fs::remove_file(lock_path(&self.folder, &self.id));
        // This removes the folder only if it is empty.
        _ = fs::remove_dir(&self.folder);
        Ok(())
    }
}

/// Opens a file of a spool. `None` if its process died before it had written anything.
fn open_part(path: &Path) -> io::Result<Option<LeftFile>> {
    let mut file = open_plain(path, false)?;
    let mut left = file.metadata()?.len();
    let mut magic = [0; frame::MAGIC.len()];
    let Some(rest) = left.checked_sub(magic.len() as u64) else { return Ok(None) };
    file.read_exact(&mut magic)?;
    left = rest;
    let form = match &magic {
        frame::MAGIC => Form::Now,
        frame::MAGIC_BEFORE => Form::Before,
        [name @ .., version] if frame::MAGIC.starts_with(name) && version.is_ascii_digit() => {
            let text = format!("{} is of another version of Runlore, or damaged", path.display());
            return Err(io::Error::other(text));
        }
        _ => {
            frame::find(&mut file, &mut left)?;
            if left == 0 {
                return Err(io::Error::other(format!("{} is not a spool", path.display())));
            }
            Form::Now
        }
    };
    let (before, start) = (left, file.stream_position()?);
    let head = match frame::read(&mut file, &mut left, form)? {
        Next::End => return Ok(None),
        Next::Damaged => None,
        Next::Frame(frame) if frame.records == 0 => serde_json::from_slice(&frame.bytes).ok(),
        Next::Frame(_) => {
            file.seek(SeekFrom::Start(start))?;
            left = before;
            None
        }
    };
    Ok(Some(LeftFile { file, left, form, head }))
}

/// Returns the header of a spool, and whether it was reconstructed from the records. `None` if the
/// spool is empty.
fn head_of(files: &VecDeque<PathBuf>) -> io::Result<Option<(Head, bool)>> {
    let (mut without, mut problem) = (None, None);
    for file in files {
        match open_part(file) {
            Ok(Some(LeftFile { head: Some(head), .. })) => return Ok(Some((head, false))),
            Ok(Some(part)) => _ = without.get_or_insert(part),
            Ok(None) => {}
            Err(error) => _ = problem.get_or_insert(error),
        }
    }
    match (without, problem) {
        (Some(part), _) => Ok(Some((head_without(part)?, true))),
        (None, Some(problem)) => Err(problem),
        (None, None) => Ok(None),
    }
}

/// Reconstructs a header from the records of a file.
fn head_without(mut part: LeftFile) -> io::Result<Head> {
    let workflow = |line: &[u8]| {
        let record: Value = serde_json::from_slice(line).ok()?;
        record.get("workflow_id").and_then(Value::as_str).map(str::to_owned)
    };
    let mut workflow_id = None;
    while workflow_id.is_none() {
        match frame::read(&mut part.file, &mut part.left, part.form)? {
            Next::Frame(frame) => {
                workflow_id = frame.bytes.split(|byte| *byte == b'\n').find_map(workflow);
            }
            Next::Damaged => {}
            Next::End => break,
        }
    }
    let workflow_id = workflow_id.unwrap_or_else(|| "unknown".to_owned());
    Ok(Head { workflow_id, name: "unknown".to_owned(), pid: 0, store: None })
}

fn bytes_of(files: &VecDeque<PathBuf>) -> u64 {
    let length = |file: &PathBuf| fs::symlink_metadata(file).map_or(0, |facts| facts.len());
    files.iter().map(length).sum()
}

/// Returns the files of each spool in a folder, in order.
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
