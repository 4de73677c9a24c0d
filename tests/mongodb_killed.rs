//! Programs that are killed while they record into MongoDB: the next one brings what they left to the server, once.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use runlore::query::field;
use runlore::record::Status;
use runlore::{Provenance, telemetry_task};
use tempfile::TempDir;

use crate::mongo_server::{Server, Want, queues, recording, stored};
use crate::support::{Random, expect_success, finished_in_time, is_child, number, tried};

const ENDLESS: &str = "mongodb_killed::records_without_end";
const NEXT: &str = "mongodb_killed::the_next_run";

#[telemetry_task]
fn work(n: u64) -> u64 {
    n * 2
}

/// What a process does until it is killed: it notes each task that has returned.
#[test]
fn records_without_end() {
    if !is_child(ENDLESS) {
        return;
    }
    let mut ledger = fs::File::create("ledger").unwrap();
    let run = runlore::workflow("killed").store(std::env::var("STORE").unwrap()).start().unwrap();
    println!("it records");
    for n in 0.. {
        work(n);
        ledger.write_all(&n.to_le_bytes()).unwrap();
        // The test's server bears no more.
        std::thread::sleep(Duration::from_micros(500));
    }
    drop(run);
}

/// What the next process does: it stays until nothing is left of the one before.
#[test]
fn the_next_run() {
    if !is_child(NEXT) {
        return;
    }
    let run = runlore::workflow("next").store(std::env::var("STORE").unwrap()).start().unwrap();
    work(0);
    let until = Instant::now() + Duration::from_secs(90);
    while Path::new("runlore/mongodb/.spool").exists() {
        assert!(Instant::now() < until, "it is not replayed");
        std::thread::sleep(Duration::from_millis(5));
    }
    run.finish().unwrap();
}

/// Starts a process, and kills it after a while; gives how many tasks had returned.
fn kill_one(store: &str, folder: &TempDir, after: Duration) -> u64 {
    let mut command = again(ENDLESS, store, folder);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(said.any(|line| line.ends_with("it records")));
    std::thread::sleep(after);
    child.kill().unwrap();
    child.wait().unwrap();
    fs::metadata(folder.path().join("ledger")).unwrap().len() / 8
}

fn again(test: &str, store: &str, folder: &TempDir) -> Command {
    let (mut command, _) = recording(test, store);
    command.current_dir(folder.path());
    command
}

fn assert_each_once(store: &str, done: u64) {
    let mut found: HashMap<i64, u32> = HashMap::new();
    let records = Provenance::open(store).unwrap();
    let killed = records.workflows().filter(field("name").eq("killed")).to_vec().unwrap();
    assert_eq!(killed.len(), 1);
    assert_eq!(killed[0].status, Some(Status::Unknown));
    let own = records.tasks().filter(field("workflow_id").eq(&*killed[0].workflow_id));
    for task in own.to_vec().unwrap() {
        if task.status == Some(Status::Finished) {
            *found.entry(task.used.unwrap()["n"].as_i64().unwrap()).or_default() += 1;
        }
    }
    let missing: Vec<i64> = (0..done as i64).filter(|n| !found.contains_key(n)).collect();
    assert!(missing.is_empty(), "of {done} missing: {missing:?}");
    assert!(found.values().all(|count| *count == 1), "something is there twice");
    let ids: Vec<String> = stored(store, "tasks")
        .iter()
        .map(|task| task.get_str("task_id").unwrap().to_owned())
        .collect();
    assert!(ids.iter().all(|id| !id.contains('#')), "two were made of one");
}

#[test]
fn what_a_killed_program_left_reaches_the_server_once() {
    let Some(mut server) = Server::start(&[Want::Durability]) else { return };
    let rounds = number("RUNLORE_TEST_ROUNDS").unwrap_or(2).min(10);
    let mut random = Random::new();
    for round in 0..rounds {
        let store = server.database();
        let folder = TempDir::new().unwrap();
        // In every other round the server is away when the program dies.
        let is_away = round % 2 == 1;
        if is_away {
            server.kill();
        }
        let done = kill_one(&store, &folder, Duration::from_millis(random.below(1500) as u64));
        if is_away {
            server.restart(&[Want::Durability]);
        }
        expect_success(&finished_in_time(again(NEXT, &store, &folder)));
        assert_each_once(&store, done);
        assert!(!queues(&folder).join(".rings").exists(), "the dead process is not forgotten");
        let files = fs::read_dir(queues(&folder)).into_iter().flatten().flatten();
        let lines: Vec<_> = files.filter(|file| file.path().extension().is_some()).collect();
        assert!(lines.is_empty(), "{lines:?}");
    }
    tried("kill -9 of a program that records into MongoDB", format!("{rounds} times"));
}

#[test]
fn no_password_is_left_on_disk() {
    let folder = TempDir::new().unwrap();
    let store = "mongodb://ann:hunter2@localhost:1/lab";
    kill_one(store, &folder, Duration::from_millis(300));
    assert!(queues(&folder).join(".rings").exists());
    assert_is_nowhere(b"hunter2", folder.path());
    let recovered = runlore::recover(queues(&folder)).unwrap();
    assert_eq!(recovered.processes, 1);
    let waiting = runlore::spooled(queues(&folder)).unwrap();
    assert!(!waiting.is_empty());
    let label = waiting[0].store.as_deref().unwrap();
    assert!(label.contains("localhost:1/lab"), "{label}");
    assert_is_nowhere(b"hunter2", folder.path());
}

fn assert_is_nowhere(secret: &[u8], folder: &Path) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            assert_is_nowhere(secret, &entry.path());
            continue;
        }
        let bytes = fs::read(entry.path()).unwrap();
        let has_it = bytes.windows(secret.len()).any(|bytes| bytes == secret);
        assert!(!has_it, "{}", entry.path().display());
    }
}
