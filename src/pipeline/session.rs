//! What a process leaves on disk while it records, so that another can finish its work if it dies.
//!
//! A folder `.rings/<id>/` beside the records holds the rings (`ring-N`, mapped into memory), a log of the runs and
//! call sites that the events in them speak of (`log.jsonl`), the STARTs of tasks that have been open for longer than
//! their ring could wait (`open`), and a lock that lives as long as the process (`lock`). It goes when the process
//! ends well. A process has one for each folder that it records into, and a thread one ring in each that it works for.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::config::settings;
use super::lock;
use super::memory::Memory;
use super::notice::notice;
use super::owner::Owner;
use super::run::RunSpec;
use super::site::{self, Site, SiteRecord};
use super::{file_size, rings, spool, task::Task};
use crate::context::Number;
use crate::file_system::{self, Treatment};
use crate::identity::Identity;
use crate::record::{Id, WorkflowObject};
use crate::settings::Durability;
use crate::store::jsonl::{LIMIT, Line, Lines};
use crate::store::{Store, is_plain_folder, is_recovered, open_plain};

/// The folder of all sessions, inside the folder of a store.
pub(super) const FOLDER: &str = ".rings";
pub(super) const LOG: &str = "log.jsonl";
pub(super) const LOCK: &str = "lock";
pub(super) const OPEN: &str = "open";
/// What a session's name begins with once nothing in it is needed any more.
pub(super) const DONE: &str = "done-";
/// The form of the files; a reader leaves others alone.
pub(super) const FORMAT: u32 = 2;

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

/// What a line of the log is about.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum About {
    Run { number: Number },
    File { run: Number },
    Ended { run: Number },
    Session(IgnoredAny),
    Site(IgnoredAny),
}

impl About {
    /// Whether it is about one of these runs, or about all.
    fn is_of(&self, runs: &HashSet<Number>) -> bool {
        match self {
            Self::Run { number: run } | Self::File { run } | Self::Ended { run } => {
                runs.contains(run)
            }
            Self::Session(_) | Self::Site(_) => true,
        }
    }
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
    /// Its stores; none: files of JSON lines in this folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) stores: Vec<StoreOfRun>,
}

/// A store of a run.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StoreOfRun {
    /// Files of JSON lines in this folder.
    Files,
    /// A store in this folder, by its URI.
    Here(String),
    /// One somewhere else, as spools name it.
    Elsewhere(String),
}

impl StoreOfRun {
    fn of(store: &dyn Store, folder: &Path) -> Option<Self> {
        let uri = store.uri()?;
        // The queue of a store on another machine is here, and its records are not.
        let is_here = store.folder() == Some(folder) && !store.is_remote();
        Some(match is_here {
            true if is_recovered(&uri) => Self::Here(uri),
            true => Self::Files,
            false => Self::Elsewhere(spool::label(&uri)),
        })
    }
}

/// A session by its number in this process. A number is never used again.
pub(super) type Home = u32;

/// Where the runs are at home that have no session: their queues end with the process.
pub(super) const NO_HOME: Home = 0;

/// Sessions without a run that are kept for the next: to make one costs more than a short run.
const MOST_IDLE: usize = 4;

/// Sessions in all: each has files open, of which a process may not have many.
const MOST: usize = 64;

/// Runs that the log may speak of for nothing.
const MOST_PAST_RUNS: usize = 1000;

pub(super) struct Session {
    home: Home,
    id: Id,
    /// The folder of the store, and the session's own in it.
    store: PathBuf,
    folder: PathBuf,
    /// The runs that may still have something to be recorded.
    runs: HashSet<Number>,
    /// How many others its log speaks of.
    past_runs: usize,
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

/// The sessions of this process. Of those without a run, the first has been so for longest.
static SESSIONS: Mutex<Vec<Session>> = Mutex::new(Vec::new());

fn sessions() -> MutexGuard<'static, Vec<Session>> {
    SESSIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn of_run(sessions: &mut [Session], run: Number) -> Option<&mut Session> {
    sessions.iter_mut().find(|session| session.runs.contains(&run))
}

/// The homes of the runs that were asked for last: a run's number above, its home below. A thread that works for several
/// runs in turn looks them up here, without a lock.
static HOMES: [AtomicU64; 256] = [const { AtomicU64::new(0) }; 256];

fn place_of(run: Number) -> &'static AtomicU64 {
    &HOMES[run as usize % HOMES.len()]
}

fn remember(run: Number, home: Home) {
    place_of(run).store(u64::from(run) << 32 | u64::from(home), Ordering::Relaxed);
}

/// The session that the events of a run go to.
pub(super) fn home_of(run: Number) -> Home {
    let entry = place_of(run).load(Ordering::Relaxed);
    if (entry >> 32) as Number == run {
        return entry as Home;
    }
    let home = of_run(&mut sessions(), run).map_or(NO_HOME, |session| session.home);
    remember(run, home);
    home
}

/// Sees to it that what is recorded for a run outlives the process, if its store has a folder.
pub(super) fn admit(run: &RunSpec) {
    let mut home = NO_HOME;
    if let Some((first, store)) = keeper(&run.stores)
        && settings().recorder.durability != Durability::Memory
    {
        // The sites first: whoever registers one locks in this order, too.
        site::with_registered(|sites| {
            home = file_size::without_signal(|| admit_with(run, (first, store), sites));
        });
    }
    remember(run.number, home);
}

/// The store that says where the queue is kept, and its folder.
fn keeper(stores: &[Box<dyn Store>]) -> Option<(usize, &Path)> {
    stores.iter().enumerate().find_map(|(at, store)| Some((at, store.folder()?)))
}

fn admit_with(run: &RunSpec, (first, store): (usize, &Path), sites: &[&'static Site]) -> Home {
    let mut sessions = sessions();
    let session = match session_for(&mut sessions, store, sites) {
        Ok(session) => session,
        Err(error) => {
            notice(&format!(
                "the queue cannot be kept in {}: {error}; if this process is killed, its last records are lost \
                 (`recorder.durability: memory` accepts that)",
                store.display()
            ));
            return NO_HOME;
        }
    };
    session.runs.insert(run.number);
    let others = run.stores.iter().enumerate().filter(|(at, _)| *at != first);
    let others = others.filter_map(|(_, other)| StoreOfRun::of(&**other, store));
    let first = StoreOfRun::of(&*run.stores[first], store).unwrap_or(StoreOfRun::Files);
    session.write(&Entry::Run(RunEntry {
        number: run.number,
        workflow_id: run.workflow_id.clone(),
        campaign_id: run.campaign_id.clone(),
        hostname: run.hostname.clone(),
        name: run.name.clone(),
        identity: Identity::of_process().clone(),
        workflow: run.workflow.clone(),
        stores: [first].into_iter().chain(others).collect(),
    }));
    session.home
}

/// The session in the folder of a store, made if need be.
fn session_for<'s>(
    sessions: &'s mut Vec<Session>,
    store: &Path,
    sites: &[&'static Site],
) -> io::Result<&'s mut Session> {
    // The process may go to another folder.
    let store = std::path::absolute(store)?;
    let is_it = |session: &Session| session.store == store && session.folder.exists();
    let known = sessions.iter().position(is_it);
    let at = known.unwrap_or(sessions.len());
    if known.is_none() {
        if sessions.len() == MOST {
            return Err(io::Error::other(format!("there are queues in {MOST} folders already")));
        }
        let mut session = Session::create(store)?;
        // Sites known by now must be in its log.
        for (index, site) in sites.iter().enumerate() {
            session.log_site(index as u32 + 1, site);
        }
        sessions.push(session);
    }
    Ok(&mut sessions[at])
}

/// Notes that a run is stored to its end: only tasks that outlive it are left to be recovered.
pub(super) fn note_end(run: Number) {
    if let Some(session) = of_run(&mut sessions(), run) {
        session.write(&Entry::Ended { run });
    }
}

/// Nothing of a run is left to be recorded. A session that has been without a run for longest may go.
pub(super) fn forget_run(run: Number) {
    let mut sessions = sessions();
    let Some(at) = sessions.iter().position(|session| session.runs.contains(&run)) else { return };
    sessions[at].leave(run);
    if !sessions[at].runs.is_empty() {
        return;
    }
    let session = sessions.remove(at);
    sessions.push(session);
    let is_idle = |session: &&Session| session.runs.is_empty();
    if sessions.iter().filter(is_idle).count() <= MOST_IDLE {
        return;
    }
    let Some(first) = sessions.iter().position(|session| is_idle(&session)) else { return };
    let session = sessions.remove(first);
    rings::abandon(session.home);
    // Nobody needs to wait until its files are gone.
    drop(sessions);
    session.remove();
}

/// Notes the file that a run's records go to.
pub(super) fn note_file(run: Number, path: &Path) {
    if let Some(session) = of_run(&mut sessions(), run) {
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
    let mut sessions = sessions();
    if !sessions.is_empty() {
        file_size::without_signal(|| {
            sessions.iter_mut().for_each(|session| session.log_site(number, site));
        });
    }
}

/// Makes a ring at home in a session, in memory that outlives the process if that can be had; none where the session has
/// gone. It has not before the ring is made.
pub(super) fn with_ring_memory<R>(
    home: Home,
    length: usize,
    make: impl FnOnce(Option<Memory>) -> R,
) -> Option<R> {
    if home == NO_HOME {
        return Some(make(None));
    }
    let mut sessions = sessions();
    let session = sessions.iter_mut().find(|session| session.home == home)?;
    let memory = session.ring_memory(length);
    Some(make(memory))
}

/// Keeps the beginnings of tasks whose ring needs its room; how many bytes they have.
pub(super) fn keep_open<'t>(home: Home, tasks: impl Iterator<Item = &'t Task>) -> usize {
    let mut sessions = sessions();
    let session = sessions.iter_mut().find(|session| session.home == home);
    session.map_or(0, |session| session.keep_open(tasks))
}

/// Keeps the beginnings of these tasks and of no others; how many bytes they have.
pub(super) fn keep_only(tasks: &[&Task]) -> usize {
    let mut length = 0;
    for session in sessions().iter_mut().filter(|session| session.open.is_some()) {
        let of_session = |task: &&Task| session.runs.contains(&task.start.workflow);
        let bytes = spilled(tasks.iter().copied().filter(of_session));
        length += bytes.len();
        session.keep_only(&bytes);
    }
    length
}

fn spilled<'t>(tasks: impl Iterator<Item = &'t Task>) -> Vec<u8> {
    let mut bytes = Vec::new();
    tasks.for_each(|task| task.spill(&mut bytes));
    bytes
}

/// Forgets the beginnings that were kept: none of their tasks is open any more.
pub(super) fn forget_open() {
    for session in sessions().iter_mut() {
        if session.open.take().is_some() {
            _ = fs::remove_file(session.folder.join(OPEN));
        }
    }
}

/// The process ends well, and nothing is left to be recovered.
pub(super) fn remove_all() {
    // While the process ends another thread may hold the lock for ever.
    let Ok(mut sessions) = SESSIONS.try_lock() else { return };
    sessions.drain(..).for_each(Session::remove);
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
    sessions().iter().any(|session| session.id.to_string() == id)
}

/// The sessions, locked while the process forks.
#[cfg(unix)]
pub(super) type Held = MutexGuard<'static, Vec<Session>>;

#[cfg(unix)]
pub(super) fn hold() -> Held {
    sessions()
}

/// In a forked child: the sessions are the parent's. Their files stay open, so that their locks are not touched.
#[cfg(unix)]
pub(super) fn disown() {
    std::mem::forget(std::mem::take(&mut *sessions()));
}

impl Session {
    fn create(store: PathBuf) -> io::Result<Self> {
        static HOME: AtomicU32 = AtomicU32::new(NO_HOME);
        fs::create_dir_all(&store)?;
        let treatment = file_system::treatment(&store)?;
        let all = store.join(FOLDER);
        let id = Id::new();
        let folder = all.join(id.to_string());
        // Another process that ends may take the folder of all sessions away, while there is none in it.
        let mut made = Err(io::ErrorKind::NotFound.into());
        for _ in 0..100 {
            private_folder(&all)?;
            made = private_folder(&folder);
            if !matches!(&made, Err(error) if error.kind() == io::ErrorKind::NotFound) {
                break;
            }
        }
        made?;
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
            home: HOME.fetch_add(1, Ordering::Relaxed) + 1,
            id,
            store,
            folder,
            runs: HashSet::new(),
            past_runs: 0,
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

    /// All that is known of a run is stored. Its part of the log goes when most of the log is of such runs: what the rings
    /// still hold of it, recovery passes over.
    fn leave(&mut self, run: Number) {
        self.runs.remove(&run);
        self.past_runs += 1;
        if self.past_runs > MOST_PAST_RUNS.max(self.runs.len()) {
            let new = self.folder.join("log.new");
            if self.shorten_log(&new).is_err() {
                _ = fs::remove_file(new);
            }
            // Where it failed, the next try is as far away.
            self.past_runs = 0;
        }
    }

    fn shorten_log(&mut self, new: &Path) -> io::Result<()> {
        if !self.unlogged.is_empty() {
            return Err(io::Error::other("the log is not whole"));
        }
        let old = self.folder.join(LOG);
        let mut lines = Lines::new(BufReader::new(open_plain(&old, false)?), LIMIT);
        let mut to = BufWriter::new(create(new)?);
        while let Some((_, line)) = lines.next()? {
            let Line::Text(text) = line else { continue };
            if serde_json::from_slice(text).is_ok_and(|about: About| about.is_of(&self.runs)) {
                to.write_all(text)?;
                to.write_all(b"\n")?;
            }
        }
        let log = to.into_inner()?;
        fs::rename(new, old)?;
        self.log = log;
        Ok(())
    }

    /// Removes what is on disk. The lock is given up last, or another process would think that this one died.
    fn remove(self) {
        _ = discard(&self.folder);
        if let Some(all) = self.folder.parent() {
            // Only when it is empty.
            _ = fs::remove_dir(all);
        }
    }

    fn ring_memory(&mut self, length: usize) -> Option<Memory> {
        let name = self.folder.join(format!("ring-{}", self.rings));
        self.rings += 1;
        let mapped = file_size::without_signal(|| {
            let file = create(&name)?;
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

    fn keep_open<'t>(&mut self, tasks: impl Iterator<Item = &'t Task>) -> usize {
        let bytes = spilled(tasks);
        if self.open.is_none() {
            self.open = create(&self.folder.join(OPEN)).ok();
        }
        if let Some(file) = &mut self.open {
            let length = file.stream_position();
            if file.write_all(&bytes).is_err()
                && let Ok(length) = length
            {
                // What follows half a task could not be found.
                _ = file.set_len(length).and_then(|()| file.seek(SeekFrom::Start(length)));
            }
        }
        bytes.len()
    }

    fn keep_only(&mut self, bytes: &[u8]) {
        let (new, old) = (self.folder.join("open.new"), self.folder.join(OPEN));
        let replaced = create(&new).and_then(|mut file| {
            file.write_all(bytes)?;
            fs::rename(&new, &old)?;
            Ok(file)
        });
        if let Ok(file) = replaced {
            self.open = Some(file);
        }
    }

    fn log_site(&mut self, number: u32, site: &'static Site) {
        self.write(&Entry::Site { number, site: SiteRecord::of(site) });
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

/// Makes a file for nobody else.
pub(super) fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn private_folder(path: &Path) -> io::Result<()> {
    #[cfg_attr(not(unix), allow(unused_mut, reason = "modes are known on Unix only"))]
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
