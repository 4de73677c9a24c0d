//! `emit`: scripts write metrics, and see what they add up to.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{runlore, told_by};

#[test]
fn a_script_emits_and_sums_up() {
    let folder = tempfile::tempdir().unwrap();
    let told = |args: &[&str]| told_by(runlore().current_dir(folder.path()).args(args));
    assert_eq!(
        told(&[
            "emit",
            "--metric",
            "latency=0.5",
            "--metric",
            "model=big",
            "--command-name",
            "infer"
        ]),
        ""
    );
    assert_eq!(
        told(&["emit", "--metric", "latency=1.5", "--status", "failed", "--message", "slow"]),
        ""
    );
    assert_eq!(told(&["emit", "--event", "loaded", "--status", "started"]), "");
    insta::assert_snapshot!(told(&["emit", "summary", "telemetry.jsonl"]));
    let text = fs::read_to_string(folder.path().join("telemetry.jsonl")).unwrap();
    let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!((&first["metrics"]["model"], &first["command"]), (&"big".into(), &"infer".into()));

    assert_eq!(told(&["emit", "--metric", "x=1", "--backend", "sqlite"]), "");
    let summary = told(&["emit", "summary", "telemetry.db", "--metric", "x", "--json"]);
    let summary: Value = serde_json::from_str(&summary).unwrap();
    assert_eq!(
        (&summary["metrics"]["x"]["avg"], &summary["success_rate"]),
        (&1.0.into(), &1.0.into())
    );
}

#[test]
fn what_is_wrong_is_said_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let told = |args: &[&str]| told_by(runlore().current_dir(folder.path()).args(args));
    for args in [
        &["emit"][..],
        &["emit", "--metric", "x"],
        &["emit", "--metric", "x=1", "--backend", "sqlit"],
        &["emit", "summary", "none.jsonl"],
    ] {
        let said = told(args);
        assert!(
            said.contains("runlore: ") && said.ends_with("--- exit code Some(1)\n"),
            "{args:?}: {said}"
        );
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn what_cloudmesh_emitted_becomes_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let told = |args: &[&str]| {
        told_by(runlore().arg("--store").arg(folder.path()).args(args).current_dir(root))
    };
    let said = told(&["emit", "import", "tests/data/cloudmesh/telemetry.db"]);
    assert!(said.contains(": 16 tasks in "), "{said}");
    let run: Value = serde_json::from_str(&told(&["ls", "--json"])).unwrap();
    assert_eq!((&run["name"], &run["task_counts"]["ERROR"]), (&"golden".into(), &2.into()));
    assert_eq!(run["task_counts"]["RUNNING"], 0, "{run}");
}
