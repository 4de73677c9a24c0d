//! What a task used: its own, and what it and its children used together.

use std::hint::black_box;
use std::time::Duration;

use proptest::prelude::*;
use runlore::record::TaskObject;
use runlore::store::MemoryStore;
use runlore::telemetry::{TelemetryChoice, usage};
use runlore::{FutureExt as _, carry, task, telemetry_task};
use serde_json::Value;

use crate::support::{child, expect_success, is_child, record, the};

const FIGURES: [&str; 5] =
    ["cpu_ns", "minor_faults", "major_faults", "voluntary_switches", "involuntary_switches"];

fn figure(task: &TaskObject, name: &str, of: &str) -> u64 {
    let resources = task.resources.as_ref().unwrap_or_else(|| panic!("{task:?}"));
    resources[name][of].as_u64().unwrap_or_else(|| panic!("{name}.{of} in {resources:?}"))
}

/// What a task used itself, and all tasks below it. One that is not measured is part of the one around it.
fn own_of_tree(store: &MemoryStore, root: &TaskObject, name: &str) -> u64 {
    let below = store.tasks();
    let below = below.iter().filter(|task| task.parent_task_id.as_ref() == Some(&root.task_id));
    let own = if root.resources.is_some() { figure(root, name, "self") } else { 0 };
    own + below.map(|task| own_of_tree(store, task, name)).sum::<u64>()
}

fn assert_adds_up(store: &MemoryStore) {
    for task in store.tasks().iter().filter(|task| task.resources.is_some()) {
        for name in FIGURES {
            let inclusive = figure(task, name, "inclusive");
            assert_eq!(inclusive, own_of_tree(store, task, name), "{name} of {}", task.name());
        }
    }
}

/// Uses so much of a processor, however busy the machine is.
fn burn(milliseconds: u64) {
    let used = || usage::thread().unwrap().cpu_ns;
    let until = used() + milliseconds * 1_000_000;
    while used() < until {
        black_box((0..1000_u64).sum::<u64>());
    }
}

/// A tree of tasks: how many pages each touches, and the tasks inside it.
#[derive(Debug, Clone)]
struct Plan {
    pages: usize,
    kind: u8,
    inside: Vec<Plan>,
}

fn plans() -> impl Strategy<Value = Plan> {
    let leaf =
        (0_usize..40, 0_u8..5).prop_map(|(pages, kind)| Plan { pages, kind, inside: vec![] });
    leaf.prop_recursive(4, 20, 4, |inner| {
        (0_usize..40, 0_u8..5, prop::collection::vec(inner, 0..4))
            .prop_map(|(pages, kind, inside)| Plan { pages, kind, inside })
    })
}

fn touch(pages: usize) {
    black_box(vec![1_u8; pages * 4096]);
}

/// Runs a plan with a function, a guard, a closure, or on a thread of its own.
fn perform(plan: &Plan) {
    perform_in(plan, true);
}

/// A context that is handed over from inside a task that is not measured says nothing of the measured one around that.
fn perform_in(plan: &Plan, is_measured: bool) {
    #[telemetry_task(skip_all)]
    fn annotated(plan: &Plan) {
        inside(plan, true);
    }
    #[telemetry_task(skip_all, telemetry = "none")]
    fn not_measured(plan: &Plan) {
        inside(plan, false);
    }
    fn inside(plan: &Plan, is_measured: bool) {
        touch(plan.pages);
        plan.inside.iter().for_each(|plan| perform_in(plan, is_measured));
    }
    match plan.kind {
        0 => annotated(plan),
        1 => {
            let guard = task("guard").telemetry(TelemetryChoice::Light).start();
            inside(plan, true);
            guard.finish();
        }
        2 => task("closure").run(|| inside(plan, true)),
        3 => not_measured(plan),
        _ if !is_measured => annotated(plan),
        _ => std::thread::scope(|scope| {
            let here = runlore::current();
            scope.spawn(move || here.run(|| annotated(plan)));
        }),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_tasks_used_themselves_adds_up_to_what_the_outermost_used(plan in plans()) {
        let store = record(|| perform(&plan));
        assert_adds_up(&store);
    }
}

#[test]
fn work_is_the_task_s_that_did_it() {
    let store = record(|| {
        task("outer").run(|| {
            burn(5);
            task("inner").run(|| burn(40));
        });
    });
    let (outer, inner) = (the(&store, "outer"), the(&store, "inner"));
    let cpu = |task: &TaskObject, of: &str| figure(task, "cpu_ns", of);
    assert!(cpu(&inner, "self") > cpu(&outer, "self"), "{outer:?} {inner:?}");
    assert_eq!(cpu(&inner, "self"), cpu(&inner, "inclusive"));
    assert_eq!(cpu(&outer, "inclusive"), cpu(&outer, "self") + cpu(&inner, "self"));
}

#[test]
fn work_on_other_threads_is_part_of_the_whole_and_not_of_the_task_itself() {
    let store = record(|| {
        task("outer").run(|| {
            let threads: Vec<_> = (0..3)
                .map(|_| std::thread::spawn(carry(|| task("inner").run(|| burn(20)))))
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    });
    let outer = the(&store, "outer");
    let inner: u64 = store
        .tasks()
        .iter()
        .filter(|task| task.name() == "inner")
        .map(|task| figure(task, "cpu_ns", "inclusive"))
        .sum();
    assert_eq!(figure(&outer, "cpu_ns", "inclusive"), figure(&outer, "cpu_ns", "self") + inner);
    assert!(figure(&outer, "cpu_ns", "self") < inner / 2, "{outer:?}");
    assert_adds_up(&store);
}

#[test]
fn a_future_is_measured_while_it_runs_wherever_that_is() {
    #[telemetry_task]
    async fn step(n: u64) {
        burn(n);
        tokio::time::sleep(Duration::from_millis(20)).await;
        burn(n);
    }
    #[telemetry_task]
    async fn all() {
        let spawned: Vec<_> = (1..4).map(|n| tokio::spawn(step(n).in_current())).collect();
        for one in spawned {
            one.await.unwrap();
        }
        step(1).await;
    }
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_time().build().unwrap();
    let store = record(|| runtime.block_on(all()));
    assert_eq!(store.tasks().len(), 5);
    assert_adds_up(&store);
    for step in store.tasks().iter().filter(|task| task.name() == "step") {
        let slept = Duration::from_millis(20).as_nanos() as u64;
        let cpu = figure(step, "cpu_ns", "self");
        assert!(cpu > 0 && cpu < step.duration_ns.unwrap() - slept / 2, "{step:?}");
    }
}

#[test]
fn a_guard_that_is_dropped_before_those_inside_it_keeps_what_it_used_until_then() {
    let store = record(|| {
        task("around").run(|| {
            let early = task("early").start();
            burn(20);
            let late = task("late").start();
            burn(2);
            early.finish();
            burn(30);
            late.finish();
            burn(1);
        });
    });
    let cpu = |name: &str| figure(&the(&store, name), "cpu_ns", "self");
    assert!(cpu("late") > cpu("early") && cpu("early") > cpu("around"), "{}", store.tasks().len());
}

const ALONE: &str = "resources::what_the_process_did_is_told_with_whether_others_ran_too";

#[test]
fn what_the_process_did_is_told_with_whether_others_ran_too() {
    if !is_child(ALONE) {
        // In a process of its own: tests run side by side.
        return expect_success(&child(ALONE).output().unwrap());
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let write = |bytes: usize| {
        std::fs::write(&path, vec![1; bytes]).unwrap();
        std::fs::File::open(&path).unwrap().sync_all().unwrap();
    };
    let store = record(|| {
        task("outer").run(|| {
            write(1 << 20);
            task("inner").run(|| write(3 << 20));
            task("inner").run(|| ());
        });
        task("two").run(|| {
            let here = runlore::current();
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    let barrier = &BARRIER;
                    scope.spawn(move || {
                        here.run(|| {
                            task("beside").run(|| {
                                barrier.wait();
                                barrier.wait();
                            });
                        });
                    });
                }
            });
        });
    });
    let written = |task: &TaskObject| task.resources.as_ref().unwrap()["write_bytes"].clone();
    let outer = written(&the(&store, "outer"));
    let inclusive = outer["inclusive"].as_i64().unwrap();
    if inclusive == 0 {
        // A file system in memory.
        return crate::support::skipped("bytes written by a task", "the disk is not one");
    }
    let inner: i64 = store
        .tasks()
        .iter()
        .filter(|task| task.name() == "inner")
        .map(|task| written(task)["inclusive"].as_i64().unwrap())
        .sum();
    assert!(inclusive >= 4 << 20, "{outer}");
    assert_eq!(outer["self"].as_i64().unwrap(), inclusive - inner, "{outer}");
    assert_eq!(outer.get("overlap"), None);
    for task in store.tasks().iter().filter(|task| task.name() == "beside") {
        let written = written(task);
        assert_eq!((&written["overlap"], written.get("self")), (&Value::Bool(true), None));
    }
    let two = written(&the(&store, "two"));
    assert_eq!(
        (two.get("overlap"), two.get("self")),
        (None, None),
        "its parts cannot be told apart"
    );
}

static BARRIER: std::sync::LazyLock<std::sync::Barrier> =
    std::sync::LazyLock::new(|| std::sync::Barrier::new(2));

#[test]
fn a_task_says_what_it_wants_measured() {
    #[telemetry_task(telemetry = "none")]
    fn nothing() {}
    #[telemetry_task(telemetry = "light")]
    fn light() {}
    #[telemetry_task(telemetry(disk))]
    fn disk() {}
    #[telemetry_task]
    fn default() {}
    let store = record(|| {
        nothing();
        light();
        disk();
        default();
    });
    let parts = |name: &str| {
        let telemetry = the(&store, name).telemetry_at_end?;
        Some(telemetry.keys().cloned().collect::<Vec<_>>())
    };
    assert_eq!(parts("nothing"), None);
    assert!(the(&store, "nothing").resources.is_none() && the(&store, "nothing").capture.is_none());
    assert_eq!(parts("light"), None);
    assert!(the(&store, "light").resources.unwrap().contains_key("cpu_ns"));
    assert!(parts("disk").unwrap().contains(&"disk".to_owned()), "{:?}", parts("disk"));
    assert!(!parts("disk").unwrap().contains(&"memory".to_owned()), "{:?}", parts("disk"));
    let default = parts("default").unwrap();
    for part in ["cpu", "memory", "process"] {
        assert!(default.contains(&part.to_owned()), "{default:?}");
    }
}

#[test]
fn a_record_says_what_measuring_cost() {
    let store = record(|| {
        task("outer").run(|| (0..5).for_each(|_| task("inner").run(|| ())));
    });
    let outer = the(&store, "outer").capture.unwrap();
    let inner: u64 = store
        .tasks()
        .iter()
        .filter(|task| task.name() == "inner")
        .map(|task| {
            let capture = task.capture.as_ref().unwrap();
            capture.start_ns.unwrap() + capture.end_ns.unwrap()
        })
        .sum();
    assert_eq!(outer.nested_ns, Some(inner));
    assert!(the(&store, "outer").duration_ns.unwrap() > inner);
    let totals = store.workflows().pop().unwrap().totals.unwrap();
    let own = outer.start_ns.unwrap() + outer.end_ns.unwrap();
    assert_eq!(totals["capture_ns"].as_u64(), Some(inner + own));
    assert!(totals["capture_percent"].as_f64().unwrap() > 0.0);
}
