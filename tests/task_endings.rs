//! However a task ends, its record says so.

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;
use std::time::Duration;

use runlore::record::Status;
use runlore::{task, telemetry_task};

use crate::support::{record, the, tree};

#[derive(Debug)]
struct ConfigError(io::Error);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the configuration cannot be read")
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

#[telemetry_task]
fn returns_a_value() -> i32 {
    7
}

#[telemetry_task]
fn returns_nothing() {}

#[telemetry_task]
fn returns_ok() -> Result<i32, ConfigError> {
    Ok(1)
}

#[telemetry_task]
fn returns_an_error_with_a_source() -> Result<i32, ConfigError> {
    Err(ConfigError(io::Error::new(io::ErrorKind::NotFound, "no such file")))
}

#[telemetry_task]
fn returns_a_boxed_error() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let _: i32 = "x".parse()?;
    Ok(())
}

#[telemetry_task]
fn returns_a_string_error() -> Result<(), String> {
    Err("plain text".to_owned())
}

#[derive(Debug)]
struct OnlyDebug;

#[telemetry_task]
fn returns_a_debug_error() -> Result<(), OnlyDebug> {
    Err(OnlyDebug)
}

struct Mute;

#[telemetry_task]
fn returns_a_mute_error() -> Result<(), Mute> {
    Err(Mute)
}

#[telemetry_task]
fn returns_none() -> Option<i32> {
    None
}

#[telemetry_task(fail_if = ret.is_none())]
fn returns_none_as_a_failure() -> Option<i32> {
    None
}

#[telemetry_task]
fn panics_with_a_message() {
    panic!("out of {}", "luck");
}

#[telemetry_task]
fn leaves_early(input: &str) -> Result<i32, std::num::ParseIntError> {
    let number: i32 = input.parse()?;
    Ok(number)
}

#[telemetry_task]
async fn async_value() -> i32 {
    tokio::task::yield_now().await;
    3
}

#[telemetry_task]
async fn async_error() -> Result<(), String> {
    tokio::task::yield_now().await;
    Err("async failure".to_owned())
}

#[telemetry_task]
async fn async_panic() {
    tokio::task::yield_now().await;
    panic!("async panic");
}

#[telemetry_task]
async fn async_cancelled() {
    std::future::pending::<()>().await;
}

#[telemetry_task]
async fn never_polled() {}

fn quietly(work: impl FnOnce()) {
    assert!(catch_unwind(AssertUnwindSafe(work)).is_err(), "the panic goes on");
}

#[test]
fn every_ending_of_a_function_is_told() {
    let store = record(|| {
        returns_a_value();
        returns_nothing();
        _ = returns_ok();
        _ = returns_an_error_with_a_source();
        _ = returns_a_boxed_error();
        _ = returns_a_string_error();
        _ = returns_a_debug_error();
        _ = returns_a_mute_error();
        returns_none();
        returns_none_as_a_failure();
        quietly(panics_with_a_message);
        _ = leaves_early("12");
        _ = leaves_early("x");
    });
    insta::assert_snapshot!(tree(&store), @r#"
    returns_a_value  FINISHED  → value=7
    returns_nothing  FINISHED
    returns_ok  FINISHED  → value=1
    returns_an_error_with_a_source  ERROR  the configuration cannot be read: no such file
    returns_a_boxed_error  ERROR  invalid digit found in string
    returns_a_string_error  ERROR  plain text
    returns_a_debug_error  ERROR  OnlyDebug
    returns_a_mute_error  ERROR  suite::task_endings::Mute
    returns_none  FINISHED  → value=null
    returns_none_as_a_failure  ERROR  → value=null  ret.is_none()
    panics_with_a_message  ERROR  out of luck
    leaves_early  FINISHED  input="12" → value=12
    leaves_early  ERROR  input="x"  invalid digit found in string
    "#);

    let chain = the(&store, "returns_an_error_with_a_source");
    let error = chain.error.unwrap();
    assert_eq!(error.chain, ["no such file"]);
    assert!(error.type_name.unwrap().ends_with("ConfigError"));
    assert_eq!(chain.stderr.unwrap(), "the configuration cannot be read: no such file");
    assert_eq!(the(&store, "panics_with_a_message").error.unwrap().kind.unwrap(), "panic");
}

#[test]
fn every_ending_of_a_future_is_told() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let store = record(|| {
        runtime.block_on(async {
            async_value().await;
            _ = async_error().await;
            let mut cancelled = Box::pin(async_cancelled());
            std::future::poll_fn(|context| {
                assert!(cancelled.as_mut().poll(context).is_pending());
                Poll::Ready(())
            })
            .await;
            std::thread::sleep(Duration::from_millis(4));
            drop(cancelled);
            drop(never_polled());
        });
        quietly(|| runtime.block_on(async_panic()));
    });
    insta::assert_snapshot!(tree(&store), @r#"
    async_value  FINISHED  → value=3
    async_error  ERROR  async failure
    async_cancelled  ERROR  cancelled: the future was dropped before it finished
    async_panic  ERROR  async panic
    "#);
    assert_eq!(the(&store, "async_cancelled").error.unwrap().kind.unwrap(), "cancelled");
    assert!(the(&store, "async_cancelled").duration().unwrap() >= Duration::from_millis(4));
}

#[test]
fn every_ending_of_a_block_is_told() {
    fn left_by_question_mark() -> Result<(), std::num::ParseIntError> {
        let block = task("left by ?").start();
        let _: i32 = "x".parse()?;
        block.finish();
        Ok(())
    }
    let store = record(|| {
        let mut block = task("finished").used("n", 1).tag("a").subtype("step").start();
        block.generated("rows", [1, 2]);
        block.finish();
        _ = left_by_question_mark();
        for n in 0..3 {
            let iteration = task("iteration").used("n", n).group("loop").start();
            if n == 1 {
                break;
            }
            iteration.finish();
        }
        let mut block = task("failed").start();
        block.fail(io::Error::other("disk full"));
        block.finish();
        quietly(|| {
            let _block = task("panicked").start();
            panic!("inside a block");
        });
        task("closure").run(|| runlore::generated("rows", 3));
        _ = task("closure that fails").try_run(|| "x".parse::<i32>());
        quietly(|| task("closure that panics").run(|| panic!("inside a closure")));
        task("says that it failed").run(|| runlore::fail(io::Error::other("told from inside")));
    });
    insta::assert_snapshot!(tree(&store), @r#"
    finished  FINISHED  n=1 → rows=[1,2]
    left by ?  FINISHED  (ended early)
    iteration  FINISHED  n=0
    iteration  FINISHED  n=1  (ended early)
    failed  ERROR  disk full
    panicked  ERROR  inside a block
    closure  FINISHED  → rows=3
    closure that fails  ERROR  invalid digit found in string
    closure that panics  ERROR  inside a closure
    says that it failed  ERROR  told from inside
    "#);
    let left = the(&store, "left by ?");
    assert_eq!((left.status, left.ended_early), (Some(Status::Finished), Some(true)));
    let finished = the(&store, "finished");
    assert_eq!(finished.ended_early, None);
    assert_eq!(finished.tags.unwrap(), ["a"]);
    assert_eq!(finished.subtype.unwrap(), "step");
    assert_eq!(finished.code.unwrap().file.unwrap(), file!());
}

#[test]
fn a_task_that_is_still_open_is_there_as_running() {
    let store = runlore::store::MemoryStore::new();
    let run = runlore::workflow("test").store(store.clone()).start().unwrap();
    let open = task("open").used("n", 1).start();
    run.finish().unwrap();
    let running = the(&store, "open");
    assert_eq!(running.status, Some(Status::Running));
    assert_eq!(running.used.unwrap()["n"], 1);
    assert_eq!(running.ended_at, None);

    // It outlives its workflow: the full record still comes.
    open.finish();
    runlore::flush().unwrap();
    let states: Vec<_> = store.tasks().iter().map(|task| task.status.unwrap()).collect();
    assert_eq!(states, [Status::Running, Status::Finished]);
}

#[test]
fn tasks_by_hand_fail_with_what_people_return() {
    use anyhow::Context as _;

    fn wrapped<E: std::error::Error>(error: E) -> Result<(), E> {
        task("generic").try_run(|| Err(error))
    }
    let missing = || io::Error::other("no such file");
    let store = record(|| {
        _ = task("error").try_run(|| Err::<(), _>(missing()));
        _ = task("anyhow").try_run(|| Err::<(), _>(missing()).context("cannot read the settings"));
        _ = task("boxed").try_run(|| Err::<(), Box<dyn std::error::Error>>(missing().into()));
        _ = task("sent")
            .try_run(|| Err::<(), Box<dyn std::error::Error + Send + Sync>>(missing().into()));
        _ = task("box").try_run(|| Err::<(), _>(Box::new(missing())));
        _ = task("text").try_run(|| Err::<(), _>("no luck".to_owned()));
        _ = task("static text").try_run(|| Err::<(), _>("no luck"));
        _ = wrapped(missing());
        let tracked = async {
            let later = async { Err::<(), _>(anyhow::anyhow!("later")) };
            _ = task("tracked").try_track(later).await;
        };
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(tracked);
    });
    insta::assert_snapshot!(tree(&store), @"
    error  ERROR  no such file
    anyhow  ERROR  cannot read the settings: no such file
    boxed  ERROR  no such file
    sent  ERROR  no such file
    box  ERROR  no such file
    text  ERROR  no luck
    static text  ERROR  no luck
    generic  ERROR  no such file
    tracked  ERROR  later
    ");
    let error = the(&store, "anyhow").error.unwrap();
    assert_eq!(error.type_name.as_deref(), Some("anyhow::Error"));
    assert_eq!(error.chain, ["no such file"]);
}
