//! Writes records: only whole lines, in one file per workflow and process.

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::in_use;
use super::known::KnownRecords;
use super::retain::retain;
use crate::settings::{Bytes, JsonlSettings};
use crate::store::{Batch, OwnFile, RunInfo, Store, StoreEntry, create_folders, create_private};
use crate::{Error, ErrorKind, Result};

inventory::submit! {
    StoreEntry::new("jsonl", |uri, run| {
        let folder = uri.strip_prefix("jsonl://").unwrap_or(uri);
        Ok(Box::new(JsonlStore::in_folder(folder, run)))
    })
}

/// Writes the records of one run to a file of its own in a folder. The file is created at the first
/// record.
#[derive(Debug)]
pub struct JsonlStore {
    folder: PathBuf,
    stem: String,
    settings: &'static JsonlSettings,
    file: Option<LineFile>,
    /// The first file, after the run has moved on to another. It describes the workflow, and is
    /// locked against deletion until the final record is written.
    first: Option<LineFile>,
    /// The number of file names used so far.
    names: u32,
    open: Option<LineFile>,
    /// The records that the run's files already had when this was first needed.
    known: Option<KnownRecords>,
}

impl JsonlStore {
    /// Creates the store of a run in a folder. The folder is created when it is needed.
    pub fn in_folder(folder: impl AsRef<Path>, run: &RunInfo) -> Self {
        let folder = folder.as_ref();
        // A child process may have another working directory.
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        let stem = format!("{}_{}_{}", slug(&run.name), slug(&run.workflow_id), run.pid);
        let settings = &run.settings.databases.jsonl;
        Self { folder, stem, settings, file: None, first: None, names: 0, open: None, known: None }
    }

    /// Returns the path of the run's first file.
    pub fn first_path(&self) -> PathBuf {
        self.folder.join(format!("{}.jsonl", self.stem))
    }

    /// Returns the path of the run's current file. `None` before the first record.
    pub fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|file| file.path.as_path())
    }
}

impl Store for JsonlStore {
    fn prepare(&mut self, bytes: u64) -> Result<Option<PathBuf>> {
        if let Some(file) = self.file.take_if(|file| !file.is_there()) {
            // Nobody would ever see what is written to a deleted file. The retry creates a new one.
            self.open = None;
            let text = format!("{} was deleted while it was written to", file.path.display());
            return Err(Error::new(ErrorKind::Store, text));
        }
        if let Some(file) = &self.file {
            if !file.is_full(bytes, self.settings) {
                return Ok(None);
            }
            // From now on retention counts this file as an old one.
            let full = self.file.take();
            self.first = self.first.take().or(full);
        }
        retain(&self.folder, self.settings);
        let file = LineFile::create(&self.folder, &self.stem, &mut self.names)?;
        Ok(Some(self.file.insert(file).path.clone()))
    }

    fn write(&mut self, batch: &Batch<'_>) -> Result<()> {
        if self.file.is_none() {
            self.prepare(0)?;
        }
        match &mut self.file {
            Some(file) => file.append(batch.json_lines()),
            None => Ok(()),
        }
    }

    fn sync(&mut self) -> Result<()> {
        match &mut self.file {
            Some(file) => file.sync().map_err(|error| file.problem("sync", error)),
            None => Ok(()),
        }
    }

    fn write_open(&mut self, batch: &Batch<'_>) -> Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let open = match &mut self.open {
            Some(open) => open,
            None => self.open.insert(LineFile::open(file.path.with_extension("open.jsonl"))?),
        };
        open.append(batch.json_lines())
    }

    fn close(&mut self) -> Result<()> {
        // The final record contains everything that the first one does.
        self.first = None;
        match self.open.take() {
            Some(open) => match fs::remove_file(&open.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    Err(open.problem("remove", error))
                }
                _ => Ok(()),
            },
            None => Ok(()),
        }
    }

    fn missing(&mut self, batch: &Batch<'_>) -> Result<Vec<bool>> {
        let known = match &self.known {
            Some(known) => known,
            None => {
                let known = KnownRecords::of_run(&self.folder, &self.stem).map_err(|error| {
                    let text = format!("cannot read {}", self.folder.display());
                    Error::new(ErrorKind::Store, text).with_source(error)
                })?;
                self.known.insert(known)
            }
        };
        let records = batch.heads().zip(batch.records());
        Ok(records.map(|(head, text)| !known.has(head, text.as_bytes())).collect())
    }

    fn folder(&self) -> Option<&Path> {
        Some(&self.folder)
    }

    fn uri(&self) -> Option<String> {
        Some(self.folder.to_str()?.to_owned())
    }
}

/// A file that grows by whole lines: a partial write is undone.
#[derive(Debug)]
struct LineFile {
    path: PathBuf,
    file: OwnFile,
    length: u64,
    made: Instant,
    /// Whether the file's folder entry was synced too.
    is_name_synced: bool,
    /// Whether the file ends with a partial line that could not be removed. Nothing may be appended
    /// after it.
    is_torn: bool,
}

impl LineFile {
    /// Creates a new file. The name may be taken: two processes with the same id, in two
    /// containers, may share a folder.
    fn create(folder: &Path, stem: &str, names: &mut u32) -> Result<Self> {
        create_folders(folder).map_err(|error| {
            Error::new(ErrorKind::Store, format!("cannot make the folder {}", folder.display()))
                .with_source(error)
        })?;
        for attempt in 1.. {
            // Never reuse a name, even if its file is gone: the order of a run's files must stay
            // clear.
            let number = *names + 1;
            let name = match number {
                1 => format!("{stem}.jsonl"),
                _ => format!("{stem}-{number}.jsonl"),
            };
            let result = Self::open(folder.join(name));
            let is_taken = result.as_ref().is_err_and(is_taken);
            if is_taken || result.is_ok() {
                *names = number;
            }
            if !is_taken || attempt == 1000 {
                return result;
            }
        }
        unreachable!("the loop returns")
    }

    fn open(path: PathBuf) -> Result<Self> {
        // Some file systems grant a shared lock only on a file that is open for reading too.
        let held = create_private(&path).and_then(|file| {
            let mut file = OwnFile::new(file, &path)?;
            if in_use::hold(file.check()?.0) {
                Ok(file)
            } else {
                // Another process took the file for an old one before it was locked.
                Err(io::ErrorKind::AlreadyExists.into())
            }
        });
        match held {
            Ok(file) => Ok(Self {
                path,
                file,
                length: 0,
                made: Instant::now(),
                is_name_synced: false,
                is_torn: false,
            }),
            Err(error) => {
                Err(Error::new(ErrorKind::Store, format!("cannot make {}", path.display()))
                    .with_source(error))
            }
        }
    }

    /// Returns the file, locked against deletion. An error if it was deleted.
    fn file(&mut self) -> io::Result<&mut File> {
        let (file, is_reopened) = self.file.check()?;
        if is_reopened && !in_use::hold(file) || in_use::is_deleted(file) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(file)
    }

    /// Returns whether the file still exists, so that others can read what is written to it.
    fn is_there(&mut self) -> bool {
        self.file().is_ok()
    }

    fn append(&mut self, lines: &[u8]) -> Result<()> {
        match self.file().and_then(|file| file.write_all(lines)) {
            Ok(()) => {
                self.length += lines.len() as u64;
                Ok(())
            }
            Err(error) => {
                // A full disk leaves a partial line. Remove it, so that the retry can write the
                // whole line.
                let length = self.length;
                let taken_back = self.file().and_then(|file| {
                    file.set_len(length)?;
                    file.seek(SeekFrom::Start(length))
                });
                self.is_torn = taken_back.is_err();
                Err(self.problem("write to", error))
            }
        }
    }

    /// Returns whether the next `bytes` bytes belong in a new file.
    fn is_full(&self, bytes: u64, settings: &JsonlSettings) -> bool {
        let too_long = |limit: &Bytes| self.length + bytes > limit.get();
        let too_old = |limit: &Duration| self.made.elapsed() >= *limit;
        self.is_torn
            || self.length > 0
                && (settings.rotate_bytes.as_ref().is_some_and(too_long)
                    || settings.rotate_age.as_ref().is_some_and(too_old))
    }

    /// Syncs the lines and the file's folder entry to disk, so that they survive a crash of the
    /// machine.
    fn sync(&mut self) -> io::Result<()> {
        self.file()?.sync_data()?;
        #[cfg(unix)]
        if !self.is_name_synced {
            let mut folders = self.path.ancestors().skip(1);
            if let Some(folder) = folders.next() {
                File::open(folder)?.sync_all()?;
            }
            // The folder may be new as well. If we may not open its parent, the folder is old.
            if let Some(Ok(above)) = folders.next().map(File::open) {
                above.sync_all()?;
            }
        }
        self.is_name_synced = true;
        Ok(())
    }

    fn problem(&self, what: &str, error: io::Error) -> Error {
        Error::new(ErrorKind::Store, format!("cannot {what} {}", self.path.display()))
            .with_source(error)
    }
}

fn is_taken(error: &Error) -> bool {
    error
        .get_ref()
        .and_then(|source| source.downcast_ref::<io::Error>())
        .is_some_and(|error| error.kind() == io::ErrorKind::AlreadyExists)
}

/// Turns a name into part of a file name. Characters that could leave the folder or confuse a shell
/// become dashes.
fn slug(name: &str) -> String {
    let slug: String = name
        .chars()
        .take(64)
        .map(|c| if c.is_alphanumeric() || matches!(c, '-' | '.') { c } else { '-' })
        .collect();
    match slug.trim_matches(['.', '-']) {
        "" => "run".to_owned(),
        slug => slug.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;
    use crate::store::RecordLines;

    fn info(name: &str) -> RunInfo {
        info_with(name, Settings::default())
    }

    fn info_with(name: &str, settings: Settings) -> RunInfo {
        RunInfo::new("w1".into(), name.into(), 7, Box::leak(Box::new(settings)))
    }

    #[test]
    fn a_full_file_is_followed_by_another() {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = Settings::default();
        settings.databases.jsonl.rotate_bytes = Some(Bytes::new(7));
        let mut store = JsonlStore::in_folder(folder.path(), &info_with("x", settings));
        let lines = RecordLines::from_bytes(b"{}\n".to_vec());
        let batch = lines.batch();
        for written in 1..=5 {
            let is_new = store.prepare(3).unwrap().is_some();
            assert_eq!(is_new, written % 2 == 1);
            store.write(&batch).unwrap();
        }
        let mut files: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|file| fs::read_to_string(file.unwrap().path()).unwrap())
            .collect();
        files.sort();
        assert_eq!(files, ["{}\n", "{}\n{}\n", "{}\n{}\n"]);
    }

    #[test]
    fn names_cannot_leave_the_folder() {
        assert_eq!(slug("../../etc/passwd"), "etc-passwd");
        assert_eq!(slug("a b/c"), "a-b-c");
        assert_eq!(slug("…"), "run");
    }

    #[test]
    fn a_second_process_of_the_same_number_gets_its_own_file() {
        let folder = tempfile::tempdir().unwrap();
        let lines = RecordLines::from_bytes(b"{}\n".to_vec());
        let batch = lines.batch();
        let mut stores = [0, 1].map(|_| JsonlStore::in_folder(folder.path(), &info("x")));
        for store in &mut stores {
            store.write(&batch).unwrap();
        }
        assert_ne!(stores[0].path(), stores[1].path());
    }

    #[test]
    fn the_sidecar_goes_when_the_run_ends() {
        let folder = tempfile::tempdir().unwrap();
        let lines = RecordLines::from_bytes(b"{}\n".to_vec());
        let batch = lines.batch();
        let mut store = JsonlStore::in_folder(folder.path(), &info("x"));
        store.write(&batch).unwrap();
        store.write_open(&batch).unwrap();
        assert!(folder.path().join("x_w1_7.open.jsonl").exists());
        store.close().unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
