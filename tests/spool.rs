//! A store that is away, slow or full: what it would not take waits on disk, and is there once when it is back.

#![cfg(unix)]

use std::collections::HashMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use runlore::__private::inventory;
use runlore::record::Record;
use runlore::store::jsonl::{self, JsonlStore};
use runlore::store::{Batch, RunInfo, Store, StoreEntry};
use runlore::telemetry_task;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{
    Random, bare_child, expect_success, finished_in_time, is_child, number, tried,
};

/// Files of JSON lines behind a gate: while there is a file `shut` beside the folder, nothing gets in. In a folder `slow`, every
/// write takes its time.
struct Gate {
    inner: JsonlStore,
    folder: PathBuf,
}

inventory::submit! {
    StoreEntry::new("gate", |uri, run: &RunInfo| {
        let folder = PathBuf::from(uri.strip_prefix("gate://").unwrap_or(uri));
        Ok(Box::new(Gate { inner: JsonlStore::in_folder(&folder, run), folder }))
    })
}

impl Store for Gate {
    fn prepare(&mut self, bytes: u64) -> runlore::Result<Option<PathBuf>> {
        if self.folder.with_file_name("shut").exists() {
            return Err(runlore::Error::new(runlore::ErrorKind::Store, "the gate is shut"));
        }
        if self.is_remote() {
            let pause = number("PAUSE_MS").unwrap_or(2000);
            std::thread::sleep(Duration::from_millis(pause));
        }
        self.inner.prepare(bytes)
    }

    fn write(&mut self, batch: &Batch<'_>) -> runlore::Result<()> {
        self.inner.write(batch)
    }

    fn is_remote(&self) -> bool {
        self.folder.ends_with("slow")
    }

    fn missing(&mut self, batch: &Batch<'_>) -> runlore::Result<Vec<bool>> {
        self.inner.missing(batch)
    }

    fn close(&mut self) -> runlore::Result<()> {
        self.inner.close()
    }

    fn folder(&self) -> Option<&Path> {
        Some(&self.folder)
    }

    fn uri(&self) -> Option<String> {
        Some(format!("gate://{}", self.folder.display()))
    }
}

#[telemetry_task]
fn work(n: u64) -> u64 {
    n * 2
}

const WORKS: &str = "spool::works";
const REPLAYS: &str = "spool::replays";

/// The program under watch: so many tasks, each noted in a ledger when it has returned.
#[test]
fn works() {
    if !is_child(WORKS) {
        return;
    }
    let store = std::env::var("STORE").unwrap();
    let mut ledger = fs::File::create(std::env::var("LEDGER").unwrap()).unwrap();
    let mut workflow = runlore::workflow("spooled").store(store.as_str());
    if let Ok(second) = std::env::var("SECOND") {
        workflow = workflow.store(second);
    }
    let run = workflow.start().unwrap();
    let mut sum = 0;
    for n in 0..number("TASKS").unwrap() {
        sum += work(n);
        ledger.write_all(&n.to_le_bytes()).unwrap();
    }
    if let Ok(gate) = std::env::var("OPENS") {
        while runlore::stats().store_errors == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        fs::remove_file(gate).unwrap();
        work(number("TASKS").unwrap());
        let began = Instant::now();
        while runlore::flush().is_err() || runlore::stats().waiting > 0 {
            assert!(began.elapsed() < Duration::from_secs(90), "the store does not get what waits");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    let finished = run.finish();
    let stats = runlore::stats();
    let report = json!({
        "totals": finished.as_ref().ok(),
        "problem": finished.as_ref().err().map(ToString::to_string),
        "written": stats.written,
        "dropped": stats.dropped,
        "spooled": stats.spooled,
    });
    eprintln!("report: {report}");
    println!("the sum is {sum}");
    // Which fails the run that ended last: its final record is written once more.
    std::process::exit(7);
}

#[test]
fn replays() {
    if is_child(REPLAYS) {
        let (spool, to) = (std::env::var("SPOOL").unwrap(), std::env::var("STORE").unwrap());
        runlore::replay(spool, &to, |_| ()).unwrap();
    }
}

/// A folder for the records, and what belongs to it.
pub(crate) struct Place {
    root: TempDir,
    name: &'static str,
}

impl Place {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { root: TempDir::new().unwrap(), name }
    }

    fn shut(self) -> Self {
        fs::write(self.gate(), "").unwrap();
        self
    }

    pub(crate) fn gate(&self) -> PathBuf {
        self.root.path().join("shut")
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.root.path().join(self.name)
    }

    pub(crate) fn spool(&self) -> PathBuf {
        self.folder().join(".spool")
    }

    fn uri(&self) -> String {
        format!("gate://{}", self.folder().display())
    }

    pub(crate) fn command(&self, tasks: u64) -> Command {
        let mut command = bare_child(WORKS);
        command.env("STORE", self.uri()).env("TASKS", tasks.to_string());
        command.env("LEDGER", self.root.path().join("ledger"));
        // Only the store is slow here, whatever else the machine has to do.
        command.env("RUNLORE_RECORDER__MAX_WAIT_MS", "60s");
        command
    }

    /// A process that replays what waits, with a pause at every batch.
    fn replaying(&self, pause_ms: u64) -> Command {
        let mut command = bare_child(REPLAYS);
        command.env("SPOOL", self.spool()).env("STORE", self.uri());
        command.env("PAUSE_MS", pause_ms.to_string());
        command
    }

    /// How many tasks had returned.
    pub(crate) fn ledger(&self) -> u64 {
        fs::metadata(self.root.path().join("ledger")).map_or(0, |facts| facts.len() / 8)
    }
}

/// Runs the program, whose result is its own whatever becomes of its records.
pub(crate) fn report(command: Command, tasks: u64) -> Value {
    let output = finished_in_time(command);
    assert_eq!(output.status.code(), Some(7), "{}", String::from_utf8_lossy(&output.stderr));
    let sum: u64 = (0..tasks).map(|n| n * 2).sum();
    assert!(String::from_utf8_lossy(&output.stdout).contains(&format!("the sum is {sum}")));
    let told = String::from_utf8(output.stderr).unwrap();
    let report = told.lines().find_map(|line| line.strip_prefix("report: "));
    serde_json::from_str(report.unwrap_or_else(|| panic!("{told}"))).unwrap()
}

/// How often each task is in the files of a folder, by its number; and how many records there are of workflows.
fn records(folder: &Path) -> (HashMap<u64, u32>, u32) {
    let (mut tasks, mut workflows) = (HashMap::new(), 0);
    if !folder.exists() {
        return (tasks, workflows);
    }
    for record in jsonl::read(folder).unwrap() {
        match record.unwrap() {
            Record::Task(task) if task.status == Some(runlore::record::Status::Finished) => {
                *tasks.entry(task.used.unwrap()["n"].as_u64().unwrap()).or_default() += 1;
            }
            Record::Workflow(_) => workflows += 1,
            _ => {}
        }
    }
    (tasks, workflows)
}

#[track_caller]
fn assert_each_once(folder: &Path, tasks: u64) {
    let (found, workflows) = records(folder);
    let missing: Vec<u64> = (0..tasks).filter(|n| !found.contains_key(n)).collect();
    assert!(missing.is_empty(), "missing of {tasks}: {missing:?}");
    let double: Vec<_> = found.iter().filter(|(_, count)| **count != 1).collect();
    assert!(double.is_empty(), "more than once: {double:?}");
    assert!((2..=3).contains(&workflows), "{workflows} records of the workflow");
}

#[test]
fn what_a_store_would_not_take_waits_on_disk_and_is_replayed_once() {
    const TASKS: u64 = 3000;
    let place = Place::new("records").shut();
    let told = report(place.command(TASKS), TASKS);
    assert_eq!((&told["dropped"], &told["written"]), (&json!(0), &json!(0)), "{told}");
    assert_eq!(told["totals"]["spooled"], TASKS + 2, "{told}");
    assert_eq!(records(&place.folder()).0.len(), 0);
    let waiting = runlore::spooled(place.folder()).unwrap();
    assert_eq!(waiting.len(), 1);
    assert_eq!(waiting[0].store.as_deref(), Some(place.uri().as_str()));

    runlore::replay(place.spool(), &place.uri(), |_| ()).expect_err("the gate is shut");
    fs::remove_file(place.gate()).unwrap();
    let mut steps = Vec::new();
    let replayed = runlore::replay(place.spool(), &place.uri(), |so_far| steps.push(*so_far));
    assert_eq!(replayed.unwrap().records, TASKS + 3);
    assert!(steps.len() > 1 && steps.is_sorted_by_key(|step| step.bytes));
    assert_each_once(&place.folder(), TASKS);
    assert!(!place.spool().exists());
    let again = runlore::replay(place.spool(), &place.uri(), |_| ()).unwrap();
    assert_eq!(again.records, 0);
    tried("a store that is away until the end of the run", "replayed by hand");
}

#[test]
fn a_store_that_comes_back_gets_everything_by_itself() {
    const TASKS: u64 = 3000;
    let place = Place::new("records").shut();
    let mut command = place.command(TASKS);
    command.env("RUNLORE_RECORDER__RING_BYTES", "16KiB").env("OPENS", place.gate());
    let told = report(command, TASKS);
    assert_eq!((&told["dropped"], &told["spooled"]), (&json!(0), &json!(0)), "{told}");
    assert_each_once(&place.folder(), TASKS + 1);
    assert!(!place.spool().exists());
    tried("a store that is away and comes back", "in the middle of the run");
}

#[test]
fn the_next_run_writes_what_the_last_one_could_not() {
    const TASKS: u64 = 500;
    let place = Place::new("records").shut();
    report(place.command(TASKS), TASKS);
    fs::remove_file(place.gate()).unwrap();
    let run = runlore::workflow("next").store(place.uri()).start().unwrap();
    let began = Instant::now();
    while place.spool().exists() {
        assert!(began.elapsed() < Duration::from_secs(60), "it is not replayed");
        std::thread::sleep(Duration::from_millis(1));
    }
    run.finish().unwrap();
    let (found, workflows) = records(&place.folder());
    assert_eq!((found.len() as u64, found.values().max(), workflows), (TASKS, Some(&1), 5));
}

#[test]
fn a_folder_that_cannot_be_made_is_spooled_for_elsewhere() {
    const TASKS: u64 = 500;
    let place = Place::new("records");
    let spool = place.root.path().join("elsewhere");
    fs::write(place.folder(), "in the way").unwrap();
    let mut command = place.command(TASKS);
    command.env("STORE", place.folder()).env("RUNLORE_RECORDER__SPOOL", &spool);
    let told = report(command, TASKS);
    assert_eq!((&told["dropped"], &told["written"]), (&json!(0), &json!(0)), "{told}");
    fs::remove_file(place.folder()).unwrap();
    runlore::replay(&spool, place.folder().to_str().unwrap(), |_| ()).unwrap();
    assert_each_once(&place.folder(), TASKS);
    tried("a store that is unreachable from the start", "with a spool elsewhere");
}

/// A database that cannot be opened, because a folder has its name.
#[cfg(feature = "sqlite")]
#[test]
fn an_sqlite_file_that_cannot_be_made_is_spooled_for_and_has_each_record_once() {
    const TASKS: u64 = 500;
    let place = Place::new("records");
    let file = place.folder().join("runs.db");
    fs::create_dir_all(&file).unwrap();
    let uri = format!("sqlite://{}", file.display());
    let mut command = place.command(TASKS);
    command.env("STORE", &uri);
    let told = report(command, TASKS);
    assert_eq!((&told["dropped"], &told["written"]), (&json!(0), &json!(0)), "{told}");
    assert_eq!(runlore::spooled(place.folder()).unwrap()[0].store.as_deref(), Some(uri.as_str()));
    fs::remove_dir(&file).unwrap();
    // The next run with that store writes what waits.
    let run = runlore::workflow("next").store(uri.as_str()).start().unwrap();
    let began = Instant::now();
    while place.spool().exists() {
        assert!(began.elapsed() < Duration::from_secs(60), "it is not replayed");
        std::thread::sleep(Duration::from_millis(1));
    }
    run.finish().unwrap();
    let records = runlore::Provenance::open(&uri).unwrap();
    let tasks = records.tasks().to_vec().unwrap();
    let numbers: std::collections::BTreeSet<_> =
        tasks.iter().map(|task| task.used.as_ref().unwrap()["n"].as_u64().unwrap()).collect();
    assert_eq!((tasks.len() as u64, numbers.len() as u64), (TASKS, TASKS));
    assert_eq!(records.runs().unwrap().len(), 2);
    tried("an SQLite file that is unreachable from the start", "replayed by the next run");
}

#[test]
fn a_full_spool_is_counted() {
    const TASKS: u64 = 2000;
    for policy in ["block", "drop"] {
        let place = Place::new("records").shut();
        let mut command = place.command(TASKS);
        command.env("RUNLORE_RECORDER__SPOOL_BYTES", "64KiB");
        command.env("RUNLORE_RECORDER__BACKLOG_BYTES", "64KiB");
        command.env("RUNLORE_RECORDER__WHEN_FULL", policy);
        let told = report(command, TASKS);
        let dropped = told["dropped"].as_u64().unwrap();
        assert!(dropped > 0, "{policy}: {told}");
        let problem = format!("{dropped} records were not stored");
        assert!(told["problem"].as_str().unwrap().starts_with(&problem), "{policy}: {told}");
        let waiting = runlore::spooled(place.folder()).unwrap();
        assert!(waiting[0].bytes <= 64 << 10, "{policy}: {waiting:?}");
        fs::remove_file(place.gate()).unwrap();
        let replayed = runlore::replay(place.spool(), &place.uri(), |_| ()).unwrap();
        assert_eq!(replayed.records + dropped, TASKS + 2, "{policy}: {told}");
    }
    tried("a full spool", "both policies");
}

#[test]
fn a_slow_store_holds_no_task_and_loses_none() {
    const TASKS: u64 = 5_000;
    let place = Place::new("slow");
    let mut command = place.command(TASKS);
    // A task would wait for less than one write of such a store takes.
    command.env("RUNLORE_RECORDER__MAX_WAIT_MS", "5s").env("PAUSE_MS", "10000");
    command.env("RUNLORE_RECORDER__RING_BYTES", "16KiB");
    let told = report(command, TASKS);
    assert_eq!(told["dropped"], 0, "{told}");
    expect_success(&finished_in_time(place.replaying(0)));
    assert_each_once(&place.folder(), TASKS);
    tried("a store that takes ten seconds for a write", "no task dropped");
}

#[test]
fn a_slow_store_does_not_hold_another_back() {
    const TASKS: u64 = 2000;
    let (away, here) = (Place::new("records").shut(), Place::new("records"));
    let mut command = away.command(TASKS);
    command.env("SECOND", here.uri()).env("RUNLORE_RECORDER__RING_BYTES", "16KiB");
    let told = report(command, TASKS);
    assert_eq!(told["dropped"], 0, "{told}");
    assert_each_once(&here.folder(), TASKS);
    assert_eq!(records(&away.folder()).0.len(), 0);
    fs::remove_file(away.gate()).unwrap();
    runlore::replay(away.spool(), &away.uri(), |_| ()).unwrap();
    assert_each_once(&away.folder(), TASKS);
}

/// Spools of several stores in one folder: each goes where it was meant to go, or where somebody says.
#[test]
fn what_waits_for_another_store_is_left_to_it() {
    const TASKS: u64 = 300;
    let (one, other, third) = (Place::new("one"), Place::new("other"), Place::new("third"));
    let (one, other) = (one.shut(), other.shut());
    let spool = one.root.path().join("elsewhere");
    let mut command = one.command(TASKS);
    command.env("SECOND", other.uri()).env("RUNLORE_RECORDER__SPOOL", &spool);
    report(command, TASKS);
    for place in [&one, &other] {
        fs::remove_file(place.gate()).unwrap();
    }
    let replayed = runlore::replay(&spool, &one.uri(), |_| ()).unwrap();
    assert_eq!((replayed.records, replayed.known), (TASKS + 3, 0));
    assert_each_once(&one.folder(), TASKS);
    let waiting = runlore::spooled(&spool).unwrap();
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    assert_eq!(waiting[0].store.as_deref(), Some(other.uri().as_str()));
    assert_eq!(runlore::replay(&spool, &third.uri(), |_| ()).unwrap().records, 0);
    let replayed = runlore::replay_from(&spool, &other.uri(), &third.uri(), |_| ()).unwrap();
    assert_eq!(replayed.records, TASKS + 3);
    assert_each_once(&third.folder(), TASKS);
    assert!(!spool.exists() && !other.folder().exists());
}

/// A database that is back gets what waits for it by itself, though another store is still away.
#[cfg(feature = "sqlite")]
#[test]
fn a_store_that_is_away_keeps_no_other_from_its_replay() {
    const TASKS: u64 = 300;
    let place = Place::new("records").shut();
    let file = place.folder().join("runs.db");
    fs::create_dir_all(&file).unwrap();
    let uri = format!("sqlite://{}", file.display());
    let mut command = place.command(TASKS);
    command.env("SECOND", &uri);
    report(command, TASKS);
    let waiting = || {
        let names = fs::read_dir(place.spool()).unwrap().map(|entry| entry.unwrap().path());
        names.filter(|path| path.extension().is_some_and(|end| end == "spool")).count()
    };
    assert_eq!(waiting(), 2);
    fs::remove_dir(&file).unwrap();
    let next = runlore::workflow("next").store(place.uri()).store(uri.as_str()).start().unwrap();
    let began = Instant::now();
    while waiting() > 1 {
        assert!(began.elapsed() < Duration::from_secs(60), "it is not replayed");
        std::thread::sleep(Duration::from_millis(1));
    }
    let tasks = runlore::Provenance::open(&uri).unwrap().tasks().to_vec().unwrap();
    assert_eq!(tasks.len() as u64, TASKS);
    fs::remove_file(place.gate()).unwrap();
    next.finish().unwrap();
}

/// Records that a replay finds in the store already are counted as that, whichever store it is.
#[cfg(feature = "sqlite")]
#[test]
fn what_a_database_has_already_is_not_said_to_be_written() {
    const TASKS: u64 = 300;
    let (place, other) = (Place::new("records").shut(), Place::new("other").shut());
    let spool = place.root.path().join("elsewhere");
    let mut command = place.command(TASKS);
    command.env("SECOND", other.uri()).env("RUNLORE_RECORDER__SPOOL", &spool);
    report(command, TASKS);
    let to = format!("sqlite://{}", place.root.path().join("runs.db").display());
    let first = runlore::replay_from(&spool, &place.uri(), &to, |_| ()).unwrap();
    assert_eq!((first.records, first.known), (TASKS + 3, 0));
    let second = runlore::replay_from(&spool, &other.uri(), &to, |_| ()).unwrap();
    // The records of the workflow say what each store has.
    assert_eq!(second.records + second.known, TASKS + 3);
    assert!(second.known >= TASKS, "{second:?}");
}

/// Kills a process after a random time, unless it ends before.
pub(crate) fn kill_soon(mut command: Command, random: &mut Random, most_ms: usize) {
    let mut process = command
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_micros(random.below(most_ms * 1000) as u64));
    _ = process.kill();
    process.wait().unwrap();
}

#[test]
fn whoever_is_killed_while_spooling_loses_and_doubles_nothing() {
    let rounds = number("RUNLORE_TEST_ROUNDS").unwrap_or(3);
    let mut random = Random::with_seed(7);
    for round in 0..rounds {
        let place = Place::new("records").shut();
        let mut command = place.command(u64::MAX);
        command.env("RUNLORE_RECORDER__RING_BYTES", "16KiB");
        kill_soon(command, &mut random, 1500);
        fs::remove_file(place.gate()).unwrap();
        let done = place.ledger();
        runlore::recover(place.folder()).unwrap();
        runlore::replay(place.spool(), &place.uri(), |_| ()).unwrap();
        let (found, _) = records(&place.folder());
        let missing: Vec<u64> = (0..done).filter(|n| !found.contains_key(n)).collect();
        assert!(missing.is_empty(), "round {round}: of {done} missing {missing:?}");
        assert!(found.values().all(|count| *count == 1), "round {round}: something is there twice");
    }
    tried("killed while spooling", format!("{rounds} times"));
}

#[test]
fn whoever_is_killed_while_replaying_loses_and_doubles_nothing() {
    const TASKS: u64 = 6000;
    let rounds = number("RUNLORE_TEST_ROUNDS").unwrap_or(1);
    let mut random = Random::with_seed(8);
    for _ in 0..rounds {
        let place = Place::new("slow").shut();
        let mut command = place.command(TASKS);
        command.env("PAUSE_MS", "0").env("RUNLORE_RECORDER__FLUSH_RECORDS", "50");
        report(command, TASKS);
        fs::remove_file(place.gate()).unwrap();
        for _ in 0..5 {
            kill_soon(place.replaying(5), &mut random, 800);
        }
        expect_success(&finished_in_time(place.replaying(0)));
        assert_each_once(&place.folder(), TASKS);
        assert!(!place.spool().exists());
    }
    tried("killed while replaying", format!("{rounds} × 5 times"));
}
