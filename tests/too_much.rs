//! Tasks that hold more than their queue or the recorder's memory takes.

use runlore::record::Status;
use runlore::store::MemoryStore;
use runlore::telemetry::{TelemetryChoice, TelemetryType};

use serde_json::Value;

use super::support::{child, expect_success, finished_in_time, is_child, record, the};

/// Runs a test again, in a process with queues of this size.
fn with_queues(test: &str, size: &str) -> bool {
    if is_child(test) {
        return false;
    }
    let mut command = child(test);
    command.env("RUNLORE_RECORDER__RING_BYTES", size);
    // However busy the machine is, waiting is all that happens.
    command.env("RUNLORE_RECORDER__MAX_WAIT_MS", "60s");
    expect_success(&finished_in_time(command));
    true
}

#[test]
fn of_too_many_values_the_largest_go_first_and_keep_their_hashes() {
    if with_queues(
        "too_much::of_too_many_values_the_largest_go_first_and_keep_their_hashes",
        "16KiB",
    ) {
        return;
    }
    let store = MemoryStore::new();
    let run = runlore::workflow("test").store(store.clone()).start().unwrap();
    let task = runlore::task("large").used("short", "a".repeat(1000));
    let task = task.used("long", "b".repeat(3000)).used("longer", "c".repeat(3500));
    task.telemetry(TelemetryChoice::None).run(|| ());
    let mut block = runlore::task("small").telemetry(TelemetryChoice::None).start();
    block.generated("long", "b".repeat(3000));
    block.generated("longer", "c".repeat(3500));
    block.finish();
    run.finish().unwrap();

    let task = the(&store, "large");
    let used = task.used.unwrap();
    assert_eq!(used["short"], "a".repeat(1000));
    assert!(used["long"].is_null() && used["longer"].is_null(), "{used:?}");
    let reasons = task.unavailable.unwrap();
    assert_eq!(reasons["used.longer"], "the record was too large for its queue");
    assert_eq!(reasons["used.long"], "the record was too large for its queue");
    let whole = serde_json::json!("b".repeat(3000));
    assert_eq!(task.hashes.unwrap()["used"]["long"], runlore::record::hash_of(&whole));

    let task = the(&store, "small");
    let generated = task.generated.unwrap();
    assert_eq!(generated["long"], "b".repeat(3000));
    assert!(generated["longer"].is_null());
    assert_eq!(task.status, Some(Status::Finished));
}

#[test]
fn telemetry_goes_before_values() {
    if with_queues("too_much::telemetry_goes_before_values", "16KiB") {
        return;
    }
    let store = MemoryStore::new();
    let run = runlore::workflow("test").store(store.clone()).start().unwrap();
    let types = &[
        TelemetryType::Cpu,
        TelemetryType::Mem,
        TelemetryType::Disk,
        TelemetryType::Network,
        TelemetryType::ProcessInfo,
    ];
    let task = runlore::task("measured").telemetry(TelemetryChoice::Types(types));
    task.used("value", "a".repeat(3300)).run(|| ());
    run.finish().unwrap();
    let task = the(&store, "measured");
    assert_eq!(task.used.unwrap()["value"], "a".repeat(3300));
    let telemetry = task.telemetry_at_start.unwrap();
    let too_large = |(_, why): &(&String, &Value)| *why == "the record was too large for its queue";
    let reasons = telemetry["unavailable"].as_object().unwrap();
    let shed: Vec<&String> = reasons.iter().filter(too_large).map(|(part, _)| part).collect();
    assert!(!shed.is_empty(), "{reasons:?}");
    let ended = task.telemetry_at_end.unwrap();
    for part in shed {
        assert!(telemetry.get(part).is_none() && ended.get(part).is_some(), "{part}");
    }
}

#[test]
fn a_value_told_again_and_again_is_told_once() {
    if with_queues("too_much::a_value_told_again_and_again_is_told_once", "256KiB") {
        return;
    }
    let store = record(|| {
        runlore::task("train")
            .run(|| (0..50_000).for_each(|step| runlore::generated("step", step)));
        let mut block = runlore::task("block").start();
        (0..50_000).for_each(|step| block.generated("step", step));
        block.finish();
    });
    for name in ["train", "block"] {
        let task = the(&store, name);
        assert_eq!(serde_json::json!(task.generated), serde_json::json!({"step": 49_999}));
        assert_eq!(task.unavailable.map(|reasons| reasons.contains_key("generated")), None);
    }
}

const ENDLESS: &str =
    "too_much::a_task_that_gives_without_end_keeps_the_newest_and_counts_the_others";

#[test]
fn a_task_that_gives_without_end_keeps_the_newest_and_counts_the_others() {
    if with_queues(ENDLESS, "256KiB") {
        return;
    }
    let store = record(|| {
        runlore::task("endless").run(|| {
            runlore::task("inside").run(|| ());
            (0..30_000).for_each(|at| runlore::generated(&format!("value {at}"), at));
        });
        let mut block = runlore::task("block").start();
        (0..30_000).for_each(|at| block.generated(&format!("value {at}"), at));
        block.finish();
    });
    for name in ["endless", "block"] {
        let task = the(&store, name);
        let generated = task.generated.unwrap();
        assert_eq!(generated["value 29999"], 29_999);
        assert!((500..20_000).contains(&generated.len()), "{}", generated.len());
        let missing = 30_000 - generated.len();
        assert_eq!(
            task.unavailable.unwrap()["generated"],
            format!("{missing} more were told than a record holds")
        );
    }
}
