//! Flowcept, pointed at the same server, reads our tasks with its own calls and makes its report.

use std::path::Path;
use std::process::Command;

use runlore::record::Status;
use runlore::{Provenance, telemetry_task};
use serde_json::{Value, json};

use crate::mongo_server::{database, record_all, recording};
use crate::python;
use crate::support::is_child;

#[telemetry_task]
fn load(path: &str) -> Result<usize, String> {
    if path.is_empty() { Err("no path: disk full".to_owned()) } else { Ok(path.len()) }
}

#[telemetry_task(tags("ml"))]
fn epoch(number: u32) -> f64 {
    _ = load("$a.csv");
    _ = load("");
    f64::from(number) / 2.0
}

const TRAINS: &str = "mongodb_flowcept::trains";

/// What a process of its own records.
#[test]
fn trains() {
    if !is_child(TRAINS) {
        return;
    }
    let store = std::env::var("STORE").unwrap();
    let run = runlore::workflow("train").store(store).used("epochs", 3).start().unwrap();
    (0..3).for_each(|number| _ = epoch(number));
    run.finish().unwrap();
}

#[test]
fn what_was_recorded_is_read_by_flowcept() {
    let Some(uri) = database() else { return };
    let Some(python) =
        python::with("flowcept-1.0.3-mongodb", &["flowcept[mongo]==1.0.3", "pandas"])
    else {
        return;
    };
    let (command, folder) = recording(TRAINS, &uri);
    record_all(command, &folder, &uri);
    let workflow = Provenance::open(&uri).unwrap().runs().unwrap()[0].workflow.workflow_id.clone();

    let scratch = tempfile::tempdir().unwrap();
    let name = uri.rsplit('/').next().unwrap();
    let settings = format!(
        "databases:\n  mongodb:\n    enabled: true\n    uri: {uri}\n    db: {name}\n    create_collection_index: true\n  lmdb:\n    enabled: false\nproject:\n  db_flush_mode: online\nmq:\n  enabled: false\nkv_db:\n  enabled: false\n"
    );
    std::fs::write(scratch.path().join("settings.yaml"), settings).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/mongodb/read_ours.py");
    let output = Command::new(python)
        .arg(script)
        .arg(&workflow)
        .arg(scratch.path().join("card.md"))
        .env("FLOWCEPT_SETTINGS_PATH", scratch.path().join("settings.yaml"))
        .env("PYTHONIOENCODING", "utf-8")
        .current_dir(scratch.path())
        .output()
        .unwrap();
    let found: Value = serde_json::from_str(&python::succeeded("Flowcept", &output)).unwrap();

    let tasks = Provenance::open(&uri).unwrap().tasks().sort("-started_at").to_vec().unwrap();
    assert_eq!(tasks.len(), 9);
    let status = |task: &runlore::record::TaskObject| task.status.map_or("", Status::as_str);
    let statuses: Value =
        tasks.iter().map(|task| (task.task_id.clone(), json!(status(task)))).collect();
    assert_eq!(found["statuses"], statuses);
    assert_eq!(found["dates"], true);
    assert_eq!(found["errors"].as_array().unwrap().len(), 3);
    assert_eq!(found["newest"].as_array().unwrap().len(), 2);
    assert_eq!(
        (&found["count"], &found["status_counts"]),
        (&json!(9), &json!({"FINISHED": 6, "ERROR": 3}))
    );
    assert_eq!(found["names"], json!(["train"]));
    assert_eq!(found["report_tasks"], 9);
    let activities = json!({"epoch": {"FINISHED": 3}, "load": {"FINISHED": 3, "ERROR": 3}});
    assert_eq!(found["activities"], activities);
}
