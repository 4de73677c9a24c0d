//! Recovers the records of processes that died: writes what is left in their rings to their stores,
//! once.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::event::{Add, End, Kind, Start};
use super::finish::{Left, finish_run};
use super::overflow::{self, DeadOverflow};
use super::owner::Owner;
use super::ring::DeadRing;
use super::session::{self, DONE, Entry, FOLDER, FORMAT, LOCK, LOG, OPEN, ProcessEnd, RunEntry};
use super::site::Site;
use super::task::Task;
use super::thread::Thread;
use runlore_core::context::Number;
use runlore_core::file_size;
use runlore_core::file_system;
use runlore_core::fork::PerProcess;
use runlore_core::notice;
use runlore_core::record::Id;
use runlore_core::store::jsonl::{LIMIT, Line, Lines as FileLines};
use runlore_core::store::lock;
use runlore_core::store::{BeforeReading, is_plain_folder, open_plain, refuse_special};
use runlore_core::{Error, ErrorKind, Result};

inventory::submit! {
    BeforeReading(|folder| {
        if let Err(error) = recover_quietly(folder) {
            notice::notice(&error.to_string());
        }
    })
}

/// The result of [`recover`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[non_exhaustive]
pub struct Recovered {
    /// The number of processes that died while they recorded.
    pub processes: u64,
    /// The number of ended tasks that were not in the store, or are not known to be.
    pub tasks: u64,
    /// The number of tasks that were open when the process died. They are in the store as RUNNING,
    /// or wait for it.
    pub open: u64,
}

impl Recovered {
    pub(super) fn count(&mut self, tasks: &[&Task]) {
        let ended = tasks.iter().filter(|task| task.end.is_some()).count() as u64;
        self.tasks += ended;
        self.open += tasks.len() as u64 - ended;
    }

    pub(super) fn add(&mut self, more: &Self) {
        self.processes += more.processes;
        self.tasks += more.tasks;
        self.open += more.open;
    }
}

/// Recovers the records of processes that died while they recorded into this folder.
///
/// Ended and open tasks go to the stores of their workflows, each exactly once. For a store on
/// another machine they wait in a spool, as if the store had been unreachable. Processes that are
/// alive are left alone. A process that may be alive, because it lost its lock or ran on another
/// machine, is left alone with a notice on standard error.
///
/// The library's readers and every run that starts do this automatically, without that notice.
///
/// ```
/// # let folder = std::env::temp_dir();
/// # let folder = folder.join("no-such-folder");
/// let recovered = runlore::recover(&folder)?;
/// assert_eq!(recovered.processes, 0);
/// # Ok::<(), runlore::Error>(())
/// ```
pub fn recover(folder: impl AsRef<Path>) -> Result<Recovered> {
    recover_with(folder.as_ref(), None, notice::notice)
}

/// Like [`recover`], for a child process that a signal killed and that the caller has waited for.
/// Its runs record the signal in `ended_by`.
///
/// ```no_run
/// use std::os::unix::process::ExitStatusExt as _;
///
/// let mut child = std::process::Command::new("train").spawn()?;
/// if let Some(signal) = child.wait()?.signal() {
///     runlore::recover_killed("runlore", child.id(), signal)?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn recover_killed(folder: impl AsRef<Path>, pid: u32, signal: i32) -> Result<Recovered> {
    recover_with(folder.as_ref(), Some(Killed { pid, signal }), |_| ())
}

/// A process that a signal killed, according to its parent.
#[derive(Debug, Clone, Copy)]
struct Killed {
    pid: u32,
    signal: i32,
}

/// Like [`recover`], for callers that recover automatically: sessions that are left alone are not
/// reported.
pub(crate) fn recover_quietly(folder: &Path) -> Result<Recovered> {
    recover_with(folder, None, |_| ())
}

/// Recovers a folder, and passes the reasons for sessions left alone to `left_alone`.
fn recover_with(
    folder: &Path,
    killed: Option<Killed>,
    left_alone: impl FnMut(&str),
) -> Result<Recovered> {
    // Record locks only work between processes.
    static ONE_AT_A_TIME: PerProcess<Mutex<()>> = PerProcess::new();
    refuse_special(folder)?;
    let all = folder.join(FOLDER);
    if !is_plain_folder(&all) {
        return Ok(Recovered::default());
    }
    let sessions = match fs::read_dir(&all) {
        Ok(sessions) => sessions,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Recovered::default()),
        Err(error) => {
            let text = format!("cannot look for what killed processes left in {}", all.display());
            return Err(Error::new(ErrorKind::Store, text).with_source(error));
        }
    };
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    file_size::without_signal(|| recover_all(folder, sessions, killed, left_alone))
}

fn recover_all(
    folder: &Path,
    sessions: fs::ReadDir,
    killed: Option<Killed>,
    mut left_alone: impl FnMut(&str),
) -> Result<Recovered> {
    let mut recovered = Recovered::default();
    let mut failed = None;
    for entry in sessions.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        // A symbolic link could point out of the folder.
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) || session::is_own(&name) {
            continue;
        }
        if name.starts_with(DONE) {
            // The process that was removing it died before it was gone.
            _ = fs::remove_dir_all(entry.path());
            continue;
        }
        match recover_session(folder, &entry.path(), killed, &mut recovered) {
            Ok(None) => {}
            Ok(Some(why)) => {
                left_alone(&format!("{} is left alone: {why}", entry.path().display()));
            }
            // Another process recovered it first, or it is being created, unless its creator died.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if was_never_made(&entry.path()) {
                    _ = session::discard(&entry.path());
                }
            }
            Err(error) => failed = Some((entry.path(), error)),
        }
    }
    // This removes the folder only if it is empty.
    _ = fs::remove_dir(folder.join(FOLDER));
    match failed {
        None => Ok(recovered),
        Some((session, error)) => Err(Error::new(
            ErrorKind::Store,
            format!("what a killed process left in {} cannot be recovered", session.display()),
        )
        .with_source(error)),
    }
}

/// Recovers a session, or returns why it must be left alone.
fn recover_session(
    folder: &Path,
    session: &Path,
    killed: Option<Killed>,
    recovered: &mut Recovered,
) -> io::Result<Option<String>> {
    let lock = session.join(LOCK);
    if has_other_names(&lock)? {
        // It may be a link to a lock that this process holds; opening and closing it would release
        // that lock.
        return Err(io::Error::other("its lock is a lock of something else too"));
    }
    let owner = owner_of(session)?;
    if owner.is_this_process() && owner.has_open(&lock) {
        // It belongs to another copy of this library in this process; opening its lock would
        // release it.
        return Ok(Some("it belongs to this process".to_owned()));
    }
    let locked = open_plain(&lock, true)?;
    if !lock::try_lock(&locked)? {
        return Ok(None);
    }
    if let Some(why) = may_be_alive(&owner, folder, &lock) {
        return Ok(Some(why));
    }
    let log = Log::read(&session.join(LOG))?;
    match log.format {
        Some(FORMAT) => {}
        // The process died before it had written anything.
        None if log.is_empty => return session::discard(session).map(|()| None),
        None => return Err(io::Error::other("the first line of its log is damaged")),
        Some(_) => return Err(io::Error::other("it was written by another version of Runlore")),
    }
    let overflow = left_overflow(session)?;
    let tasks = left_tasks(session, &log, overflow.as_ref())?;
    recovered.processes += 1;
    let mut by_run: HashMap<Number, Vec<&Task>> = HashMap::new();
    for task in tasks.values() {
        by_run.entry(task.start.workflow).or_default().push(task);
    }
    for run in log.runs.values() {
        let own = by_run.remove(&run.number).unwrap_or_default();
        let has_ended = log.ended.contains(&run.number);
        let dropped = overflow.as_ref().map(|overflow| overflow.dropped_of(run.number));
        if own.is_empty() && has_ended && dropped.is_none_or(|dropped| dropped == 0) {
            // Its file may have been deleted since, and must not be created again.
            continue;
        }
        let files = log.files.get(&run.number).map_or(&[][..], Vec::as_slice);
        let pid = log.owner.pid;
        let signal = killed.filter(|killed| killed.pid == pid).map(|killed| killed.signal);
        let process_end = log.process_end.as_ref();
        let left = Left { folder, run, files, pid, has_ended, dropped, signal, process_end };
        finish_run(&left, &own, recovered)?;
    }
    let strangers: usize = by_run.values().map(Vec::len).sum();
    // For a run that the log does not mention, everything is stored. But here the entry may have
    // been lost.
    if strangers > 0 && log.is_damaged {
        return Err(io::Error::other(format!(
            "its log is damaged, and {strangers} tasks belong to no workflow that it names"
        )));
    }
    session::discard(session).map(|()| None)
}

/// Returns why the owner of a session may be alive although its lock is free. `None` if it is dead.
fn may_be_alive(owner: &Owner, folder: &Path, lock: &Path) -> Option<String> {
    let Owner { pid, hostname, .. } = owner;
    // This process has the lock open by now, in order to recover it.
    if !owner.is_this_process() && owner.has_open(lock) {
        return Some(format!("process {pid} is alive, although something in it gave up its lock"));
    }
    // On a local disk, the owner ran on this machine, perhaps under another host name.
    (owner.ran_elsewhere() && !file_system::is_local(folder)).then(|| {
        format!(
            "process {pid} of the machine {hostname} may be alive, and locks cannot tell on this file system; \
             recover the folder there, or a copy of it on a local disk"
        )
    })
}

/// Returns the owner of a session, as far as its log names it.
fn owner_of(session: &Path) -> io::Result<Owner> {
    let log = open_plain(&session.join(LOG), false)?;
    let mut lines = FileLines::new(io::BufReader::new(log), LIMIT);
    let first = lines.next_line()?;
    Ok(match first {
        Some((_, Line::Text(text))) => match serde_json::from_slice(text) {
            Ok(Entry::Session { owner, .. }) => owner,
            _ => Owner::default(),
        },
        _ => Owner::default(),
    })
}

/// Returns whether a process died while it created the session: there has been no log for a while.
fn was_never_made(session: &Path) -> bool {
    const A_WHILE: Duration = Duration::from_secs(60);
    let age = || fs::symlink_metadata(session).ok()?.modified().ok()?.elapsed().ok();
    fs::symlink_metadata(session.join(LOG)).is_err() && age().is_some_and(|age| age > A_WHILE)
}

#[cfg(unix)]
fn has_other_names(path: &Path) -> io::Result<bool> {
    Ok(std::os::unix::fs::MetadataExt::nlink(&fs::symlink_metadata(path)?) > 1)
}

#[cfg(not(unix))]
fn has_other_names(_: &Path) -> io::Result<bool> {
    Ok(false)
}

/// The content of a session's log.
#[derive(Default)]
struct Log {
    /// `None` if the log does not begin with it.
    format: Option<u32>,
    owner: Owner,
    runs: HashMap<Number, RunEntry>,
    files: HashMap<Number, Vec<PathBuf>>,
    ended: HashSet<Number>,
    process_end: Option<ProcessEnd>,
    sites: HashMap<u32, &'static Site>,
    is_empty: bool,
    /// Whether a complete line could not be parsed.
    is_damaged: bool,
}

impl Log {
    fn read(path: &Path) -> io::Result<Self> {
        let mut log = Self { is_empty: true, ..Self::default() };
        let mut lines = FileLines::new(io::BufReader::new(open_plain(path, false)?), LIMIT);
        while let Some((_, line)) = lines.next_line()? {
            let (text, is_whole) = match line {
                Line::Text(text) => (text, true),
                // The last line may be incomplete.
                Line::Unended(text) => (text, false),
                Line::TooLong => (&[][..], true),
            };
            log.is_empty &= !is_whole;
            match serde_json::from_slice(text) {
                Ok(Entry::Session { format, owner }) => {
                    (log.format, log.owner) = (Some(format), owner);
                }
                Ok(Entry::Run(run)) => _ = log.runs.insert(run.number, run),
                Ok(Entry::Ended { run }) => _ = log.ended.insert(run),
                Ok(Entry::File { run, path }) => log.files.entry(run).or_default().push(path),
                Ok(Entry::ProcessEnd(end)) => log.process_end = Some(end),
                Ok(Entry::Site { number, site }) => _ = log.sites.insert(number, site.into_site()),
                Err(_) => log.is_damaged |= is_whole,
            }
        }
        Ok(log)
    }
}

/// Returns the rings of a session.
fn left_rings(session: &Path) -> io::Result<Vec<DeadRing>> {
    let mut rings = Vec::new();
    for entry in fs::read_dir(session)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with("ring-") {
            continue;
        }
        let file = open_plain(&entry.path(), false)?;
        let mut bytes = Vec::new();
        file.take(DeadRing::MAX_FILE + 1).read_to_end(&mut bytes)?;
        // A ring that was created but never used is all zeros.
        let is_used = bytes.iter().any(|byte| *byte != 0);
        match DeadRing::new(bytes) {
            Some(ring) => rings.push(ring),
            None if is_used => tell_of_damage(&entry.path()),
            None => {}
        }
    }
    Ok(rings)
}

fn tell_of_damage(path: &Path) {
    notice::notice(&format!(
        "{} is damaged: what cannot be read of this queue of a killed process is lost",
        path.display()
    ));
}

/// Returns the tasks that the process's own writer had not finished with.
fn left_tasks(
    session: &Path,
    log: &Log,
    overflow: Option<&DeadOverflow>,
) -> io::Result<HashMap<Id, Task>> {
    let site = |number: u32| log.sites.get(&number).copied();
    let mut tasks = HashMap::new();
    match open_plain(&session.join(OPEN), false) {
        Ok(file) => {
            let mut left = file.metadata()?.len();
            let mut file = io::BufReader::new(file);
            while let Some(task) = Task::unspill(&mut file, &mut left, site) {
                tasks.insert(task.start.id, task);
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let rings = left_rings(session)?;
    // Read the STARTs of all queues first: a task may have ended on another thread than it began
    // on.
    let mut damaged = false;
    for ring in &rings {
        let thread = Rc::new(ring.owner());
        damaged |= ring.read(|_, kind, bytes| begin(&mut tasks, kind, bytes, &thread, site)) > 0;
    }
    if let Some(overflow) = overflow {
        damaged |= overflow.read(|frame| {
            let thread = Rc::new(Thread::new(frame.thread_id, frame.thread_name));
            begin(&mut tasks, frame.kind, frame.event[0], &thread, site);
        })? > 0;
    }
    if damaged {
        tell_of_damage(session);
    }
    for wanted in [Kind::Add, Kind::End] {
        for ring in &rings {
            ring.read(|_, kind, bytes| go_on(&mut tasks, kind, bytes, wanted));
        }
        if let Some(overflow) = overflow {
            overflow.read(|frame| go_on(&mut tasks, frame.kind, frame.event[0], wanted))?;
        }
    }
    Ok(tasks)
}

/// Handles a START.
fn begin(
    tasks: &mut HashMap<Id, Task>,
    kind: Kind,
    bytes: &[u8],
    thread: &Rc<Thread>,
    site: impl Fn(u32) -> Option<&'static Site>,
) {
    if kind == Kind::Start
        && let Some((start, items)) = Start::from_bytes(bytes)
    {
        tasks.entry(start.id).or_insert_with(|| {
            Task::begun(start, items.to_vec(), Rc::clone(thread), site(start.site))
        });
    }
}

/// Handles an ADD or an END, whichever is wanted.
fn go_on(tasks: &mut HashMap<Id, Task>, kind: Kind, bytes: &[u8], wanted: Kind) {
    match kind {
        Kind::Add if wanted == Kind::Add => {
            if let Some((add, items)) = Add::from_bytes(bytes)
                && let Some(task) = tasks.get_mut(&add.id)
            {
                task.add(add.sequence, items);
            }
        }
        Kind::End if wanted == Kind::End => {
            if let Some((end, items)) = End::from_bytes(bytes)
                && let Some(task) = tasks.get_mut(&end.id)
            {
                task.end(end, items);
            }
        }
        _ => {}
    }
}

/// Returns the overflow of a session. `None` if there is none.
fn left_overflow(session: &Path) -> io::Result<Option<DeadOverflow>> {
    let path = overflow::path_in(session);
    let overflow = match open_plain(&path, false) {
        Ok(file) => DeadOverflow::new(file)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if overflow.is_none() {
        tell_of_damage(&path);
    }
    Ok(overflow)
}
