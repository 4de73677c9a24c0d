//! Workflows: from their start to their end, several at once, and none at all.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;

use runlore::record::Status;
use runlore::store::{Batch, MemoryStore, Store, StoreChoice};
use runlore::{FutureExt as _, task, telemetry_task};

use crate::support::{child, expect_success, is_child, record, the};

#[telemetry_task(telemetry = "none")]
fn work(n: u32) -> u32 {
    n + 1
}

#[test]
fn a_workflow_leaves_a_record_when_it_starts_and_one_when_it_ends() {
    let store = MemoryStore::new();
    let run = runlore::workflow("train")
        .store(store.clone())
        .campaign("spring")
        .description("a first try")
        .user("ann")
        .used("epochs", 3)
        .used("api_key", "hunter2")
        .metadata("gpu", false)
        .start()
        .unwrap();
    let id = run.id().to_owned();
    work(1);
    let totals = run.finish().unwrap();
    assert_eq!((totals.tasks, totals.finished, totals.errors, totals.dropped), (1, 1, 0, 0));

    let [started, ended] = store.workflows().try_into().unwrap();
    assert_eq!((started.status, ended.status), (Some(Status::Running), Some(Status::Finished)));
    assert_eq!(started.workflow_id, id);
    assert_eq!(ended.workflow_id, id);
    assert_eq!(ended.name.unwrap(), "train");
    assert_eq!(ended.campaign_id.unwrap(), "spring");
    assert_eq!(ended.workflow_description.unwrap(), "a first try");
    assert_eq!(ended.user.unwrap(), "ann");
    assert_eq!(ended.used.as_ref().unwrap()["epochs"], 3);
    assert_eq!(ended.used.unwrap()["api_key"], "[redacted]");
    assert_eq!(ended.custom_metadata.unwrap()["gpu"], false);
    assert!(ended.ended_at.unwrap() >= started.started_at.unwrap());
    assert_eq!(ended.totals.unwrap()["tasks"], 1);
    let catalogue = ended.catalogue.unwrap();
    let is_ours = |f: &&serde_json::Value| f["name"] == "work" && f["file"] == file!();
    let entry = catalogue.as_array().unwrap().iter().find(is_ours).unwrap();
    assert_eq!(entry["arguments"], serde_json::json!(["n"]));
}

#[test]
fn a_workflow_that_panics_fails_or_is_dropped_is_an_error() {
    let store = MemoryStore::new();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _run = runlore::workflow("test").store(store.clone()).start().unwrap();
        panic!("in the middle");
    }));
    assert!(panicked.is_err());
    let last = store.workflows().pop().unwrap();
    assert_eq!(last.status, Some(Status::Error));
    assert_eq!(last.error.unwrap().kind.unwrap(), "panic");

    let store = MemoryStore::new();
    drop(runlore::workflow("test").store(store.clone()).start().unwrap());
    let last = store.workflows().pop().unwrap();
    assert_eq!(last.status, Some(Status::Error));
    assert_eq!(last.error.unwrap().kind.unwrap(), "unfinished");

    let store = MemoryStore::new();
    let mut run = runlore::workflow("test").store(store.clone()).start().unwrap();
    run.fail(std::io::Error::other("no data"));
    run.finish().unwrap();
    let last = store.workflows().pop().unwrap();
    assert_eq!((last.status, last.stderr.as_deref()), (Some(Status::Error), Some("no data")));

    let store = MemoryStore::new();
    let closure = || runlore::workflow("test").store(store.clone()).run(|| panic!("out of luck"));
    assert!(catch_unwind(AssertUnwindSafe(closure)).is_err());
    let last = store.workflows().pop().unwrap();
    assert_eq!((last.status, last.stderr.as_deref()), (Some(Status::Error), Some("out of luck")));
}

#[test]
fn two_workflows_at_once_do_not_mix() {
    let stores = [MemoryStore::new(), MemoryStore::new()];
    let barrier = Barrier::new(2);
    std::thread::scope(|scope| {
        for (n, store) in stores.iter().enumerate() {
            let barrier = &barrier;
            scope.spawn(move || {
                let run = runlore::workflow("one of two").store(store.clone()).start().unwrap();
                barrier.wait();
                for _ in 0..200 {
                    work(n as u32);
                }
                barrier.wait();
                run.finish().unwrap();
            });
        }
    });
    for (n, store) in stores.iter().enumerate() {
        let tasks = store.tasks();
        assert_eq!(tasks.len(), 200);
        assert!(tasks.iter().all(|task| task.used.as_ref().unwrap()["n"] == n));
    }
}

#[test]
fn two_workflows_on_one_runtime_do_not_mix() {
    #[telemetry_task]
    async fn step(n: usize) {
        tokio::task::yield_now().await;
        work(n as u32);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let stores = [MemoryStore::new(), MemoryStore::new()];
    runtime.block_on(async {
        let runs = stores.iter().cloned().enumerate().map(|(n, store)| {
            tokio::spawn(runlore::workflow("async").store(store).track(async move {
                for _ in 0..100 {
                    tokio::spawn(step(n).in_current()).await.unwrap();
                }
            }))
        });
        for run in runs.collect::<Vec<_>>() {
            run.await.unwrap().unwrap();
        }
    });
    for (n, store) in stores.iter().enumerate() {
        let tasks = store.tasks();
        assert_eq!(tasks.len(), 200);
        assert!(tasks.iter().all(|task| task.used.as_ref().unwrap()["n"] == n));
    }
}

#[test]
fn late_work_of_a_workflow_that_has_ended_goes_to_no_other() {
    let ended = MemoryStore::new();
    let run = runlore::workflow("ended").store(ended.clone()).start().unwrap();
    let context = run.context();
    run.finish().unwrap();
    let other = record(|| {
        let dropped = runlore::stats().dropped;
        context.run(|| work(1));
        assert!(runlore::stats().dropped > dropped, "it is counted");
    });
    assert_eq!((ended.tasks().len(), other.tasks().len()), (0, 0));
}

#[test]
fn a_workflow_inside_a_task_is_a_part_of_the_one_around_it() {
    let inner = MemoryStore::new();
    let outer = record(|| {
        task("around").run(|| {
            let run = runlore::workflow("inner").store(inner.clone()).start().unwrap();
            work(1);
            run.finish().unwrap();
            work(2);
        });
    });
    let around = the(&outer, "around");
    let part = inner.workflows().pop().unwrap();
    assert_eq!(part.parent_workflow_id, around.workflow_id);
    assert_eq!(part.parent_task_id.as_ref(), Some(&around.task_id));
    assert_eq!(part.campaign_id, around.campaign_id);
    assert_eq!(the(&inner, "work").parent_task_id.as_ref(), Some(&around.task_id));
    assert_eq!(the(&outer, "work").used.unwrap()["n"], 2);
}

const WITHOUT: &str = "workflows::without_a_workflow_nothing_is_recorded";

#[test]
fn without_a_workflow_nothing_is_recorded() {
    if is_child(WITHOUT) {
        assert_eq!(work(1), 2);
        assert_eq!(task("block").run(|| 3), 3);
        assert_eq!(runlore::current_task_id(), None);
        assert_eq!(runlore::stats(), runlore::Stats::default());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    expect_success(&child(WITHOUT).current_dir(folder.path()).output().unwrap());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

const EXIT: &str = "workflows::an_exit_without_an_end_keeps_the_records";

#[test]
fn an_exit_without_an_end_keeps_the_records() {
    if is_child(EXIT) {
        let run = runlore::workflow("exits").store(std::env::var("FOLDER").unwrap().as_str());
        std::mem::forget(run.start().unwrap());
        for n in 0..1000 {
            work(n);
        }
        std::process::exit(7);
    }
    let folder = tempfile::tempdir().unwrap();
    let output = child(EXIT).env("FOLDER", folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(7), "the exit code is the program's own");
    let loaded = runlore::store::jsonl::load(folder.path()).unwrap();
    assert_eq!(loaded.tasks.len(), 1000);
    assert_eq!(loaded.workflows[0].status, Some(Status::Error));
    assert_eq!(loaded.workflows[0].exit_code, Some(7));
}

#[test]
fn an_id_made_before_the_first_workflow_has_the_time_of_the_wall_clock() {
    const TEST: &str =
        "workflows::an_id_made_before_the_first_workflow_has_the_time_of_the_wall_clock";
    if !is_child(TEST) {
        // In a process of its own, where no workflow has started.
        return expect_success(&child(TEST).output().unwrap());
    }
    let hour = |milliseconds: u128| milliseconds / 3_600_000;
    let text = runlore::Id::new().to_string().replace('-', "");
    let milliseconds = u128::from_str_radix(&text[..12], 16).unwrap();
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis();
    assert!(hour(now).abs_diff(hour(milliseconds)) <= 1, "{milliseconds} is not near {now}");
}

#[test]
fn a_task_that_takes_long_is_seen_while_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    let run = runlore::workflow("slow").store(folder.path()).start().unwrap();
    let block = task("slow").used("n", 1).start();
    let is_seen = || {
        let loaded = runlore::store::jsonl::load(folder.path()).unwrap();
        loaded.tasks.iter().any(|task| task.status == Some(Status::Running))
    };
    crate::support::wait_until("the task is not shown as running", is_seen);
    block.finish();
    run.finish().unwrap();
    let loaded = runlore::store::jsonl::load(folder.path()).unwrap();
    assert_eq!(loaded.tasks.len(), 1);
    assert_eq!(loaded.tasks[0].status, Some(Status::Finished));
    let files = std::fs::read_dir(folder.path()).unwrap().flatten();
    let files = files.filter(|file| file.path().extension().is_some_and(|kind| kind == "jsonl"));
    assert_eq!(files.count(), 1, "the sidecar is gone");
}

/// Fails until it is told not to.
struct Flaky {
    failures: u32,
    inner: MemoryStore,
}

impl Store for Flaky {
    fn write(&mut self, batch: &Batch<'_>) -> runlore::Result<()> {
        if self.failures > 0 {
            self.failures -= 1;
            if self.failures == 1 {
                panic!("a store that panics");
            }
            return Err(runlore::Error::new(runlore::ErrorKind::Store, "away"));
        }
        self.inner.write(batch)
    }
}

#[test]
fn a_store_that_comes_back_gets_everything_once() {
    let inner = MemoryStore::new();
    let store = StoreChoice::custom(Flaky { failures: 3, inner: inner.clone() });
    let run = runlore::workflow("flaky").store(store).start().unwrap();
    for n in 0..2000 {
        work(n);
    }
    let totals = run.finish().unwrap();
    assert_eq!((totals.tasks, totals.dropped), (2000, 0));
    let mut seen: Vec<u64> = inner
        .tasks()
        .iter()
        .map(|task| task.used.as_ref().unwrap()["n"].as_u64().unwrap())
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..2000).collect::<Vec<_>>());
}

#[test]
fn a_store_that_stays_away_is_told_and_harms_nothing() {
    let store = StoreChoice::custom(Flaky { failures: u32::MAX, inner: MemoryStore::new() });
    let run = runlore::workflow("gone").store(store).start().unwrap();
    assert_eq!(work(1), 2);
    let error = run.finish().unwrap_err().to_string();
    assert!(error.contains("records were not stored") && error.contains("away"), "{error}");
}

#[test]
fn an_unknown_store_says_which_there_are() {
    let error = runlore::workflow("x").store("mongo://host").start().unwrap_err();
    let told = error.to_string();
    let rest = "no store for `mongo://`: give a folder, or a URI that begins with one of ";
    // Which others there are depends on features, and on what these tests add.
    let known = told.strip_prefix(rest).unwrap_or_else(|| panic!("{told}"));
    assert!(known.split(", ").any(|scheme| scheme == "jsonl://"), "{told}");
}

#[test]
fn what_is_added_on_another_thread_is_not_lost() {
    #[telemetry_task(telemetry = "none")]
    async fn fails_somewhere(n: u32) {
        tokio::task::yield_now().await;
        runlore::fail(std::io::Error::other("told on whichever thread"));
        runlore::generated("n", n);
        tokio::task::yield_now().await;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().unwrap();
    let store = record(|| {
        let here = runlore::current();
        runtime.block_on(async {
            let tasks: Vec<_> =
                (0..2000).map(|n| tokio::spawn(fails_somewhere(n).in_context(here))).collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
    });
    let tasks = store.tasks();
    assert_eq!(tasks.len(), 2000);
    for task in tasks {
        assert_eq!(task.status, Some(Status::Error));
        assert_eq!(task.generated.unwrap()["n"], task.used.unwrap()["n"]);
    }
}

#[test]
fn tasks_open_in_each_other_without_end_hang_nothing() {
    #[telemetry_task(telemetry = "none")]
    fn recurse(depth: u32) -> u32 {
        if depth == 0 { 0 } else { 1 + recurse(depth - 1) }
    }
    let run = runlore::workflow("deep").store(MemoryStore::new()).start().unwrap();
    let work = std::thread::Builder::new().stack_size(256 << 20);
    let work = work.spawn(runlore::carry(|| assert_eq!(recurse(20_000), 20_000))).unwrap();
    work.join().unwrap();
    let totals = run.finish().unwrap();
    assert_eq!(totals.tasks + totals.dropped, 20_001, "{totals:?}");
    assert!(totals.tasks > 1000, "{totals:?}");
}
