//! How runs ended, and what their child runs did: every view says so.

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{runlore, told_by};

/// A folder with these records.
pub(crate) fn folder_of(records: &[Value]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let lines: String = records.iter().map(|record| format!("{record}\n")).collect();
    std::fs::write(folder.path().join("runs.jsonl"), lines).unwrap();
    folder
}

pub(crate) fn ask(folder: &Path, args: &[&str]) -> String {
    told_by(runlore().arg("--store").arg(folder).args(args))
}

#[expect(clippy::needless_pass_by_value, reason = "`json!` at each call reads better")]
pub(crate) fn run(id: &str, started_at: f64, more: Value) -> Value {
    let mut run =
        json!({"type": "workflow", "workflow_id": id, "name": id, "started_at": started_at});
    run.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    run
}

#[expect(clippy::needless_pass_by_value, reason = "`json!` at each call reads better")]
pub(crate) fn task(id: &str, run: &str, more: Value) -> Value {
    let mut task = json!({
        "type": "task", "task_id": id, "workflow_id": run, "activity_id": id, "status": "FINISHED",
        "started_at": 10.0, "duration_ns": 2_000_000_000_u64,
    });
    task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    task
}

/// The lines of `ls`, as name, status and number of tasks.
pub(crate) fn listed(folder: &Path) -> Vec<String> {
    let rows = ask(folder, &["ls"]);
    let cut = |row: &str| {
        row.split("  ").map(str::trim).filter(|it| !it.is_empty()).collect::<Vec<_>>().join("|")
    };
    rows.lines().skip(1).map(cut).collect()
}

#[test]
fn ls_shows_each_ending() {
    let endings = [
        json!({"status": "FINISHED", "totals": {"failed_roots": 2}}),
        json!({"status": "ERROR", "error": {"kind": "unfinished"}, "exit_code": 1}),
        json!({"status": "ERROR", "error": {"kind": "exit"}, "exit_code": 4}),
        json!({"status": "FINISHED", "ended_early": true}),
        json!({"status": "UNKNOWN", "unavailable": {"exit_code": "not reported"}}),
        json!({"status": "ERROR", "error": {"kind": "signal"}, "ended_by": "signal 15"}),
        json!({"status": "UNKNOWN", "ended_by": "signal 9"}),
    ];
    let shown = [
        "FINISHED, 2 roots failed",
        "ERROR: dropped without finish(), exit 1",
        "ERROR, exit 4",
        "FINISHED, left open",
        "ended, code unknown",
        "INTERRUPTED",
        "INTERRUPTED",
    ];
    let records: Vec<Value> = (1_u8..)
        .zip(endings)
        .map(|(at, ending)| run(&format!("run{at}"), f64::from(100 - at), ending))
        .collect();
    let folder = folder_of(&records);
    let rows = listed(folder.path());
    for (row, shown) in rows.iter().zip(shown) {
        assert_eq!(row.split('|').nth(2), Some(shown), "{row}");
    }
    let lines = ask(folder.path(), &["ls", "--json"]);
    let told: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(told.iter().map(|run| &run["shown"]).collect::<Vec<_>>(), shown);
    for (run, shown) in records.iter().zip(shown) {
        let id = run["workflow_id"].as_str().unwrap();
        let tree = ask(folder.path(), &["tree", id]);
        assert!(tree.starts_with(&format!("{id}  {shown}")), "{tree}");
        let tree: Value =
            serde_json::from_str(&ask(folder.path(), &["tree", id, "--json"])).unwrap();
        assert_eq!(tree["shown"], shown);
        let page = ask(folder.path(), &["show", id]);
        assert!(page.starts_with(&format!("{id}  {shown}\n")), "{page}");
        let markdown = ask(folder.path(), &["report", id, "--format", "md"]);
        assert!(markdown.starts_with(&format!("### {id}: {shown}\n")), "{markdown}");
    }
}

#[test]
fn the_open_tasks_of_a_killed_run_are_interrupted() {
    let folder = folder_of(&[
        run("killed", 10.0, json!({"status": "UNKNOWN"})),
        task("load", "killed", json!({})),
        task(
            "fit",
            "killed",
            json!({"status": "RUNNING", "duration_ns": null, "started_at": 12.0}),
        ),
    ]);
    let tree = ask(folder.path(), &["tree"]);
    assert_eq!(tree, "killed  INTERRUPTED\n├─ load  FINISHED  2.0 s\n└─ fit  INTERRUPTED\n");
    let table = ask(folder.path(), &["tree", "--resources"]);
    assert_eq!(table.matches("INTERRUPTED").count(), 2, "{table}");
    let tasks = ask(folder.path(), &["tasks"]);
    assert!(tasks.lines().last().unwrap().contains("INTERRUPTED"), "{tasks}");
    assert!(ask(folder.path(), &["show", "fit"]).starts_with("fit  INTERRUPTED"), "a task's page");
    let stats = ask(folder.path(), &["stats"]);
    assert!(stats.starts_with("killed  INTERRUPTED\n"), "{stats}");
    let html = ask(folder.path(), &["report", "--format", "html"]);
    assert!(html.contains("<div class=\"bad\"><dt>status</dt><dd>INTERRUPTED</dd>"), "{html}");
    assert!(html.contains("<dt>interrupted</dt><dd>1</dd>"));
}

#[test]
fn a_child_run_that_failed_is_counted_in_its_parents_line() {
    let child = |id: &str, parent: &str, status: &str| {
        run(id, 20.0, json!({"status": status, "parent_workflow_id": parent}))
    };
    let folder = folder_of(&[
        run("top", 10.0, json!({"status": "FINISHED"})),
        child("fine", "top", "FINISHED"),
        child("bad", "top", "ERROR"),
        child("middle", "top", "FINISHED"),
        child("killed", "middle", "UNKNOWN"),
    ]);
    let tree = ask(folder.path(), &["tree", "top"]);
    assert!(tree.starts_with("top  FINISHED, 2 child runs failed\n"), "{tree}");
    assert!(tree.contains("middle  FINISHED, 1 child run failed\n"), "{tree}");
    assert!(tree.contains("fine  FINISHED\n"), "{tree}");
    let rows = listed(folder.path());
    assert!(rows.iter().any(|row| row.contains("|top|FINISHED, 2 child runs failed|")), "{rows:?}");
}

/// `runlore run` in `folder`, with another inside where `command` says so.
fn recorded(folder: &Path, command: &str) {
    let mut outer = runlore();
    outer.arg("--store").arg(folder).args(["run", "--name", "outer", "--", "sh", "-c", command]);
    outer.env("RUNLORE", env!("CARGO_BIN_EXE_runlore"));
    _ = outer.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
}

fn the(folder: &Path, name: &str) -> Value {
    let runs = ask(folder, &["ls", "--json"]);
    let mut runs = runs.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    runs.find(|run| run["name"] == name).unwrap()
}

#[cfg(unix)]
#[test]
fn a_command_that_was_killed_interrupts_its_run_and_those_that_it_recorded() {
    let folder = tempfile::tempdir().unwrap();
    // The shell becomes the inner `runlore run`, which its own command kills.
    recorded(folder.path(), "exec $RUNLORE run --name inner -- sh -c 'kill -9 $PPID; sleep 0.1'");
    let outer = the(folder.path(), "outer");
    assert_eq!((&outer["status"], &outer["ended_by"]), (&json!("ERROR"), &json!("signal 9")));
    assert_eq!(outer["error"]["kind"], "signal");
    assert_eq!(outer["shown"], "INTERRUPTED, 1 child run failed");
    let inner = the(folder.path(), "inner");
    assert_eq!((&inner["status"], &inner["ended_by"]), (&json!("UNKNOWN"), &json!("signal 9")));
    assert_eq!(inner["shown"], "INTERRUPTED");
}

#[cfg(unix)]
#[test]
fn a_child_process_that_failed_is_seen_although_its_parent_went_well() {
    let folder = tempfile::tempdir().unwrap();
    recorded(folder.path(), "$RUNLORE run --name inner -- false; true");
    assert_eq!(the(folder.path(), "outer")["shown"], "FINISHED, 1 child run failed");
    let inner = the(folder.path(), "inner");
    assert_eq!((&inner["shown"], &inner["exit_code"]), (&json!("ERROR, exit 1"), &json!(1)));
}
