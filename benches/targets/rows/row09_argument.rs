//! Row 9: an argument of a thousand numbers, and values that hold others.
//!
//! What an argument adds is the cost of a task that has it, less that of the same task without.

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use runlore::telemetry_task;
use serde::Serialize;

use crate::measure::{Cases, Report, median};
use crate::peers::ours;
use crate::row::{Bound, Contender, Line, ROUNDS, Row, Unit, Value};

const WITHOUT: &str = "task";
const WITH: &str = "task with the slice";
const CLONE: &str = "clone";
const HAND_OVER: &str = "clone and hand over";
const NESTED_0: &str = "nested, no elements";
const NESTED_64: &str = "nested, 64 elements";
const NESTED_10_K: &str = "nested, 10,000 elements";
const NESTED_1_M: &str = "nested, 1,000,000 elements";
const TEXT: &str = "task with the text";
const LONGEST: &str = "task with the longest slice";

/// The items of one collection that a record holds, unless something else is set.
const ITEMS: usize = 64;

pub(crate) static ROW: Row = Row {
    number: 9,
    rounds: ROUNDS,
    contenders: &[
        Contender { name: "ours", run: ours },
        Contender { name: "ours, no hash", run: ours_without_hash },
        Contender { name: "hand over", run: hand_over },
    ],
    lines: &[
        Line {
            what: "Vec<f64> of 1,000: its summary",
            ours: Value::of("ours, no hash", WITH).minus("ours, no hash", WITHOUT),
            theirs: Some(("a clone of it", Value::of("ours, no hash", CLONE))),
            unit: Unit::Nanoseconds,
            bound: Bound::AtMost(1.5),
        },
        Line {
            what: "Vec<f64> of 1,000: its summary and hash",
            ours: Value::of("ours", WITH).minus("ours", WITHOUT),
            theirs: Some(("a clone given to a thread", Value::of("hand over", HAND_OVER))),
            unit: Unit::Nanoseconds,
            bound: Bound::AtMost(1.0),
        },
        Line {
            what: "an element of a nested value",
            ours: Value::of("ours", NESTED_64).minus("ours", NESTED_0).per(ITEMS as f64),
            theirs: None,
            unit: Unit::Nanoseconds,
            bound: Bound::Below(8.0),
        },
        Line {
            what: "an element of a nested value of 10,000, all of it hashed",
            ours: Value::of("ours", NESTED_10_K).minus("ours", NESTED_0).per(10_000.0),
            theirs: None,
            unit: Unit::Nanoseconds,
            bound: Bound::Below(8.0),
        },
        Line {
            what: "a nested value of 1,000,000, with or without its hash",
            ours: Value::of("ours", NESTED_1_M),
            theirs: None,
            unit: Unit::Nanoseconds,
            bound: Bound::Below(5e6),
        },
        Line {
            what: "a text of 4 KiB, looked through for secrets",
            ours: Value::of("ours", TEXT).minus("ours", WITHOUT),
            theirs: None,
            unit: Unit::Nanoseconds,
            bound: Bound::Below(3e3),
        },
        Line {
            what: "a slice of 1 GiB, with or without its hash",
            ours: Value::of("ours", LONGEST),
            theirs: None,
            unit: Unit::Nanoseconds,
            bound: Bound::Below(5e6),
        },
    ],
};

#[derive(Debug, Serialize)]
struct Holder {
    values: Vec<f64>,
}

#[telemetry_task(telemetry = "none")]
#[inline(never)]
fn without(data: i32) {
    black_box(data);
}

#[telemetry_task(telemetry = "none")]
#[inline(never)]
fn with(data: &[f64]) {
    black_box(data);
}

#[telemetry_task(telemetry = "none")]
#[inline(never)]
fn nested(data: &Holder) {
    black_box(data);
}

#[telemetry_task(telemetry = "none")]
#[inline(never)]
fn with_text(data: &str) {
    black_box(data);
}

fn numbers(count: usize) -> Vec<f64> {
    (0..count).map(|n| (n as f64 * 0.37).sin() * 1e3).collect()
}

/// Tasks a batch.
const CALLS: u32 = 200;

fn ours(report: &mut Report) {
    let data = numbers(1_000);
    let holders = [0, ITEMS, 10_000, 1_000_000].map(|count| Holder { values: numbers(count) });
    let [none, some, many, most] = &holders;
    let text = "a text of some words, as it may be. ".repeat(120)[..4096].to_owned();
    // Zeros take no memory before they are written to.
    let longest = vec![0.0_f64; 1 << 27];
    let run = ours::to_nowhere();
    let calls = Cases::queued()
        .case(WITHOUT, CALLS, || without(black_box(1)))
        .case(WITH, CALLS, || with(black_box(&data)))
        .case(NESTED_0, CALLS, || nested(black_box(none)))
        .case(NESTED_64, CALLS / 2, || nested(black_box(some)))
        .case(NESTED_10_K, CALLS / 20, || nested(black_box(many)))
        .case(NESTED_1_M, 1, || nested(black_box(most)))
        // More of them would not fit the queue, and would be appended to the overflow file instead.
        .case(TEXT, CALLS / 4, || with_text(black_box(&text)))
        .case(LONGEST, 1, || with(black_box(&longest)))
        .measure(report);
    ours::finish(run, calls);
}

/// The setting that leaves the hash out is read from the working directory.
fn ours_without_hash(report: &mut Report) {
    std::fs::write("settings.yaml", "instrumentation:\n  hash: none\n").expect("a file");
    let data = numbers(1_000);
    let run = ours::to_nowhere();
    let calls = Cases::queued()
        .case(WITHOUT, CALLS, || without(black_box(1)))
        .case(WITH, CALLS, || with(black_box(&data)))
        .measure(report);
    ours::finish(run, calls);
    Cases::queued()
        .case(CLONE, CALLS, || drop(black_box(black_box(&data).clone())))
        .measure(report);
}

/// The way of those who copy: the clone goes to another thread, which reads and frees it.
///
/// Under the best conditions for them: the other thread is always awake, and done with one clone before the next, whose
/// memory is then still at hand. The wall clock, because a clock of processor time is too slow for a single call; the
/// median passes over the moments when others ran.
fn hand_over(report: &mut Report) {
    const SENDS: usize = 20_000;
    let data = numbers(1_000);
    let (sender, receiver) = thingbuf::mpsc::blocking::channel::<Vec<f64>>(64);
    let done = AtomicUsize::new(0);
    let mut times = Vec::with_capacity(SENDS);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while done.load(Ordering::Relaxed) < SENDS {
                match receiver.try_recv() {
                    Ok(data) => {
                        black_box(data.iter().sum::<f64>());
                        drop(data);
                        done.fetch_add(1, Ordering::Release);
                    }
                    Err(_) => std::hint::spin_loop(),
                }
            }
        });
        for sent in 0..SENDS {
            while done.load(Ordering::Acquire) < sent {
                std::hint::spin_loop();
            }
            let before = Instant::now();
            sender.try_send(black_box(&data).clone()).expect("the channel has room");
            times.push(before.elapsed().as_nanos() as f64);
        }
    });
    let mut nothing: Vec<f64> =
        (0..SENDS).map(|_| Instant::now().elapsed().as_nanos() as f64).collect();
    report.add(HAND_OVER, median(&mut times) - median(&mut nothing));
}
