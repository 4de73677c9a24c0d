//! A database that cannot be written to: the program's own result is the same, and what became of its records is told.

#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use runlore::store::sqlite::SqliteSource;
use serde_json::json;
use tempfile::TempDir;

use crate::support::{tried, wait_until};
use crate::unwritable::{
    AFTER, BEFORE, Outcome, RECORDS, all_at_once, assert_rest_counted, command, outcome,
    shared_folder,
};

fn uri(path: &Path) -> PathBuf {
    PathBuf::from(format!("sqlite://{}", path.display()))
}

/// The numbers of the tasks in a database, each of which is there once.
fn numbers(path: &Path) -> Vec<u64> {
    let source = SqliteSource::open(path).unwrap();
    let number = |record: runlore::record::Record| {
        Some(record.as_task()?.used.as_ref()?["n"].as_u64().unwrap())
    };
    let mut numbers: Vec<u64> =
        source.records().filter_map(|record| number(record.unwrap())).collect();
    numbers.sort_unstable();
    numbers
}

fn assert_all_stored(scenario: &str, outcome: &Outcome, path: &Path) {
    let report = &outcome.report;
    assert_eq!(numbers(path), (0..BEFORE + AFTER).collect::<Vec<_>>(), "{scenario}: {report}");
    assert_eq!(
        (&report["written"], &report["dropped"]),
        (&json!(RECORDS), &json!(0)),
        "{scenario}"
    );
    assert!(outcome.told.iter().any(|text| text.contains("it is tried again")), "{scenario}");
}

#[test]
fn a_folder_that_may_not_be_written() {
    all_at_once([true, false], |exists| {
        let folder = shared_folder();
        let barred = folder.path().join("barred");
        fs::create_dir(&barred).unwrap();
        fs::set_permissions(&barred, fs::Permissions::from_mode(0o555)).unwrap();
        let path = if exists { barred.join("x.db") } else { barred.join("folder/x.db") };
        let scenario = "as nobody";
        let outcome = outcome(scenario, command(scenario, &uri(&path)));
        assert_rest_counted(scenario, &outcome, 0, RECORDS);
        assert_eq!(fs::read_dir(&barred).unwrap().count(), 0);
    });
    tried("an SQLite file in a read-only folder", "2 folders");
}

#[test]
fn files_that_may_not_grow() {
    let cases = ["ignores the signal", "leaves the signal"];
    all_at_once(cases, |signal| {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("x.db");
        let scenario = format!("small files, {signal}, fails first, larger files later");
        let outcome = outcome(&scenario, command(&scenario, &uri(&path)));
        assert_all_stored(&scenario, &outcome, &path);
    });
    tried(
        "an SQLite file that may not grow (RLIMIT_FSIZE)",
        "for a while; SIGXFSZ ignored and not",
    );
}

#[test]
fn a_database_that_another_process_has_locked() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.db");
    // Made before, so that there is something to lock.
    runlore::workflow("first").store(uri(&path)).start().unwrap().finish().unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let told = folder.path().join("told");
    let scenario = "fails first, ends when told";
    let mut command = command(scenario, &uri(&path));
    let failed = folder.path().join("failed");
    command.env("TOLD", &told).env("FAILED", &failed);
    let outcome = std::thread::scope(|scope| {
        let running = scope.spawn(|| outcome(scenario, command));
        // It has waited for the lock as long as it does in one go.
        wait_until("the store does not fail", || failed.exists());
        assert!(!running.is_finished());
        other.execute_batch("ROLLBACK").unwrap();
        fs::write(&told, "").unwrap();
        running.join().unwrap()
    });
    assert_all_stored(scenario, &outcome, &path);
    assert!(outcome.told[0].contains("is locked by another process"), "{:?}", outcome.told);
    tried("an SQLite file that another process has locked", "until a write has failed");
}

#[test]
fn a_database_that_is_deleted_meanwhile() {
    let folder = TempDir::new().unwrap();
    let store = folder.path().join("store");
    let scenario = "deleted";
    let mut command = command(scenario, &store);
    command.env("DATABASE", "x.db");
    let gone = outcome(scenario, command);
    assert_eq!(numbers(&store.join("x.db")), (BEFORE..BEFORE + AFTER).collect::<Vec<_>>());
    assert_eq!(gone.report["dropped"], 0, "{}", gone.report);
    assert!(gone.told.iter().any(|text| text.contains("was deleted while")), "{:?}", gone.told);
    tried("an SQLite file deleted in the middle of the run", "and made again");
}
