//! The budget of captures: `telemetry_capture.max_overhead_percent`. Settings are a process's own, so each case is one.

use std::process::Output;

use runlore::record::TaskObject;
use runlore::store::jsonl::{self, Loaded};
use runlore::{task, telemetry_task, workflow};

use crate::support::{child, expect_success, is_child};

const CHILD: &str = "overhead::child_process";
const CALLS: usize = 150;

#[telemetry_task]
fn default(n: usize) -> usize {
    n + 1
}

#[telemetry_task(telemetry(mem))]
fn explicit(n: usize) -> usize {
    n + 1
}

#[test]
fn child_process() {
    if !is_child(CHILD) {
        return;
    }
    let run = workflow("bounded").start().unwrap();
    task("around").run(|| {
        for n in 0..CALLS {
            default(n);
            explicit(n);
            task("by hand").run(|| ());
        }
    });
    run.finish().unwrap();
}

/// Records of a process with this bound, and what it said.
fn recorded(percent: Option<&str>) -> (Loaded, Output) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = child(CHILD);
    command.current_dir(folder.path()).env("RUNLORE_TELEMETRY_CAPTURE__MACHINE_INFO", "no");
    if let Some(percent) = percent {
        command.env("RUNLORE_TELEMETRY_CAPTURE__MAX_OVERHEAD_PERCENT", percent);
    }
    let output = command.output().unwrap();
    expect_success(&output);
    (jsonl::load(folder.path().join("runlore")).unwrap(), output)
}

/// Tasks of a name in the order in which they began.
fn named<'a>(loaded: &'a Loaded, name: &str) -> Vec<&'a TaskObject> {
    let is_meant = |task: &&TaskObject| task.activity_id.as_deref() == Some(name);
    let mut tasks: Vec<_> = loaded.tasks.iter().filter(is_meant).collect();
    tasks.sort_by_key(|task| task.used.as_ref().and_then(|used| used.get("n")?.as_u64()));
    tasks
}

fn mode(task: &TaskObject) -> &str {
    task.capture.as_ref().and_then(|capture| capture.mode.as_deref()).unwrap_or("(none told)")
}

fn is_measured(task: &TaskObject) -> bool {
    task.telemetry_at_start.is_some() && task.telemetry_at_end.is_some() && task.resources.is_some()
}

/// So little that nothing is ever left of it.
const NOTHING: Option<&str> = Some("0.000001");

#[test]
fn the_first_hundred_calls_of_a_site_are_captured_whatever_the_budget() {
    let (loaded, _) = recorded(NOTHING);
    let tasks = named(&loaded, "default");
    assert_eq!(tasks.len(), CALLS, "no record is left out");
    for task in &tasks[..100] {
        assert_eq!(mode(task), "own", "{task:?}");
        assert!(is_measured(task), "{task:?}");
    }
    let by_hand = named(&loaded, "by hand");
    assert_eq!(by_hand.iter().filter(|task| is_measured(task)).count(), 100);
}

#[test]
fn a_task_without_captures_says_so() {
    let (loaded, output) = recorded(NOTHING);
    for task in &named(&loaded, "default")[100..] {
        let capture = task.capture.as_ref().unwrap();
        assert_eq!((mode(task), capture.reason.as_deref()), ("none", Some("budget")));
        assert!(task.telemetry_at_start.is_none() && task.telemetry_at_end.is_none());
        assert!(task.resources.is_none(), "{task:?}");
        let reason = task.unavailable.as_ref().unwrap()["resources"].as_str().unwrap();
        assert!(reason.contains("max_overhead_percent"), "{reason}");
        assert!(task.duration_ns.is_some() && task.generated.is_some());
    }
    let held_back = 2 * (CALLS as u64 - 100);
    let totals = loaded.workflows[0].totals.as_ref().unwrap();
    assert_eq!(totals["held_back"], held_back);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(&format!("{held_back} of {} tasks", 3 * CALLS + 1)), "{said}");
    assert!(said.contains("telemetry_capture.max_overhead_percent"), "{said}");
}

#[test]
fn an_explicit_choice_is_always_captured() {
    let (loaded, _) = recorded(NOTHING);
    let tasks = named(&loaded, "explicit");
    assert_eq!(tasks.len(), CALLS);
    for task in tasks {
        assert_eq!(mode(task), "own");
        assert!(task.telemetry_at_end.as_ref().unwrap().contains_key("memory"), "{task:?}");
    }
}

#[test]
fn without_a_bound_everything_is_captured() {
    let (loaded, output) = recorded(Some("~"));
    for task in &loaded.tasks {
        assert_eq!(mode(task), "own");
        assert!(is_measured(task), "{task:?}");
    }
    assert_eq!(loaded.workflows[0].totals.as_ref().unwrap()["held_back"], 0);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("max_overhead_percent"), "{said}");
}

#[test]
fn totals_state_what_recording_cost() {
    let (loaded, _) = recorded(None);
    assert_eq!(loaded.tasks.len(), 3 * CALLS + 1);
    let totals = loaded.workflows[0].totals.as_ref().unwrap();
    // The captures of the first calls are a part of it.
    assert!(totals["overhead_cpu_ns"].as_u64() > Some(0), "{totals:?}");
    assert!(totals["overhead_percent"].as_f64() > Some(0.0), "{totals:?}");
}
