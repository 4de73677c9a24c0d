//! A program that closes descriptors which it did not open, and opens its own files in their place.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)]

use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Output};

use runlore::store::jsonl;
use runlore::telemetry_task;
use tempfile::TempDir;

use crate::support::{child, expect_success, finished_in_time, is_child};

const CHILD: &str = "closed_descriptors::child_process";
/// More files than the recorder has open, so that each of its descriptors is taken.
const FILES: usize = 100;
const CONTENT: &str = "the program's own\n";
const BEFORE: u64 = 200;
const AFTER: u64 = 3000;

#[telemetry_task]
fn work(n: u64) -> u64 {
    n + 1
}

#[test]
fn child_process() {
    if !is_child(CHILD) {
        return;
    }
    let folder = std::env::var("FOLDER").unwrap();
    let store = std::env::var("STORE").unwrap();
    let run = runlore::workflow("daemon").store(store.as_str()).start().unwrap();
    (0..BEFORE).for_each(|n| _ = work(n));
    // A task that is open for long: its beginning is kept in a file, too.
    let open = runlore::task("open").start();
    runlore::flush().unwrap();

    let own = take_all_descriptors(Path::new(&folder));
    for n in BEFORE..BEFORE + AFTER {
        work(n);
        if n % 500 == 0 {
            runlore::flush().unwrap();
        }
    }
    if std::env::var("ENDING").unwrap() == "signal" {
        // SAFETY: a signal to ourselves.
        unsafe { libc::kill(libc::getpid(), libc::SIGTERM) };
        std::thread::sleep(crate::support::LIMIT);
        std::process::exit(3);
    }
    open.finish();
    // Not all may be stored; how much is not is told.
    _ = run.finish();
    are_still_open(&own);
}

/// Closes every descriptor, and opens files that get their numbers.
fn take_all_descriptors(folder: &Path) -> Vec<File> {
    // SAFETY: this test wants to be a program that closes what it does not know.
    (3..1024).for_each(|number| _ = unsafe { libc::close(number) });
    let own = (0..FILES).map(|number| {
        let mut file = File::create(folder.join(number.to_string())).unwrap();
        file.write_all(CONTENT.as_bytes()).unwrap();
        file
    });
    own.collect()
}

fn are_still_open(own: &[File]) {
    for file in own {
        // SAFETY: the call only asks.
        assert!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFD) } >= 0, "it was closed");
    }
}

/// Runs the program, and checks that its own files are as it left them.
fn run(store: &str, ending: &str) -> Output {
    let mut command = child(CHILD);
    command.env("STORE", store).env("ENDING", ending);
    checked(command)
}

fn checked(mut command: Command) -> Output {
    let folder = TempDir::new().unwrap();
    command.env("FOLDER", folder.path());
    let output = finished_in_time(command);
    for number in 0..FILES {
        let path = folder.path().join(number.to_string());
        let content = fs::read(path).unwrap();
        assert_eq!(String::from_utf8_lossy(&content), CONTENT, "file {number}");
    }
    output
}

/// The arguments of all recorded calls of `work`.
fn arguments(folder: &Path) -> Vec<u64> {
    let loaded = jsonl::load(folder).unwrap();
    assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
    let number = |task: &runlore::record::TaskObject| task.used.as_ref()?.get("n")?.as_u64();
    let mut numbers: Vec<_> = loaded.tasks.iter().filter_map(number).collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn records_go_on_into_their_own_file() {
    let folder = TempDir::new().unwrap();
    expect_success(&run(folder.path().to_str().unwrap(), "finish"));
    assert_eq!(arguments(folder.path()), (0..BEFORE + AFTER).collect::<Vec<_>>());
    assert!(!folder.path().join(".rings").exists(), "nothing is left to be recovered");
}

#[test]
fn a_signal_still_ends_the_program() {
    let folder = TempDir::new().unwrap();
    let output = run(folder.path().to_str().unwrap(), "signal");
    assert_eq!(output.status.signal(), Some(libc::SIGTERM), "{output:?}");
    runlore::recover(folder.path()).unwrap();
    assert_eq!(arguments(folder.path()), (0..BEFORE + AFTER).collect::<Vec<_>>());
}

#[cfg(feature = "sqlite")]
#[test]
fn records_for_sqlite_wait_in_the_spool() {
    let folder = TempDir::new().unwrap();
    let uri = format!("sqlite://{}", folder.path().join("runs.db").display());
    let output = run(&uri, "finish");
    expect_success(&output);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("the program closed its descriptors"), "{said}");
    let copy = TempDir::new().unwrap();
    runlore::replay(folder.path().join(".spool"), &uri, |_| ()).unwrap();
    runlore::Provenance::open(&uri)
        .unwrap()
        .copy_to(copy.path().to_str().unwrap(), |_| ())
        .unwrap();
    assert_eq!(arguments(copy.path()), (0..BEFORE + AFTER).collect::<Vec<_>>());
}

#[cfg(feature = "events")]
const EVENTS: &str = "closed_descriptors::events_and_metrics_go_on_into_their_own_files";

#[cfg(feature = "events")]
#[test]
fn events_and_metrics_go_on_into_their_own_files() {
    use runlore::emit::Telemetry;
    use runlore::events::{
        self, SessionStatus, SessionSummary, SinkOptions, SinkWriter, TelemetryEvent,
    };

    if is_child(EVENTS) {
        let folder = std::env::var("STORE").unwrap();
        let (sink, metrics) = (Path::new(&folder).join("sink"), Path::new(&folder).join("m.jsonl"));
        let event =
            |at| TelemetryEvent { session_id: "s".into(), timestamp_ns: at, ..Default::default() };
        let session = SessionSummary::of(&event(1));
        let mut sink = SinkWriter::open(sink, SinkOptions::default(), session).unwrap();
        sink.append(&event(1)).unwrap();
        sink.flush().unwrap();
        let telemetry = Telemetry::new().backend("jsonl").path(metrics);
        telemetry.emit().metric("loss", 1).send().unwrap();

        let own = take_all_descriptors(Path::new(&std::env::var("FOLDER").unwrap()));
        sink.append(&event(2)).unwrap();
        sink.flush().unwrap();
        sink.close(SessionStatus::Completed, 3).unwrap();
        telemetry.emit().metric("loss", 2).send().unwrap();
        drop(telemetry);
        return are_still_open(&own);
    }
    let folder = TempDir::new().unwrap();
    let mut command = child(EVENTS);
    command.env("STORE", folder.path());
    expect_success(&checked(command));
    let loaded = events::load(folder.path().join("sink")).unwrap();
    assert_eq!(loaded.sessions[0].events.len(), 2);
    let metrics = fs::read_to_string(folder.path().join("m.jsonl")).unwrap();
    assert_eq!(metrics.lines().count(), 2, "{metrics}");
}
