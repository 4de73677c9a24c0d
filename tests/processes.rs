//! Many processes record into one folder at once: every record is there, once, and under its parent.

use std::collections::{HashMap, HashSet};
use std::process::Stdio;

use runlore::record::{Record, Status};
use runlore::store::jsonl;
use runlore::telemetry_task;
use tempfile::TempDir;

use crate::support::{bare_child, expect_success, is_child, number, tried};

const RECORDS: &str = "processes::records";
const PROCESSES: u64 = 8;

#[telemetry_task]
fn outer(n: u64) -> u64 {
    middle(n) + 1
}

#[telemetry_task]
fn middle(n: u64) -> u64 {
    inner(n) + inner(n + 1)
}

#[telemetry_task]
fn inner(n: u64) -> u64 {
    n
}

/// An outer task has three others in it.
const NESTED: u64 = 4;

#[test]
fn records() {
    if !is_child(RECORDS) {
        return;
    }
    let tasks: u64 = std::env::var("TASKS").unwrap().parse().unwrap();
    let run = runlore::workflow("many").store(std::env::var("FOLDER").unwrap()).start().unwrap();
    let half = tasks / NESTED / 2;
    let other = std::thread::spawn(runlore::carry(move || (0..half).for_each(|n| _ = outer(n))));
    (half..tasks / NESTED).for_each(|n| _ = outer(n));
    other.join().unwrap();
    let totals = run.finish().unwrap();
    assert_eq!((totals.tasks, totals.finished, totals.dropped), (tasks, tasks, 0));
    assert_eq!(runlore::stats().dropped, 0);
}

#[test]
fn eight_processes_in_one_folder_lose_and_mix_nothing() {
    let folder = TempDir::new().unwrap();
    let tasks = record_in_eight(&folder.path().display().to_string(), 2000);
    check(jsonl::read(folder.path()).unwrap(), tasks);
    assert!(!folder.path().join(".rings").exists(), "nothing is left to recover");
    tried("processes that record into one folder", format!("{PROCESSES} × {tasks} tasks"));
}

#[cfg(feature = "sqlite")]
#[test]
fn eight_processes_in_one_database_lose_and_mix_nothing() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.db");
    // Fewer: a debug build of SQLite is slow, and a run that ends waits for its records no longer than 10 s.
    let tasks = record_in_eight(&format!("sqlite://{}", path.display()), 400);
    let source = runlore::store::sqlite::SqliteSource::open(&path).unwrap();
    check(source.records(), tasks);
    assert!(!folder.path().join(".rings").exists(), "nothing is left to recover");
    tried("processes that record into one SQLite file", format!("{PROCESSES} × {tasks} tasks"));
}

/// Lets eight processes record at once, so many tasks each unless the reliability suite wants another number; returns
/// how many.
fn record_in_eight(store: &str, tasks: u64) -> u64 {
    let tasks = number("RUNLORE_TEST_TASKS").unwrap_or(tasks) / NESTED * NESTED;
    let processes: Vec<_> = (0..PROCESSES)
        .map(|_| {
            bare_child(RECORDS)
                .env("FOLDER", store)
                .env("TASKS", tasks.to_string())
                .env("RUNLORE_RECORDER__WHEN_FULL", "block")
                // However busy the machine is, waiting is all that happens.
                .env("RUNLORE_RECORDER__MAX_WAIT_MS", "60s")
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for process in processes {
        let output = process.wait_with_output().unwrap();
        expect_success(&output);
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(!told.contains("runlore:"), "{told}");
    }
    tasks
}

/// Every record is there, once, and under its parent.
fn check(records: impl Iterator<Item = runlore::Result<Record>>, tasks: u64) {
    // Only what is compared is kept: in full these are 800,000 tasks.
    let mut parents: HashMap<u128, (Option<u128>, u32)> = HashMap::new();
    let mut workflows = HashSet::new();
    let mut by_process: HashMap<u64, u64> = HashMap::new();
    let id = |text: &str| u128::from_str_radix(&text.replace('-', ""), 16).unwrap();
    for record in records {
        match record.unwrap() {
            Record::Task(task) => {
                let level =
                    ["outer", "middle", "inner"].iter().position(|name| *name == task.name());
                let parent = task.parent_task_id.as_deref().map(id);
                let value = (parent, level.unwrap() as u32);
                assert!(
                    parents.insert(id(&task.task_id), value).is_none(),
                    "{} twice",
                    task.task_id
                );
                assert_eq!(task.status, Some(Status::Finished));
                *by_process.entry(task.pid.unwrap()).or_default() += 1;
            }
            Record::Workflow(workflow) => _ = workflows.insert(workflow.workflow_id.clone()),
            Record::Other(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(workflows.len() as u64, PROCESSES);
    assert_eq!(by_process.len() as u64, PROCESSES);
    assert!(by_process.values().all(|count| *count == tasks), "{by_process:?}");
    for (parent, level) in parents.values() {
        match parent {
            None => assert_eq!(*level, 0),
            Some(parent) => assert_eq!(parents[parent].1 + 1, *level, "under its own parent"),
        }
    }
}
