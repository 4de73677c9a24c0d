//! A process that dies without a word: what its tasks did is not lost.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use runlore::record::{Status, TaskObject, WorkflowObject};
use runlore::store::jsonl;
use runlore::{carry, telemetry_task};

use crate::support::{self, bare_child, child, is_child, tried};

#[telemetry_task]
fn returns(thread: usize, number: u64) -> u64 {
    number
}

#[telemetry_task]
fn outer(thread: usize) {
    let _open = runlore::task("open").used("thread", &thread).start();
    // The test's own ledger: one byte for every call that has returned, written by the kernel at once.
    let folder = std::env::var("LEDGER").unwrap();
    let mut ledger = File::create(Path::new(&folder).join(thread.to_string())).unwrap();
    // What the recorder itself says it dropped, noted before the return is: a drop that is not told is a loss.
    let mut dropped = File::create(Path::new(&folder).join(format!("dropped-{thread}"))).unwrap();
    let mut known = 0;
    for number in 0.. {
        returns(thread, number);
        let now = runlore::stats().dropped;
        if now != known {
            known = now;
            dropped.write_all(format!("{now}\n").as_bytes()).unwrap();
        }
        ledger.write_all(b".").unwrap();
    }
}

fn record_until_killed() {
    let run = runlore::workflow("killed").store(std::env::var("FOLDER").unwrap().as_str());
    std::mem::forget(run.start().unwrap());
    let how = std::env::var("HOW").unwrap();
    let threads: Vec<_> =
        (0..4).map(|thread| std::thread::spawn(carry(move || outer(thread)))).collect();
    let after: u64 = std::env::var("AFTER").unwrap().parse().unwrap();
    std::thread::sleep(Duration::from_millis(after));
    match how.as_str() {
        "abort" => std::process::abort(),
        "_exit" => end_at_once(),
        "exec" => {
            let error =
                std::os::unix::process::CommandExt::exec(&mut std::process::Command::new("true"));
            panic!("{error}");
        }
        _ => {
            println!("ready");
            for thread in threads {
                thread.join().unwrap();
            }
        }
    }
}

#[allow(unsafe_code)]
fn end_at_once() -> ! {
    // SAFETY: _exit has no preconditions.
    unsafe { libc::_exit(0) }
}

const KILLED: &str = "killed::every_task_that_had_returned_is_recovered";

/// How often each way to die is tried: a few times here, as the reliability command wants there.
fn rounds() -> usize {
    support::number("RUNLORE_TEST_ROUNDS").map_or(1, |rounds| rounds as usize)
}

#[cfg(unix)]
#[test]
fn every_task_that_had_returned_is_recovered() {
    if is_child(KILLED) {
        record_until_killed();
        return;
    }
    let mut dropped = 0;
    for round in 0..rounds() {
        for how in ["kill -9", "abort", "_exit", "exec"] {
            let after = 1 + (round * 37 + how.len() * 5) % 120;
            // By default a task waits 100 ms for a writer that stands still, and is then dropped and counted; every other
            // round it waits for longer than the process lives, and nothing may be dropped.
            let wait = if round % 2 == 0 { "100ms" } else { "60s" };
            // Without telemetry there are a hundred times more tasks, with it more of each.
            let process = if round % 4 < 2 { bare_child(KILLED) } else { child(KILLED) };
            dropped += die_and_recover(process, how, after as u64, wait, Place::Files);
        }
    }
    let deaths = 4 * rounds();
    tried(
        "kill -9, abort, _exit, exec while 4 threads record",
        format!("{deaths} deaths, {dropped} tasks dropped and counted before them"),
    );
}

#[cfg(all(unix, feature = "sqlite"))]
#[test]
fn of_a_run_in_a_database_too() {
    let mut dropped = 0;
    for round in 0..rounds() {
        for how in ["kill -9", "abort", "_exit", "exec"] {
            let after = 1 + (round * 41 + how.len() * 6) % 150;
            let wait = if round % 2 == 0 { "60s" } else { "100ms" };
            let process = if round % 4 < 2 { bare_child(KILLED) } else { child(KILLED) };
            dropped += die_and_recover(process, how, after as u64, wait, Place::Database);
        }
    }
    let deaths = 4 * rounds();
    tried(
        "the same, into an SQLite file",
        format!("{deaths} deaths, {dropped} tasks dropped and counted before them"),
    );
}

/// Where a process that dies records to.
#[derive(Debug, Clone, Copy)]
enum Place {
    Files,
    #[cfg(feature = "sqlite")]
    Database,
}

/// What is there, joined and as it was written.
#[derive(Default)]
struct Found {
    tasks: Vec<TaskObject>,
    workflows: Vec<WorkflowObject>,
    written: Vec<String>,
}

impl Place {
    fn store(self, folder: &Path) -> String {
        match self {
            Self::Files => folder.display().to_string(),
            #[cfg(feature = "sqlite")]
            Self::Database => format!("sqlite://{}/x.db", folder.display()),
        }
    }

    fn found(self, folder: &Path) -> Found {
        match self {
            Self::Files => {
                let mut written = Vec::new();
                let loaded = jsonl::load_with(folder, |record| {
                    written.extend(record.as_task().map(|task| task.task_id.clone()));
                    Some(record)
                });
                let loaded = loaded.unwrap();
                assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
                Found { tasks: loaded.tasks, workflows: loaded.workflows, written }
            }
            #[cfg(feature = "sqlite")]
            Self::Database => {
                use runlore::record::Record;

                let source =
                    runlore::store::sqlite::SqliteSource::open(folder.join("x.db")).unwrap();
                let mut found = Found::default();
                for record in source.records() {
                    match record.unwrap() {
                        Record::Task(task) => {
                            found.written.push(task.task_id.clone());
                            found.tasks.push(*task);
                        }
                        Record::Workflow(workflow) => found.workflows.push(*workflow),
                        Record::Other(other) => panic!("{other:?}"),
                    }
                }
                found
            }
        }
    }
}

/// Lets a process die; returns how many tasks it had said it dropped.
fn die_and_recover(mut process: Command, how: &str, after: u64, wait: &str, place: Place) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let ledger = tempfile::tempdir().unwrap();
    let mut process = process
        .env("FOLDER", place.store(folder.path()))
        .env("LEDGER", ledger.path())
        .env("HOW", how)
        .env("AFTER", after.to_string())
        .env("RUNLORE_RECORDER__MAX_WAIT_MS", wait)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    if how == "kill -9" {
        let has_begun = || fs::read_dir(ledger.path()).unwrap().next().is_some();
        while !has_begun() && process.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(after));
        process.kill().unwrap();
    }
    process.wait().unwrap();

    let returned: Vec<u64> = (0..4)
        .map(|thread| {
            fs::metadata(ledger.path().join(format!("{thread}"))).map_or(0, |file| file.len())
        })
        .collect();
    let recovered = runlore::recover(folder.path()).unwrap();
    let dropped =
        (0..4).map(|thread| last_number(&ledger.path().join(format!("dropped-{thread}"))));
    let dropped = dropped.max().unwrap_or(0);
    let context = format!(
        "{place:?}: {how} after {after} ms, wait {wait}; returned {returned:?}; dropped {dropped}; {recovered:?}"
    );
    if wait != "100ms" {
        assert_eq!(dropped, 0, "{context}");
    }
    let loaded = place.found(folder.path());

    let mut seen: HashMap<u64, HashSet<u64>> = HashMap::new();
    for task in loaded.tasks.iter().filter(|task| task.name() == "returns") {
        assert!(seen.entry(number(task, "thread")).or_default().insert(number(task, "number")));
    }
    let mut lost = 0;
    for (thread, count) in returned.iter().enumerate() {
        let seen = seen.remove(&(thread as u64)).unwrap_or_default();
        let missing: Vec<u64> = (0..*count).filter(|number| !seen.contains(number)).collect();
        lost += missing.len() as u64;
        let ends = (missing.first(), missing.last());
        assert!(
            lost <= dropped,
            "{context}: thread {thread} lost {} in {ends:?}, and they were not dropped",
            missing.len()
        );
    }
    let open: Vec<&TaskObject> =
        loaded.tasks.iter().filter(|task| matches!(task.name(), "outer" | "open")).collect();
    let begun = returned.iter().filter(|count| **count > 0).count();
    assert!(open.len() >= 2 * begun, "{context}: {} open", open.len());
    assert!(open.iter().all(|task| task.status == Some(Status::Running)), "{context}");
    let ids: HashSet<&str> = loaded.tasks.iter().map(|task| task.task_id.as_str()).collect();
    for task in &loaded.tasks {
        if let Some(parent) = &task.parent_task_id {
            assert!(ids.contains(parent.as_str()), "{context}: {} has no parent", task.name());
        }
    }
    assert_eq!(loaded.workflows.len(), 1, "{context}");
    assert_eq!(loaded.workflows[0].status, Some(Status::Unknown), "{context}");

    // Not only joined, but written once.
    let mut written = HashSet::new();
    for id in &loaded.written {
        assert!(written.insert(id), "{context}: {id} twice");
    }
    assert_eq!(runlore::recover(folder.path()).unwrap(), runlore::Recovered::default());
    let files: Vec<_> = fs::read_dir(folder.path()).unwrap().flatten().map(|f| f.path()).collect();
    assert_eq!(files.len(), 1, "{context}: {files:?}");
    dropped
}

/// The number in the last whole line of a file.
fn last_number(path: &Path) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().next_back().map_or(0, |line| line.parse().unwrap())
}

fn number(task: &TaskObject, name: &str) -> u64 {
    task.used.as_ref().unwrap()[name].as_u64().unwrap()
}

const ALIVE: &str = "killed::a_process_that_is_alive_is_left_alone";

#[cfg(unix)]
#[test]
fn a_process_that_is_alive_is_left_alone() {
    if is_child(ALIVE) {
        record_until_killed();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut process = child(ALIVE)
        .env("FOLDER", folder.path())
        .env("LEDGER", folder.path())
        .env("HOW", "kill -9")
        .env("AFTER", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = std::io::BufReader::new(process.stdout.take().unwrap());
    until_ready(&mut output);
    for _ in 0..5 {
        assert_eq!(runlore::recover(folder.path()).unwrap(), runlore::Recovered::default());
        std::thread::sleep(Duration::from_millis(20));
    }
    process.kill().unwrap();
    process.wait().unwrap();
    assert_eq!(runlore::recover(folder.path()).unwrap().processes, 1);
}

/// Reads what a process says until it says that it is ready.
#[cfg(unix)]
fn until_ready(output: &mut impl std::io::BufRead) {
    let mut line = String::new();
    while !line.contains("ready") {
        line.clear();
        assert!(output.read_line(&mut line).unwrap() > 0);
    }
}

#[cfg(target_os = "linux")]
const UNLOCKED: &str = "killed::a_process_that_lost_its_lock_is_left_alone_while_it_lives";

#[cfg(target_os = "linux")]
#[test]
fn a_process_that_lost_its_lock_is_left_alone_while_it_lives() {
    if is_child(UNLOCKED) {
        let folder = std::env::var("FOLDER").unwrap();
        let run = runlore::workflow("unlocked").store(folder.as_str()).start().unwrap();
        returns(0, 0);
        // Whoever closes any descriptor of a file gives up all record locks that the process has on it.
        let lock = crate::dead_process::session(Path::new(&folder)).join("lock");
        drop(File::open(lock).unwrap());
        println!("ready");
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).unwrap();
        returns(0, 1);
        std::mem::forget(run);
        end_at_once();
    }
    let folder = tempfile::tempdir().unwrap();
    let mut process = child(UNLOCKED)
        .env("FOLDER", folder.path())
        .env("RUNLORE_RECORDER__FLUSH_MS", "1h")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = std::io::BufReader::new(process.stdout.take().unwrap());
    until_ready(&mut output);
    let told = crate::hostile_recovery::recovery_of(folder.path());
    let said = String::from_utf8(told.stderr).unwrap();
    let session = crate::dead_process::session(folder.path());
    let expected = format!(
        "runlore: {} is left alone: process {} is alive, although something in it gave up its lock\n",
        session.display(),
        process.id()
    );
    assert!(said.contains(&expected), "{said}");
    // Readers say nothing of it, and leave it alone too.
    assert_eq!(jsonl::load(folder.path()).unwrap().tasks.len(), 0);
    assert!(session.exists());

    process.stdin.take().unwrap().write_all(b"\n").unwrap();
    process.wait().unwrap();
    assert_eq!(runlore::recover(folder.path()).unwrap().tasks, 2);
}
