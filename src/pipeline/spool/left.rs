//! Spools that other processes left behind. Nothing in them is trusted but frames whose checksum is right.

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

/// Why a file is kept although all that could be stored of it is. Nobody reads it again by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    /// It is not as it was written.
    Damaged,
    /// Its store would not have some of its records, and keeps them nowhere.
    Refused,
}

impl Kept {
    /// Takes a file out of its spool, and says so.
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

/// What is in a folder of spools, but for what belongs to a process that is alive.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) left: Vec<Left>,
    pub(super) unreadable: Vec<Unreadable>,
}

/// A spool that cannot be looked into.
#[derive(Debug)]
pub(super) struct Unreadable {
    pub(super) bytes: u64,
    pub(super) why: io::Error,
}

/// A spool whose process has ended, and which nobody else replays.
#[derive(Debug)]
pub(crate) struct Left {
    folder: PathBuf,
    id: String,
    pub(super) head: Head,
    /// Whether the head is what can be told without it, because it is damaged.
    pub(super) is_head_lost: bool,
    files: VecDeque<PathBuf>,
    /// The file that is read.
    current: Option<Part>,
    kept: Option<Kept>,
    /// Why a file stays where it is.
    problem: Option<io::Error>,
    /// Held until all is replayed.
    _lock: File,
}

/// One file of a spool, behind its head.
#[derive(Debug)]
struct Part {
    file: File,
    left: u64,
    form: Form,
    /// None where it is damaged.
    head: Option<Head>,
}

impl Left {
    /// All spools in a folder, or in the folder of spools inside it, that can be had and are for the store that is wanted.
    pub(super) fn all_in(
        folder: &Path,
        is_wanted: impl Fn(Option<&str>) -> bool,
    ) -> io::Result<Found> {
        let inside = folder.join(FOLDER);
        let folder = if is_plain_folder(&inside) { inside } else { folder.to_owned() };
        let mut found = Found::default();
        for (id, mut files) in names_in(&folder)? {
            match Self::open(&folder, id, files.clone(), &is_wanted) {
                Ok(left) => found.left.extend(left),
                Err(why) => {
                    // Whoever is faster has it.
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

    /// Whether there is any spool in a folder, of whomever.
    pub(super) fn any_in(folder: &Path) -> io::Result<bool> {
        Ok(!names_in(folder)?.is_empty())
    }

    fn open(
        folder: &Path,
        id: String,
        mut files: VecDeque<PathBuf>,
        is_wanted: impl Fn(Option<&str>) -> bool,
    ) -> io::Result<Option<Self>> {
        // Before it is locked: whoever wants another store's must not keep others from this one.
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
        // Another may have finished it before the lock was ours.
        files.retain(|file| file.exists());
        let Some((head, is_head_lost)) = head.filter(|_| !files.is_empty()) else {
            // Its process died before there was anything in it.
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

    /// The bytes of what is left.
    pub(super) fn bytes(&self) -> u64 {
        bytes_of(&self.files)
    }

    /// The next batch. What came before it is stored: its file may be deleted. What cannot be read is passed by, and stays.
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
                    self.kept = Some(Kept::Damaged);
                }
                self.current.insert(part)
            }
        };
        loop {
            let before = part.left;
            match frame::read(&mut part.file, &mut part.left, part.form)? {
                Next::Frame(frame) if frame.records == 0 => {}
                Next::Frame(frame) => return Ok(Some(frame)),
                Next::Damaged => self.kept = Some(Kept::Damaged),
                Next::End => {
                    // Only over its last file can a process have died.
                    if before > 0 && !is_last {
                        self.kept = Some(Kept::Damaged);
                    }
                    return Ok(None);
                }
            }
        }
    }

    /// The file that is read must not go: not all in it is stored.
    pub(super) fn keep_file(&mut self) {
        self.kept.get_or_insert(Kept::Refused);
    }

    /// A file has been read to its end.
    fn finish_file(&self) -> io::Result<()> {
        match (self.files.front(), self.kept) {
            (Some(path), Some(kept)) => kept.put_aside(path),
            (Some(path), None) => fs::remove_file(path),
            (None, _) => Ok(()),
        }
    }

    /// All is replayed.
    ///
    /// # Errors
    ///
    /// Where not all of it could be: that stays.
    pub(super) fn finish(self) -> io::Result<()> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        _ = fs::remove_file(lock_path(&self.folder, &self.id));
        // Only when it is empty.
        _ = fs::remove_dir(&self.folder);
        Ok(())
    }
}

/// Opens a file of a spool; none where its process died before there was anything in it.
fn open_part(path: &Path) -> io::Result<Option<Part>> {
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
    Ok(Some(Part { file, left, form, head }))
}

/// Whose records a spool holds, and whether that is what can be told without its head; none where there is nothing in it.
fn head_of(files: &VecDeque<PathBuf>) -> io::Result<Option<(Head, bool)>> {
    let (mut without, mut problem) = (None, None);
    for file in files {
        match open_part(file) {
            Ok(Some(Part { head: Some(head), .. })) => return Ok(Some((head, false))),
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

/// What the records of a file say of whose they are.
fn head_without(mut part: Part) -> io::Result<Head> {
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
