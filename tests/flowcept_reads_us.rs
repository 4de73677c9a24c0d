//! Flowcept's own reader and report accept our files and show every task exactly once.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use runlore::record::{Record, Status};
use runlore::store::jsonl;
use runlore::telemetry_task;
use serde_json::{Value, json};

use crate::python;

/// Lets Flowcept read the file, and fails unless it finds each of these tasks once, in the buffer and in
/// the report. Where there is no Python, says so and passes, except under `CI=true`. Passes too where
/// `.ci/run` says that nothing it depends on has changed since it last passed.
fn check(file: &Path, expected_task_ids: &[&str]) {
    if python::is_unchanged("flowcept") {
        return;
    }
    let Some(python) = python::with("flowcept-1.0.3", &["flowcept==1.0.3"]) else { return };
    let scratch = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/flowcept/read_ours.py");
    let output = Command::new(python)
        .arg(script)
        .arg(file.canonicalize().unwrap())
        .arg(scratch.path().join("card.md"))
        // Flowcept reads its settings from the home folder and writes logs where it stands.
        .env("FLOWCEPT_USE_DEFAULT", "true")
        .env("PYTHONIOENCODING", "utf-8")
        .current_dir(scratch.path())
        .output()
        .unwrap();
    let found: Value = serde_json::from_str(&python::succeeded("Flowcept", &output)).unwrap();

    let mut expected = expected_task_ids.to_vec();
    let mut read: Vec<&str> =
        found["task_ids"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
    expected.sort_unstable();
    read.sort_unstable();
    assert_eq!(read, expected, "what read_buffer_file found");
    assert_eq!(found["report_tasks"], expected.len(), "how many tasks the report shows");
    assert_eq!(found["skipped_lines"], 0, "lines that the report passed over");
    assert_eq!(found["activities"], activities(file), "the report's activities");
}

/// How many tasks of each name ended how, in the form of the report.
fn activities(file: &Path) -> Value {
    let mut counts: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    for record in jsonl::read(file).unwrap() {
        if let Record::Task(task) = record.unwrap() {
            let status = task.status.map_or("unknown", Status::as_str).to_owned();
            *counts.entry(task.name().to_owned()).or_default().entry(status).or_default() += 1;
        }
    }
    json!(counts)
}

#[telemetry_task]
fn load(path: &str, depth: &Value) -> Result<usize, String> {
    _ = depth;
    if path.is_empty() { Err("no path: disk full".to_owned()) } else { Ok(path.len()) }
}

#[telemetry_task(tags("ml"))]
fn epoch(number: u32) -> f64 {
    _ = load("a\u{2028}b.csv", &json!({"inner": [1, 2.5, null, "$x"], "a.b": true}));
    _ = load("", &Value::Null);
    f64::from(number) / f64::NAN
}

#[test]
fn what_was_recorded_is_read_by_flowcept() {
    let folder = tempfile::tempdir().unwrap();
    let run = runlore::workflow("train").store(folder.path()).used("epochs", 3).start().unwrap();
    for number in 0..3 {
        epoch(number);
    }
    let still_open = runlore::task("still open").start();
    _ = std::panic::catch_unwind(|| {
        runlore::task("panics").run(|| std::panic::resume_unwind(Box::new("no data")))
    });
    run.finish().unwrap();
    let mut files = fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path());
    let file = files.find(|file| file.extension().is_some_and(|kind| kind == "jsonl")).unwrap();
    let ids: Vec<String> =
        jsonl::load(&file).unwrap().tasks.into_iter().map(|t| t.task_id).collect();
    assert_eq!(ids.len(), 3 + 6 + 2);

    check(&file, &ids.iter().map(String::as_str).collect::<Vec<_>>());
    drop(still_open);
}
