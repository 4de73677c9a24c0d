//! More tasks at once than the queues hold: none is lost, and no asynchronous worker is held up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use runlore::record::{Status, TaskObject};
use runlore::store::jsonl;
use runlore::telemetry::TelemetryChoice;
use runlore::{carry, telemetry_task};
use tokio::sync::Semaphore;

use crate::support::{self, bare_child, expect_success, finished_in_time, is_child, tried};

/// Runs a test again, in a process of its own that records into a folder; returns its tasks.
fn tasks_of(test: &str, settings: &[(&str, &str)]) -> Vec<TaskObject> {
    let folder = tempfile::tempdir().unwrap();
    let mut command = bare_child(test);
    command.current_dir(folder.path());
    for (name, value) in settings {
        command.env(format!("RUNLORE_{name}"), value);
    }
    expect_success(&finished_in_time(command));
    let loaded = jsonl::load(folder.path().join("runlore")).unwrap();
    assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
    assert!(!folder.path().join("runlore/.rings").exists(), "nothing is left to be recovered");
    let totals = loaded.workflows[0].totals.as_ref().unwrap();
    assert_eq!(totals["dropped"], 0);
    assert!(totals["overflowed"].as_u64().unwrap() > 0, "the test does not overflow: {totals:?}");
    loaded.tasks
}

#[telemetry_task]
fn nested(depth: u32) -> u32 {
    if depth == 0 { 0 } else { nested(depth - 1) + 1 }
}

const NESTED: &str = "overflow::calls_nested_in_each_other_are_all_recorded";

#[test]
fn calls_nested_in_each_other_are_all_recorded() {
    const DEPTH: u32 = 20_000;
    if is_child(NESTED) {
        let run = runlore::workflow("nested").start().unwrap();
        // Each call needs some kilobytes of stack in a debug build.
        let thread = std::thread::Builder::new().stack_size(1 << 30);
        let depth = thread.spawn(carry(|| nested(DEPTH))).unwrap().join().unwrap();
        assert_eq!((depth, run.finish().unwrap().finished), (DEPTH, u64::from(DEPTH) + 1));
        return;
    }
    let tasks = tasks_of(NESTED, &[]);
    assert_eq!(tasks.len(), DEPTH as usize + 1);
    assert!(tasks.iter().all(|task| task.status == Some(Status::Finished)));
    let outermost = tasks.iter().filter(|task| task.parent_task_id.is_none()).count();
    assert_eq!(outermost, 1);
}

#[telemetry_task]
async fn waits(number: usize, gate: Arc<Semaphore>) -> usize {
    let _open = gate.acquire().await.unwrap();
    number
}

const FUTURES: &str = "overflow::futures_open_at_once_are_all_recorded";

#[test]
fn futures_open_at_once_are_all_recorded() {
    let count = support::number("RUNLORE_TEST_TASKS").unwrap_or(20_000) as usize;
    if is_child(FUTURES) {
        let run = runlore::workflow("futures").start().unwrap();
        let busy = Arc::new(AtomicBool::new(true));
        let loops: Vec<_> = (0..4)
            .map(|_| {
                let busy = Arc::clone(&busy);
                std::thread::spawn(move || while busy.load(Ordering::Relaxed) {})
            })
            .collect();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build();
        runtime.unwrap().block_on(async {
            let gate = Arc::new(Semaphore::new(0));
            let futures: Vec<_> =
                (0..count).map(|number| tokio::spawn(waits(number, Arc::clone(&gate)))).collect();
            gate.add_permits(count);
            for (number, future) in futures.into_iter().enumerate() {
                assert_eq!(future.await.unwrap(), number);
            }
        });
        busy.store(false, Ordering::Relaxed);
        loops.into_iter().for_each(|busy| busy.join().unwrap());
        assert_eq!(run.finish().unwrap().finished, count as u64);
        return;
    }
    let tasks = tasks_of(FUTURES, &[]);
    assert_eq!(tasks.len(), count);
    tried("futures open at once beside four busy loops", format!("{count} futures"));
}

#[telemetry_task]
async fn step(number: usize) -> usize {
    number
}

const REFUSED: &str = "overflow::asynchronous_tasks_never_wait_and_are_counted";

/// No overflow, and a writer that is never fast enough: a task that waited would wait for a minute.
#[test]
fn asynchronous_tasks_never_wait_and_are_counted() {
    const COUNT: usize = 2_000;
    if is_child(REFUSED) {
        let run = runlore::workflow("refused").start().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            for number in 0..COUNT {
                assert_eq!(step(number).await, number);
            }
        });
        let totals = run.finish().unwrap();
        assert_eq!(totals.finished + totals.dropped, COUNT as u64);
        assert!(totals.dropped > 0, "{totals:?}");
        assert_eq!(runlore::stats().waits, 0);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = bare_child(REFUSED);
    command.current_dir(folder.path());
    command.env("RUNLORE_RECORDER__RING_BYTES", "16KiB");
    command.env("RUNLORE_RECORDER__OVERFLOW_BYTES", "0");
    command.env("RUNLORE_RECORDER__MAX_WAIT_MS", "60s");
    let output = finished_in_time(command);
    expect_success(&output);
    let loaded = jsonl::load(folder.path().join("runlore")).unwrap();
    let dropped = loaded.workflows[0].totals.as_ref().unwrap()["dropped"].as_u64().unwrap();
    assert_eq!(loaded.tasks.len() as u64 + dropped, COUNT as u64);
    // One line when it begins, one at the end.
    let said = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<&str> = said.lines().filter(|line| line.starts_with("runlore: ")).collect();
    assert!(lines[0].starts_with("runlore: tasks are being lost: "), "{said}");
    let last =
        format!("runlore: {dropped} tasks of the run `refused` are lost: its totals count them");
    assert!(lines.contains(&&*last), "{said}");
}

/// Which thread gets its queue first, and is therefore read first.
#[derive(Debug, Clone, Copy)]
enum First {
    Caller,
    Helper,
}

/// Tasks to which another thread adds, twice; returns how many of them lack the later value.
fn lost_additions(first: First, count: u64) -> u64 {
    let store = support::record(|| {
        let warm_up = || runlore::task("warm up").run(|| ());
        if let First::Caller = first {
            warm_up();
        }
        let (ask, asked) = mpsc::channel::<runlore::Context>();
        let (answer, answered) = mpsc::channel();
        let helper = std::thread::spawn(carry(move || {
            warm_up();
            answer.send(()).unwrap();
            for context in asked {
                context.run(|| runlore::generated("x", 2));
                answer.send(()).unwrap();
            }
        }));
        answered.recv().unwrap();
        for number in 0..count {
            runlore::task("added to").telemetry(TelemetryChoice::None).run(|| {
                runlore::generated("x", 1);
                ask.send(runlore::current()).unwrap();
                answered.recv().unwrap();
            });
            // The writer must find the queues with little in them, too.
            if number.is_multiple_of(64) {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        drop(ask);
        helper.join().unwrap();
    });
    let tasks = store.tasks();
    let added: Vec<_> = tasks.iter().filter(|task| task.name() == "added to").collect();
    assert_eq!(added.len() as u64, count);
    let has_it = |task: &&&TaskObject| task.generated.as_ref().is_some_and(|all| all["x"] == 2);
    count - added.iter().filter(has_it).count() as u64
}

#[test]
fn no_addition_from_another_thread_is_lost() {
    let count = support::number("RUNLORE_TEST_ADDITIONS").unwrap_or(2_000);
    for first in [First::Caller, First::Helper] {
        assert_eq!(lost_additions(first, count), 0, "{first:?}");
        tried(
            &format!("values added from another thread, {first:?} first"),
            format!("{count} tasks"),
        );
    }
}
