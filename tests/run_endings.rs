//! How a run ends, and what its record says about it: one case for each line of the table in `docs/endings.md`.

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use runlore::query::Tree;
use runlore::record::{Status, WorkflowObject};
use runlore::store::{MemoryStore, jsonl};
use runlore::{task, telemetry_task};
use serde_json::{Value, json};

use crate::support::{child, finished_in_time, is_child};

const CHILD: &str = "run_endings::child_process";

#[telemetry_task]
fn work(n: u32) -> u32 {
    n + 1
}

#[telemetry_task]
fn fails(n: u32) -> Result<u32, String> {
    Err(format!("no {n}"))
}

/// The programs of these tests.
#[test]
fn child_process() {
    if !is_child(CHILD) {
        return;
    }
    let store = std::env::var("PLACE").unwrap();
    let start = || runlore::workflow("endings").store(store.as_str()).start().unwrap();
    match std::env::var("SCENARIO").unwrap().as_str() {
        "exit while open" => {
            std::mem::forget(start());
            work(1);
            let code = std::env::var("CODE").unwrap().parse().unwrap();
            std::process::exit(code);
        }
        "exit after finish" => {
            let first = start();
            work(1);
            first.finish().unwrap();
            let last = start();
            work(2);
            last.finish().unwrap();
            std::process::exit(4);
        }
        "main returns an error" => {
            // `?` in `main` drops the guard, and the process exits with 1.
            drop(start());
            std::process::exit(1);
        }
        "failed, then exit" => {
            let mut run = start();
            run.fail(std::io::Error::other("no data"));
            run.finish().unwrap();
            std::process::exit(3);
        }
        "exit 0 after finish" => {
            start().finish().unwrap();
            std::process::exit(0);
        }
        "waits" => {
            let _run = start();
            work(1);
            let _open = task("open").start();
            runlore::flush().unwrap();
            println!("ready");
            loop {
                std::thread::park();
            }
        }
        "joins" => _ = work(1),
        "joins and fails" => {
            // The workflow is the parent's.
            work(1);
            std::process::exit(3);
        }
        other => panic!("no scenario {other}"),
    }
}

fn scenario(name: &str, place: &str) -> Command {
    let mut command = child(CHILD);
    command.env("SCENARIO", name).env("PLACE", place);
    command
}

/// The runs that a scenario leaves, in the order in which they began, as JSON.
fn left_by(name: &str, code: i32) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let mut command = scenario(name, folder.path().to_str().unwrap());
    command.env("CODE", code.to_string());
    let output = finished_in_time(command);
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    // The test's own threads were alive when the process exited, but had recorded nothing more.
    assert_eq!(runlore::recover(folder.path()).unwrap().tasks, 0);
    runs_in(folder.path()).iter().map(|run| serde_json::to_value(run).unwrap()).collect()
}

fn runs_in(folder: &Path) -> Vec<WorkflowObject> {
    let mut runs = jsonl::load(folder).unwrap().workflows;
    runs.sort_by(|one, other| one.started_at.unwrap().total_cmp(&other.started_at.unwrap()));
    runs
}

#[test]
fn failed_roots_are_counted_and_the_run_is_finished() {
    let store = MemoryStore::new();
    let run = runlore::workflow("roots").store(store.clone()).start().unwrap();
    work(1);
    _ = fails(2);
    // What fails inside a task that went well is no failed root.
    task("around").run(|| _ = fails(3));
    _ = fails(4);
    run.finish().unwrap();
    let last = serde_json::to_value(store.workflows().pop().unwrap()).unwrap();
    assert_eq!(last["status"], "FINISHED");
    assert_eq!(last["totals"]["failed_roots"], 2);
    assert_eq!(last["totals"]["errors"], 3);
}

#[test]
fn the_roots_of_a_run_inside_a_task_are_its_own() {
    let store = MemoryStore::new();
    let outer = runlore::workflow("outer").store(store.clone()).start().unwrap();
    task("starts another").run(|| {
        let inner = runlore::workflow("inner").store(store.clone()).start().unwrap();
        _ = fails(1);
        inner.finish().unwrap();
    });
    outer.finish().unwrap();
    let failed = |name: &str| {
        let runs = store.workflows();
        let run = runs.iter().rfind(|run| run.name.as_deref() == Some(name)).unwrap();
        run.totals.as_ref().unwrap()["failed_roots"].clone()
    };
    assert_eq!((failed("inner"), failed("outer")), (json!(1), json!(0)));
}

#[test]
fn a_guard_that_is_dropped_without_finish_is_an_error() {
    let store = MemoryStore::new();
    drop(runlore::workflow("dropped").store(store.clone()).start().unwrap());
    let last = serde_json::to_value(store.workflows().pop().unwrap()).unwrap();
    assert_eq!((&last["status"], &last["error"]["kind"]), (&json!("ERROR"), &json!("unfinished")));
    assert_eq!(last.get("ended_early"), None);
}

#[test]
fn an_exit_code_fails_the_run_that_is_open() {
    let run = &left_by("exit while open", 4)[0];
    assert_eq!((&run["status"], &run["exit_code"]), (&json!("ERROR"), &json!(4)));
    assert_eq!(run["error"]["kind"], "exit");
    assert_eq!(run["totals"]["tasks"], 1);
    assert_eq!(run.get("ended_early"), None);
}

#[test]
fn an_exit_with_0_leaves_the_open_run_finished_early() {
    let run = &left_by("exit while open", 0)[0];
    assert_eq!((&run["status"], &run["ended_early"]), (&json!("FINISHED"), &json!(true)));
    assert_eq!((run.get("exit_code"), run.get("error")), (None, None));
}

#[test]
fn an_exit_code_fails_the_run_that_ended_last() {
    let runs = left_by("exit after finish", 4);
    assert_eq!((&runs[0]["status"], runs[0].get("exit_code")), (&json!("FINISHED"), None));
    assert_eq!((&runs[1]["status"], &runs[1]["exit_code"]), (&json!("ERROR"), &json!(4)));
    assert_eq!(runs[1]["error"]["kind"], "exit");
    assert_eq!(runs[1]["totals"]["tasks"], 1, "what was known stays");
    assert!(runs[1]["duration_ns"].is_u64());
}

#[test]
fn an_exit_code_of_0_changes_nothing_after_the_end() {
    let run = &left_by("exit 0 after finish", 0)[0];
    assert_eq!((&run["status"], run.get("exit_code")), (&json!("FINISHED"), None));
}

#[test]
fn an_earlier_cause_stays_beside_the_exit_code() {
    let run = &left_by("main returns an error", 1)[0];
    assert_eq!((&run["status"], &run["exit_code"]), (&json!("ERROR"), &json!(1)));
    assert_eq!(run["error"]["kind"], "unfinished");

    let run = &left_by("failed, then exit", 3)[0];
    assert_eq!((&run["status"], &run["exit_code"]), (&json!("ERROR"), &json!(3)));
    assert_eq!((&run["error"]["kind"], &run["stderr"]), (&json!("error"), &json!("no data")));
}

#[cfg(feature = "sqlite")]
#[test]
fn an_exit_code_reaches_a_database_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let place = format!("sqlite://{}", path.display());
    let output = finished_in_time(scenario("exit after finish", &place));
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let source = runlore::store::sqlite::SqliteSource::open(&path).unwrap();
    let mut codes: Vec<(String, Option<u64>)> = source
        .records()
        .filter_map(|record| {
            let record = record.unwrap().to_json();
            (record["type"] == "workflow").then(|| {
                (record["status"].as_str().unwrap().to_owned(), record["exit_code"].as_u64())
            })
        })
        .collect();
    codes.sort();
    assert_eq!(codes, [("ERROR".to_owned(), Some(4)), ("FINISHED".to_owned(), None)]);
}

#[test]
fn a_signal_or_a_kill_interrupts_the_run_and_its_open_tasks() {
    for signal in [libc::SIGTERM, libc::SIGKILL] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = scenario("waits", folder.path().to_str().unwrap());
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("ready")));
        send(&process, signal);
        process.wait().unwrap();
        let loaded = jsonl::load(folder.path()).unwrap();
        let run = serde_json::to_value(&loaded.workflows[0]).unwrap();
        if signal == libc::SIGTERM {
            assert_eq!((&run["status"], &run["ended_by"]), (&json!("ERROR"), &json!("signal 15")));
            assert_eq!(run["error"]["kind"], "signal");
        } else {
            assert_eq!((&run["status"], run.get("ended_by")), (&json!("UNKNOWN"), None));
        }
        let open = loaded.tasks.iter().find(|task| task.name() == "open").unwrap();
        assert_eq!(open.status, Some(Status::Running));
        let tree = Tree::new(loaded.workflows, loaded.tasks);
        let shown = tree.walk().map(|(_, node)| node.shown().unwrap().to_string());
        assert_eq!(shown.collect::<Vec<_>>(), ["INTERRUPTED", "FINISHED", "INTERRUPTED"]);
    }
}

#[test]
fn a_process_that_joined_the_run_and_failed_is_counted() {
    for code in [0, 3] {
        let folder = tempfile::tempdir().unwrap();
        let run = runlore::workflow("parent").store(folder.path()).start().unwrap();
        let mut command = scenario(if code == 0 { "joins" } else { "joins and fails" }, "");
        task("spawns").run(|| {
            runlore::current().to_env(&mut command);
            finished_in_time(command);
        });
        run.finish().unwrap();
        let runs = runs_in(folder.path());
        assert_eq!((runs.len(), runs[0].status), (1, Some(Status::Finished)));
        assert_eq!((&runs[0].exit_code, &runs[0].error), (&None, &None));
        let shown = if code == 0 { "FINISHED" } else { "FINISHED, 1 process failed" };
        assert_eq!(runs[0].shown().to_string(), shown);
    }
}

fn last(store: &MemoryStore) -> WorkflowObject {
    store.workflows().pop().unwrap()
}

#[derive(Debug)]
struct Outer(std::num::ParseIntError);

impl std::fmt::Display for Outer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("no number")
    }
}

impl Error for Outer {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

fn outer() -> Outer {
    Outer("x".parse::<u32>().unwrap_err())
}

#[test]
#[expect(clippy::needless_borrows_for_generic_args, reason = "what callers write")]
fn a_run_fails_with_whatever_the_program_has_as_an_error() {
    let failed = |fail: &dyn Fn(&mut runlore::WorkflowRun)| {
        let store = MemoryStore::new();
        let mut run = runlore::workflow("fails").store(store.clone()).start().unwrap();
        fail(&mut run);
        run.finish().unwrap();
        let last = last(&store);
        assert_eq!(last.shown().to_string(), "ERROR");
        let error = last.error.unwrap();
        assert_eq!(error.kind.as_deref(), Some("error"));
        (error.message.unwrap(), error.chain)
    };
    let with_source = ("no number".to_owned(), vec!["invalid digit found in string".to_owned()]);
    let ways: [&dyn Fn(&mut runlore::WorkflowRun); 13] = [
        &|run| run.fail(outer()),
        &|run| run.fail(&outer()),
        &|run| run.fail(anyhow::Error::new(outer())),
        &|run| run.fail(&anyhow::Error::new(outer())),
        &|run| run.fail(&*anyhow::Error::new(outer())),
        &|run| run.fail(Box::<dyn Error + Send + Sync>::from(outer())),
        &|run| run.fail(&Box::<dyn Error + Send + Sync>::from(outer())),
        &|run| run.fail(&*Box::<dyn Error + Send + Sync>::from(outer())),
        &|run| run.fail(Box::<dyn Error>::from(outer())),
        &|run| run.fail(&Box::<dyn Error>::from(outer())),
        &|run| run.fail(&*Box::<dyn Error>::from(outer())),
        &|run| run.fail(&outer() as &dyn Error),
        &|run| run.fail(&outer() as &(dyn Error + Send + Sync)),
    ];
    for way in ways {
        assert_eq!(failed(way), with_source);
    }
    let text = ("out of paper".to_owned(), Vec::new());
    assert_eq!(failed(&|run| run.fail("out of paper")), text);
    assert_eq!(failed(&|run| run.fail("out of paper".to_owned())), text);
}

#[test]
fn try_run_fails_the_run_by_what_the_closure_returns() {
    let store = MemoryStore::new();
    let new = || runlore::workflow("tries").store(store.clone());
    let failed: Result<(), anyhow::Error> = new().try_run(|| {
        work(1);
        Err(anyhow::Error::new(outer()).context("cannot begin"))
    });
    assert_eq!(failed.unwrap_err().to_string(), "cannot begin");
    let run = last(&store);
    assert_eq!(run.status, Some(Status::Error));
    assert_eq!(run.error.unwrap().chain, ["no number", "invalid digit found in string"]);
    assert_eq!(store.tasks().len(), 1);

    let fine: Result<u32, Box<dyn Error + Send + Sync>> = new().try_run(|| Ok(work(1)));
    assert_eq!(fine.unwrap(), 2);
    assert_eq!(last(&store).status, Some(Status::Finished));

    let panics = || new().try_run(|| -> anyhow::Result<()> { panic!("out of luck") });
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
    let run = last(&store);
    assert_eq!(run.error.unwrap().kind.as_deref(), Some("panic"));

    let nowhere = runlore::workflow("x").store("nowhere://host");
    let mut has_run = false;
    let refused: anyhow::Result<()> = nowhere.try_run(|| {
        has_run = true;
        Ok(())
    });
    assert!(refused.is_err() && !has_run);
}

#[test]
fn a_future_fails_its_run_too_and_cancels_it_when_it_is_dropped() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let store = MemoryStore::new();
    let new = || runlore::workflow("tracked").store(store.clone());
    let failed: anyhow::Result<()> =
        runtime.block_on(new().try_track(async { Err(anyhow::anyhow!("no data")) }));
    assert!(failed.is_err());
    assert_eq!(last(&store).stderr.as_deref(), Some("no data"));

    runtime.block_on(async {
        tokio::select! {
            biased;
            _ = new().track(std::future::pending::<()>()) => {}
            () = std::future::ready(()) => {}
        }
    });
    let run = last(&store);
    assert_eq!(run.status, Some(Status::Error));
    assert_eq!(run.error.unwrap().kind.as_deref(), Some("cancelled"));
}

#[allow(unsafe_code)]
fn send(process: &std::process::Child, signal: i32) {
    // SAFETY: a process of ours.
    unsafe { libc::kill(process.id() as i32, signal) };
}
