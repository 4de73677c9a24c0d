//! Finishing the work of processes that died: what is left in their rings goes to their files, once.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, BufRead};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::event::{End, Kind, Start, id_at};
use super::ring::DeadRing;
use super::run::Lines;
use super::session::{self, DONE, Entry, FOLDER, FORMAT, LOCK, LOG, OPEN, RunEntry};
use super::site::Site;
use super::view::{Common, Task, TaskView};
use super::{config::settings, lock, notice};
use crate::clock;
use crate::context::Number;
use crate::record::{Id, Status, WorkflowObject};
use crate::store::jsonl::{JsonlStore, Mended};
use crate::store::{Batch, BeforeReading, RunInfo, Store};
use crate::{Error, ErrorKind, Result};

inventory::submit! {
    BeforeReading(|folder| {
        if let Err(error) = recover(folder) {
            notice::notice(&error.to_string());
        }
    })
}

/// How long the making of a session may take.
const UNFINISHED: Duration = Duration::from_secs(60);

/// What [`recover`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Recovered {
    /// Processes that died while they recorded.
    pub processes: u64,
    /// Tasks that had ended, and were not in the store.
    pub tasks: u64,
    /// Tasks that were open when the process died; they are in the store as RUNNING.
    pub open: u64,
}

/// Finishes the work of processes that died while they recorded into this folder: tasks that had ended, and those that
/// were open, go to the files of their workflows, each once. Processes that are alive are left alone.
///
/// The library's readers and every run that starts do this by themselves.
///
/// ```
/// # let folder = std::env::temp_dir();
/// # let folder = folder.join("no-such-folder");
/// let recovered = runlore::recover(&folder)?;
/// assert_eq!(recovered.processes, 0);
/// # Ok::<(), runlore::Error>(())
/// ```
pub fn recover(folder: impl AsRef<Path>) -> Result<Recovered> {
    // Record locks hold between processes only.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let folder = folder.as_ref();
    let mut recovered = Recovered::default();
    let Ok(sessions) = fs::read_dir(folder.join(FOLDER)) else { return Ok(recovered) };
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut failed = None;
    for entry in sessions.flatten() {
        // A link could lead out of the folder.
        if !entry.file_type().is_ok_and(|kind| kind.is_dir())
            || session::is_own(&entry.file_name().to_string_lossy())
        {
            continue;
        }
        if is_leftover(&entry.path()) {
            _ = fs::remove_dir_all(entry.path());
            continue;
        }
        match recover_session(folder, &entry.path(), &mut recovered) {
            Ok(()) => {}
            // Another process was faster, or it is being made.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => failed = Some((entry.path(), error)),
        }
    }
    // Only when it is empty.
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

/// Whether a session is done with, or was never begun: its process died on the way.
fn is_leftover(session: &Path) -> bool {
    let is_old = || {
        let made = fs::metadata(session).and_then(|facts| facts.modified());
        made.is_ok_and(|made| made.elapsed().is_ok_and(|age| age > UNFINISHED))
    };
    session.extension().is_some_and(|ending| ending == DONE)
        || (!session.join(LOG).exists() && is_old())
}

fn recover_session(
    folder: &Path,
    session_folder: &Path,
    recovered: &mut Recovered,
) -> io::Result<()> {
    let owner = fs::OpenOptions::new().read(true).write(true).open(session_folder.join(LOCK))?;
    if !lock::try_lock(&owner)? {
        return Ok(());
    }
    let log = Log::read(&session_folder.join(LOG))?;
    if log.format != FORMAT {
        return Err(io::Error::other("it was written by another version of Runlore"));
    }
    let tasks = left_tasks(session_folder, &log)?;
    recovered.processes += 1;
    for run in log.runs.values() {
        let own: Vec<&Task> =
            tasks.values().filter(|task| task.start.workflow == run.number).collect();
        // By its name only: the folder may have been moved, and nothing outside it is touched.
        let files = log.files.get(&run.number).map_or(&[][..], Vec::as_slice);
        let files: Vec<PathBuf> =
            files.iter().filter_map(|file| Some(folder.join(file.file_name()?))).collect();
        finish_run(folder, run, &files, own, log.pid, recovered)?;
    }
    session::discard(session_folder);
    Ok(())
}

/// What the log of a session says.
#[derive(Default)]
struct Log {
    format: u32,
    pid: u32,
    runs: HashMap<Number, RunEntry>,
    files: HashMap<Number, Vec<PathBuf>>,
    sites: HashMap<u32, &'static Site>,
}

impl Log {
    fn read(path: &Path) -> io::Result<Self> {
        let mut log = Self::default();
        for line in io::BufReader::new(fs::File::open(path)?).split(b'\n') {
            // The last line may be half a line.
            match serde_json::from_slice(&line?) {
                Ok(Entry::Session { format, pid, .. }) => (log.format, log.pid) = (format, pid),
                Ok(Entry::Run(run)) => _ = log.runs.insert(run.number, run),
                Ok(Entry::File { run, path }) => log.files.entry(run).or_default().push(path),
                Ok(Entry::Site { number, site }) => _ = log.sites.insert(number, site.into_site()),
                Err(_) => {}
            }
        }
        Ok(log)
    }
}

/// The tasks that the process's own writer was not done with.
fn left_tasks(session: &Path, log: &Log) -> io::Result<HashMap<Id, Task>> {
    let site = |number: u32| log.sites.get(&number).copied();
    let mut tasks = HashMap::new();
    let kept = fs::read(session.join(OPEN)).unwrap_or_default();
    let mut rest = &kept[..];
    while let Some((task, after)) = Task::unspill(rest, site) {
        tasks.insert(task.start.id, task);
        rest = after;
    }
    let mut rings = Vec::new();
    for entry in fs::read_dir(session)? {
        let entry = entry?;
        let is_ring = entry.file_name().to_string_lossy().starts_with("ring-");
        if is_ring && let Some(ring) = DeadRing::new(fs::read(entry.path())?) {
            rings.push(ring);
        }
    }
    // The beginnings of all rings first: a task may have ended on another thread than it began on.
    for ring in &rings {
        let thread = Rc::new(ring.owner());
        ring.read(|_, kind, bytes| {
            if kind == Kind::Start
                && let Some((start, items)) = Start::from_bytes(bytes)
            {
                tasks.entry(start.id).or_insert_with(|| Task {
                    start,
                    end: None,
                    items: items.to_vec(),
                    thread: Rc::clone(&thread),
                    site: site(start.site),
                });
            }
        });
    }
    for wanted in [Kind::Add, Kind::End] {
        for ring in &rings {
            ring.read(|_, kind, bytes| match kind {
                Kind::Add if wanted == Kind::Add => {
                    if let Some(task) = id_at(bytes, 0).and_then(|id| tasks.get_mut(&id)) {
                        task.items.extend_from_slice(&bytes[16..]);
                    }
                }
                Kind::End if wanted == Kind::End => {
                    if let Some((end, items)) = End::from_bytes(bytes)
                        && let Some(task) = tasks.get_mut(&end.id)
                    {
                        task.end = Some(end);
                        task.items.extend_from_slice(items);
                    }
                }
                _ => {}
            });
        }
    }
    Ok(tasks)
}

/// Brings the file of a run to its end.
fn finish_run(
    folder: &Path,
    run: &RunEntry,
    files: &[PathBuf],
    mut tasks: Vec<&Task>,
    pid: u32,
    recovered: &mut Recovered,
) -> io::Result<()> {
    let ids: HashSet<String> = tasks.iter().map(|task| task.start.id.to_string()).collect();
    let mut has_end = false;
    // A run may have had several files; it goes on in the last.
    let mut last = None;
    for file in files.iter().filter(|file| file.is_file()) {
        let mended = Mended::open(file, &ids)?;
        tasks.retain(|task| {
            let id = task.start.id.to_string();
            let is_there =
                mended.ended.contains(&id) || (task.end.is_none() && mended.running.contains(&id));
            !is_there
        });
        has_end |= mended.has_end;
        last = Some(mended);
    }
    if tasks.is_empty() && has_end {
        return Ok(());
    }
    let common = Common {
        workflow_id: run.workflow_id.clone(),
        campaign_id: run.campaign_id.clone(),
        hostname: run.hostname.clone(),
        pid,
        identity: run.identity.clone(),
    };
    tasks.sort_unstable_by_key(|task| task.start.monotonic_ns);
    let mut lines = Lines::default();
    if last.is_none()
        && let Some(workflow) = &run.workflow
    {
        lines.push(workflow);
    }
    for task in &tasks {
        lines.push(&TaskView { task, common: &common });
        if task.end.is_some() {
            recovered.tasks += 1;
        } else {
            recovered.open += 1;
        }
    }
    if !has_end && let Some(workflow) = &run.workflow {
        lines.push(&lost_workflow(workflow, &tasks));
    }
    match &mut last {
        Some(last) => last.append(&lines.bytes)?,
        None => {
            let info = RunInfo::new(run.workflow_id.clone(), run.name.clone(), pid, settings());
            let batch = Batch::new(&lines.bytes, &lines.ends);
            JsonlStore::in_folder(folder, &info).write(&batch).map_err(io::Error::other)?;
        }
    }
    for file in files {
        // What was open is in the file itself now.
        _ = fs::remove_file(file.with_extension("open.jsonl"));
    }
    Ok(())
}

/// The last record of a workflow whose process died: nobody knows how it would have ended.
fn lost_workflow(workflow: &WorkflowObject, tasks: &[&Task]) -> WorkflowObject {
    let last = tasks.iter().map(|task| match task.end {
        Some(end) => {
            let duration = end.monotonic_ns.saturating_sub(task.start.monotonic_ns);
            task.start.wall_ns + duration
        }
        None => task.start.wall_ns,
    });
    let mut lost = workflow.clone();
    lost.status = Some(Status::Unknown);
    lost.ended_at = last.max().map(clock::seconds).or(lost.started_at);
    lost.stderr = Some("the process ended without a word; its tasks were recovered".to_owned());
    lost
}
