//! What a process leaves on disk while it records, so that another can finish its work if it dies.
//!
//! A folder `.rings/<id>/` beside the records holds the rings (`ring-N`, mapped into memory), a log of the runs and
//! call sites that the events in them speak of (`log.jsonl`), the STARTs of tasks that have been open for longer than
//! their ring could wait (`open`), and a lock that lives as long as the process (`lock`). It goes when the process
//! ends well.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::config::settings;
use super::lock;
use super::memory::Memory;
use super::notice::notice;
use super::owner::Owner;
use super::run::RunSpec;
use super::site::{self, Site, SiteRecord};
use super::{file_size, rings, view::Task};
use crate::context::Number;
use crate::file_system::{self, Treatment};
use crate::identity::Identity;
use crate::record::{Id, WorkflowObject};
use crate::settings::Durability;
use crate::store::is_plain_folder;

/// The folder of all sessions, inside the folder of a store.
pub(super) const FOLDER: &str = ".rings";
pub(super) const LOG: &str = "log.jsonl";
pub(super) const LOCK: &str = "lock";
pub(super) const OPEN: &str = "open";
/// What a session's name begins with once nothing in it is needed any more.
pub(super) const DONE: &str = "done-";
/// The form of the files; a reader leaves others alone.
pub(super) const FORMAT: u32 = 1;

/// A line of the log.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Entry {
    /// The first line.
    Session {
        format: u32,
        #[serde(flatten)]
        owner: Owner,
    },
    Run(RunEntry),
    /// The file that the records of a run go to.
    File {
        run: Number,
        path: PathBuf,
    },
    /// A run whose last record is stored.
    Ended {
        run: Number,
    },
    Site {
        number: u32,
        site: SiteRecord,
    },
}

/// A run, as far as another process needs it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RunEntry {
    pub(super) number: Number,
    pub(super) workflow_id: String,
    pub(super) campaign_id: String,
    pub(super) hostname: String,
    pub(super) name: String,
    #[serde(default)]
    pub(super) identity: Identity,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) workflow: Option<Box<WorkflowObject>>,
}

pub(super) struct Session {
    id: Id,
    folder: PathBuf,
    log: File,
    /// What the log would not take yet.
    unlogged: Vec<u8>,
    open: Option<File>,
    rings: u32,
    /// What a file needs before it can be a ring.
    treatment: Treatment,
    /// Held as long as the process lives.
    _lock: File,
}

static SESSION: Mutex<Option<Session>> = Mutex::new(None);

fn session() -> MutexGuard<'static, Option<Session>> {
    SESSION.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sees to it that what is recorded for a run outlives the process, if its store has a folder.
pub(super) fn admit(run: &RunSpec) {
    if let Some(store) = run.store.folder()
        && settings().recorder.durability != Durability::Memory
    {
        // The sites first: whoever registers one locks in this order, too.
        site::with_registered(|sites| {
            file_size::without_signal(|| admit_with(run, store, sites));
        });
    }
}

fn admit_with(run: &RunSpec, store: &Path, sites: &[&'static Site]) {
    let mut current = session();
    if !current.as_ref().is_some_and(|session| session.folder.exists()) {
        match Session::create(store) {
            Ok(new) => *current = Some(new),
            Err(error) => {
                *current = None;
                notice(&format!(
                    "the queue cannot be kept in {}: {error}; if this process is killed, its last records are lost \
                     (`recorder.durability: memory` accepts that)",
                    store.display()
                ));
                return;
            }
        }
        // Tasks take rings in the new folder; sites known by now must be in its log.
        rings::renew();
        if let Some(session) = &mut *current {
            for (index, site) in sites.iter().enumerate() {
                session.log_site(index as u32 + 1, site);
            }
        }
    }
    if let Some(session) = &mut *current {
        session.write(&Entry::Run(RunEntry {
            number: run.number,
            workflow_id: run.workflow_id.clone(),
            campaign_id: run.campaign_id.clone(),
            hostname: run.hostname.clone(),
            name: run.name.clone(),
            identity: Identity::of_process().clone(),
            workflow: run.workflow.clone(),
        }));
    }
}

/// Notes that a run is stored to its end: only tasks that outlive it are left to be recovered.
pub(super) fn note_end(run: Number) {
    if let Some(session) = &mut *session() {
        session.write(&Entry::Ended { run });
    }
}

/// Notes the file that a run's records go to.
pub(super) fn note_file(run: Number, path: &Path) {
    if let Some(session) = &mut *session() {
        if !session.folder.exists() {
            notice(&format!(
                "{} was deleted: if this process is killed, its last records are lost",
                session.folder.display()
            ));
        }
        session.write(&Entry::File { run, path: path.to_owned() });
    }
}

/// Notes a site before its first event.
pub(super) fn note_site(number: u32, site: &'static Site) {
    if let Some(session) = &mut *session() {
        file_size::without_signal(|| session.log_site(number, site));
    }
}

/// Memory for a ring that outlives the process; none where there is no session.
pub(super) fn ring_memory(length: usize) -> Option<Memory> {
    let mut session = session();
    let session = session.as_mut()?;
    let name = session.folder.join(format!("ring-{}", session.rings));
    session.rings += 1;
    let mapped = file_size::without_signal(|| {
        let file = create(&name)?;
        session.treatment.apply(&file)?;
        Memory::of_file(&file, length)
    });
    if let Err(error) = &mapped {
        _ = fs::remove_file(&name);
        notice(&format!(
            "a queue cannot be kept in {}: {error}; if this process is killed, its last records are lost",
            session.folder.display()
        ));
    }
    mapped.ok()
}

/// Keeps the beginnings of tasks whose rings need their room.
pub(super) fn keep_open<'t>(tasks: impl Iterator<Item = &'t Task>) {
    let mut session = session();
    let Some(session) = &mut *session else { return };
    let mut bytes = Vec::new();
    for task in tasks {
        task.spill(&mut bytes);
    }
    if session.open.is_none() {
        session.open = create(&session.folder.join(OPEN)).ok();
    }
    if let Some(file) = &mut session.open {
        let length = file.stream_position();
        if file.write_all(&bytes).is_err()
            && let Ok(length) = length
        {
            // What follows half a task could not be found.
            _ = file.set_len(length).and_then(|()| file.seek(SeekFrom::Start(length)));
        }
    }
}

/// Keeps the beginnings of these tasks and of no others.
pub(super) fn keep_only<'t>(tasks: impl Iterator<Item = &'t Task>) {
    let mut session = session();
    let Some(session) = &mut *session else { return };
    let mut bytes = Vec::new();
    for task in tasks {
        task.spill(&mut bytes);
    }
    let (new, old) = (session.folder.join("open.new"), session.folder.join(OPEN));
    let replaced = create(&new).and_then(|mut file| {
        file.write_all(&bytes)?;
        fs::rename(&new, &old)?;
        Ok(file)
    });
    if let Ok(file) = replaced {
        session.open = Some(file);
    }
}

/// Forgets the beginnings that were kept: none of their tasks is open any more.
pub(super) fn forget_open() {
    if let Some(session) = &mut *session()
        && session.open.take().is_some()
    {
        _ = fs::remove_file(session.folder.join(OPEN));
    }
}

/// The process ends well, and nothing is left to be recovered.
pub(super) fn remove() {
    // While the process ends another thread may hold the lock for ever.
    let Ok(mut session) = SESSION.try_lock() else { return };
    if let Some(session) = session.take() {
        _ = discard(&session.folder);
        if let Some(all) = session.folder.parent() {
            // Only when it is empty.
            _ = fs::remove_dir(all);
        }
    }
}

/// Removes a session that nothing is left to be done for. Under another name first, which is one step: a part of
/// a session would look like one that cannot be recovered.
pub(super) fn discard(folder: &Path) -> io::Result<()> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let done = folder.with_file_name(format!("{DONE}{name}"));
    fs::rename(folder, &done)?;
    fs::remove_dir_all(&done)
}

/// Whether a session of this id is this process's own.
pub(super) fn is_own(id: &str) -> bool {
    session().as_ref().is_some_and(|session| session.id.to_string() == id)
}

/// The session, locked while the process forks.
#[cfg(unix)]
pub(super) type Held = MutexGuard<'static, Option<Session>>;

#[cfg(unix)]
pub(super) fn hold() -> Held {
    session()
}

/// In a forked child: the session is the parent's. Its files stay open, so that its lock is not touched.
pub(super) fn disown() {
    if let Some(session) = session().take() {
        std::mem::forget(session);
    }
}

impl Session {
    fn create(store: &Path) -> io::Result<Self> {
        fs::create_dir_all(store)?;
        let treatment = file_system::treatment(store)?;
        let all = store.join(FOLDER);
        private_folder(&all)?;
        let id = Id::new();
        let folder = all.join(id.to_string());
        private_folder(&folder)?;
        let lock = create(&folder.join(LOCK))?;
        // Whoever looks for dead processes may have it for a moment, until it sees that there is no log yet.
        let mut tries = 0;
        while !lock::try_lock(&lock)? {
            if tries == 100 {
                return Err(io::Error::other("its lock is taken"));
            }
            tries += 1;
            std::thread::sleep(Duration::from_millis(1));
        }
        let log = create(&folder.join(LOG))?;
        let mut session = Self {
            id,
            folder,
            log,
            unlogged: Vec::new(),
            open: None,
            rings: 0,
            treatment,
            _lock: lock,
        };
        session.write(&Entry::Session { format: FORMAT, owner: Owner::this_process() });
        Ok(session)
    }

    fn log_site(&mut self, number: u32, site: &'static Site) {
        self.write(&Entry::Site { number, site: SiteRecord::of(&site.spec) });
    }

    fn write(&mut self, entry: &Entry) {
        if let Ok(line) = serde_json::to_vec(entry) {
            self.unlogged.extend_from_slice(&line);
            self.unlogged.push(b'\n');
        }
        // What is not in the log cannot be recovered after a crash: where the disk is full, the next entry tries again.
        while !self.unlogged.is_empty() {
            match self.log.write(&self.unlogged) {
                Ok(0) => break,
                Ok(written) => _ = self.unlogged.drain(..written),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
    }
}

fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn private_folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(path) {
        // Not a link: the queue must not be kept where nobody said.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && is_plain_folder(path) => {
            Ok(())
        }
        result => result,
    }
}
