//! Loops over epochs and batches: one record an iteration, however it is left, under what it belongs to.

use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use rayon::prelude::*;
use runlore::ml::{self, Detached, Step};
use runlore::record::{Status, TaskObject};
use runlore::settings::LoopMode;
use runlore::store::MemoryStore;
use runlore::{WorkflowRun, task, telemetry_task};

use crate::support::{child, expect_success, finished_in_time, is_child, tree};

#[derive(Debug)]
struct Diverged;

impl fmt::Display for Diverged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the loss is not a number")
    }
}

impl std::error::Error for Diverged {}

/// Runs `work` in a workflow of its own and returns what was recorded.
fn trained(work: impl FnOnce(&WorkflowRun)) -> MemoryStore {
    let store = recorded(work);
    check_times_and_links(&store.tasks());
    store
}

/// The same, of loops that are not gone round one inside the other.
fn recorded(work: impl FnOnce(&WorkflowRun)) -> MemoryStore {
    let store = MemoryStore::new();
    let run = runlore::workflow("train").store(store.clone()).start().unwrap();
    work(&run);
    run.finish().unwrap();
    store
}

/// By how many seconds the clock of the day may be adjusted meanwhile; durations are by another.
pub(crate) const ADJUSTED: f64 = 0.1;

/// However an iteration was left, it began before it ended, inside the task above it.
pub(crate) fn check_times_and_links(tasks: &[TaskObject]) {
    for task in tasks {
        let times = |task: &TaskObject| (task.started_at.unwrap(), task.ended_at.unwrap());
        let (start, end) = times(task);
        assert!(start <= end, "{}", task.name());
        let Some(parent) = &task.parent_task_id else { continue };
        let parent = tasks.iter().find(|task| task.task_id == *parent).expect("what is above it");
        let around = times(parent);
        assert!(start >= around.0 - ADJUSTED && end <= around.1 + ADJUSTED, "{}", task.name());
        assert!(task.duration_ns <= parent.duration_ns, "{}", task.name());
        let is_batch = task.name().ends_with("_batch_iteration");
        assert!(!is_batch || parent.name() == "epochs_loop_iteration", "{}", parent.name());
    }
}

/// In the order in which they ended, which on one thread is that of the records.
fn named(store: &MemoryStore, name: &str) -> Vec<TaskObject> {
    let tasks = store.tasks().into_iter();
    tasks.filter(|task| task.activity_id.as_deref() == Some(name)).collect()
}

/// How long tasks took together, by the monotonic clock: wall time is adjusted between them.
fn nanoseconds<'a>(tasks: impl IntoIterator<Item = &'a TaskObject>) -> u64 {
    tasks.into_iter().map(|task| task.duration_ns.unwrap()).sum()
}

fn batches(store: &MemoryStore) -> Vec<TaskObject> {
    named(store, "train_batch_iteration")
}

fn epochs(store: &MemoryStore) -> Vec<TaskObject> {
    named(store, "epochs_loop_iteration")
}

fn number(task: &TaskObject, name: &str) -> u64 {
    task.used.as_ref().unwrap()[name].as_u64().unwrap()
}

/// How each of the tasks ended: its status, and whether early.
fn endings(tasks: &[TaskObject]) -> Vec<(Status, bool)> {
    tasks.iter().map(|task| (task.status.unwrap(), task.ended_early == Some(true))).collect()
}

const FINISHED: (Status, bool) = (Status::Finished, false);
const EARLY: (Status, bool) = (Status::Finished, true);
const ERROR: (Status, bool) = (Status::Error, false);

#[test]
fn epochs_and_batches_form_a_tree() {
    #[telemetry_task(telemetry = "none")]
    fn train(batch: f64) -> f64 {
        batch / 2.0
    }
    let store = trained(|run| {
        for epoch in run.epochs(0..2) {
            for (step, batch) in epoch.batches("train", [1.0, 0.5]) {
                step.generated("loss", train(batch));
            }
            for (step, rows) in epoch.batches("validation", ["rows"]) {
                step.used("rows", rows.len());
            }
            epoch.generated("val_loss", 0.1);
        }
    });
    insta::assert_snapshot!(tree(&store), @"
    epochs_loop_iteration  FINISHED  epoch=0 i=0 → val_loss=0.1
    ├─ train_batch_iteration  FINISHED  batch=0 i=0 → loss=0.5
    │  └─ train  FINISHED  batch=1.0 → value=0.5
    ├─ train_batch_iteration  FINISHED  batch=1 i=1 → loss=0.25
    │  └─ train  FINISHED  batch=0.5 → value=0.25
    └─ validation_batch_iteration  FINISHED  batch=0 i=0 rows=4
    epochs_loop_iteration  FINISHED  epoch=1 i=1 → val_loss=0.1
    ├─ train_batch_iteration  FINISHED  batch=0 i=0 → loss=0.5
    │  └─ train  FINISHED  batch=1.0 → value=0.5
    ├─ train_batch_iteration  FINISHED  batch=1 i=1 → loss=0.25
    │  └─ train  FINISHED  batch=0.5 → value=0.25
    └─ validation_batch_iteration  FINISHED  batch=0 i=0 rows=4
    ");
}

#[test]
fn each_loop_is_a_group_of_iterations_in_order() {
    let store = trained(|run| {
        for epoch in run.epochs(5..7) {
            for (step, _) in epoch.batches("train", 0..3) {
                drop(step);
            }
        }
    });
    let (epochs, batches) = (epochs(&store), batches(&store));
    assert_eq!(epochs.iter().map(|task| number(task, "i")).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(epochs.iter().map(|task| number(task, "epoch")).collect::<Vec<_>>(), [5, 6]);
    assert_eq!(
        batches.iter().map(|task| number(task, "batch")).collect::<Vec<_>>(),
        [0, 1, 2, 0, 1, 2]
    );
    assert!(epochs.iter().chain(&batches).all(|it| it.subtype.as_deref() == Some("iteration")));
    assert_eq!(epochs[0].group_id, epochs[1].group_id);
    assert_eq!(batches[0].group_id, batches[2].group_id);
    assert_ne!(batches[2].group_id, batches[3].group_id);
    assert_ne!(batches[0].group_id, epochs[0].group_id);
    for (at, batch) in batches.iter().enumerate() {
        let epoch = &epochs[at / 3];
        assert_eq!(batch.parent_task_id.as_ref(), Some(&epoch.task_id));
        assert!(batch.started_at.is_some() && batch.started_at <= batch.ended_at);
    }
    for (epoch, batches) in epochs.iter().zip(batches.chunks(3)) {
        assert!(nanoseconds(batches) <= nanoseconds([epoch]));
    }
}

#[test]
fn the_first_iteration_of_a_lightweight_loop_says_where_it_is_and_all_of_others_do() {
    const TEST: &str = "training_loops::the_first_iteration_of_a_lightweight_loop_says_where_it_is_and_all_of_others_do";
    // In a process of its own: what it remembers of so many places stays.
    if !is_child(TEST) {
        return expect_success(&finished_in_time(child(TEST)));
    }
    let store = trained(|run| {
        run.iterate("light", 0..3).mode(LoopMode::Lightweight).for_each(drop);
        run.iterate("whole", 0..3).mode(LoopMode::Default).for_each(drop);
        // More places than are remembered.
        for number in 0..1100 {
            run.iterate(&format!("many_{number}"), 0..2).mode(LoopMode::Lightweight).for_each(drop);
        }
    });
    let files = |name: &str| {
        let tasks = store.tasks().into_iter();
        let own = tasks.filter(|task| task.activity_id.as_deref() == Some(name));
        let named = |task: &TaskObject| {
            assert_eq!(task.subtype.as_deref(), Some("iteration"));
            task.code.as_ref().is_some_and(|code| {
                code.file.as_ref().unwrap().ends_with("training_loops.rs") && code.line.is_some()
            })
        };
        own.map(|task| (number(&task, "i"), named(&task))).collect::<Vec<_>>()
    };
    assert_eq!(files("light_iteration"), [(0, true), (1, false), (2, false)]);
    assert_eq!(files("whole_iteration"), [(0, true), (1, true), (2, true)]);
    assert_eq!(files("many_0_iteration"), [(0, true), (1, false)]);
    assert_eq!(files("many_1099_iteration"), [(0, true), (1, true)]);
}

#[test]
fn leaving_a_loop_ends_its_last_iteration_early() {
    fn by_question_mark(run: &WorkflowRun) -> Result<(), Diverged> {
        for epoch in run.epochs(0..3) {
            for (step, batch) in epoch.batches("train", 0..3) {
                step.generated("loss", batch);
                if batch == 1 {
                    Err(Diverged)?;
                }
            }
        }
        Ok(())
    }
    fn by_return(run: &WorkflowRun) -> u32 {
        for epoch in run.epochs(0..3) {
            for (_step, batch) in epoch.batches("train", 0..3) {
                if batch == 1 {
                    return batch;
                }
            }
        }
        0
    }
    for leave in [
        |run: &WorkflowRun| assert!(by_question_mark(run).is_err()),
        |run: &WorkflowRun| assert_eq!(by_return(run), 1),
        |run: &WorkflowRun| {
            'training: for epoch in run.epochs(0..3) {
                for (_step, batch) in epoch.batches("train", 0..3) {
                    if batch == 1 {
                        break 'training;
                    }
                }
            }
        },
    ] {
        let store = trained(leave);
        assert_eq!(endings(&batches(&store)), [FINISHED, EARLY]);
        assert_eq!(endings(&epochs(&store)), [EARLY]);
    }
}

#[test]
fn a_break_out_of_the_batches_leaves_the_epochs_alone() {
    let store = trained(|run| {
        for epoch in run.epochs(0..2) {
            for (step, batch) in epoch.batches("train", 0..5) {
                if batch == 0 {
                    continue;
                }
                step.generated("loss", 0.5);
                break;
            }
        }
    });
    assert_eq!(endings(&batches(&store)), [FINISHED, EARLY, FINISHED, EARLY]);
    assert_eq!(endings(&epochs(&store)), [FINISHED, FINISHED]);
    let left = &batches(&store)[1];
    assert_eq!(left.generated.as_ref().unwrap()["loss"], 0.5, "what it gave is kept");
}

#[test]
fn an_iteration_that_fails_is_an_error_and_the_loop_goes_on() {
    let store = trained(|run| {
        for (step, batch) in run.iterate("train_batch", 0..3) {
            if batch == 1 {
                step.fail(Diverged);
            }
            if batch == 2 {
                step.fail("given up".to_owned());
                break;
            }
        }
    });
    let batches = batches(&store);
    assert_eq!(batches[0].status, Some(Status::Finished));
    assert_eq!(batches[1].status, Some(Status::Error));
    assert_eq!(batches[1].stderr.as_deref(), Some("the loss is not a number"));
    assert_eq!(batches[1].ended_early, None);
    assert_eq!(batches[2].status, Some(Status::Error));
}

#[test]
fn a_panic_is_an_error_of_all_that_it_leaves() {
    let store = trained(|run| {
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            for epoch in run.epochs(0..3) {
                for (_step, batch) in epoch.batches("train", 0..3) {
                    assert!(batch != 1, "out of memory");
                }
            }
        }));
        assert!(panicked.is_err());
        // And it ends nothing else: the thread is where it was before.
        task("after").run(|| ());
    });
    assert_eq!(endings(&batches(&store)), [FINISHED, ERROR]);
    assert_eq!(endings(&epochs(&store)), [ERROR]);
    let batch = &batches(&store)[1];
    assert_eq!(batch.stderr.as_deref(), Some("out of memory"));
    assert_eq!(batch.error.as_ref().unwrap().kind.as_deref(), Some("panic"));
    assert_eq!(named(&store, "after")[0].parent_task_id, None);
}

#[test]
fn a_loader_that_panics_leaves_finished_batches_behind() {
    let store = trained(|run| {
        let loader = (0..3).inspect(|batch| assert!(*batch != 2, "no such file"));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            for epoch in run.epochs(0..1) {
                for (step, _) in epoch.batches("train", loader.clone()) {
                    drop(step);
                }
            }
        }));
        assert!(panicked.is_err());
    });
    assert_eq!(endings(&batches(&store)), [FINISHED, FINISHED]);
    assert_eq!(endings(&epochs(&store)), [ERROR]);
}

#[test]
fn iterators_are_not_run_ahead_of() {
    let given = Cell::new(0);
    let endless = std::iter::repeat_with(|| given.set(given.get() + 1));
    let store = trained(|run| {
        for (step, ()) in run.iterate("train_batch", endless) {
            assert_eq!(given.get(), step.index() + 1);
            if step.index() == 4 {
                break;
            }
        }
    });
    assert_eq!(given.get(), 5);
    assert_eq!(batches(&store).len(), 5);
}

#[test]
fn the_wait_for_a_batch_is_not_a_part_of_any() {
    let waited = Duration::from_millis(20);
    let began = Instant::now();
    let store = trained(|run| {
        let loader = (0..2).inspect(|_| std::thread::sleep(waited));
        for (step, _) in run.iterate("train_batch", loader) {
            step.items(32);
        }
    });
    let batches = batches(&store);
    for batch in &batches {
        let metadata = batch.custom_metadata.as_ref().unwrap();
        assert!(metadata["wait_ns"].as_u64().unwrap() >= waited.as_nanos() as u64);
        assert_eq!(metadata["items"], 32);
    }
    let all = began.elapsed().as_nanos() as u64;
    assert!(nanoseconds(&batches) + 2 * waited.as_nanos() as u64 <= all);
}

#[test]
fn what_a_batch_does_belongs_to_it() {
    #[telemetry_task]
    fn load() {}
    fn one_epoch() {
        for (step, _) in ml::iterate("train_batch", 0..2) {
            task("forward").run(|| ());
            step.generated("loss", 0.0);
        }
    }
    let store = trained(|run| {
        for epoch in run.epochs(["warm-up"]) {
            assert_eq!(epoch.to_string(), "warm-up");
            load();
            one_epoch();
        }
        load();
    });
    let (epoch, batches) = (&epochs(&store)[0], batches(&store));
    let parents = |name| -> Vec<_> {
        named(&store, name).into_iter().map(|task| task.parent_task_id).collect()
    };
    assert_eq!(parents("train_batch_iteration"), vec![Some(epoch.task_id.clone()); 2]);
    assert_eq!(
        parents("forward"),
        batches.iter().map(|batch| Some(batch.task_id.clone())).collect::<Vec<_>>()
    );
    assert_eq!(parents("load"), [Some(epoch.task_id.clone()), None]);
}

#[test]
fn a_step_that_outlives_its_round_is_told_by_what_came_after() {
    let store = recorded(|run| {
        let steps: Vec<_> = run.iterate("train_batch", 0..2).collect();
        drop(steps);
        let mut left = run.iterate("validation_batch", 0..2);
        let (kept, _) = left.next().unwrap();
        drop(left);
        drop(kept);
        let mut ended = run.iterate("test_batch", 0..2);
        ended.next().unwrap().0.finish();
        drop(ended);
    });
    assert_eq!(endings(&batches(&store)), [FINISHED, FINISHED]);
    assert_eq!(endings(&named(&store, "validation_batch_iteration")), [EARLY]);
    assert_eq!(endings(&named(&store, "test_batch_iteration")), [FINISHED]);
}

#[test]
fn loops_on_another_thread_belong_to_their_run() {
    let store = trained(|run| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for epoch in run.epochs(0..1) {
                    for (step, _) in epoch.batches("train", 0..1) {
                        drop(step);
                    }
                }
            });
        });
    });
    assert_eq!(batches(&store)[0].parent_task_id.as_ref(), Some(&epochs(&store)[0].task_id));
}

#[test]
fn detached_iterations_run_beside_each_other_on_threads() {
    fn is_send<T: Send>() {}
    is_send::<Step<Detached>>();
    let store = trained(|run| {
        run.iterate("train_batch", 0..20).detached().par_bridge().for_each(|(step, batch)| {
            step.run(|| task("forward").used("batch", batch).run(|| ()));
            step.generated("batch", batch);
        });
    });
    let batches = batches(&store);
    assert_eq!(endings(&batches), [FINISHED; 20]);
    for forward in named(&store, "forward") {
        let parent = forward.parent_task_id.as_ref().unwrap();
        let batch = batches.iter().find(|batch| batch.task_id == *parent).unwrap();
        assert_eq!(number(batch, "i"), number(&forward, "batch"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn detached_iterations_cross_awaits() {
    let store = MemoryStore::new();
    let run = runlore::workflow("train").store(store.clone()).start().unwrap();
    let trial = |epochs: ml::Epochs<std::ops::Range<u32>, Detached>| async move {
        for epoch in epochs {
            for (step, batch) in epoch.batches("train", 0..3_u32) {
                step.track(async {
                    tokio::task::yield_now().await;
                    task("forward").used("batch", batch).run(|| ());
                    tokio::time::sleep(Duration::from_millis(1)).await;
                })
                .await;
            }
        }
    };
    // Two at once on the same threads: neither sees the other's iterations as its own.
    let both: [_; 2] = std::array::from_fn(|_| tokio::spawn(trial(run.epochs(0..2).detached())));
    for one in both {
        one.await.unwrap();
    }
    run.finish().unwrap();
    let (epochs, batches) = (epochs(&store), batches(&store));
    assert_eq!((epochs.len(), batches.len()), (4, 12));
    assert!(epochs.iter().all(|epoch| epoch.parent_task_id.is_none()));
    for epoch in &epochs {
        let own = batches.iter().filter(|it| it.parent_task_id.as_ref() == Some(&epoch.task_id));
        let mut numbers: Vec<_> = own.map(|batch| number(batch, "i")).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [0, 1, 2]);
    }
    for forward in named(&store, "forward") {
        let parent = forward.parent_task_id.as_ref().unwrap();
        let batch = batches.iter().find(|batch| batch.task_id == *parent).unwrap();
        assert_eq!(number(batch, "i"), number(&forward, "batch"));
    }
}

/// What the body does in each round.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Round {
    GoOn,
    Continue,
    Fail,
    Finish,
    Break,
    Panic,
}

fn rounds() -> impl Strategy<Value = Vec<Vec<Round>>> {
    use Round::{Break, Continue, Fail, Finish, GoOn, Panic};
    let round = prop_oneof![
        6 => Just(GoOn), 1 => Just(Continue), 1 => Just(Fail), 1 => Just(Finish),
        1 => Just(Break), 1 => Just(Panic)
    ];
    prop::collection::vec(prop::collection::vec(round, 0..6), 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever the body does, each round that began leaves one record, which tells how it ended.
    #[test]
    fn every_round_is_closed_once(epochs_of_rounds in rounds()) {
        let mut expected = Vec::new();
        let store = trained(|run| {
            let expected = AssertUnwindSafe(&mut expected);
            _ = catch_unwind(AssertUnwindSafe(|| {
                let AssertUnwindSafe(expected) = expected;
                for (epoch, rounds) in run.epochs(0..epochs_of_rounds.len()).zip(&epochs_of_rounds) {
                    for (step, round) in epoch.batches("train", rounds) {
                        expected.push(match round {
                            Round::Fail | Round::Panic => ERROR,
                            Round::Break => EARLY,
                            _ => FINISHED,
                        });
                        match round {
                            Round::GoOn => step.generated("loss", 0.0),
                            Round::Continue => continue,
                            Round::Fail => step.fail(Diverged),
                            Round::Finish => step.finish(),
                            Round::Break => break,
                            Round::Panic => std::panic::resume_unwind(Box::new("on purpose")),
                        }
                    }
                }
            }));
        });
        prop_assert_eq!(endings(&batches(&store)), expected);
    }
}
