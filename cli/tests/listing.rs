//! `ls`, `tasks` and `tree`.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::Value;

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
