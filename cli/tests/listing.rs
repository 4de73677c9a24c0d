//! `ls`, `tasks` and `tree`.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{data, runlore, told, told_by};

#[test]
fn ls_shows_runs_newest_first() {
    insta::assert_snapshot!(told(["ls"]));
}

#[test]
fn ls_as_json_is_one_record_a_line() {
    let lines: Vec<Value> =
        told(["ls", "--json"]).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[2]["name"], "train");
    assert_eq!(lines[2]["totals"]["tasks"]["ERROR"], 1);
    assert_eq!(lines[2]["task_counts"], serde_json::json!({"all": 3, "ERROR": 1, "RUNNING": 0}));
    assert!(lines[2].get("cpu_ns").is_none());
    assert_eq!(lines[3]["cpu_ns"], 33_153_100_000_u64);
}

#[test]
fn tasks_are_those_of_the_newest_run_that_no_other_started() {
    insta::assert_snapshot!(told(["tasks"]));
}

#[test]
fn a_run_is_named_by_the_end_of_its_id() {
    insta::assert_snapshot!(told(["tasks", "a001"]));
}

#[test]
fn tasks_as_json_are_the_records() {
    let text = told(["tasks", "0198c2a0", "--json"]);
    let ids: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["activity_id"].take())
        .collect();
    assert_eq!(ids, ["train", "load", "epoch"]);
    assert!(text.contains(r#""mine":{"x":null}"#), "{text}");
}

#[test]
fn tree_shows_a_run_with_those_it_started() {
    insta::assert_snapshot!(told(["tree", "train"]));
}

/// Records in a folder of their own.
fn recorded(records: &[serde_json::Value]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let lines: String = records.iter().map(|record| format!("{record}\n")).collect();
    std::fs::write(folder.path().join("run.jsonl"), lines).unwrap();
    folder
}

#[test]
fn the_tree_of_a_nested_run_does_not_miss_its_parent() {
    let folder = recorded(&[
        json!({"type": "workflow", "workflow_id": "outer-run", "name": "outer", "status": "FINISHED", "started_at": 1.0}),
        json!({"type": "task", "task_id": "starts", "workflow_id": "outer-run", "activity_id": "starts", "status": "FINISHED",
            "started_at": 2.0}),
        json!({"type": "workflow", "workflow_id": "inner-run", "name": "inner", "status": "FINISHED", "started_at": 3.0,
            "parent_workflow_id": "outer-run", "parent_task_id": "starts"}),
        json!({"type": "task", "task_id": "works", "workflow_id": "inner-run", "activity_id": "works", "status": "FINISHED",
            "started_at": 4.0, "parent_task_id": "starts"}),
        json!({"type": "task", "task_id": "orphan", "workflow_id": "inner-run", "activity_id": "orphan", "status": "FINISHED",
            "started_at": 5.0, "parent_task_id": "lost"}),
    ]);
    let told = told_by(runlore().arg("--store").arg(folder.path()).args(["tree", "inner-run"]));
    insta::assert_snapshot!(told, @r"
    inner  FINISHED
    ├─ works  FINISHED
    └─ orphan  FINISHED  (its parent lost is not in the records)
    ");
}

#[test]
fn the_tree_of_a_live_run_does_not_miss_a_parent_that_is_still_open() {
    let folder = recorded(&[
        json!({"type": "workflow", "workflow_id": "live-run", "name": "live", "status": "RUNNING", "started_at": 1.0}),
        json!({"type": "task", "task_id": "done", "workflow_id": "live-run", "activity_id": "done", "status": "FINISHED",
            "started_at": 2.0, "parent_task_id": "open"}),
    ]);
    let told = |args: &[&str]| told_by(runlore().arg("--store").arg(folder.path()).args(args));
    insta::assert_snapshot!(told(&["tree"]), @r"
    live  RUNNING
    └─ done  FINISHED  (its parent open has not ended yet)
    ");
    let json = told(&["tree", "--json"]);
    assert!(json.contains(r#""detached":"parent open""#), "{json}");
}

#[test]
fn tree_shows_values_when_asked() {
    insta::assert_snapshot!(told(["tree", "a001", "--values"]));
}

#[test]
fn tree_shows_what_each_task_used_when_asked() {
    insta::assert_snapshot!(told(["tree", "fit", "--resources"]));
}

#[test]
fn tree_as_json_is_in_the_order_of_the_tree() {
    let lines: Vec<(u64, String)> = told(["tree", "--json"])
        .lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            let record = &line["record"];
            let name = record["activity_id"].as_str().or(record["name"].as_str());
            (line["depth"].as_u64().unwrap(), name.unwrap().to_owned())
        })
        .collect();
    let lines: Vec<(u64, &str)> = lines.iter().map(|(depth, name)| (*depth, &**name)).collect();
    assert_eq!(
        lines,
        [
            (0, "train"),
            (1, "load"),
            (2, "evaluate"),
            (3, "score"),
            (1, "epoch \u{1b}[31mred\u{1b}[0m")
        ]
    );
}

#[test]
fn colours_come_only_when_wanted() {
    let colours = |name: &str, value: &str| {
        let text =
            told_by(runlore().env(name, value).arg("--store").arg(data()).args(["tree", "a001"]));
        text.contains('\u{1b}')
    };
    assert!(colours("CLICOLOR_FORCE", "1"));
    assert!(!colours("NO_COLOR", "1"));
    assert!(!colours("TERM", "xterm"));
}

#[test]
fn a_closed_pipe_ends_it_quietly() {
    let folder = tempfile::tempdir().unwrap();
    let lines: String = (0..20_000)
        .map(|at| {
            format!("{{\"type\":\"task\",\"task_id\":\"task-{at}\",\"workflow_id\":\"w\"}}\n")
        })
        .collect();
    std::fs::write(folder.path().join("w.jsonl"), lines).unwrap();
    for args in [&["tasks"][..], &["tasks", "--json"], &["tree"]] {
        let mut child = runlore()
            .arg("--store")
            .arg(folder.path())
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        assert!(!first.is_empty());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        assert!(output.stderr.is_empty(), "{args:?}: {output:?}");
    }
}

#[test]
fn tree_shows_the_energy_of_each_task_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    let task = |id: &str, parent: &str, more: serde_json::Value| {
        let mut task = serde_json::json!({
            "type": "task", "task_id": id, "workflow_id": "w", "activity_id": id, "status": "FINISHED",
            "started_at": 10.0, "ended_at": 12.0, "duration_ns": 2_000_000_000_u64,
        });
        if !parent.is_empty() {
            task["parent_task_id"] = parent.into();
        }
        task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        task
    };
    let meters = serde_json::json!({"nvml:gpu_0": 400.0, "rapl:package-0": 20.5});
    let records = [
        serde_json::json!({
            "type": "workflow", "workflow_id": "w", "name": "fit", "status": "FINISHED",
            "started_at": 10.0, "ended_at": 12.0,
            "totals": {"joules": {"inclusive": 420.5, "meters": meters}},
        }),
        task(
            "fit",
            "",
            serde_json::json!({"resources": {"joules": {
                "self": 0.5, "inclusive": 420.5, "meters": meters,
            }}}),
        ),
        task(
            "step",
            "fit",
            serde_json::json!({"resources": {"joules": {
                "inclusive": 20.0, "overlap": true, "meters": {"rapl:package-0": 20.0},
            }}}),
        ),
        task(
            "lost",
            "fit",
            serde_json::json!({"resources": {}, "unavailable": {
                "resources.joules": "nvml:gpu_0 could not be read at the end",
            }}),
        ),
        task("light", "fit", serde_json::json!({})),
    ];
    let lines: String = records.iter().map(|record| format!("{record}\n")).collect();
    std::fs::write(folder.path().join("fit.jsonl"), lines).unwrap();
    let told = |args: &[&str]| told_by(runlore().arg("--store").arg(folder.path()).args(args));
    insta::assert_snapshot!(told(&["tree", "--energy"]), @r"
    TASK         STATUS    DURATION  ENERGY    SELF  POWER  SOURCE
    fit          FINISHED     2.0 s   420 J          210 W  nvml:gpu_0 400 J, rapl:package-0 20.5 J
    └─ fit       FINISHED     2.0 s   420 J  500 mJ  210 W  nvml:gpu_0 400 J, rapl:package-0 20.5 J
       ├─ light  FINISHED     2.0 s                         unknown: energy was not measured
       ├─ lost   FINISHED     2.0 s                         unknown: nvml:gpu_0 could not be read at the end
       └─ step   FINISHED     2.0 s   ~20 J           10 W  rapl:package-0
    ");
    assert_eq!(
        crate::support::told(["tree", "--energy", "train"]),
        "The energy of this run is unknown: energy was not measured. `runlore doctor energy` shows what can be measured \
         here.\n"
    );
    let shown = told(&["show", "fit"]);
    let energy =
        "420 J with all it called, 500 mJ by itself (nvml:gpu_0 400 J, rapl:package-0 20.5 J)";
    assert!(shown.contains(energy), "{shown}");
}
