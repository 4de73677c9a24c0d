//! The end of a run whose process died: what is left of it goes to its store, once.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::config::settings;
use super::recover::Recovered;
use super::run::Lines;
use super::session::{RunEntry, StoreOfRun};
use super::spool::{Head, Refused, Spool};
use super::task::Task;
use super::view::Common;
use crate::record::{Status, WorkflowObject};
use crate::store::jsonl::{JsonlStore, Mended};
use crate::store::{self, Batch, RunInfo, Store};

/// A run that a process left behind.
pub(super) struct Left<'a> {
    /// The folder that it was found in.
    pub(super) folder: &'a Path,
    pub(super) run: &'a RunEntry,
    /// The files that its records went to, as its log names them.
    pub(super) files: &'a [PathBuf],
    pub(super) pid: u32,
}

/// Brings a run to its end in its stores. What is counted is what the first of them lacked.
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

/// A store somewhere else is not for us to find by what a dead process left: who knows it replays this for it.
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
    let lines = left.lines(&mut tasks, true, false);
    Spool::leave(left.folder, head, &lines, &settings().recorder).map_err(
        |refused| match refused {
            Refused::Io(error) => error,
            Refused::Full => io::Error::other("there is no room"),
        },
    )?;
    recovered.count(&tasks);
    Ok(())
}

/// Where the store is away, the session stays for a later try.
fn finish_in_store(
    left: &Left<'_>,
    uri: &str,
    mut tasks: Vec<&Task>,
    recovered: &mut Recovered,
) -> io::Result<()> {
    let info = left.info();
    let mut store = store::open_left(uri, left.folder, &info).map_err(io::Error::other)?;
    let known = store.known(&info, &ids(&tasks)).map_err(io::Error::other)?;
    retain_unknown(&mut tasks, &known.ended, &known.running);
    if tasks.is_empty() && known.has_end {
        return Ok(());
    }
    let lines = left.lines(&mut tasks, !known.has_end, known.has_end);
    let batch = Batch::new(&lines.bytes, &lines.ends);
    store.write(&batch).map_err(io::Error::other)?;
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
        // The process died between making its file and noting it.
        files.push(store.first_path());
    }
    let ids = ids(&tasks);
    let mut has_end = false;
    // A run may have had several files; it goes on in the last.
    let mut last = None;
    for file in &files {
        let mended = Mended::open(file, &ids)?;
        retain_unknown(&mut tasks, &mended.ended, &mended.running);
        has_end |= mended.has_end;
        last = Some(mended);
    }
    if tasks.is_empty() && has_end {
        return Ok(());
    }
    let lines = left.lines(&mut tasks, last.is_none(), has_end);
    match &mut last {
        Some(last) => last.append(&lines.bytes)?,
        None => {
            let batch = Batch::new(&lines.bytes, &lines.ends);
            store.write(&batch).map_err(io::Error::other)?;
        }
    }
    recovered.count(&tasks);
    for file in files {
        // What was open is in the file itself now.
        _ = fs::remove_file(file.with_extension("open.jsonl"));
    }
    Ok(())
}

impl Left<'_> {
    fn info(&self) -> RunInfo {
        let run = self.run;
        RunInfo::new(run.workflow_id.clone(), run.name.clone(), self.pid, settings())
    }

    /// The records that are missing: the workflow's beginning and end, and these tasks in between.
    fn lines(&self, tasks: &mut [&Task], lacks_beginning: bool, has_end: bool) -> Lines {
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
        if !has_end && let Some(workflow) = &run.workflow {
            lines.push_workflow(&lost_workflow(workflow));
        }
        lines
    }
}

fn ids(tasks: &[&Task]) -> HashSet<String> {
    tasks.iter().map(|task| task.start.id.to_string()).collect()
}

/// Leaves out what is in the store.
fn retain_unknown(tasks: &mut Vec<&Task>, ended: &HashSet<String>, running: &HashSet<String>) {
    tasks.retain(|task| {
        let id = task.start.id.to_string();
        !ended.contains(&id) && (task.end.is_some() || !running.contains(&id))
    });
}

/// The file of a run in this folder. By its name only: the folder may have been moved, and nothing outside it is touched.
fn file_of_run(folder: &Path, logged: &Path) -> Option<PathBuf> {
    let path = folder.join(logged.file_name()?);
    let is_ours = path.extension().is_some_and(|extension| extension == "jsonl")
        && fs::symlink_metadata(&path).is_ok_and(|facts| facts.is_file());
    is_ours.then_some(path)
}

fn is_empty_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|facts| facts.is_file() && facts.len() == 0)
}

/// The last record of a workflow whose process died: nobody knows how it would have ended, or when it did.
fn lost_workflow(workflow: &WorkflowObject) -> WorkflowObject {
    let mut lost = workflow.clone();
    lost.status = Some(Status::Unknown);
    lost.stderr = Some("the process was killed or crashed; its tasks were recovered".to_owned());
    lost
}
