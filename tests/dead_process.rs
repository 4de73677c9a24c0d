//! A folder as a process leaves it that died while it recorded: for the tests that spoil such folders.

use std::fs;
use std::path::{Path, PathBuf};

use runlore::{carry, task, telemetry_task};
use serde_json::json;
use tempfile::TempDir;

use crate::support::{bare_child, expect_success, is_child};

const DIES: &str = "dead_process::records_and_dies";

/// Tasks in the file when the process dies, and tasks that were only in its queues.
pub(crate) const STORED: usize = 40;
pub(crate) const QUEUED: usize = 30;
/// Tasks that were open: one whose beginning had to leave its queue, and one whose had not.
pub(crate) const OPEN: usize = 2;

#[telemetry_task]
fn step(n: usize, name: &str, list: &[f64], nested: &serde_json::Value) -> Result<usize, String> {
    if n.is_multiple_of(7) { Err(format!("{name} failed over {}", list.len())) } else { Ok(n) }
}

fn steps(count: usize) {
    let nested = json!({"a": [1, 2, {"b": null}], "c": "text", "d": [[[1.5]]]});
    for n in 0..count {
        _ = step(n, "some name", &[0.5; 100], &nested);
    }
}

#[allow(unsafe_code)]
fn end_at_once() -> ! {
    // SAFETY: _exit has no preconditions.
    unsafe { libc::_exit(0) }
}

#[test]
fn records_and_dies() {
    if !is_child(DIES) {
        return;
    }
    let run = runlore::workflow("dies").store(std::env::var("FOLDER").unwrap().as_str());
    std::mem::forget(run.start().unwrap());
    std::mem::forget(task("open since the beginning").used("x", 1).start());
    steps(STORED);
    runlore::flush().unwrap();
    std::mem::forget(task("open at the end").used("y", [1, 2]).start());
    // From a second thread, so that there are two queues.
    std::thread::spawn(carry(|| steps(QUEUED / 2))).join().unwrap();
    steps(QUEUED / 2);
    end_at_once();
}

/// Lets a process die that recorded into `folder`.
pub(crate) fn leave(folder: &Path) {
    leave_in(&folder.display().to_string(), folder);
}

/// The same, of one that recorded into a store which has its queues in `folder`.
pub(crate) fn leave_in(store: &str, folder: &Path) {
    let output = bare_child(DIES)
        .env("FOLDER", store)
        // Nothing is written unless it must be, and the queues are small, so that they can be copied often.
        .env("RUNLORE_RECORDER__FLUSH_MS", "1h")
        .env("RUNLORE_RECORDER__FLUSH_RECORDS", "100000")
        .env("RUNLORE_RECORDER__RING_BYTES", "32KiB")
        .output()
        .unwrap();
    expect_success(&output);
    session(folder);
}

/// A folder of its own that a process left.
pub(crate) fn folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    leave(folder.path());
    folder
}

/// The one session in a folder.
pub(crate) fn session(folder: &Path) -> PathBuf {
    let sessions: Vec<_> =
        fs::read_dir(folder.join(".rings")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    sessions[0].clone()
}

/// The one file of records in a folder.
pub(crate) fn records(folder: &Path) -> PathBuf {
    let files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files[0].clone()
}

/// Copies plain files and folders.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[cfg(unix)]
#[test]
fn a_file_that_was_made_and_not_noted_is_gone_on_with() {
    let folder = folder();
    let log = session(folder.path()).join("log.jsonl");
    let lines = fs::read_to_string(&log).unwrap();
    let kept = lines.lines().filter(|line| !line.starts_with("{\"file\":"));
    fs::write(log, kept.flat_map(|line| [line, "\n"]).collect::<String>()).unwrap();
    fs::write(records(folder.path()), "").unwrap();
    let recovered = runlore::recover(folder.path()).unwrap();
    assert_eq!(recovered.tasks, QUEUED as u64);
    // On a busy machine the writer may have set aside the beginning of a task that it stored a moment later. The
    // emptied file no longer says that this task has ended, so it counts as open.
    assert!(recovered.open >= OPEN as u64, "{recovered:?}");
    let lines = fs::read_to_string(records(folder.path())).unwrap();
    assert_eq!(lines.lines().count() as u64, recovered.tasks + recovered.open + 1);
}

#[cfg(unix)]
#[test]
fn it_is_recovered_whole_when_nobody_spoils_it() {
    let folder = folder();
    let session = session(folder.path());
    assert!(session.join("ring-1").exists(), "two queues");
    let before = fs::read(records(folder.path())).unwrap();
    assert_eq!(before.iter().filter(|byte| **byte == b'\n').count(), STORED + 1);
    let recovered = runlore::recover(folder.path()).unwrap();
    assert_eq!(
        (recovered.processes, recovered.tasks, recovered.open),
        (1, QUEUED as u64, OPEN as u64)
    );
    assert!(fs::read(records(folder.path())).unwrap().starts_with(&before));
    assert!(!folder.path().join(".rings").exists());
}

/// Says in the log of a session that it belongs to another process, with these fields changed.
#[cfg(target_os = "linux")]
fn say_it_is_of(session: &Path, changes: &[(&str, Option<serde_json::Value>)]) {
    let log = session.join("log.jsonl");
    let text = fs::read_to_string(&log).unwrap();
    let (first, rest) = text.split_once('\n').unwrap();
    let mut first: serde_json::Value = serde_json::from_str(first).unwrap();
    let owner = first["session"].as_object_mut().unwrap();
    for (name, value) in changes {
        match value {
            Some(value) => _ = owner.insert((*name).to_owned(), value.clone()).unwrap(),
            None => _ = owner.remove(*name).unwrap(),
        }
    }
    fs::write(log, format!("{first}\n{rest}")).unwrap();
}

/// When this process started, as its sessions say it.
#[cfg(target_os = "linux")]
fn started() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    stat.rsplit_once(") ").unwrap().1.split(' ').nth(19).unwrap().parse().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_whose_number_another_has_now_is_recovered() {
    let folder = folder();
    let session = session(folder.path());
    let _open = fs::File::open(session.join("lock")).unwrap();
    say_it_is_of(&session, &[("pid", Some(json!(std::process::id())))]);
    assert_eq!(runlore::recover(folder.path()).unwrap().tasks, QUEUED as u64);
}

#[cfg(target_os = "linux")]
#[test]
fn a_session_of_this_process_is_left_alone_as_long_as_something_in_it_has_its_lock_open() {
    let folder = folder();
    let session = session(folder.path());
    let open = fs::File::open(session.join("lock")).unwrap();
    let this = [("pid", Some(json!(std::process::id()))), ("started", Some(json!(started())))];
    say_it_is_of(&session, &this);
    assert_eq!(runlore::recover(folder.path()).unwrap(), runlore::Recovered::default());
    assert!(session.exists());
    // As after `exec`: the same process, and another program.
    drop(open);
    assert_eq!(runlore::recover(folder.path()).unwrap().tasks, QUEUED as u64);
}

#[cfg(target_os = "linux")]
#[test]
fn a_log_that_knows_less_of_its_process_is_recovered_and_so_is_one_from_before_a_restart() {
    let restarted = [("boot", Some(json!("another"))), ("hostname", Some(json!("renamed")))];
    let old = [("boot", None), ("started", None), ("pid_namespace", None)];
    for changes in [&restarted[..], &old] {
        let folder = folder();
        say_it_is_of(&session(folder.path()), changes);
        assert_eq!(runlore::recover(folder.path()).unwrap().tasks, QUEUED as u64);
    }
}
