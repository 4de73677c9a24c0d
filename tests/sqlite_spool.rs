//! An SQLite file that is locked or in the way for as long as the run: what it could not take waits on disk, and is there once.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use runlore::record::Status;
use rusqlite::Connection;
use serde_json::json;

use crate::spool::{Place, kill_soon, report};
use crate::support::{Random, number, tried};

const TASKS: u64 = 500;

/// A database that another program keeps locked.
struct Locked {
    place: Place,
    file: PathBuf,
    other: Connection,
}

impl Locked {
    fn new() -> Self {
        let place = Place::new("records");
        fs::create_dir(place.folder()).unwrap();
        let file = place.folder().join("runs.db");
        // Made before, so that there is something to lock.
        runlore::workflow("first").store(&*file).start().unwrap().finish().unwrap();
        let other = Connection::open(&file).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        Self { place, file, other }
    }

    fn uri(&self) -> String {
        format!("sqlite://{}", self.file.display())
    }

    fn command(&self, tasks: u64) -> std::process::Command {
        let mut command = self.place.command(tasks);
        command.env("STORE", self.uri());
        // Half of that the store waits for the lock, and no task waits for longer than 5 s.
        command.env("RUNLORE_RECORDER__MAX_WAIT_MS", "2s");
        command
    }

    fn unlock(&self) {
        self.other.execute_batch("ROLLBACK").unwrap();
    }

    /// How often each task that has ended is there.
    fn found(&self) -> HashMap<u64, u32> {
        let mut found = HashMap::new();
        for task in runlore::Provenance::open(&self.file).unwrap().tasks().to_vec().unwrap() {
            if task.status == Some(Status::Finished) {
                *found.entry(task.used.unwrap()["n"].as_u64().unwrap()).or_default() += 1;
            }
        }
        found
    }

    fn assert_each_once(&self, tasks: u64) {
        let found = self.found();
        let missing: Vec<u64> = (0..tasks).filter(|n| !found.contains_key(n)).collect();
        assert!(missing.is_empty(), "missing of {tasks}: {missing:?}");
        assert!(found.values().all(|count| *count == 1), "something is there twice");
    }
}

#[test]
fn a_database_that_is_locked_to_the_end_is_spooled_for_and_replayed() {
    let locked = Locked::new();
    let told = report(locked.command(TASKS), TASKS);
    assert_eq!((&told["dropped"], &told["written"]), (&json!(0), &json!(0)), "{told}");
    assert_eq!(told["totals"]["spooled"], TASKS + 2, "{told}");
    locked.unlock();
    let replayed = runlore::replay(locked.place.spool(), &locked.uri(), |_| ()).unwrap();
    assert_eq!(replayed.records, TASKS + 3);
    locked.assert_each_once(TASKS);
    assert!(!locked.place.spool().exists());
    tried("an SQLite file that is locked from the start to the end", "replayed by hand");
}

#[test]
fn a_database_that_is_free_again_gets_everything_by_itself() {
    let locked = Locked::new();
    let told = std::thread::scope(|scope| {
        let mut command = locked.command(TASKS);
        // It goes on when this file is gone.
        fs::write(locked.place.gate(), "").unwrap();
        command.env("OPENS", locked.place.gate());
        command.env("RUNLORE_RECORDER__RING_BYTES", "16KiB");
        let running = scope.spawn(|| report(command, TASKS));
        let began = Instant::now();
        while locked.place.gate().exists() {
            assert!(began.elapsed() < Duration::from_secs(60), "nothing has failed");
            std::thread::sleep(Duration::from_millis(1));
        }
        locked.unlock();
        running.join().unwrap()
    });
    assert_eq!(told["dropped"], 0, "{told}");
    locked.assert_each_once(TASKS + 1);
    // On a busy machine, the end of the run may be too short for its last record.
    let left = runlore::replay(locked.place.folder(), &locked.uri(), |_| ()).unwrap();
    assert!(left.records <= 1, "{left:?}");
    tried("an SQLite file that is locked for a while", "everything by itself");
}

#[test]
fn whoever_is_killed_while_its_database_is_locked_loses_and_doubles_nothing() {
    let rounds = number("RUNLORE_TEST_ROUNDS").unwrap_or(3);
    let mut random = Random::with_seed(9);
    for round in 0..rounds {
        let locked = Locked::new();
        let mut command = locked.command(u64::MAX);
        command.env("RUNLORE_RECORDER__RING_BYTES", "16KiB");
        kill_soon(command, &mut random, 1500);
        let done = locked.place.ledger();
        locked.unlock();
        runlore::recover(locked.place.folder()).unwrap();
        runlore::replay(locked.place.folder(), &locked.uri(), |_| ()).unwrap();
        let found = locked.found();
        let missing: Vec<u64> = (0..done).filter(|n| !found.contains_key(n)).collect();
        assert!(missing.is_empty(), "round {round}: of {done} missing {missing:?}");
        assert!(found.values().all(|count| *count == 1), "round {round}: something is there twice");
    }
    tried("killed while an SQLite file is locked", format!("{rounds} times"));
}

#[test]
fn recovery_stores_what_waits_for_the_database_of_a_killed_process() {
    let locked = Locked::new();
    let mut command = locked.command(u64::MAX);
    command.env("RUNLORE_RECORDER__RING_BYTES", "16KiB");
    let mut process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    while fs::read_dir(locked.place.spool()).map_or(0, Iterator::count) < 2 {
        assert!(began.elapsed() < Duration::from_secs(60), "nothing is spooled");
        std::thread::sleep(Duration::from_millis(1));
    }
    // Its file is there before its first batch.
    std::thread::sleep(Duration::from_millis(200));
    process.kill().unwrap();
    process.wait().unwrap();
    let done = locked.place.ledger();
    locked.unlock();

    runlore::recover(locked.place.folder()).unwrap();
    locked.assert_each_once(done);
    assert!(!locked.place.spool().exists());
    let database = runlore::Provenance::open(&locked.file).unwrap();
    let tasks = database.tasks().to_vec().unwrap().len();
    let runs = database.workflows().to_vec().unwrap();
    let killed = runs.iter().find(|run| run.status == Some(Status::Unknown)).unwrap();
    assert_eq!(killed.totals.as_ref().unwrap()["tasks"], tasks);
}
