//! Metrics and milestones by hand: what is written, what is read back, and that a program never notices.

use std::fs;
use std::path::{Path, PathBuf};

use runlore::emit::{self, Emitted, Summary, Telemetry};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{child, expect_success, finished_in_time, is_child, record, the};

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/cloudmesh").join(name)
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
