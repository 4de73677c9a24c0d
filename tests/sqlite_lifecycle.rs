//! Exits, forks and deaths of processes that record into a database: what they did is there, once.

#![cfg(unix)]

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use runlore::record::{Record, Status, TaskObject, WorkflowObject};
use runlore::store::sqlite::SqliteSource;
use tempfile::TempDir;

use crate::dead_process::{self, OPEN, QUEUED, STORED, session};
use crate::lifecycle::scenario;
use crate::support::{expect_success, finished_in_time, tried};

fn uri(path: &Path) -> String {
    format!("sqlite://{}", path.display())
}

fn read(path: &Path) -> (Vec<TaskObject>, Vec<WorkflowObject>) {
    let (mut tasks, mut workflows) = (Vec::new(), Vec::new());
    for record in SqliteSource::open(path).unwrap().records() {
        match record.unwrap() {
            Record::Task(task) => tasks.push(*task),
            Record::Workflow(workflow) => workflows.push(*workflow),
            Record::Other(other) => panic!("{other:?}"),
        }
    }
    let ids: HashSet<&str> = tasks.iter().map(|task| task.task_id.as_str()).collect();
    assert_eq!(ids.len(), tasks.len(), "each once");
    (tasks, workflows)
}

fn names(tasks: &[TaskObject]) -> Vec<&str> {
    let mut names: Vec<_> = tasks.iter().map(TaskObject::name).collect();
    names.sort_unstable();
    names
}

#[test]
fn an_exit_inside_a_task_keeps_the_others_and_tells_what_was_open() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.db");
    let output = finished_in_time(scenario("exit in a worker", Path::new(&uri(&path))));
    assert_eq!(output.status.code(), Some(5));
    let (tasks, workflows) = read(&path);
    assert_eq!(names(&tasks), ["open", "work"]);
    let open = tasks.iter().find(|task| task.name() == "open").unwrap();
    assert_eq!(open.status, Some(Status::Running));
    assert_eq!((workflows[0].status, workflows[0].exit_code), (Some(Status::Error), Some(5)));
}

#[test]
fn a_forked_child_records_its_own_workflow_into_the_same_database() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.db");
    let output = finished_in_time(scenario("forks", Path::new(&uri(&path))));
    expect_success(&output);
    let (tasks, workflows) = read(&path);
    assert_eq!(names(&tasks), ["around", "in the child", "work", "work", "work", "work"]);
    let pids: HashSet<_> = tasks.iter().map(|task| task.pid.unwrap()).collect();
    assert_eq!((pids.len(), workflows.len()), (2, 2));
}

#[test]
fn many_forks_while_threads_record_hang_and_lose_nothing() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.db");
    let output = finished_in_time(scenario("forks many times", Path::new(&uri(&path))));
    expect_success(&output);
    let (tasks, workflows) = read(&path);
    let of_parent = workflows.iter().find(|run| run.name.as_deref() != Some("of a child"));
    let of_parent = of_parent.unwrap();
    let parent = of_parent.pid;
    let number = |task: &TaskObject| task.used.as_ref().unwrap()["n"].as_u64().unwrap();
    let by_children = tasks.iter().filter(|task| task.pid != parent).map(number);
    assert_eq!(by_children.collect::<HashSet<u64>>(), (0..20).collect());
    // The parent's are all there: nothing was written to a log that somebody else took away.
    let counted = of_parent.totals.as_ref().unwrap()["tasks"].as_u64().unwrap();
    assert_eq!(tasks.iter().filter(|task| task.pid == parent).count() as u64, counted);
    let sound =
        rusqlite::Connection::open(&path)
            .unwrap()
            .query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0));
    assert_eq!(sound.unwrap(), "ok");
    tried("forks while threads record into an SQLite file", "20 children");
}

/// A database that a process left which died while it recorded into it.
fn left(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("x.db");
    dead_process::leave_in(&uri(&path), folder);
    path
}

#[test]
fn a_reader_finishes_what_a_dead_process_left() {
    let folder = TempDir::new().unwrap();
    let path = left(folder.path());
    let (tasks, workflows) = read(&path);
    assert_eq!(tasks.len(), STORED + QUEUED + OPEN);
    let open = tasks.iter().filter(|task| task.status == Some(Status::Running)).count();
    assert_eq!(open, OPEN);
    assert_eq!(workflows[0].status, Some(Status::Unknown));
    assert!(!folder.path().join(".rings").exists());
    assert_eq!(runlore::recover(folder.path()).unwrap(), runlore::Recovered::default());
}

#[test]
fn a_database_that_is_locked_at_recovery_gets_it_later() {
    let folder = TempDir::new().unwrap();
    let path = left(folder.path());
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = runlore::recover(folder.path()).unwrap_err().to_string();
    assert!(error.contains("is locked by another process"), "{error}");
    assert!(session(folder.path()).exists());
    other.execute_batch("ROLLBACK").unwrap();
    let recovered = runlore::recover(folder.path()).unwrap();
    assert_eq!((recovered.tasks, recovered.open), (QUEUED as u64, OPEN as u64));
}

#[test]
fn a_folder_that_was_moved_is_recovered_where_it_is() {
    let all = TempDir::new().unwrap();
    let (before, after) = (all.path().join("before"), all.path().join("after"));
    fs::create_dir(&before).unwrap();
    left(&before);
    fs::rename(&before, &after).unwrap();
    assert_eq!(read(&after.join("x.db")).0.len(), STORED + QUEUED + OPEN);
    assert!(!before.exists());
}

#[test]
fn a_uri_that_was_tampered_with_touches_nothing_outside() {
    let change = |folder: &Path, to: &str| {
        let log = session(folder).join("log.jsonl");
        let text = fs::read_to_string(&log).unwrap();
        let own = format!("sqlite://{}/x.db", folder.display());
        let changed = text.replace(&own, to);
        assert_ne!(text, changed);
        fs::write(log, changed).unwrap();
    };
    let all = TempDir::new().unwrap();
    let outside = all.path().join("outside.db");
    fs::write(&outside, "untouched").unwrap();
    // A name outside is one inside; a link to it is none.
    let cases = [
        "sqlite:///",
        "mongodb://example.com/x",
        "nothing://x",
        "sqlite://linked.db",
        "sqlite://wal.db",
    ];
    for (number, to) in cases.into_iter().enumerate() {
        let folder = all.path().join(number.to_string());
        fs::create_dir(&folder).unwrap();
        left(&folder);
        symlink(&outside, folder.join("linked.db")).unwrap();
        symlink(&outside, folder.join("wal.db-wal")).unwrap();
        change(&folder, to);
        runlore::recover(&folder).unwrap_err();
        assert!(session(&folder).exists(), "{to}");
        assert_eq!(fs::read(&outside).unwrap(), b"untouched", "{to}");
    }
    let folder = all.path().join("by name");
    fs::create_dir(&folder).unwrap();
    left(&folder);
    change(&folder, &format!("sqlite://{}/../outside.db", folder.display()));
    assert_eq!(runlore::recover(&folder).unwrap().tasks, QUEUED as u64);
    assert_eq!(fs::read(&outside).unwrap(), b"untouched");
    assert!(folder.join("outside.db").exists());
}
