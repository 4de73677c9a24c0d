//! The files that a process keeps on disk while it records, so that another process can finish its
//! work if it dies.
//!
//! A session is a folder `.rings/<id>/` beside the records. It contains:
//!
//! * the rings (`ring-N`, mapped into memory);
//! * a log of the runs and call sites that the events refer to (`log.jsonl`);
//! * the events for which the rings had no room (`overflow`);
//! * the STARTs of tasks that were open for longer than their ring could wait (`open`);
//! * a lock that lives as long as the process (`lock`).
//!
//! The folder is removed when the process ends normally. A process has one session for each folder
//! that it records into, and a thread has one ring in each session that it records into.

mod folder;
mod log;

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub(super) use folder::{DONE, FOLDER, LOCK, LOG, OPEN, Session, discard};
pub(super) use log::{Entry, FORMAT, ProcessEnd, RunEntry, StoreOfRun};

use super::memory::Memory;
use super::run::RunSpec;
use super::site::{self, Site};
use super::{rings, task::Task};
use runlore_core::config::settings;
use runlore_core::context::Number;
use runlore_core::file_size;
use runlore_core::fork::PerProcess;
use runlore_core::identity::Identity;
use runlore_core::notice::notice;
use runlore_core::settings::Durability;
use runlore_core::store::Store;

/// A session's number in this process. Numbers are never reused.
pub(super) type Home = u32;

/// The home of runs without a session: their queues end with the process.
pub(super) const NO_HOME: Home = 0;

/// The maximum number of sessions without a run to keep for later runs: creating one costs more
/// than a short run.
const MOST_IDLE: usize = 4;

/// The maximum number of sessions: each has open files, which are limited per process.
const MOST: usize = 64;

/// The sessions of this process. Idle ones are ordered by how long they have been idle, longest
/// first. In a forked child the files of the parent's sessions stay open, because closing them
/// would touch their locks.
static SESSIONS: PerProcess<Mutex<Vec<Session>>> = PerProcess::new();

fn sessions() -> MutexGuard<'static, Vec<Session>> {
    SESSIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn of_run(sessions: &mut [Session], run: Number) -> Option<&mut Session> {
    sessions.iter_mut().find(|session| session.runs.contains(&run))
}

/// A cache of the homes of recent runs: a run's number in the upper half, its home in the lower
/// half. A thread that records for several runs in turn looks them up here without a lock.
static HOMES: [AtomicU64; 256] = [const { AtomicU64::new(0) }; 256];

fn place_of(run: Number) -> &'static AtomicU64 {
    &HOMES[run as usize % HOMES.len()]
}

fn remember(run: Number, home: Home) {
    place_of(run).store(u64::from(run) << 32 | u64::from(home), Ordering::Relaxed);
}

/// Returns the session for the events of a run.
pub(super) fn home_of(run: Number) -> Home {
    let entry = place_of(run).load(Ordering::Relaxed);
    if (entry >> 32) as Number == run {
        return entry as Home;
    }
    let home = of_run(&mut sessions(), run).map_or(NO_HOME, |session| session.home);
    remember(run, home);
    home
}

/// Assigns a run to a session, if its store has a folder, so that its events outlive the process.
pub(super) fn admit(run: &RunSpec) {
    let mut home = NO_HOME;
    if let Some((first, store)) = keeper(&run.stores)
        && settings().recorder.durability != Durability::Memory
    {
        // Lock the sites first: code that registers a site locks in the same order.
        site::with_registered(|sites| {
            home = file_size::without_signal(|| admit_with(run, (first, store), sites));
        });
    }
    remember(run.number, home);
}

/// Returns the index and the folder of the first store that has a folder. The queue is kept there.
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

/// Returns the session in the folder of a store, and creates it if necessary.
fn session_for<'s>(
    sessions: &'s mut Vec<Session>,
    store: &Path,
    sites: &[&'static Site],
) -> io::Result<&'s mut Session> {
    // The process may change its working directory.
    let store = std::path::absolute(store)?;
    let is_it = |session: &Session| session.store == store && session.folder.exists();
    let known = sessions.iter().position(is_it);
    let at = known.unwrap_or(sessions.len());
    if known.is_none() {
        if sessions.len() == MOST {
            return Err(io::Error::other(format!("there are queues in {MOST} folders already")));
        }
        let mut session = Session::create(store)?;
        // The sites that are already known must be in its log.
        for (index, site) in sites.iter().enumerate() {
            session.log_site(index as u32 + 1, site);
        }
        rings::add_overflow(Arc::clone(&session.overflow));
        sessions.push(session);
    }
    Ok(&mut sessions[at])
}

/// Logs that a run is stored completely: only tasks that outlive it are left to be recovered.
pub(super) fn note_end(run: Number) {
    if let Some(session) = of_run(&mut sessions(), run) {
        session.write(&Entry::Ended { run });
    }
}

/// Logs how the process is about to end: it may not live until all of its runs are stored.
pub(super) fn note_process_end(end: ProcessEnd) {
    let Some(mut sessions) = sessions_at_end() else { return };
    let entry = Entry::ProcessEnd(end);
    file_size::without_signal(|| {
        let recording = sessions.iter_mut().filter(|session| !session.runs.is_empty());
        recording.for_each(|session| session.write(&entry));
    });
}

/// Forgets a run that has nothing left to be recorded. May remove the session that has been idle
/// for longest.
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
    // Release the lock first: deleting the files need not block other threads.
    drop(sessions);
    session.remove();
}

/// Logs the file that a run's records go to.
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

/// Logs a site before its first event.
pub(super) fn note_site(number: u32, site: &'static Site) {
    let mut sessions = sessions();
    if !sessions.is_empty() {
        file_size::without_signal(|| {
            sessions.iter_mut().for_each(|session| session.log_site(number, site));
        });
    }
}

/// Calls `make` with memory for a ring of a session, in a file that outlives the process if
/// possible. `None` if the session is gone. The session is locked, so it cannot go before the ring
/// is created.
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

/// Stores the STARTs of tasks whose ring needs room. Returns their size in bytes.
pub(super) fn keep_open<'t>(home: Home, tasks: impl Iterator<Item = &'t Task>) -> usize {
    let mut sessions = sessions();
    let session = sessions.iter_mut().find(|session| session.home == home);
    session.map_or(0, |session| session.keep_open(tasks))
}

/// Stores the STARTs of these tasks and removes all others. Returns their size in bytes.
pub(super) fn keep_only(tasks: &[&Task]) -> usize {
    let mut length = 0;
    for session in sessions().iter_mut().filter(|session| session.open.is_some()) {
        let of_session = |task: &&Task| session.runs.contains(&task.start.workflow);
        let bytes = folder::spilled(tasks.iter().copied().filter(of_session));
        length += bytes.len();
        session.keep_only(&bytes);
    }
    length
}

/// Removes the stored STARTs, because none of their tasks is open any more.
pub(super) fn forget_open() {
    sessions().iter_mut().for_each(Session::forget_open);
}

/// Locks the sessions while the process ends. Waits only for a moment: after a panic, the ending
/// thread may hold the lock itself.
fn sessions_at_end() -> Option<MutexGuard<'static, Vec<Session>>> {
    for _ in 0..100 {
        if let Ok(sessions) = SESSIONS.try_lock() {
            return Some(sessions);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    None
}

/// Removes all sessions at a normal end of the process, when nothing is left to be recovered.
pub(super) fn remove_all() {
    let Some(mut sessions) = sessions_at_end() else { return };
    sessions.drain(..).for_each(Session::remove);
}

/// Returns whether the session with this id belongs to this process.
pub(super) fn is_own(id: &str) -> bool {
    sessions().iter().any(|session| session.id.to_string() == id)
}
