//! However work moves, a task knows the task around it.

use std::thread;

use async_trait::async_trait;
use rayon::prelude::*;
use runlore::{FutureExt as _, TaskGuard, carry, current, task, telemetry_task};

use crate::support::{child, expect_success, is_child, record, the, tree};

#[telemetry_task]
fn leaf(place: &str) -> usize {
    place.len()
}

#[telemetry_task]
fn same_thread() {
    leaf("same thread");
    task("block").run(|| leaf("inside a block"));
    leaf("same thread, after the block");
}

#[telemetry_task]
fn threads() {
    thread::spawn(carry(|| leaf("carried into a thread"))).join().unwrap();
    thread::scope(|scope| {
        scope.spawn(carry(|| leaf("carried into a scoped thread")));
    });
    let here = current();
    thread::scope(|scope| {
        scope.spawn(move || {
            let _entered = here.enter();
            leaf("entered in a scoped thread")
        });
    });
}

#[telemetry_task]
fn pool() {
    let here = current();
    ["rayon"; 2].par_iter().for_each(|place| {
        here.run(|| leaf(place));
    });
    rayon::join(carry(|| leaf("joined")), carry(|| leaf("joined")));
}

#[telemetry_task]
async fn leaf_async(place: &str) -> usize {
    tokio::task::yield_now().await;
    place.len()
}

#[telemetry_task]
async fn awaits() {
    leaf_async("awaited").await;
    tokio::join!(leaf_async("in join!"), leaf_async("in join!"));
    tokio::spawn(leaf_async("spawned with in_current").in_current()).await.unwrap();
    task("tracked").track(leaf_async("in a tracked future")).await;
    leaf("after all awaits");
}

#[async_trait]
trait Fetch {
    async fn fetch(&self, place: &str) -> usize;
}

struct Client;

#[async_trait]
impl Fetch for Client {
    #[telemetry_task]
    async fn fetch(&self, place: &str) -> usize {
        leaf_async(place).await
    }
}

#[telemetry_task]
fn returns_a_future(place: &'static str) -> impl Future<Output = usize> {
    async move { leaf_async(place).await }
}

#[telemetry_task(skip(guard))]
fn takes(guard: TaskGuard) {
    guard.finish();
}

#[test]
fn on_one_thread_and_across_threads() {
    let store = record(|| {
        task("root").run(|| {
            same_thread();
            threads();
            pool();
        });
    });
    insta::assert_snapshot!(tree(&store), @r#"
    root  FINISHED
    ├─ same_thread  FINISHED
    │  ├─ leaf  FINISHED  place="same thread" → value=11
    │  ├─ block  FINISHED
    │  │  └─ leaf  FINISHED  place="inside a block" → value=14
    │  └─ leaf  FINISHED  place="same thread, after the block" → value=28
    ├─ threads  FINISHED
    │  ├─ leaf  FINISHED  place="carried into a thread" → value=21
    │  ├─ leaf  FINISHED  place="carried into a scoped thread" → value=28
    │  └─ leaf  FINISHED  place="entered in a scoped thread" → value=26
    └─ pool  FINISHED
       ├─ leaf  FINISHED  place="rayon" → value=5
       ├─ leaf  FINISHED  place="rayon" → value=5
       ├─ leaf  FINISHED  place="joined" → value=6
       └─ leaf  FINISHED  place="joined" → value=6
    "#);
}

#[test]
fn across_awaits_on_several_threads() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let store = record(|| {
        let here = current();
        runtime.block_on(async {
            tokio::spawn(awaits().in_context(here)).await.unwrap();
            tokio::spawn(async { Client.fetch("in an async_trait").await }.in_context(here))
                .await
                .unwrap();
            tokio::spawn(returns_a_future("in a returned future").in_context(here)).await.unwrap();
        });
    });
    insta::assert_snapshot!(tree(&store), @r#"
    awaits  FINISHED
    ├─ leaf_async  FINISHED  place="awaited" → value=7
    ├─ leaf_async  FINISHED  place="in join!" → value=8
    ├─ leaf_async  FINISHED  place="in join!" → value=8
    ├─ leaf_async  FINISHED  place="spawned with in_current" → value=23
    ├─ tracked  FINISHED
    │  └─ leaf_async  FINISHED  place="in a tracked future" → value=19
    └─ leaf  FINISHED  place="after all awaits" → value=16
    fetch  FINISHED  place="in an async_trait" → value=17
    └─ leaf_async  FINISHED  place="in an async_trait" → value=17
    returns_a_future  FINISHED  place="in a returned future" → value=20
    └─ leaf_async  FINISHED  place="in a returned future" → value=20
    "#);
}

#[test]
fn a_parent_is_restored_however_a_task_ends() {
    let store = record(|| {
        task("root").run(|| {
            let root = runlore::current_task_id();
            _ = std::panic::catch_unwind(|| task("panics").run(|| panic!("no matter")));
            assert_eq!(runlore::current_task_id(), root);
            _ = task("fails").try_run(|| "x".parse::<i32>());
            assert_eq!(runlore::current_task_id(), root);
            let outer = task("outer").start();
            let inner = task("inner").start();
            // Out of order, as a struct of guards might.
            drop(outer);
            drop(inner);
            assert_eq!(runlore::current_task_id(), root);
            takes(task("handed over").start());
            assert_eq!(runlore::current_task_id(), root);
            leaf("after");
        });
    });
    insta::assert_snapshot!(tree(&store), @r#"
    root  FINISHED
    ├─ panics  ERROR  no matter
    ├─ fails  ERROR  invalid digit found in string
    ├─ outer  FINISHED  (ended early)
    │  └─ inner  FINISHED  (ended early)
    ├─ handed over  FINISHED
    │  └─ takes  FINISHED
    └─ leaf  FINISHED  place="after" → value=5
    "#);
}

#[test]
fn what_a_cancelled_future_does_in_its_destructors_belongs_to_it() {
    struct OnDrop;
    impl Drop for OnDrop {
        fn drop(&mut self) {
            leaf("in a destructor");
        }
    }
    #[telemetry_task]
    async fn cancelled() {
        let _on_drop = OnDrop;
        std::future::pending::<()>().await;
    }
    let store = record(|| {
        let mut future = Box::pin(cancelled());
        let mut waker = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(future.as_mut().poll(&mut waker).is_pending());
        drop(future);
        assert_eq!(runlore::current_task_id(), None);
    });
    assert_eq!(the(&store, "leaf").parent_task_id.unwrap(), the(&store, "cancelled").task_id);
}

const INTO_CHILDREN: &str = "parent_links::into_child_processes";

#[test]
fn into_child_processes() {
    if is_child(INTO_CHILDREN) {
        // One child starts a workflow of its own, the other joins its parent's by its first task.
        match std::env::var("OWN_WORKFLOW") {
            Ok(_) => _ = runlore::workflow("child").run(|| leaf("child with a workflow")),
            Err(_) => _ = leaf("child without a workflow"),
        }
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let run = runlore::workflow("parent").store(folder.path()).start().unwrap();
    let id = run.id().to_owned();
    task("around").run(|| {
        for own in [false, true] {
            let mut command = child(INTO_CHILDREN);
            current().to_env(&mut command);
            if own {
                command.env("OWN_WORKFLOW", "1");
            }
            expect_success(&command.output().unwrap());
        }
    });
    run.finish().unwrap();

    let loaded = runlore::store::jsonl::load(folder.path()).unwrap();
    assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
    let named = |name: &str| loaded.tasks.iter().find(|task| task.name() == name).unwrap();
    let leaves: Vec<_> = loaded.tasks.iter().filter(|task| task.name() == "leaf").collect();
    assert_eq!(leaves.len(), 2);
    for leaf in &leaves {
        assert_eq!(leaf.parent_task_id.as_ref(), Some(&named("around").task_id));
        assert_eq!(leaf.campaign_id, named("around").campaign_id);
    }
    let joined = leaves.iter().filter(|leaf| leaf.workflow_id.as_deref() == Some(&id)).count();
    assert_eq!(joined, 1, "one joined its parent's workflow");
    let child = loaded.workflows.iter().find(|run| run.name.as_deref() == Some("child")).unwrap();
    assert_eq!(child.parent_workflow_id.as_deref(), Some(&*id));
    insta::with_settings!({filters => vec![(r"  [\d.]+ (ns|µs|ms|s)", "")]}, {
        insta::assert_snapshot!(loaded.into_tree().to_string(), @r#"
        parent  FINISHED
        └─ around  FINISHED
           ├─ leaf  FINISHED
           └─ child  FINISHED
              └─ leaf  FINISHED
        "#);
    });
}
