//! What a dead process left may have been tampered with: recovery touches nothing outside the folder, waits for nothing, and
//! writes every record once.

#![cfg(unix)]

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use runlore::record::Record;
use runlore::store::jsonl;
use tempfile::TempDir;

use crate::dead_process::{self, OPEN, QUEUED, STORED, records, session};
use crate::support::{bare_child, child, expect_success, finished_in_time, is_child, tried};

const RECOVERS: &str = "hostile_recovery::recovers";

/// A recovery in a process of its own, which must not hang.
pub(crate) fn recovery_of(folder: &Path) -> std::process::Output {
    let mut command = child(RECOVERS);
    command.env("FOLDER", folder);
    let output = finished_in_time(command);
    expect_success(&output);
    output
}

/// Recovers in a process of its own; what it said.
fn recover_apart(folder: &Path) -> String {
    let output = recovery_of(folder);
    let told = String::from_utf8(output.stdout).unwrap();
    told.split("recovery: ").nth(1).unwrap().lines().next().unwrap().to_owned()
}

#[test]
fn recovers() {
    if is_child(RECOVERS) {
        match runlore::recover(std::env::var("FOLDER").unwrap()) {
            Ok(found) => println!("recovery: {} {} {}", found.processes, found.tasks, found.open),
            Err(error) => println!("recovery: {error}"),
        }
    }
}

/// A store that a dead process left, and beside it files that nobody may touch.
struct Case {
    all: TempDir,
    store: PathBuf,
    outside: PathBuf,
}

const UNTOUCHED: &[u8] = b"{\"task_id\":\"mine\"}\nhalf a li";

impl Case {
    fn new() -> Self {
        let all = TempDir::new().unwrap();
        let (store, outside) = (all.path().join("store"), all.path().join("outside"));
        fs::create_dir(&outside).unwrap();
        dead_process::leave(&store);
        for path in [all.path().join("x.jsonl"), outside.join("x.jsonl"), outside.join("x.txt")] {
            fs::write(path, UNTOUCHED).unwrap();
        }
        Self { all, store, outside }
    }

    fn session(&self) -> PathBuf {
        session(&self.store)
    }

    /// Rewrites the log of the session.
    fn change_log(&self, change: impl FnOnce(String) -> String) {
        let log = self.session().join("log.jsonl");
        let text = fs::read_to_string(&log).unwrap();
        let changed = change(text.clone());
        assert_ne!(text, changed);
        fs::write(log, changed).unwrap();
    }

    /// Moves a file of the session out, and puts a link to it in its place.
    fn link_out(&self, name: &str) -> PathBuf {
        let (inside, outside) = (self.session().join(name), self.outside.join(name));
        fs::rename(&inside, &outside).unwrap();
        symlink(&outside, inside).unwrap();
        outside
    }

    fn assert_outside_is_untouched(&self) {
        let files = [
            self.all.path().join("x.jsonl"),
            self.outside.join("x.jsonl"),
            self.outside.join("x.txt"),
        ];
        for path in files {
            assert_eq!(fs::read(&path).unwrap(), UNTOUCHED, "{}", path.display());
        }
        assert_eq!(fs::read_dir(self.all.path()).unwrap().count(), 3);
    }

    /// The session is as it was, and the file of records too.
    fn assert_left_alone(&self) {
        self.assert_outside_is_untouched();
        assert!(self.session().exists());
        let lines = fs::read_to_string(records(&self.store)).unwrap();
        assert_eq!(lines.lines().count(), STORED + 1);
    }
}

fn fifo(path: &Path) {
    _ = fs::remove_file(path);
    let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

/// How many open tasks were recovered, and all others. Where the file of records cannot be found, one that was open when a
/// queue had to make room, and is stored by now, is among them.
fn opened(told: &str) -> usize {
    let open: usize = told.strip_prefix(&format!("1 {QUEUED} ")).unwrap_or(told).parse().unwrap();
    assert!((OPEN..=OPEN + 1).contains(&open), "{told}");
    open
}

#[test]
fn files_that_the_log_names_elsewhere_are_not_touched() {
    for name in ["../x.jsonl", "/", "..", "../outside/x.txt", "OUTSIDE/x.jsonl", "x.txt"] {
        let case = Case::new();
        let name = name.replace("OUTSIDE", case.outside.to_str().unwrap());
        fs::write(case.store.join("x.txt"), UNTOUCHED).unwrap();
        let file = records(&case.store);
        case.change_log(|log| log.replace(file.to_str().unwrap(), &name));
        // The tasks go to a file of their own.
        opened(&recover_apart(&case.store));
        case.assert_outside_is_untouched();
        assert_eq!(fs::read(case.store.join("x.txt")).unwrap(), UNTOUCHED, "{name}");
        let loaded = jsonl::load(&case.store).unwrap();
        assert_eq!(loaded.tasks.len(), STORED + QUEUED + OPEN, "{name}");
    }
}

#[test]
fn a_file_of_records_that_is_a_link_is_not_written_through() {
    let case = Case::new();
    let file = records(&case.store);
    fs::remove_file(&file).unwrap();
    symlink(case.outside.join("x.jsonl"), &file).unwrap();
    let open = opened(&recover_apart(&case.store));
    case.assert_outside_is_untouched();
    assert_eq!(jsonl::load(&case.store).unwrap().tasks.len(), QUEUED + open);
}

#[test]
fn links_to_folders_are_not_followed() {
    // The folder of one session.
    let case = Case::new();
    let moved = case.outside.join("session");
    fs::rename(case.session(), &moved).unwrap();
    symlink(&moved, case.store.join(".rings").join("link")).unwrap();
    assert_eq!(recover_apart(&case.store), "0 0 0");
    assert!(moved.join("log.jsonl").exists());
    case.assert_outside_is_untouched();

    // The folder of all of them, for those who recover and for those who record.
    let case = Case::new();
    let moved = case.outside.join("rings");
    fs::rename(case.store.join(".rings"), &moved).unwrap();
    symlink(&moved, case.store.join(".rings")).unwrap();
    assert_eq!(recover_apart(&case.store), "0 0 0");
    let mut command = bare_child(RECORDS);
    command.env("FOLDER", &case.store);
    let output = finished_in_time(command);
    expect_success(&output);
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(told.matches("the queue cannot be kept in").count(), 1, "{told}");
    assert_eq!(fs::read_dir(&moved).unwrap().count(), 1);
    case.assert_outside_is_untouched();
}

const RECORDS: &str = "hostile_recovery::records_a_task";

#[test]
fn records_a_task() {
    if is_child(RECORDS) {
        let store = std::env::var("FOLDER").unwrap();
        runlore::workflow("good").store(store).run(|| runlore::task("t").run(|| ())).unwrap();
    }
}

#[test]
fn files_of_a_session_that_are_links_or_pipes_are_left_alone() {
    for name in ["lock", "log.jsonl", "ring-0", "open"] {
        let case = Case::new();
        if name == "open" {
            fs::write(case.session().join(name), "").unwrap();
        }
        let kept = case.link_out(name);
        let before = fs::read(&kept).unwrap();
        let told = recover_apart(&case.store);
        assert!(told.contains(&format!("{name} is not a plain file")), "{name}: {told}");
        assert_eq!(fs::read(&kept).unwrap(), before);
        case.assert_left_alone();

        fifo(&case.session().join(name));
        let told = recover_apart(&case.store);
        assert!(told.contains(&format!("{name} is not a plain file")), "{name}: {told}");
        case.assert_left_alone();
    }
    tried("links and pipes in place of a dead process's files", "4 files, each as both");
}

#[test]
fn a_lock_with_two_names_is_left_alone() {
    let case = Case::new();
    fs::hard_link(case.session().join("lock"), case.outside.join("lock")).unwrap();
    let told = recover_apart(&case.store);
    assert!(told.contains("its lock is a lock of something else too"), "{told}");
    case.assert_left_alone();
}

#[test]
fn a_session_of_another_version_is_left_alone() {
    let case = Case::new();
    case.change_log(|log| log.replacen("\"format\":3", "\"format\":1", 1));
    let told = recover_apart(&case.store);
    assert!(
        told.starts_with("what a killed process left in ")
            && told.ends_with("cannot be recovered: it was written by another version of Runlore"),
        "{told}"
    );
    case.assert_left_alone();
    // Readers and new runs go on.
    assert_eq!(jsonl::load(&case.store).unwrap().tasks.len(), STORED);
    let mut command = bare_child(RECORDS);
    command.env("FOLDER", &case.store);
    expect_success(&finished_in_time(command));
    assert!(case.session().exists());
}

#[test]
fn a_log_whose_beginning_is_lost_is_left_alone() {
    let case = Case::new();
    case.change_log(|log| log.split_once('\n').unwrap().1.to_owned());
    assert!(recover_apart(&case.store).ends_with("the first line of its log is damaged"));
    case.assert_left_alone();

    // The line that names the workflow.
    let case = Case::new();
    case.change_log(|log| log.replacen("{\"run\":", "{\"rum\":", 1));
    let told = recover_apart(&case.store);
    let lost = QUEUED + OPEN;
    assert!(told.ends_with(&format!("{lost} tasks belong to no workflow that it names")), "{told}");
    case.assert_left_alone();
}

#[test]
fn a_session_that_was_hardly_begun_goes() {
    let folder = TempDir::new().unwrap();
    let rings = folder.path().join(".rings");
    // One without a word in its log, and one that somebody was just removing.
    for (session, files) in [("a", &["lock", "log.jsonl"][..]), ("done-b", &["ring-0"])] {
        fs::create_dir_all(rings.join(session)).unwrap();
        for file in files {
            fs::write(rings.join(session).join(file), "").unwrap();
        }
    }
    assert_eq!(recover_apart(folder.path()), "0 0 0");
    assert!(!rings.exists());

    // One without a log may be in the making, unless that takes too long.
    fs::create_dir_all(rings.join("c")).unwrap();
    fs::write(rings.join("c").join("lock"), "").unwrap();
    assert_eq!(recover_apart(folder.path()), "0 0 0");
    assert!(rings.join("c").exists());
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    fs::File::open(rings.join("c")).unwrap().set_modified(long_ago).unwrap();
    assert_eq!(recover_apart(folder.path()), "0 0 0");
    assert!(!rings.exists());
}

#[test]
fn a_value_nested_without_end_is_cut() {
    let case = Case::new();
    let ring = case.session().join("ring-0");
    let mut bytes = fs::read(&ring).unwrap();
    // 100 numbers are copied as a summary, which begins with its tag, its kind and its length.
    let summary: &[u8] = &[&[19, 9][..], &100_u64.to_le_bytes()].concat();
    let found: Vec<usize> = (4096..bytes.len() - summary.len())
        .filter(|at| bytes[*at] == 19 && bytes[*at + 2..*at + 10] == summary[2..])
        .collect();
    assert!(!found.is_empty());
    for (nth, at) in found.into_iter().enumerate() {
        // Lists in lists, summaries in summaries.
        let fill = if nth % 2 == 0 { 12 } else { 19 };
        bytes[at..at + 60].fill(fill);
    }
    fs::write(ring, bytes).unwrap();
    assert_eq!(recover_apart(&case.store), format!("1 {QUEUED} {OPEN}"));
    let loaded = jsonl::load(&case.store).unwrap();
    assert_eq!(loaded.tasks.len(), STORED + QUEUED + OPEN);
    assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
}

/// A queue that holds one event of ever deeper lists.
#[test]
fn a_queue_that_is_one_deep_value_does_not_overflow_the_stack() {
    for tag in [12_u8, 13, 19] {
        let case = Case::new();
        let ring = case.session().join("ring-0");
        let mut bytes = fs::read(&ring).unwrap();
        let (released, committed) = (positions(&bytes).0, positions(&bytes).1);
        // The first event that is waiting: its head, the head of a START, and one value of all that follows.
        let at = 4096 + released as usize % (bytes.len() - 4096);
        let room = (bytes.len() - at).min((committed - released) as usize);
        bytes[at..at + 4].copy_from_slice(&(room as u32).to_le_bytes());
        bytes[at + 4] = 1;
        bytes[at + 5] = 0;
        let items = at + 8 + 64;
        let payload = (room - 8 - 64 - 8) as u32;
        bytes[items..items + 2].copy_from_slice(&[1, 0]);
        bytes[items + 2..items + 6].copy_from_slice(&payload.to_le_bytes());
        bytes[items + 6..items + 8].copy_from_slice(&[0, 0]);
        bytes[items + 8..at + room].fill(tag);
        fs::write(&ring, bytes).unwrap();
        let told = recover_apart(&case.store);
        assert!(told.starts_with("1 "), "{told}");
        let loaded = jsonl::load(&case.store).unwrap();
        assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
        assert!(loaded.tasks.len() > STORED);
    }
}

/// How far the consumer and the producer of a ring have come.
fn positions(ring: &[u8]) -> (u64, u64) {
    let at = |at: usize| u64::from_le_bytes(ring[at..at + 8].try_into().unwrap());
    (at(128), at(256))
}

#[test]
fn two_processes_that_recover_at_once_write_everything_once() {
    let rounds = crate::support::number("RUNLORE_TEST_ROUNDS").unwrap_or(3);
    for _ in 0..rounds {
        let case = Case::new();
        let processes: Vec<_> = (0..4)
            .map(|_| {
                let mut command = child(RECOVERS);
                command.env("FOLDER", &case.store).stdout(Stdio::piped()).spawn().unwrap()
            })
            .collect();
        let outputs: Vec<_> =
            processes.into_iter().map(|process| process.wait_with_output().unwrap()).collect();
        outputs.iter().for_each(expect_success);
        let finders = outputs
            .iter()
            .filter(|output| String::from_utf8_lossy(&output.stdout).contains("recovery: 1 "))
            .count();
        assert_eq!(finders, 1);
        let mut seen = HashSet::new();
        for record in jsonl::read(&case.store).unwrap() {
            if let Record::Task(task) = record.unwrap() {
                assert!(seen.insert(task.task_id.clone()), "{} twice", task.task_id);
            }
        }
        assert_eq!(seen.len(), STORED + QUEUED + OPEN);
        assert!(!case.store.join(".rings").exists());
    }
    tried("4 processes that recover one dead one at once", format!("{rounds} rounds"));
}
