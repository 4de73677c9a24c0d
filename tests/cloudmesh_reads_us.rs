//! Cloudmesh's own aggregator sums up what we emitted.

use std::path::Path;
use std::process::Command;

use runlore::emit::{Summary, Telemetry, read};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::python;

fn aggregated(python: &Path, file: &Path) -> Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/data/cloudmesh/aggregate.py");
    let home = TempDir::new().unwrap();
    let output = Command::new(python)
        .arg(script)
        .arg(file)
        .args(["latency", "tokens_per_sec", "duration_sec"])
        // It keeps logs in the home folder.
        .env("HOME", home.path())
        .current_dir(home.path())
        .output()
        .unwrap();
    let said = python::succeeded("cloudmesh", &output);
    serde_json::from_str(said.lines().last().unwrap()).unwrap()
}

#[test]
fn what_we_emitted_is_summed_up_alike() {
    if python::is_unchanged("cloudmesh") {
        return;
    }
    // It needs `requests`, and does not say so.
    let packages = ["cloudmesh-ai-common==7.1.3", "requests"];
    let Some(python) = python::with("cloudmesh-7.1.3", &packages) else { return };
    let folder = TempDir::new().unwrap();
    let mut files = vec![("jsonl", "t.jsonl")];
    if cfg!(feature = "sqlite") {
        files.push(("sqlite", "t.db"));
    }
    for (backend, name) in files {
        let path = folder.path().join(name);
        let telemetry = Telemetry::new().backend(backend).path(&path);
        for number in 0..5 {
            telemetry.emit().metric("latency", f64::from(number) / 3.0).metric("ok", true);
        }
        telemetry.emit().metrics([("tokens_per_sec", 45.2)]).status("half way");
        telemetry.emit().metric("latency", f64::NAN).message("caf\u{e9} \u{1f600}");
        telemetry.track().run(|| ());
        _ = telemetry.track().try_run(|| Err::<(), _>("broken"));
        let theirs = aggregated(&python, &path);
        let ours = Summary::of(read(&path).unwrap().map(Result::unwrap));
        assert_eq!(theirs["summary"]["total_records"], ours.total_records);
        assert_eq!(theirs["summary"]["status_distribution"], json!(ours.status_distribution));
        assert_eq!(theirs["summary"]["command_distribution"], json!(ours.command_distribution));
        let share = format!("{:.2}%", ours.completed_share.unwrap() * 100.0);
        assert_eq!(theirs["summary"]["success_rate"], share);
        for (name, figures) in theirs["metrics"].as_object().unwrap() {
            let ours = ours.metrics[name];
            assert_eq!(figures["count"], ours.count, "{name}");
            for (theirs, ours) in [("avg", ours.avg), ("min", ours.min), ("max", ours.max)] {
                assert_eq!(figures[theirs].as_f64(), Some(ours), "{name} {theirs}");
            }
        }
    }
}
