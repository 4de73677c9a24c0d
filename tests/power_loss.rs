//! `durability: system`: what is reported as synced is there after the machine has lost its power.

#![cfg(unix)]

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use runlore::store::{Batch, Store, StoreChoice};
use runlore::{carry, telemetry_task};
use tempfile::TempDir;

use crate::support::{self, Random, child, expect_success, is_child, skipped, tried};

/// A machine: what is written stays in its memory, and only what is synced gets to its disk. Every other batch or so is
/// held back for a while, as a disk does.
struct Machine {
    memory: Vec<u8>,
    disk: File,
}

impl Store for Machine {
    fn write(&mut self, batch: &Batch<'_>) -> runlore::Result<()> {
        self.memory.extend_from_slice(batch.json_lines());
        Ok(())
    }

    fn sync(&mut self) -> runlore::Result<()> {
        std::thread::sleep(Duration::from_micros(self.memory.len() as u64 % 2000));
        self.disk.write_all(&self.memory).map_err(|error| {
            runlore::Error::new(runlore::ErrorKind::Store, "the disk").with_source(error)
        })?;
        self.memory.clear();
        Ok(())
    }
}

#[telemetry_task]
fn step(thread: u64, number: u64) {}

const RUNS: &str = "power_loss::runs_until_the_power_fails";

#[test]
fn runs_until_the_power_fails() {
    if !is_child(RUNS) {
        return;
    }
    let folder = PathBuf::from(std::env::var("FOLDER").unwrap());
    let disk = File::create(folder.join("disk")).unwrap();
    let store = StoreChoice::custom(Machine { memory: Vec::new(), disk });
    std::mem::forget(runlore::workflow("power").store(store).start().unwrap());
    for thread in 0..2 {
        std::thread::spawn(carry(move || {
            for number in 0.. {
                step(thread, number);
            }
        }));
    }
    // The ledger: the number that was reported, one after the other, each a line.
    let ledger = OpenOptions::new().create(true).append(true).open(folder.join("ledger"));
    let mut ledger = ledger.unwrap();
    loop {
        let synced = runlore::stats().synced;
        ledger.write_all(format!("{synced}\n").as_bytes()).unwrap();
        std::thread::sleep(Duration::from_micros(100));
    }
}

#[test]
fn what_was_reported_as_synced_is_on_the_disk() {
    let rounds = support::number("RUNLORE_TEST_ROUNDS").unwrap_or(4);
    let mut random = Random::new();
    let mut reported = 0;
    for round in 0..rounds {
        let folder = TempDir::new().unwrap();
        let mut process = child(RUNS)
            .env("FOLDER", folder.path())
            .env("RUNLORE_RECORDER__DURABILITY", "system")
            .env("RUNLORE_RECORDER__FLUSH_MS", "5ms")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let ledger = folder.path().join("ledger");
        while fs::read_to_string(&ledger).map_or(0, |text| last_number(&text)) < 500 {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(random.below(100_000) as u64));
        process.kill().unwrap();
        process.wait().unwrap();
        let synced = last_number(&fs::read_to_string(&ledger).unwrap());
        let on_disk = whole_records(&folder.path().join("disk"));
        assert!(
            on_disk.len() as u64 >= synced,
            "round {round}: {synced} were reported, {} are there",
            on_disk.len()
        );
        let different: HashSet<&String> = on_disk.iter().collect();
        assert_eq!(different.len(), on_disk.len(), "round {round}: something is there twice");
        reported += synced;
    }
    let what = "power lost with durability: system (what was not synced is dropped)";
    tried(what, format!("{rounds} times, {reported} records reported as synced"));
}

/// The last whole line of the ledger.
fn last_number(ledger: &str) -> u64 {
    let whole = ledger.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().next_back().map_or(0, |line| line.parse().unwrap())
}

fn whole_records(disk: &Path) -> Vec<String> {
    let text = fs::read_to_string(disk).unwrap();
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    for line in whole.lines() {
        assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "{line}");
    }
    whole.lines().map(str::to_owned).collect()
}

/// Writes always, syncs never.
struct NeverSynced(runlore::store::MemoryStore);

impl Store for NeverSynced {
    fn write(&mut self, batch: &Batch<'_>) -> runlore::Result<()> {
        self.0.write(batch)
    }

    fn sync(&mut self) -> runlore::Result<()> {
        Err(runlore::Error::new(runlore::ErrorKind::Store, "the disk is broken"))
    }
}

const BROKEN: &str = "power_loss::a_sync_that_fails_doubles_nothing_and_is_not_reported";

#[test]
fn a_sync_that_fails_doubles_nothing_and_is_not_reported() {
    if !is_child(BROKEN) {
        let output = child(BROKEN).env("RUNLORE_RECORDER__DURABILITY", "system").output().unwrap();
        expect_success(&output);
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(told.matches("if the machine goes down").count(), 1, "{told}");
        return;
    }
    let store = runlore::store::MemoryStore::new();
    let run = runlore::workflow("broken").store(StoreChoice::custom(NeverSynced(store.clone())));
    let run = run.start().unwrap();
    for number in 0..1000 {
        step(0, number);
        if number % 100 == 0 {
            runlore::flush().unwrap();
        }
    }
    let totals = run.finish().unwrap();
    assert_eq!((totals.tasks, totals.dropped), (1000, 0));
    assert_eq!(store.tasks().len(), 1000);
    assert_eq!(runlore::stats().synced, 0);
}

const SYNCS: &str = "power_loss::syncs";

#[test]
fn syncs() {
    if is_child(SYNCS) {
        let store = std::env::var("FOLDER").unwrap();
        runlore::workflow("syncs").store(store).run(|| step(1, 2)).unwrap();
    }
}

/// Not what we say of our files, but what the kernel hears.
#[test]
fn files_of_records_are_synced_and_so_is_their_folder() {
    let what = "fdatasync and fsync as the kernel sees them (strace)";
    if !Command::new("strace").args(["-f", "true"]).output().is_ok_and(|out| out.status.success()) {
        return skipped(what, "strace is missing, or may not be used here");
    }
    for (durability, is_synced) in [("system", true), ("process", false)] {
        let folder = TempDir::new().unwrap();
        let store = folder.path().join("store");
        let trace = folder.path().join("trace");
        let inner = child(SYNCS);
        let mut outer = Command::new("strace");
        outer.args(["-f", "-y", "-e", "trace=fsync,fdatasync,openat", "-o"]).arg(&trace);
        outer.arg(inner.get_program()).args(inner.get_args());
        outer.env("RUNLORE_TEST_CHILD", SYNCS).env("FOLDER", &store);
        outer.env("RUNLORE_RECORDER__DURABILITY", durability);
        outer.env_remove("RUNLORE_CONTEXT").env_remove("RUNLORE_STORE");
        expect_success(&outer.output().unwrap());
        let trace = fs::read_to_string(trace).unwrap();
        let has = |call: &str, path: &str| {
            trace.lines().any(|line| line.contains(call) && line.contains(path))
        };
        let store = store.canonicalize().unwrap();
        let store = store.to_str().unwrap();
        assert_eq!(has("fdatasync(", ".jsonl>"), is_synced, "{durability}: {trace}");
        assert_eq!(has("fsync(", &format!("<{store}>")), is_synced, "{durability}: {trace}");
    }
    tried(what, "with durability: system, and without");
}
