//! Ends a run whose process died: writes the missing records to its stores, once.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::ending::ended_by;
use super::recover::Recovered;
use super::run::Lines;
use super::session::{ProcessEnd, RunEntry, StoreOfRun};
use super::spool::{Head, Refused, Spool, replay_run};
use super::stats::Totals;
use super::task::Task;
use super::view::Common;
use runlore_core::config::settings;
use runlore_core::record::{Status, WorkflowObject};
use runlore_core::store;
use runlore_core::store::jsonl::{JsonlStore, RepairedFile};
use runlore_core::store::{Known, RunInfo, Store, StoredTasks};

/// A run that a process left behind.
pub(super) struct Left<'a> {
    /// The folder in which it was found.
    pub(super) folder: &'a Path,
    pub(super) run: &'a RunEntry,
    /// The files that its records went to, according to its log.
    pub(super) files: &'a [PathBuf],
    pub(super) pid: u32,
    /// Whether its last record was stored before the process died.
    pub(super) has_ended: bool,
    /// The number of its tasks that were dropped. `None` if the session does not contain the count.
    pub(super) dropped: Option<u64>,
    /// The signal that killed the process, if known.
    pub(super) signal: Option<i32>,
    /// How the process was about to end. Set if it was ending but could not store all of the run's
    /// records in time.
    pub(super) process_end: Option<&'a ProcessEnd>,
}

/// Completes a run in its stores. `recovered` counts the records that the first store lacked.
pub(super) fn finish_run(
    left: &Left<'_>,
    tasks: &[&Task],
    recovered: &mut Recovered,
) -> io::Result<()> {
    let stores = match &*left.run.stores {
        [] => &[StoreOfRun::Files],
        stores => stores,
    };
    for (at, store) in stores.iter().enumerate() {
        let mut count = Recovered::default();
        match store {
            StoreOfRun::Files => finish_in_files(left, tasks.to_vec(), &mut count)?,
            StoreOfRun::Here(uri) => finish_in_store(left, uri, tasks.to_vec(), &mut count)?,
            StoreOfRun::Elsewhere(store) => leave_for(left, store, tasks.to_vec(), &mut count)?,
        }
        if at == 0 {
            recovered.add(&count);
        }
    }
    Ok(())
}

/// Leaves the records in a spool. A store on another machine must not be opened by what a dead
/// process left; a process that has the store's URI replays the spool.
fn leave_for(
    left: &Left<'_>,
    store: &str,
    mut tasks: Vec<&Task>,
    recovered: &mut Recovered,
) -> io::Result<()> {
    let run = left.run;
    let head = Head {
        workflow_id: run.workflow_id.clone(),
        name: run.name.clone(),
        pid: left.pid,
        store: Some(store.to_owned()),
    };
    // Counts are unknown, because this process cannot see what that store contains.
    let end = match (left.has_ended, &run.workflow) {
        (false, Some(workflow)) => Some(left.lost_workflow(workflow, None)),
        _ => None,
    };
    let lines = left.lines(&mut tasks, true, end.as_ref());
    Spool::leave(left.folder, head, &lines, &settings().recorder).map_err(
        |refused| match refused {
            Refused::Io(error) => error,
            Refused::Full => io::Error::other("there is no room"),
        },
    )?;
    recovered.count(&tasks);
    Ok(())
}

/// Completes a run in a store. If the store is unreachable, the session stays for a later attempt.
fn finish_in_store(
    left: &Left<'_>,
    uri: &str,
    mut tasks: Vec<&Task>,
    recovered: &mut Recovered,
) -> io::Result<()> {
    let info = left.info();
    let mut store = store::open_left(uri, left.folder, &info).map_err(io::Error::other)?;
    replay_run(&mut *store, &info).map_err(io::Error::other)?;
    let known = store.known(&info, &ids(&tasks)).map_err(io::Error::other)?;
    retain_unknown(&mut tasks, &known.ended, &known.running);
    let end = left.end(known.end.as_deref(), known.tasks, &known.running, &tasks);
    if tasks.is_empty() && end.is_none() {
        return Ok(());
    }
    let lines = left.lines(&mut tasks, !known.has_end, end.as_ref());
    store.write(&lines.records.batch()).map_err(io::Error::other)?;
    store::take_refused(&mut *store);
    store.close().map_err(io::Error::other)?;
    recovered.count(&tasks);
    Ok(())
}

fn finish_in_files(
    left: &Left<'_>,
    mut tasks: Vec<&Task>,
    recovered: &mut Recovered,
) -> io::Result<()> {
    let files = left.files.iter();
    let mut files: Vec<_> = files.filter_map(|file| file_of_run(left.folder, file)).collect();
    files.dedup();
    let mut store = JsonlStore::in_folder(left.folder, &left.info());
    if files.is_empty() && is_empty_file(&store.first_path()) {
        // The process died between creating its file and logging it.
        files.push(store.first_path());
    }
    let ids = ids(&tasks);
    let mut known = Known { tasks: Some(StoredTasks::default()), ..Known::default() };
    // A run may have several files. The new records go to the last one.
    let mut last = None;
    for file in &files {
        let repaired = RepairedFile::open(file, &ids, left.around())?;
        retain_unknown(&mut tasks, &repaired.ended, &repaired.running);
        known.end = repaired.end.clone().or(known.end);
        known.running.extend(repaired.running.iter().cloned());
        known.tasks.iter_mut().for_each(|tasks| tasks.add(&repaired.tasks));
        last = Some(repaired);
    }
    let end = left.end(known.end.as_deref(), known.tasks, &known.running, &tasks);
    if tasks.is_empty() && end.is_none() {
        return Ok(());
    }
    let lines = left.lines(&mut tasks, last.is_none(), end.as_ref());
    match &mut last {
        Some(last) => last.append(lines.records.json_lines())?,
        None => {
            store.write(&lines.records.batch()).map_err(io::Error::other)?;
        }
    }
    recovered.count(&tasks);
    for file in files {
        // The records of open tasks are in the main file now.
        _ = fs::remove_file(file.with_extension("open.jsonl"));
    }
    Ok(())
}

impl Left<'_> {
    /// Returns the task that started the workflow.
    fn around(&self) -> Option<&str> {
        self.run.workflow.as_ref()?.parent_task_id.as_deref()
    }

    fn info(&self) -> RunInfo {
        let run = self.run;
        RunInfo::new(run.workflow_id.clone(), run.name.clone(), self.pid, settings())
    }

    /// Returns the missing records: the workflow's first and last record, and these tasks in
    /// between.
    fn lines(
        &self,
        tasks: &mut [&Task],
        lacks_beginning: bool,
        end: Option<&WorkflowObject>,
    ) -> Lines {
        let run = self.run;
        let common =
            Common::new(&run.workflow_id, &run.campaign_id, &run.hostname, self.pid, &run.identity);
        tasks.sort_unstable_by_key(|task| task.start.monotonic_ns);
        let mut lines = Lines::default();
        if lacks_beginning && let Some(workflow) = &run.workflow {
            lines.push_workflow(workflow);
        }
        for task in &*tasks {
            lines.push_task(task, &common);
        }
        if let Some(end) = end {
            lines.push_workflow(end);
        }
        lines
    }

    /// Returns the workflow's last record if it is missing, or if its totals are too low. `stored`
    /// counts the tasks in the store, of which `running` are not ended there; `tasks` are about to
    /// be added.
    fn end(
        &self,
        known: Option<&WorkflowObject>,
        stored: Option<StoredTasks>,
        running: &HashSet<String>,
        tasks: &[&Task],
    ) -> Option<WorkflowObject> {
        let totals = stored.map(|stored| self.totals(stored, running, tasks));
        let Some(known) = known else {
            return Some(self.lost_workflow(self.run.workflow.as_deref()?, totals));
        };
        let mut end = known.clone();
        end.totals.get_or_insert_default().extend(totals?);
        (end.totals != known.totals).then_some(end)
    }

    /// Returns the run's totals after these tasks are added.
    fn totals(
        &self,
        stored: StoredTasks,
        running: &HashSet<String>,
        tasks: &[&Task],
    ) -> Map<String, Value> {
        let mut totals = Totals {
            tasks: stored.finished + stored.errors + stored.running,
            finished: stored.finished,
            errors: stored.errors,
            running: stored.running,
            failed_roots: stored.failed_roots,
            ..Totals::default()
        };
        let mut capture_ns = stored.capture_ns;
        for task in tasks {
            if running.contains(&task.start.id.to_string()) {
                totals.tasks -= 1;
                totals.running -= 1;
            }
            totals.count(task.status());
            let parent = task.start.parent.map(|parent| parent.to_string());
            let is_root = parent.is_none_or(|parent| Some(&*parent) == self.around());
            totals.failed_roots += u64::from(is_root && task.status() == Status::Error);
            capture_ns += task.measured().map_or(0, |measured| measured.start_ns + measured.end_ns);
        }
        let counts = [
            ("tasks", totals.tasks),
            ("finished", totals.finished),
            ("errors", totals.errors),
            ("running", totals.running),
            ("failed_roots", totals.failed_roots),
            ("capture_ns", capture_ns),
        ];
        let counts = counts.into_iter().chain(self.dropped.map(|dropped| ("dropped", dropped)));
        counts.map(|(name, count)| (name.to_owned(), count.into())).collect()
    }

    /// Creates the last record of a workflow whose process died. Unless the process had begun to
    /// end, how and when it ended is unknown.
    fn lost_workflow(
        &self,
        workflow: &WorkflowObject,
        totals: Option<Map<String, Value>>,
    ) -> WorkflowObject {
        let mut lost = workflow.clone();
        match self.process_end {
            Some(end) => {
                lost.ended_at = Some(end.at);
                end.ending.clone().write_to(&mut lost);
            }
            None => {
                lost.status = Some(Status::Unknown);
                lost.ended_by = self.signal.map(ended_by);
                let why = "the process was killed or crashed; its tasks were recovered";
                lost.stderr = Some(why.to_owned());
            }
        }
        let lacks = |what: &str| totals.as_ref().is_none_or(|totals| !totals.contains_key(what));
        let mut unavailable = lost.unavailable.take().unwrap_or_default();
        if totals.is_none() {
            let why = "the process was killed, and the store was out of reach when its tasks were recovered";
            unavailable.insert("totals".to_owned(), why.into());
        } else if lacks("dropped") {
            let why = "the process was killed, and its session lacks the count";
            unavailable.insert("totals.dropped".to_owned(), why.into());
        }
        lost.unavailable = Some(unavailable).filter(|reasons| !reasons.is_empty());
        lost.totals = totals;
        lost
    }
}

fn ids(tasks: &[&Task]) -> HashSet<String> {
    tasks.iter().map(|task| task.start.id.to_string()).collect()
}

/// Removes the tasks that are already in the store.
fn retain_unknown(tasks: &mut Vec<&Task>, ended: &HashSet<String>, running: &HashSet<String>) {
    tasks.retain(|task| {
        let id = task.start.id.to_string();
        !ended.contains(&id) && (task.end.is_some() || !running.contains(&id))
    });
}

/// Returns the path of a run's file in this folder. Only the logged file name is used: the folder
/// may have been moved, and nothing outside it may be touched.
fn file_of_run(folder: &Path, logged: &Path) -> Option<PathBuf> {
    let path = folder.join(logged.file_name()?);
    let is_ours = path.extension().is_some_and(|extension| extension == "jsonl")
        && fs::symlink_metadata(&path).is_ok_and(|facts| facts.is_file());
    is_ours.then_some(path)
}

fn is_empty_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|facts| facts.is_file() && facts.len() == 0)
}
