//! The folder of one session, and the files in it.

use std::collections::HashSet;
use std::fs;
use std::io::{self, BufReader, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::log::{About, Entry, FORMAT};
use super::{Home, NO_HOME};
use crate::pipeline::memory::Memory;
use crate::pipeline::overflow;
use crate::pipeline::overflow::Overflow;
use crate::pipeline::owner::Owner;
use crate::pipeline::site::{Site, SiteRecord};
use crate::pipeline::task::Task;
use runlore_core::context::Number;
use runlore_core::file_size;
use runlore_core::file_system;
use runlore_core::file_system::Treatment;
use runlore_core::notice::notice;
use runlore_core::record::Id;
use runlore_core::store::jsonl::{LIMIT, Line, Lines};
use runlore_core::store::lock;
use runlore_core::store::unrecovered;
use runlore_core::store::{OwnFile, create_folders, create_private, open_plain, private_folder};

/// The folder of all sessions, inside the folder of a store.
pub(in crate::pipeline) const FOLDER: &str = unrecovered::SESSIONS;
pub(in crate::pipeline) const LOG: &str = "log.jsonl";
pub(in crate::pipeline) const LOCK: &str = unrecovered::LOCK;
pub(in crate::pipeline) const OPEN: &str = "open";
/// The prefix of a session's name once nothing in it is needed any more.
pub(in crate::pipeline) const DONE: &str = "done-";

/// The maximum number of completed runs in the log.
const MOST_PAST_RUNS: usize = 1000;

pub(in crate::pipeline) struct Session {
    pub(super) home: Home,
    pub(super) id: Id,
    /// The folder of the store, and the session's own folder in it.
    pub(super) store: PathBuf,
    pub(super) folder: PathBuf,
    /// The runs that may still have something to record.
    pub(super) runs: HashSet<Number>,
    /// The number of completed runs in its log.
    past_runs: usize,
    log: OwnFile,
    /// Entries that could not be written to the log yet.
    unlogged: Vec<u8>,
    pub(super) open: Option<OwnFile>,
    rings: u32,
    pub(super) overflow: Arc<Overflow>,
    /// What must be done to a file before it can be a ring.
    treatment: Treatment,
    /// Held as long as the process lives.
    lock: OwnFile,
}

impl Session {
    pub(super) fn create(store: PathBuf) -> io::Result<Self> {
        static HOME: AtomicU32 = AtomicU32::new(NO_HOME);
        create_folders(&store)?;
        let treatment = file_system::treatment(&store)?;
        let all = store.join(FOLDER);
        let id = Id::new();
        let folder = all.join(id.to_string());
        // Another process that ends may remove the folder of all sessions while it is empty.
        let mut made = Err(io::ErrorKind::NotFound.into());
        for _ in 0..100 {
            private_folder(&all)?;
            made = private_folder(&folder);
            if !matches!(&made, Err(error) if error.kind() == io::ErrorKind::NotFound) {
                break;
            }
        }
        made?;
        let mut lock = own_file(&folder.join(LOCK))?;
        // A process that looks for dead sessions may hold the lock for a moment, until it sees that
        // there is no log yet.
        let mut tries = 0;
        while !lock::try_lock(lock.check()?.0)? {
            if tries == 100 {
                return Err(io::Error::other("its lock is taken"));
            }
            tries += 1;
            std::thread::sleep(Duration::from_millis(1));
        }
        let home = HOME.fetch_add(1, Ordering::Relaxed) + 1;
        let overflow = Arc::new(Overflow::create(home, &overflow::path_in(&folder))?);
        let log = own_file(&folder.join(LOG))?;
        let mut session = Self {
            home,
            id,
            store,
            folder,
            runs: HashSet::new(),
            past_runs: 0,
            log,
            unlogged: Vec::new(),
            open: None,
            rings: 0,
            overflow,
            treatment,
            lock,
        };
        session.write(&Entry::Session { format: FORMAT, owner: Owner::this_process() });
        Ok(session)
    }

    /// Removes a run that is completely stored. Once most runs in the log are completed, their
    /// entries are removed from it. Recovery ignores events of such runs that are still in the
    /// rings.
    pub(super) fn leave(&mut self, run: Number) {
        self.runs.remove(&run);
        self.overflow.forget_run(run);
        self.past_runs += 1;
        if self.past_runs > MOST_PAST_RUNS.max(self.runs.len()) {
            let new = self.folder.join("log.new");
            if self.shorten_log(&new).is_err() {
                _ = fs::remove_file(new);
            }
            // If it failed, retry after the same number of runs.
            self.past_runs = 0;
        }
    }

    fn shorten_log(&mut self, new: &Path) -> io::Result<()> {
        if !self.unlogged.is_empty() {
            return Err(io::Error::other("the log is not whole"));
        }
        let old = self.folder.join(LOG);
        let mut lines = Lines::new(BufReader::new(open_plain(&old, false)?), LIMIT);
        let mut to = BufWriter::new(create_private(new)?);
        while let Some((_, line)) = lines.next_line()? {
            let Line::Text(text) = line else { continue };
            if serde_json::from_slice(text).is_ok_and(|about: About| about.is_of(&self.runs)) {
                to.write_all(text)?;
                to.write_all(b"\n")?;
            }
        }
        let log = to.into_inner()?;
        fs::rename(new, &old)?;
        self.log = OwnFile::new(log, &old)?;
        Ok(())
    }

    /// Removes the session from disk. The lock is released last, or another process would assume
    /// that this one died.
    pub(super) fn remove(self) {
        _ = discard(&self.folder);
        if let Some(all) = self.folder.parent() {
            // This removes the folder only if it is empty.
            _ = fs::remove_dir(all);
        }
    }

    pub(super) fn ring_memory(&mut self, length: usize) -> Option<Memory> {
        let name = self.folder.join(format!("ring-{}", self.rings));
        self.rings += 1;
        let mapped = file_size::without_signal(|| {
            let file = create_private(&name)?;
            self.treatment.apply(&file)?;
            Memory::of_file(&file, length)
        });
        if let Err(error) = &mapped {
            _ = fs::remove_file(&name);
            notice(&format!(
                "a queue cannot be kept in {}: {error}; if this process is killed, its last records are lost",
                self.folder.display()
            ));
        }
        mapped.ok()
    }

    pub(super) fn keep_open<'t>(&mut self, tasks: impl Iterator<Item = &'t Task>) -> usize {
        let bytes = spilled(tasks);
        if self.open.is_none() {
            self.open = own_file(&self.folder.join(OPEN)).ok();
        }
        if let Some(Ok((file, _))) = self.open.as_mut().map(OwnFile::check) {
            let length = file.stream_position();
            if file.write_all(&bytes).is_err()
                && let Ok(length) = length
            {
                // Cut off an incomplete task: tasks after it could not be found.
                _ = file.set_len(length).and_then(|()| file.seek(SeekFrom::Start(length)));
            }
        }
        bytes.len()
    }

    pub(super) fn keep_only(&mut self, bytes: &[u8]) {
        let (new, old) = (self.folder.join("open.new"), self.folder.join(OPEN));
        let replaced = create_private(&new).and_then(|mut file| {
            file.write_all(bytes)?;
            fs::rename(&new, &old)?;
            OwnFile::new(file, &old)
        });
        if let Ok(file) = replaced {
            self.open = Some(file);
        }
    }

    pub(super) fn forget_open(&mut self) {
        if self.open.take().is_some() {
            _ = fs::remove_file(self.folder.join(OPEN));
        }
    }

    pub(super) fn log_site(&mut self, number: u32, site: &'static Site) {
        self.write(&Entry::Site { number, site: SiteRecord::of(site) });
    }

    pub(super) fn write(&mut self, entry: &Entry) {
        if let Ok(line) = serde_json::to_vec(entry) {
            self.unlogged.extend_from_slice(&line);
            self.unlogged.push(b'\n');
        }
        let Ok((log, is_reopened)) = self.log.check() else { return };
        if is_reopened && let Ok((lock, true)) = self.lock.check() {
            // The program closed the lock's descriptor too, which released the lock.
            _ = lock::try_lock(lock);
        }
        // Entries that are not in the log cannot be recovered after a crash. If the disk is full,
        // the next entry retries.
        while !self.unlogged.is_empty() {
            match log.write(&self.unlogged) {
                Ok(0) => break,
                Ok(written) => _ = self.unlogged.drain(..written),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
    }
}

fn own_file(path: &Path) -> io::Result<OwnFile> {
    OwnFile::new(create_private(path)?, path)
}

pub(super) fn spilled<'t>(tasks: impl Iterator<Item = &'t Task>) -> Vec<u8> {
    let mut bytes = Vec::new();
    tasks.for_each(|task| task.spill(&mut bytes));
    bytes
}

/// Removes a session that is not needed any more. It is renamed first, which is atomic: a partly
/// deleted session would look like one that cannot be recovered.
pub(in crate::pipeline) fn discard(folder: &Path) -> io::Result<()> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let done = folder.with_file_name(format!("{DONE}{name}"));
    fs::rename(folder, &done)?;
    fs::remove_dir_all(&done)
}
