//! Several stores at once: each gets every record.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use runlore::record::Status;
use runlore::store::{MemoryStore, jsonl};
use runlore::telemetry_task;
use tempfile::TempDir;

use crate::support::{bare_child, expect_success, finished_in_time, is_child};

#[telemetry_task]
fn work(n: u64) -> u64 {
    n + 1
}

#[test]
fn each_store_gets_every_record_and_says_what_it_has() {
    let stores = [MemoryStore::new(), MemoryStore::new()];
    let [one, other] = stores.clone();
    let run = runlore::workflow("both").store(one).store(other).start().unwrap();
    (0..100).for_each(|n| _ = work(n));
    assert_eq!(run.finish().unwrap().tasks, 100);
    for store in stores {
        assert_eq!(store.tasks().len(), 100);
        let workflows = store.workflows();
        assert_eq!(workflows.len(), 2);
        assert_eq!(workflows[1].totals.as_ref().unwrap()["tasks"], 100);
    }
}

fn finished(folder: &Path) -> HashSet<u64> {
    let loaded = jsonl::load(folder).unwrap();
    let done = loaded.tasks.iter().filter(|task| task.status == Some(Status::Finished));
    done.map(|task| task.used.as_ref().unwrap()["n"].as_u64().unwrap()).collect()
}

const ENDS: &str = "several_stores::a_process_that_ends_without_a_word_is_recovered_in_each_store";

#[test]
fn a_process_that_ends_without_a_word_is_recovered_in_each_store() {
    if is_child(ENDS) {
        let folders = std::env::var("FOLDERS").unwrap();
        let mut workflow = runlore::workflow("both");
        for folder in folders.split(':') {
            workflow = workflow.store(folder);
        }
        let run = workflow.start().unwrap();
        (0..50).for_each(|n| _ = work(n));
        runlore::flush().unwrap();
        (50..100).for_each(|n| _ = work(n));
        std::mem::forget(run);
        std::process::abort();
    }
    let root = TempDir::new().unwrap();
    let folders: Vec<PathBuf> = ["one", "two"].iter().map(|name| root.path().join(name)).collect();
    let mut command = bare_child(ENDS);
    let joined: Vec<_> = folders.iter().map(|folder| folder.to_str().unwrap()).collect();
    command.env("FOLDERS", joined.join(":")).env("RUNLORE_RECORDER__FLUSH_MS", "60s");
    command.env("RUNLORE_RECORDER__FLUSH_RECORDS", "1000000");
    assert!(!finished_in_time(command).status.success());
    let all: HashSet<u64> = (0..100).collect();
    assert_eq!(finished(&folders[0]), all, "readers recover");
    let waiting = runlore::spooled(&folders[0]).unwrap();
    assert_eq!(waiting[0].store.as_deref(), folders[1].to_str());
    runlore::replay(&folders[0], joined[1], |_| ()).unwrap();
    assert_eq!(finished(&folders[1]), all);
    let lines = jsonl::read(&folders[1]).unwrap().count();
    assert!((102..=103).contains(&lines), "{lines} records: none is there twice");
}

const INHERITS: &str = "several_stores::a_child_process_records_into_the_same_stores";

#[test]
fn a_child_process_records_into_the_same_stores() {
    if is_child(INHERITS) {
        work(7);
        return;
    }
    let folders = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let run = runlore::workflow("parent").store(folders[0].path()).store(folders[1].path());
    let run = run.start().unwrap();
    let mut command = bare_child(INHERITS);
    run.context().to_env(&mut command);
    expect_success(&finished_in_time(command));
    run.finish().unwrap();
    for folder in &folders {
        assert_eq!(finished(folder.path()), HashSet::from([7]));
    }
}
