//! A store that cannot be written to: the program's own result is the same, and what became of its records is told.

#![cfg(unix)]

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use runlore::record::Record;
use runlore::store::{Batch, MemoryStore, Store, StoreChoice, jsonl};
use runlore::telemetry_task;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{
    bare_child, child, expect_success, finished_in_time, is_child, may_mount, skipped, tried,
};

const WORKS: &str = "unwritable::works";
/// Tasks before something happens to the store, and after it.
pub(crate) const BEFORE: u64 = 250;
pub(crate) const AFTER: u64 = 250;
/// Records in all: with the workflow's first and last.
pub(crate) const RECORDS: u64 = BEFORE + AFTER + 2;

#[telemetry_task]
fn work(n: u64) -> u64 {
    n * 2
}

fn wait_until(what: impl Fn() -> bool) {
    while !what() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Lets the file size limit be `bytes`, or as high as it may be.
#[allow(unsafe_code)]
fn limit_files(bytes: Option<u64>) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a place for the answer.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    limit.rlim_cur = bytes.unwrap_or(limit.rlim_max);
    // SAFETY: the limit lives through the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) }, 0);
}

#[allow(unsafe_code)]
fn become_nobody() {
    const NOBODY: u32 = 65534;
    // SAFETY: no memory is involved; glibc does it for all threads.
    unsafe {
        assert_eq!(libc::setgroups(0, std::ptr::null()), 0);
        assert_eq!(libc::setgid(NOBODY), 0);
        assert_eq!(libc::setuid(NOBODY), 0);
    }
}

#[allow(unsafe_code)]
fn is_root() -> bool {
    // SAFETY: no preconditions.
    unsafe { libc::geteuid() == 0 }
}

#[allow(unsafe_code)]
fn ignore_size_signal() {
    // SAFETY: ignoring a signal runs no code of ours.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// The program under watch.
#[test]
fn works() {
    if !is_child(WORKS) {
        return;
    }
    let scenario = std::env::var("SCENARIO").unwrap();
    let is = |what: &str| scenario.split(", ").any(|part| part == what);
    let store = PathBuf::from(std::env::var("STORE").unwrap());
    if is("ignores the signal") {
        ignore_size_signal();
    }
    if is("small files") {
        limit_files(Some(64 << 10));
    }
    if is("as nobody") && is_root() {
        become_nobody();
    }
    // The folder, or a database in it.
    let place = match std::env::var("DATABASE") {
        Ok(name) => format!("sqlite://{}/{name}", store.display()),
        Err(_) => store.display().to_string(),
    };
    let run = runlore::workflow("unwritable").store(place).start().unwrap();
    let mut sum: u64 = (0..BEFORE).map(work).sum();
    if is("deleted") {
        runlore::flush().unwrap();
        fs::remove_dir_all(&store).unwrap();
    }
    if is("replaced by a file") {
        fs::write(&store, "in the way").unwrap();
    }
    if is("fails first") {
        wait_until(|| runlore::stats().store_errors > 0);
        if let Some(file) = std::env::var_os("FAILED") {
            fs::write(file, "").unwrap();
        }
    }
    if is("larger files later") {
        limit_files(None);
    }
    if is("out of the way later") {
        fs::remove_file(&store).unwrap();
    }
    if is("room later") {
        fs::remove_file(store.with_file_name("ballast")).unwrap();
    }
    sum += (BEFORE..BEFORE + AFTER).map(work).sum::<u64>();
    if is("ends when told") {
        let told = PathBuf::from(std::env::var("TOLD").unwrap());
        wait_until(|| told.exists());
    }
    let finished = run.finish();
    let stats = runlore::stats();
    limit_files(None);
    let report = json!({
        "totals": finished.as_ref().ok(),
        "error": finished.as_ref().err().map(ToString::to_string),
        "written": stats.written,
        "dropped": stats.dropped,
        "waiting": stats.waiting,
    });
    // Standard output is the program's: the report goes where it disturbs nobody.
    eprintln!("report: {report}");
    println!("the sum is {sum}");
    std::process::exit(7);
}

pub(crate) struct Outcome {
    pub(crate) report: Value,
    pub(crate) told: Vec<String>,
}

pub(crate) fn command(scenario: &str, store: &Path) -> Command {
    let mut command = bare_child(WORKS);
    command.env("SCENARIO", scenario).env("STORE", store);
    command
}

/// Runs the program, and sees that nothing but the records is different from a run without them.
pub(crate) fn outcome(scenario: &str, command: Command) -> Outcome {
    let output = finished_in_time(command);
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(7), "{scenario}: {}\n{stderr}", output.status);
    let sum: u64 = (0..BEFORE + AFTER).map(|n| n * 2).sum();
    // The first two lines are the harness's.
    let own: Vec<&str> = stdout.lines().filter(|line| !line.is_empty()).skip(1).collect();
    let own = own.join("\n");
    assert_eq!(own.trim_start_matches(&format!("test {WORKS} ... ")), format!("the sum is {sum}"));
    let mut told = Vec::new();
    let mut report = Value::Null;
    for line in stderr.lines() {
        if let Some(text) = line.strip_prefix("report: ") {
            report = serde_json::from_str(text).unwrap();
        } else if !line.ends_with("notices are not shown") {
            let text = line.strip_prefix("runlore: ");
            told.push(text.unwrap_or_else(|| panic!("{scenario}: {stderr}")).to_owned());
        }
    }
    let different: HashSet<&String> = told.iter().collect();
    assert_eq!(different.len(), told.len(), "{scenario}: told twice\n{stderr}");
    // The last is about the run's final record, which the exit code changes.
    assert!((1..=6).contains(&told.len()), "{scenario}: {stderr}");
    assert_eq!(report["waiting"], 0, "{scenario}: {report}");
    Outcome { report, told }
}

/// The numbers of the tasks in a store, each of which is there once.
fn numbers(store: &Path) -> Vec<u64> {
    let mut numbers = Vec::new();
    for record in jsonl::read(store).unwrap() {
        if let Record::Task(task) = record.unwrap() {
            numbers.push(task.used.unwrap()["n"].as_u64().unwrap());
        }
    }
    numbers.sort_unstable();
    numbers
}

fn lines(store: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(store) else { return 0 };
    let files = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    let files: Vec<String> = files.map(|path| fs::read_to_string(path).unwrap()).collect();
    let (again, told): (Vec<&str>, Vec<&str>) =
        files.iter().flat_map(|text| text.lines()).partition(|line| line.contains("\"exit_code\""));
    // The run's last record is written once more at exit, when there may be room for it: it must not hide what was lost.
    for record in again {
        let record: Value = serde_json::from_str(record).unwrap();
        let lost = record["totals"]["dropped"].as_u64().unwrap();
        let stored = told.iter().filter(|line| line.contains("\"type\":\"task\"")).count() as u64;
        assert_eq!(stored + lost, BEFORE + AFTER, "{record}");
    }
    told.len() as u64
}

/// Everything is there, once.
fn assert_all_stored(scenario: &str, outcome: &Outcome, store: &Path) {
    let report = &outcome.report;
    assert_eq!(numbers(store), (0..BEFORE + AFTER).collect::<Vec<_>>(), "{scenario}: {report}");
    assert_eq!(report["totals"]["tasks"], BEFORE + AFTER, "{scenario}: {report}");
    assert_eq!((&report["written"], &report["dropped"]), (&json!(RECORDS), &json!(0)));
    assert!(outcome.told.iter().any(|text| text.contains("it is tried again")), "{scenario}");
}

/// What is not there was counted and told.
pub(crate) fn assert_rest_counted(scenario: &str, outcome: &Outcome, stored: u64, all: u64) {
    let report = &outcome.report;
    let lost = all - stored;
    assert!(lost > 0, "{scenario}");
    assert_eq!(report["dropped"], lost, "{scenario}: {report}");
    let error = report["error"].as_str().unwrap_or_default();
    assert!(error.starts_with(&format!("{lost} records were not stored: ")), "{scenario}: {error}");
    assert!(outcome.told.iter().any(|text| text == error), "{scenario}: {:?}", outcome.told);
}

/// Tries several things at once: most of their time they wait for a store to come back.
pub(crate) fn all_at_once<T: Send>(cases: impl IntoIterator<Item = T>, attempt: impl Fn(T) + Sync) {
    std::thread::scope(|scope| {
        for case in cases {
            scope.spawn(|| attempt(case));
        }
    });
}

/// A folder that everybody may look into.
pub(crate) fn shared_folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

#[test]
fn a_folder_that_may_not_be_written() {
    let cases = [(0o555, true), (0o000, true), (0o555, false)];
    all_at_once(cases, |(mode, exists)| {
        let folder = shared_folder();
        let barred = folder.path().join("barred");
        fs::create_dir(&barred).unwrap();
        fs::set_permissions(&barred, fs::Permissions::from_mode(mode)).unwrap();
        let store = if exists { barred.clone() } else { barred.join("store") };
        let scenario = "as nobody";
        let outcome = outcome(scenario, command(scenario, &store));
        fs::set_permissions(&barred, fs::Permissions::from_mode(0o755)).unwrap();
        assert_rest_counted(scenario, &outcome, 0, RECORDS);
        assert!(outcome.told[0].contains("Permission denied"), "{:?}", outcome.told);
        assert_eq!(fs::read_dir(&barred).unwrap().count(), 0);
    });
    tried("read-only folder, permission denied", "3 folders");
}

#[test]
fn a_file_where_the_folder_should_be() {
    all_at_once([false, true], |is_back| {
        let folder = TempDir::new().unwrap();
        let store = folder.path().join("store");
        fs::write(&store, "in the way").unwrap();
        let scenario = if is_back { "fails first, out of the way later" } else { "stays" };
        let outcome = outcome(scenario, command(scenario, &store));
        if is_back {
            assert_all_stored(scenario, &outcome, &store);
        } else {
            assert_rest_counted(scenario, &outcome, 0, RECORDS);
            assert_eq!(fs::read(&store).unwrap(), b"in the way");
        }
    });
    tried("a file where the folder should be", "for ever, and for a while");
}

#[test]
fn files_that_may_not_grow() {
    let (ignored, left) = ("ignores the signal", "leaves the signal");
    let cases = [(ignored, false), (ignored, true), (left, false), (left, true)];
    all_at_once(cases, |(signal, is_back)| {
        let folder = TempDir::new().unwrap();
        let store = folder.path().join("store");
        let rest = if is_back { ", fails first, larger files later" } else { "" };
        let scenario = format!("small files, {signal}{rest}");
        let outcome = outcome(&scenario, command(&scenario, &store));
        if is_back {
            assert_all_stored(&scenario, &outcome, &store);
        } else {
            assert_rest_counted(&scenario, &outcome, lines(&store), RECORDS);
            let stored = numbers(&store);
            assert_eq!(stored, (0..stored.len() as u64).collect::<Vec<_>>(), "whole lines");
        }
    });
    tried(
        "files that may not grow (RLIMIT_FSIZE)",
        "for ever, and for a while; SIGXFSZ ignored and not",
    );
}

#[test]
fn a_folder_that_is_deleted_meanwhile() {
    // Records that were there went with it; all others are stored.
    let folder = TempDir::new().unwrap();
    let store = folder.path().join("store");
    let scenario = "deleted";
    let gone = outcome(scenario, command(scenario, &store));
    assert_eq!(numbers(&store), (BEFORE..BEFORE + AFTER).collect::<Vec<_>>());
    assert_eq!(gone.report["dropped"], 0, "{}", gone.report);
    assert!(gone.told.iter().any(|text| text.contains("was deleted while")), "{:?}", gone.told);

    let scenario = "deleted, replaced by a file";
    fs::remove_dir_all(&store).unwrap();
    let gone = outcome(scenario, command(scenario, &store));
    assert_rest_counted(scenario, &gone, BEFORE + 1, RECORDS);
    tried("a folder deleted in the middle of the run", "and made again, and replaced by a file");
}

/// A store that is away for so many calls.
struct Away {
    calls: u32,
    inner: MemoryStore,
}

impl Store for Away {
    fn write(&mut self, batch: &Batch<'_>) -> runlore::Result<()> {
        if self.calls > 0 {
            self.calls -= 1;
            return Err(runlore::Error::new(runlore::ErrorKind::Store, "away"));
        }
        self.inner.write(batch)
    }
}

const AWAY: &str = "unwritable::a_store_that_was_away_for_long_gets_what_memory_could_hold";

#[test]
fn a_store_that_was_away_for_long_gets_what_memory_could_hold() {
    const TASKS: u64 = 2000;
    if !is_child(AWAY) {
        all_at_once(["64KiB", "64MiB"], |memory| {
            let mut command = child(AWAY);
            command.env("RUNLORE_RECORDER__BACKLOG_BYTES", memory);
            command.env("RUNLORE_RECORDER__FLUSH_RECORDS", "20");
            // Only the store is slow here, whatever else the machine has to do.
            command.env("RUNLORE_RECORDER__MAX_WAIT_MS", "60s");
            let output = finished_in_time(command);
            expect_success(&output);
            let told = String::from_utf8(output.stderr).unwrap();
            let dropped = told.matches("records are dropped until it works again").count();
            assert_eq!(dropped, usize::from(memory == "64KiB"), "{memory}: {told}");
        });
        tried(
            "a store that is away until the end of the run",
            "with memory for all of it, and for less",
        );
        return;
    }
    let inner = MemoryStore::new();
    // After so many calls the next would be made later than the end of the run waits.
    const CALLS: u32 = 6;
    let store = StoreChoice::custom(Away { calls: CALLS, inner: inner.clone() });
    let run = runlore::workflow("away").store(store).start().unwrap();
    (0..TASKS).for_each(|n| _ = work(n));
    wait_until(|| runlore::stats().store_errors >= u64::from(CALLS));
    let finished = run.finish();
    let (stored, dropped) = (inner.tasks().len() as u64, runlore::stats().dropped);
    assert_eq!(stored + dropped, TASKS);
    let totals = inner.workflows().pop().unwrap().totals.unwrap();
    let [tasks, finished_tasks, lost] = ["tasks", "finished", "dropped"].map(|name| &totals[name]);
    assert_eq!((tasks, finished_tasks, lost), (&json!(stored), &json!(stored), &json!(dropped)));
    let is_small = std::env::var("RUNLORE_RECORDER__BACKLOG_BYTES").unwrap() == "64KiB";
    match finished {
        Ok(_) => assert!(!is_small && dropped == 0, "{dropped}"),
        Err(error) => {
            assert!(is_small);
            assert!(error.to_string().starts_with(&format!("{dropped} records were not stored")));
        }
    }
}

/// Mounts a small file system at `$1`, runs the rest of the arguments, and copies what is in it to `$2`.
const IN_A_SMALL_FILE_SYSTEM: &str = r#"
mount -t tmpfs -o size=1000k tmpfs "$1" || exit 90
mkdir "$1/store"
head -c "$3" /dev/zero > "$1/ballast"
at=$1; to=$2; shift 3
"$@"
code=$?
cp -r "$at/store" "$to"
exit $code
"#;

#[test]
fn a_disk_without_room() {
    let what = "a full disk (tmpfs)";
    let Some(flags) = may_mount(what) else { return };
    // With room for the queue of a thread, and without.
    let later = ", fails first, room later";
    let cases = [("640000", ""), ("640000", later), ("880000", ""), ("880000", later)];
    all_at_once(cases, |(ballast, rest)| {
        let folder = TempDir::new().unwrap();
        let (disk, copy) = (folder.path().join("disk"), folder.path().join("copy"));
        fs::create_dir(&disk).unwrap();
        let scenario = format!("ballast {ballast}{rest}");
        let mut inner = command(&scenario, &disk.join("store"));
        inner.env("RUNLORE_RECORDER__RING_BYTES", "256KiB");
        let mut outer = Command::new("unshare");
        outer.args([flags, "sh", "-c", IN_A_SMALL_FILE_SYSTEM, "sh"]);
        outer.args([&disk, &copy]).arg(ballast);
        outer.arg(inner.get_program()).args(inner.get_args());
        for (name, value) in inner.get_envs() {
            match value {
                Some(value) => outer.env(name, value),
                None => outer.env_remove(name),
            };
        }
        let outcome = outcome(&scenario, outer);
        if rest.is_empty() {
            assert_rest_counted(&scenario, &outcome, lines(&copy), RECORDS);
            let stored = numbers(&copy);
            assert_eq!(stored, (0..stored.len() as u64).collect::<Vec<_>>(), "whole lines");
        } else {
            assert_all_stored(&scenario, &outcome, &copy);
        }
    });
    tried(what, "for ever, and for a while; with and without a queue on it");
}

/// Makes a copy-on-write file system at `$1` in the file `$2`, and runs the rest of the arguments.
const ON_A_DISK_OF_ITS_OWN: &str = r#"
truncate -s 200M "$2" && mkfs.btrfs -q "$2" && mount -o loop "$2" "$1" || exit 90
shift 2
exec "$@"
"#;

const FILLS: &str = "unwritable::a_copy_on_write_disk_that_fills_up_does_not_end_the_program";

#[test]
fn a_copy_on_write_disk_that_fills_up_does_not_end_the_program() {
    if is_child(FILLS) {
        fill_the_disk_and_go_on(Path::new(&std::env::var("STORE").unwrap()));
        return;
    }
    let what = "a disk that fills up under the queue (Btrfs)";
    let folder = TempDir::new().unwrap();
    let (disk, image) = (folder.path().join("disk"), folder.path().join("image"));
    fs::create_dir(&disk).unwrap();
    let inner = child(FILLS);
    let mut outer = Command::new("unshare");
    outer.args(["-m", "sh", "-c", ON_A_DISK_OF_ITS_OWN, "sh"]).args([&disk, &image]);
    outer.arg(inner.get_program()).args(inner.get_args());
    outer.env("RUNLORE_TEST_CHILD", FILLS).env("STORE", disk.join("store"));
    match outer.output() {
        Ok(output) if output.status.code() != Some(90) => {
            expect_success(&output);
            tried(what, "once");
        }
        _ => skipped(what, "it takes root, `mkfs.btrfs` and a loop device"),
    }
}

fn fill_the_disk_and_go_on(store: &Path) {
    use std::io::Write as _;
    let run = runlore::workflow("fills").store(store).start().unwrap();
    work(0);
    let mut ballast = fs::File::create(store.join("ballast")).unwrap();
    // No more than the disk was made for, should it be another one.
    let written = (0..400).take_while(|_| ballast.write_all(&[7; 1 << 20]).is_ok()).count();
    assert!(written < 400, "the disk is full");
    for n in 0..5 {
        // A page that was written back must be asked for again.
        std::process::Command::new("sync").status().unwrap();
        (0..100).for_each(|m| assert_eq!(work(n * 100 + m), 2 * (n * 100 + m)));
    }
    let stats = runlore::stats();
    drop(ballast);
    fs::remove_file(store.join("ballast")).unwrap();
    assert_eq!(stats.dropped, 0, "{stats:?}");
    assert_eq!(run.finish().unwrap().tasks, 501);
}
