//! Old files go when the settings say so; those of a run that is alive stay.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use runlore::record::Status;
use runlore::store::jsonl;

use crate::support::{child, expect_success, is_child};

const CHILD: &str = "retention::child_process";

/// Runs a workflow in the folder; with `wait`, it says when its first task is stored and goes on when it is told to.
fn run(folder: &Path, name: &str, settings: &[(&str, &str)]) -> Command {
    let mut command = child(CHILD);
    command.env("FOLDER", folder).env("NAME", name).env("RUNLORE_RECORDER__FLUSH_MS", "1");
    for (key, value) in settings {
        command.env(format!("RUNLORE_DATABASES__JSONL__{key}"), value);
    }
    command
}

#[test]
fn child_process() {
    if !is_child(CHILD) {
        return;
    }
    let name = std::env::var("NAME").unwrap();
    let run = runlore::workflow(&name).store(std::env::var("FOLDER").unwrap().as_str());
    let run = run.start().unwrap();
    for number in 0..std::env::var("TASKS").map_or(1, |count| count.parse().unwrap()) {
        runlore::task("work").used("number", number).used("text", "x".repeat(500)).run(|| ());
        runlore::flush().unwrap();
    }
    if std::env::var("WAIT").is_ok() {
        println!("ready");
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).unwrap();
        runlore::task("later").run(|| ());
    }
    run.finish().unwrap();
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.filter(|path| path.is_file()).collect();
    files.sort();
    files
}

/// Makes the files look as if nobody had written to them for that long.
fn age(folder: &Path, days: u64) {
    for file in files(folder) {
        let file = fs::OpenOptions::new().write(true).open(file).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(days * 86_400)).unwrap();
    }
}

#[cfg(unix)]
#[test]
fn the_file_of_a_quiet_live_run_stays() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = run(folder.path(), "quiet", &[]);
    command.env("WAIT", "yes").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut quiet = command.spawn().unwrap();
    let lines = BufReader::new(quiet.stdout.take().unwrap()).lines();
    let mut lines = lines.map(Result::unwrap);
    assert!(lines.any(|line| line.ends_with("ready")));
    age(folder.path(), 99);

    let keep = [("KEEP_FILES", "1"), ("KEEP_DAYS", "1"), ("KEEP_BYTES", "4KiB")];
    for name in ["second", "third"] {
        expect_success(&run(folder.path(), name, &keep).output().unwrap());
    }
    let loaded = jsonl::load(folder.path()).unwrap();
    let names: Vec<_> = loaded.workflows.iter().filter_map(|run| run.name.as_deref()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names.contains(&"quiet") && names.contains(&"third"), "{names:?}");

    quiet.stdin.take().unwrap().write_all(b"\n").unwrap();
    lines.for_each(drop);
    assert!(quiet.wait().unwrap().success());
    let loaded = jsonl::load(folder.path()).unwrap();
    assert!(loaded.tasks.iter().any(|task| task.activity_id.as_deref() == Some("later")));

    expect_success(&run(folder.path(), "fourth", &keep).output().unwrap());
    let loaded = jsonl::load(folder.path()).unwrap();
    assert_eq!(loaded.workflows.len(), 1, "its process has ended: it is one of the past");
}

#[cfg(unix)]
#[test]
fn a_killed_run_is_one_of_the_past() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = run(folder.path(), "killed", &[("KEEP_FILES", "1")]);
    command.env("WAIT", "yes").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut killed = command.spawn().unwrap();
    let mut lines = BufReader::new(killed.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().ends_with("ready")));
    killed.kill().unwrap();
    killed.wait().unwrap();
    expect_success(&run(folder.path(), "next", &[("KEEP_FILES", "1")]).output().unwrap());
    let loaded = jsonl::load(folder.path()).unwrap();
    assert_eq!(loaded.workflows.len(), 1);
    assert_eq!(loaded.workflows[0].name.as_deref(), Some("next"));
}

#[cfg(unix)]
#[test]
fn a_run_that_rotates_for_long_keeps_its_first_file_and_the_newest() {
    let folder = tempfile::tempdir().unwrap();
    let settings = [("ROTATE_BYTES", "4KiB"), ("KEEP_FILES", "3")];
    let output = run(folder.path(), "long", &settings).env("TASKS", "60").output().unwrap();
    expect_success(&output);
    assert_eq!(files(folder.path()).len(), 4, "{:?}", files(folder.path()));

    let has_first = |file: &PathBuf| {
        let text = fs::read_to_string(file).unwrap();
        text.starts_with('{') && text.contains("\"status\":\"RUNNING\"")
    };
    assert!(files(folder.path()).iter().any(has_first), "the workflow's first record");

    let loaded = jsonl::load(folder.path()).unwrap();
    assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
    let run = &loaded.workflows[0];
    assert_eq!((run.name.as_deref(), run.status), (Some("long"), Some(Status::Finished)));
    // What was deleted with its files is still counted.
    assert_eq!(run.totals.as_ref().unwrap()["tasks"], 60);
    assert!(loaded.tasks.len() < 60);
    let numbers: Vec<_> =
        loaded.tasks.iter().map(|task| task.used.as_ref().unwrap()["number"].as_u64()).collect();
    assert!(numbers.contains(&Some(59)), "{numbers:?}");
}

#[test]
fn an_old_file_is_followed_by_another() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = run(folder.path(), "slow", &[("ROTATE_AGE", "1s")]);
    command.env("WAIT", "yes").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut slow = command.spawn().unwrap();
    let mut lines = BufReader::new(slow.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().ends_with("ready")));
    std::thread::sleep(Duration::from_millis(1100));
    slow.stdin.take().unwrap().write_all(b"\n").unwrap();
    lines.for_each(drop);
    assert!(slow.wait().unwrap().success());
    assert!(files(folder.path()).len() > 1);
    assert_eq!(jsonl::load(folder.path()).unwrap().tasks.len(), 2);
}
