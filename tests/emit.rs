//! Metrics and milestones by hand: what is written, what is read back, and that a program never notices.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use runlore::emit::{self, Backend, Emitted, Summary, Telemetry};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{child, expect_success, finished_in_time, is_child, record, the};

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/cloudmesh").join(name)
}

fn all(path: &Path) -> Vec<Emitted> {
    emit::read(path).unwrap().map(Result::unwrap).collect()
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_record_is_cloudmeshs_with_what_it_leaves_empty() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("telemetry.jsonl");
    let telemetry = Telemetry::new().command("infer").path(&path);
    telemetry.emit().metric("inference_latency", 0.125).status("completed");
    telemetry.emit().event("model_load_start").status("started").message("now");
    telemetry.emit().metric("loss", f64::NAN).metric("n", 3).message("");

    let text = fs::read_to_string(&path).unwrap();
    let keys = [
        "\"timestamp\":\"",
        "\"command\":\"infer\"",
        "\"status\":\"completed\"",
        "\"metrics\":{\"inference_latency\":0.125}",
        "\"system\":{\"cpu\":",
    ];
    let mut rest = text.lines().next().unwrap();
    for key in keys {
        rest = &rest[rest.find(key).unwrap_or_else(|| panic!("{key} in {text}"))..];
    }
    let records = lines(&path);
    assert_eq!(records.len(), 3);
    let time = records[0]["timestamp"].as_str().unwrap();
    assert_eq!((time.len(), &time[10..11], &time[19..20]), (26, "T", "."), "{time}");
    assert!(records[0]["system"]["memory_total"].as_u64().unwrap() > 1 << 20);
    assert!(records[0]["system"]["gpu_present"].is_boolean());
    assert_eq!(records[0].get("message"), None);
    assert_eq!(records[1]["metrics"], json!({"event": "model_load_start"}));
    assert_eq!(records[1]["message"], "now");
    assert_eq!(records[2]["metrics"], json!({"loss": "NaN", "n": 3}));
    assert_eq!(records[2].get("message"), None, "an empty one is none");
}

#[test]
fn tracked_work_has_a_beginning_and_an_end_however_it_comes() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("t.jsonl");
    let telemetry = Telemetry::new().path(&path);
    assert_eq!(telemetry.track().message("go").metric("n", 1).run(|| 7), 7);
    let failed: Result<(), String> = telemetry.track().try_run(|| Err("no data".to_owned()));
    assert!(failed.is_err());
    let panicked = std::panic::catch_unwind(|| telemetry.track().run(|| panic!("oh no")));
    assert!(panicked.is_err());
    let told: Vec<String> = lines(&path)
        .iter()
        .map(|record| {
            let has_duration = record["metrics"]["duration_sec"].is_number();
            format!("{} {} {has_duration}", record["status"].as_str().unwrap(), record["message"])
        })
        .collect();
    assert_eq!(
        told,
        [
            "started \"go\" false",
            "completed \"Command completed successfully\" true",
            "started null false",
            "failed \"no data\" true",
            "started null false",
            "failed \"oh no\" true",
        ]
    );
}

#[test]
fn inside_a_task_metrics_land_on_the_task() {
    let folder = TempDir::new().unwrap();
    let telemetry = Telemetry::new().path(folder.path().join("t.jsonl"));
    let store = record(|| {
        runlore::task("infer").run(|| {
            telemetry.emit().metric("latency", 0.5);
            telemetry.emit().event("loaded").status("started");
        });
    });
    let generated = the(&store, "infer").generated.unwrap();
    assert_eq!(generated["latency"], 0.5);
    assert_eq!(generated["loaded"], "started");
}

#[test]
fn secrets_are_hidden_wherever_they_are_said() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("t.jsonl");
    let telemetry = Telemetry::new().command("run --token=hunter2").path(&path);
    let store = record(|| {
        runlore::task("infer").run(|| {
            telemetry
                .emit()
                .metric("token", "hunter2")
                .metric("config", json!({"db": {"password": "hunter2"}, "n": 1}))
                .metric("url", "pg://ann:hunter2@host/db")
                .event("https://host/?api_key=hunter2")
                .status("password=hunter2")
                .message("Authorization: Bearer hunter2");
            telemetry.fail("cannot reach pg://ann:hunter2@host/db");
            telemetry.track().metric("api_key", "hunter2").message("token=hunter2").run(|| ());
            let failed = telemetry.track().try_run(|| Err::<(), _>("password: hunter2"));
            assert!(failed.is_err());
        });
    });
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), 6);
    assert!(!text.contains("hunter2"), "{text}");
    assert_eq!(lines(&path)[0]["metrics"]["config"]["n"], 1, "the rest stays");
    let task = serde_json::to_string(&the(&store, "infer")).unwrap();
    assert!(!task.contains("hunter2"), "{task}");
}

/// Counts what it is given.
#[derive(Clone, Default)]
struct Counts(Arc<Mutex<Vec<Value>>>);

impl Counts {
    fn numbers(&self) -> Vec<Value> {
        self.0.lock().unwrap().clone()
    }
}

impl Backend for Counts {
    fn write(&mut self, record: &Emitted) -> runlore::Result<()> {
        self.0.lock().unwrap().push(record.metrics["number"].clone());
        Ok(())
    }
}

#[test]
fn a_copy_with_another_path_takes_nothing_from_the_others() {
    let folder = TempDir::new().unwrap();
    let (one, two) = (folder.path().join("one.jsonl"), folder.path().join("two.jsonl"));
    let (counts, more) = (Counts::default(), Counts::default());
    let first = Telemetry::new().path(&one).and(counts.clone());
    let second = first.clone().path(&two).and(more.clone()).command("other");
    first.emit().metric("number", 1).send().unwrap();
    second.emit().metric("number", 2).send().unwrap();
    first.clone().backend("text").path(folder.path().join("t")).emit().metric("number", 3);
    first.emit().metric("number", 4).send().unwrap();
    assert_eq!(counts.numbers(), [1, 2, 3, 4]);
    assert_eq!(more.numbers(), [2]);
    assert_eq!((lines(&one).len(), lines(&two).len()), (2, 1));
}

/// Says that it was given a record, and waits until it may go on.
struct Waits {
    given: SyncSender<()>,
    may_go_on: Receiver<()>,
    counts: Counts,
}

impl Backend for Waits {
    fn write(&mut self, record: &Emitted) -> runlore::Result<()> {
        self.given.send(()).unwrap();
        self.may_go_on.recv().unwrap();
        self.counts.write(record)
    }
}

fn waits() -> (Waits, Receiver<()>, SyncSender<()>, Counts) {
    let ((given, is_given), (go_on, may_go_on)) = (sync_channel(100_000), sync_channel(100_000));
    let counts = Counts::default();
    (Waits { given, may_go_on, counts: counts.clone() }, is_given, go_on, counts)
}

#[test]
fn the_last_handle_waits_until_all_is_written() {
    let folder = TempDir::new().unwrap();
    let (waits, is_given, go_on, counts) = waits();
    let telemetry = Telemetry::new().path(folder.path().join("t.jsonl")).and(waits).into_async();
    let copy = telemetry.clone();
    for number in 0..5 {
        drop(copy.emit().metric("number", number));
    }
    drop(telemetry);
    is_given.recv().unwrap();
    assert_eq!(counts.numbers().len(), 0, "the thread stands still");
    let slowly = std::thread::spawn(move || {
        for _ in 0..5 {
            std::thread::sleep(std::time::Duration::from_millis(20));
            go_on.send(()).unwrap();
        }
        go_on
    });
    drop(copy);
    assert_eq!(counts.numbers(), [0, 1, 2, 3, 4]);
    slowly.join().unwrap();
}

#[test]
fn what_comes_too_fast_for_the_thread_is_dropped_and_counted() {
    let folder = TempDir::new().unwrap();
    let (waits, is_given, go_on, counts) = waits();
    let telemetry = Telemetry::new().path(folder.path().join("t.jsonl")).and(waits).into_async();
    drop(telemetry.emit().metric("number", 0));
    is_given.recv().unwrap();
    for number in 1..=10_007 {
        drop(telemetry.emit().metric("number", number));
    }
    assert_eq!(telemetry.dropped(), 7);
    (0..10_001).for_each(|_| go_on.send(()).unwrap());
    drop(telemetry);
    assert!(counts.numbers().into_iter().eq((0..=10_000).map(Value::from)));
}

#[test]
fn a_backend_that_panics_costs_nothing_but_itself() {
    struct Panics;
    impl Backend for Panics {
        fn write(&mut self, _: &Emitted) -> runlore::Result<()> {
            panic!("as it is meant to")
        }
    }
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("t.jsonl");
    let counts = Counts::default();
    let telemetry = Telemetry::new().path(&path).and(Panics).and(counts.clone());
    for number in 0..2 {
        let error = telemetry.emit().metric("number", number).send().unwrap_err();
        assert_eq!(error.to_string(), "a backend panicked");
    }
    assert_eq!((lines(&path).len(), counts.numbers().len()), (2, 2));
}

#[cfg(unix)]
#[allow(unsafe_code)]
mod forks {
    use super::*;

    /// Runs something in a forked child, which must not hang, and returns its exit code.
    fn in_forked_child(work: impl FnOnce() -> i32) -> libc::pid_t {
        // SAFETY: the child ends with `_exit`, and uses nothing that other threads of its parent hold but what is tested.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: a plain system call; the alarm ends a child that hangs.
            unsafe { libc::alarm(30) };
            let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(99);
            // SAFETY: as above.
            unsafe { libc::_exit(code) };
        }
        child
    }

    fn exit_code(child: libc::pid_t) -> i32 {
        let mut status = 0;
        // SAFETY: `status` is a valid place, and the child is ours.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert!(libc::WIFEXITED(status), "the child hung");
        libc::WEXITSTATUS(status)
    }

    const IN_USE: &str = "emit::forks::a_child_forked_while_a_thread_emits_hangs_on_nothing";

    #[test]
    fn a_child_forked_while_a_thread_emits_hangs_on_nothing() {
        if !is_child(IN_USE) {
            return expect_success(&finished_in_time(child(IN_USE)));
        }
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("t.jsonl");
        let (waits, is_given, go_on, counts) = waits();
        let telemetry = Telemetry::new().path(&path).and(waits);
        let emits = telemetry.clone();
        let busy = std::thread::spawn(move || emits.emit().metric("number", 1).send());
        is_given.recv().unwrap();
        let forked = in_forked_child(|| {
            let error = telemetry.emit().metric("number", 2).send().unwrap_err().to_string();
            i32::from(error.contains("in use when this process was forked"))
        });
        assert_eq!(exit_code(forked), 1);
        go_on.send(()).unwrap();
        busy.join().unwrap().unwrap();
        assert_eq!(counts.numbers(), [1]);
        let numbers: Vec<_> =
            lines(&path).iter().map(|line| line["metrics"]["number"].clone()).collect();
        assert_eq!(numbers, [1, 2], "of the child too");
    }

    const ASYNC: &str = "emit::forks::a_forked_child_has_a_thread_of_its_own";

    #[test]
    fn a_forked_child_has_a_thread_of_its_own() {
        if !is_child(ASYNC) {
            return expect_success(&finished_in_time(child(ASYNC)));
        }
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("t.jsonl");
        let telemetry = Telemetry::new().path(&path).into_async();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(telemetry.emit().metric("number", 1).send()).unwrap();
        let of_child = telemetry.clone();
        let forked = in_forked_child(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let sent = runtime.block_on(of_child.emit().metric("number", 2).send());
            i32::from(sent.is_ok())
        });
        assert_eq!(exit_code(forked), 1);
        assert_eq!(lines(&path).len(), 2);
        drop(telemetry);
    }

    #[cfg(feature = "sqlite")]
    const TABLE: &str = "emit::forks::children_write_to_the_table_that_their_parent_writes_to";

    #[cfg(feature = "sqlite")]
    #[test]
    fn children_write_to_the_table_that_their_parent_writes_to() {
        use std::sync::atomic::{AtomicBool, Ordering};
        if !is_child(TABLE) {
            return expect_success(&finished_in_time(child(TABLE)));
        }
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("t.db");
        let telemetry = Telemetry::new().backend("sqlite").path(&path);
        telemetry.emit().metric("number", 0).send().unwrap();
        let (emits, is_done) = (telemetry.clone(), Arc::new(AtomicBool::new(false)));
        let until = Arc::clone(&is_done);
        let busy = std::thread::spawn(move || {
            let mut written = 1;
            while !until.load(Ordering::Relaxed) {
                emits.emit().metric("number", written).send().unwrap();
                written += 1;
            }
            written
        });
        for _ in 0..10 {
            let forked =
                in_forked_child(|| i32::from(telemetry.emit().metric("number", -1).send().is_ok()));
            assert_eq!(exit_code(forked), 1);
        }
        is_done.store(true, Ordering::Relaxed);
        let written = busy.join().unwrap();
        assert_eq!(all(&path).len(), written + 10);
        let connection = rusqlite::Connection::open(&path).unwrap();
        let check: String =
            connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(check, "ok");
    }
}

#[test]
fn trouble_never_reaches_the_program() {
    let folder = TempDir::new().unwrap();
    let nowhere = Telemetry::new().path(folder.path().join("missing/t.jsonl"));
    nowhere.emit().metric("a", 1);
    let error = nowhere.emit().metric("a", 1).send().unwrap_err();
    assert!(error.to_string().starts_with("cannot write "), "{error}");
    let unknown = Telemetry::new().backend("sqlit").emit().send().unwrap_err();
    assert_eq!(unknown.to_string(), "there is no backend `sqlit`: choose jsonl, sqlite or text");
}

#[test]
fn a_torn_line_does_not_take_the_next_one_with_it() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("t.jsonl");
    fs::write(&path, "{\"timest").unwrap();
    Telemetry::new().path(&path).emit().metric("a", 1);
    let (good, bad): (Vec<_>, Vec<_>) = emit::read(&path).unwrap().partition(Result::is_ok);
    assert_eq!((good.len(), bad.len()), (1, 1));
}

const DISABLED: &str = "emit::a_variable_turns_it_off";

#[test]
fn a_variable_turns_it_off() {
    if is_child(DISABLED) {
        let path = std::env::var("EMIT_TO").unwrap();
        Telemetry::new().path(&path).emit().metric("a", 1).send().unwrap();
        assert_eq!(Path::new(&path).exists(), std::env::var("WRITES").is_ok());
        return;
    }
    for (value, writes) in
        [("1", false), ("YES", false), ("true", false), ("on", true), ("0", true)]
    {
        for name in ["RUNLORE_EMIT_DISABLED", "CLOUDMESH_AI_TELEMETRY_DISABLED"] {
            let folder = TempDir::new().unwrap();
            let mut command = child(DISABLED);
            command.env("EMIT_TO", folder.path().join("t.jsonl")).env(name, value);
            if writes {
                command.env("WRITES", "1");
            }
            expect_success(&finished_in_time(command));
        }
    }
}

#[tokio::test]
async fn the_async_twin_writes_in_order() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("t.jsonl");
    let telemetry = Telemetry::new().path(&path).into_async();
    for number in 0..50 {
        drop(telemetry.emit().metric("number", number));
    }
    telemetry.start().send().await.unwrap();
    let failed = telemetry.try_track("try", async { Err::<(), _>("no") }).await;
    assert!(failed.is_err());
    drop(telemetry.track("dropped", std::future::ready(())));
    telemetry.complete().send().await.unwrap();
    let records = lines(&path);
    let numbers: Vec<u64> =
        records.iter().filter_map(|record| record["metrics"]["number"].as_u64()).collect();
    assert!(numbers.iter().copied().eq(0..50));
    let statuses: Vec<_> =
        records[50..].iter().map(|record| record["status"].as_str().unwrap()).collect();
    assert_eq!(
        statuses,
        ["started", "started", "failed", "completed"],
        "a future that never ran says nothing"
    );
    let error = Telemetry::new().backend("x").into_async().emit().send().await.unwrap_err();
    assert!(error.to_string().contains("no backend"));
}

#[test]
fn what_cloudmesh_emitted_is_read_and_summed_up_as_it_does() {
    let wanted: Value = serde_json::from_slice(&fs::read(golden("golden.json")).unwrap()).unwrap();
    let mut files = vec![("telemetry.jsonl", "aggj_summary"), ("async.jsonl", "")];
    if cfg!(feature = "sqlite") {
        files.extend([("telemetry.db", "agg_summary"), ("async.db", "")]);
    }
    for (file, summary) in files {
        let records = all(&golden(file));
        if summary.is_empty() {
            assert_eq!(records.len(), 24, "{file}");
            continue;
        }
        let ours = Summary::of(records);
        let theirs = &wanted[summary];
        assert_eq!(ours.total_records, theirs["total_records"], "{file}");
        assert_eq!(json!(ours.status_distribution), theirs["status_distribution"]);
        assert_eq!(json!(ours.command_distribution), theirs["command_distribution"]);
        let share = format!("{:.2}%", ours.completed_share.unwrap() * 100.0);
        assert_eq!(share, theirs["success_rate"]);
        assert_eq!(ours.success_rate, Some(7.0 / 9.0), "of those that ended");
        let duration = ours.metrics["duration_sec"];
        assert_eq!(duration.count, wanted["agg_duration"]["count"]);
        for (ours, theirs) in [(duration.avg, "avg"), (duration.min, "min"), (duration.max, "max")]
        {
            assert_eq!(ours, wanted["agg_duration"][theirs].as_f64().unwrap());
        }
        assert_eq!(ours.metrics["inference_latency"].max, 0.125, "a metric by its own name");
    }
}

#[cfg(feature = "sqlite")]
#[test]
fn the_table_is_cloudmeshs() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("telemetry.db");
    let telemetry = Telemetry::new().command("c").backend("sqlite").path(&path);
    telemetry.emit().metric("a", 1.5).status("completed").send().unwrap();
    telemetry.fail("broken").send().unwrap();
    let connection = rusqlite::Connection::open(&path).unwrap();
    let columns = |path: &Path| -> Vec<(String, String)> {
        let connection = rusqlite::Connection::open(path).unwrap();
        let mut columns =
            connection.prepare("SELECT name, type FROM pragma_table_info('telemetry')").unwrap();
        let rows = columns.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        rows.map(Result::unwrap).collect()
    };
    let theirs = folder.path().join("theirs.db");
    fs::copy(golden("telemetry.db"), &theirs).unwrap();
    assert_eq!(columns(&path), columns(&theirs));
    let metrics: String = connection
        .query_row("SELECT metrics FROM telemetry WHERE id = 1", [], |row| row.get(0))
        .unwrap();
    assert_eq!(metrics, "{\"a\":1.5}");
    let read = all(&path);
    assert_eq!((read[0].message.as_deref(), read[1].message.as_deref()), (None, Some("broken")));
    Telemetry::new().backend("sqlite").path(&theirs).emit().send().unwrap();
    assert_eq!(all(&theirs).len(), 17, "theirs grows by ours");
}

#[test]
fn text_is_cloudmeshs() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("t.txt");
    let telemetry = Telemetry::new().command("golden").backend("text").path(&path);
    telemetry.emit().metric("metric", "inference_latency").metric("value", 0.125);
    let skip_time = |text: &str| {
        text.lines()
            .take(3)
            .map(|line| line[line.find(']').map_or(0, |at| at + 1)..].to_owned())
            .collect::<Vec<_>>()
    };
    let theirs = fs::read_to_string(golden("telemetry.txt")).unwrap();
    assert_eq!(skip_time(&fs::read_to_string(&path).unwrap()), skip_time(&theirs));
}

#[test]
fn emitted_records_are_imported_once() {
    let folder = TempDir::new().unwrap();
    let first = emit::import(golden("telemetry.jsonl"), folder.path()).unwrap();
    let again = emit::import(golden("telemetry.jsonl"), folder.path()).unwrap();
    assert_eq!((first.tasks, first.problems.len()), (16, 0));
    assert_eq!((&first.workflow_id, &first.file), (&again.workflow_id, &again.file));
    let loaded = runlore::store::jsonl::load(folder.path()).unwrap();
    assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
    assert_eq!((loaded.workflows.len(), loaded.tasks.len()), (1, 16));
    let failed =
        loaded.tasks.iter().filter(|task| task.status == Some(runlore::record::Status::Error));
    assert_eq!(failed.count(), 2);
    assert_eq!(loaded.tasks[0].generated.as_ref().unwrap()["value"], 0.125);
}

#[test]
fn what_was_started_is_not_running_once_it_is_imported() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("telemetry.jsonl");
    let record = |second: u32, command: &str, status: &str| {
        let timestamp = format!("2026-03-01T12:00:{second:02}.000000");
        json!({"timestamp": timestamp, "command": command, "status": status, "metrics": {}, "system": {}})
    };
    let records = [
        record(0, "train", "started"),
        record(1, "serve", "started"),
        record(2, "train", "started"),
        record(3, "train", "completed"),
        record(4, "serve", "failed"),
        record(5, "serve", "warming"),
    ];
    fs::write(&file, records.map(|record| format!("{record}\n")).concat()).unwrap();
    emit::import(&file, folder.path().join("store")).unwrap();
    let loaded = runlore::store::jsonl::load(folder.path().join("store")).unwrap();
    let statuses: Vec<_> = loaded.tasks.iter().map(|task| task.status.unwrap()).collect();
    use runlore::record::Status::{Error, Finished, Unknown};
    // The first `train` never ended.
    assert_eq!(statuses, [Unknown, Finished, Finished, Finished, Error, Unknown]);
}
