//! Flowcept's own reader and report accept our files and show every task exactly once.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use runlore::record::{Record, Status};
use runlore::store::jsonl;
use runlore::telemetry_task;
use serde_json::{Value, json};

const FLOWCEPT: &str = "flowcept==1.0.3";

/// Lets Flowcept read the file, and fails unless it finds each of these tasks once, in the buffer and in
/// the report. Where there is no Python, says so and passes, except under `CI=true`. Passes too where
/// `.ci/run` says that nothing it depends on has changed since it last passed.
fn check(file: &Path, expected_task_ids: &[&str]) {
    let unchanged = std::env::var("RUNLORE_UNCHANGED").unwrap_or_default();
    if unchanged.split_whitespace().any(|name| name == "flowcept") {
        eprintln!("flowcept_reads_us: skipped, unchanged since it last passed");
        return;
    }
    let Some(python) = python_with_flowcept() else {
        let notice = "flowcept_reads_us: skipped, for there is no Python 3.11 or newer on PATH";
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{notice}");
        eprintln!("{notice}");
        return;
    };
    let scratch = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/flowcept/read_ours.py");
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
    let found: Value = serde_json::from_str(&succeeded("Flowcept", &output)).unwrap();

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

/// A Python that can import Flowcept: a virtual environment under the target folder, made on first use.
fn python_with_flowcept() -> Option<PathBuf> {
    let system = system_python()?;
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let home = target.join("flowcept-1.0.3");
    let python = home.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    let is_ready = home.join("is-ready");

    // Test processes run side by side; one of them makes it, the others wait. The system takes the lock
    // back however a process ends.
    fs::create_dir_all(target).unwrap();
    let lock = File::create(target.join("flowcept-1.0.3.lock")).unwrap();
    lock.lock().unwrap();
    if !is_ready.exists() {
        let mut venv = Command::new(system);
        venv.args(["-m", "venv", "--clear"]).arg(&home);
        succeeded("python -m venv", &venv.output().unwrap());
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet", FLOWCEPT]);
        succeeded("pip install", &pip.output().unwrap());
        fs::write(&is_ready, FLOWCEPT).unwrap();
    }
    Some(python)
}

fn system_python() -> Option<&'static str> {
    ["python3", "python3.13", "python3.12", "python3.11", "python"].into_iter().find(|name| {
        let test = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))";
        Command::new(name).args(["-c", test]).output().is_ok_and(|output| output.status.success())
    })
}

fn succeeded(what: &str, output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what} failed: {said}");
    String::from_utf8(output.stdout.clone()).unwrap()
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
    let run = runlore::workflow("train").store(folder.path()).used("epochs", &3).start().unwrap();
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
