//! What the feature does not concern: workflows, tasks made by hand, contexts.

use std::io;
use std::process::Command;

use runlore::record::{Status, TaskObject};
use runlore::store::MemoryStore;
use runlore::{FutureExt as _, carry, current, current_task_id, task};

use crate::annotated::add;
use crate::block_on;

fn named<'t>(tasks: &'t [TaskObject], name: &str) -> &'t TaskObject {
    tasks.iter().find(|task| task.activity_id.as_deref() == Some(name)).unwrap()
}

#[test]
fn tasks_made_by_hand_are_recorded() {
    let store = MemoryStore::new();
    let run = runlore::workflow("by hand")
        .id("w1")
        .campaign("c1")
        .description("all of it")
        .subtype("test")
        .user("someone")
        .used("n", 1)
        .metadata("m", 2)
        .store(store.clone())
        .start()
        .unwrap();
    assert_eq!(run.id(), "w1");

    let mut block = task("block")
        .used("a", 1)
        .used_debug("b", &Some(2))
        .metadata("c", 3)
        .tag("t")
        .subtype("s")
        .group("g")
        .start();
    block.generated("d", 4);
    block.generated_debug("e", &Some(5));
    assert_eq!(block.id(), current_task_id());
    // Between two tasks made by hand, an annotated function leaves no trace.
    assert_eq!(add(1, task("inside").run(|| 1)), 2);
    block.finish();

    drop(task("left early").start());
    let mut failing = task("failing").start();
    failing.fail(io::Error::other("by the guard"));
    failing.finish();
    task("fails inside").run(|| {
        runlore::generated("f", 6);
        runlore::fail(io::Error::other("from inside"));
    });
    let result: Result<u8, _> = task("tries").try_run(|| "x".parse::<u8>());
    assert!(result.is_err());
    assert!(block_on(task("tracked").track(async { current_task_id().is_some() })));
    runlore::flush().unwrap();
    assert!(runlore::stats().written > 0);
    let totals = run.finish().unwrap();
    assert_eq!((totals.tasks, totals.errors, totals.dropped), (7, 3, 0));

    let tasks = store.tasks();
    let block = named(&tasks, "block");
    assert_eq!(block.used.as_ref().unwrap()["a"], 1);
    assert_eq!(block.generated.as_ref().unwrap()["d"], 4);
    assert_eq!(named(&tasks, "inside").parent_task_id.as_ref(), Some(&block.task_id));
    assert_eq!(named(&tasks, "left early").ended_early, Some(true));
    assert_eq!(named(&tasks, "failing").stderr.as_deref(), Some("by the guard"));
    assert_eq!(named(&tasks, "fails inside").status, Some(Status::Error));
    assert_eq!(named(&tasks, "tries").status, Some(Status::Error));
    assert_eq!(named(&tasks, "tracked").status, Some(Status::Finished));
}

#[test]
fn a_workflow_may_be_a_closure_or_a_future_and_may_fail() {
    let store = MemoryStore::new();
    assert_eq!(runlore::workflow("closure").store(store.clone()).run(|| 1).unwrap(), 1);
    let future = runlore::workflow("future").store(store.clone()).track(async { 2 });
    assert_eq!(block_on(future).unwrap(), 2);
    let mut run = runlore::workflow("fails").store(store.clone()).start().unwrap();
    run.fail(io::Error::other("as a whole"));
    run.finish().unwrap();
    let last = store.workflows().pop().unwrap();
    assert_eq!(last.status, Some(Status::Error));
}

#[test]
fn contexts_are_handed_over() {
    let store = MemoryStore::new();
    let run = runlore::workflow("contexts").store(store.clone()).start().unwrap();
    let mut around = task("around").start();
    let here = current();
    assert_eq!(here.task_id(), around.id());

    std::thread::spawn(carry(|| drop(task("carried").start()))).join().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| here.run(|| drop(task("run").start())));
        scope.spawn(|| {
            let _entered = here.enter();
            drop(task("entered").start());
        });
        scope.spawn(|| block_on(async { drop(task("in context").start()) }.in_context(here)));
        let future = async { drop(task("in current").start()) }.in_current();
        scope.spawn(|| block_on(future));
    });
    let mut child = Command::new("a program");
    here.to_env(&mut child);
    around.child_used(&runlore::telemetry::usage::ChildUsage::default());
    assert!(here.env().iter().any(|(name, _)| *name == "RUNLORE_CONTEXT"));
    around.finish();
    assert_eq!(run.context().task_id(), None);
    run.finish().unwrap();

    let tasks = store.tasks();
    let around = &named(&tasks, "around").task_id;
    for name in ["carried", "run", "entered", "in context", "in current"] {
        assert_eq!(named(&tasks, name).parent_task_id.as_ref(), Some(around), "{name}");
    }
}

#[test]
fn what_is_allocated_is_counted() {
    use std::alloc::{GlobalAlloc, Layout, System};

    static COUNTING: runlore::alloc::CountingAllocator =
        runlore::alloc::CountingAllocator::new(System);
    let layout = Layout::new::<[u8; 64]>();
    let before = runlore::alloc::counts();
    // SAFETY: the size is not zero, and what was allocated is given back with the same layout.
    #[allow(unsafe_code)]
    unsafe {
        COUNTING.dealloc(COUNTING.alloc(layout), layout);
    }
    let after = runlore::alloc::counts();
    assert_eq!(after.allocated_bytes - before.allocated_bytes, 64);
    assert!(runlore::alloc::is_installed());
    let counted = runlore::alloc::thread_counts();
    assert_eq!(counted.since(counted).change_bytes(), 0);
}
