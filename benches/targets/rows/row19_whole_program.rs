//! Row 19: whole programs with default settings, beside the same without recording.

use std::hint::black_box;

use runlore::telemetry_task;

use crate::clock::process_cpu_ns;
use crate::measure::Report;
use crate::row::{Bound, Contender, Line, ROUNDS, Row, Unit, Value};

const SHORT: &str = "200,000 calls of 10 µs";
const LONG: &str = "2,000 calls of 1 ms";
const STATED: &str = "the overhead that the totals state";

pub(crate) static ROW: Row = Row {
    number: 19,
    rounds: ROUNDS,
    contenders: &[
        Contender { name: "recorded, 10 µs", run: short_recorded },
        Contender { name: "bare, 10 µs", run: short_bare },
        Contender { name: "recorded, 1 ms", run: long_recorded },
        Contender { name: "bare, 1 ms", run: long_bare },
    ],
    lines: &[
        Line {
            what: "200,000 calls of an annotated 10 µs function, the process's time",
            ours: Value::of("recorded, 10 µs", SHORT),
            theirs: Some(("bare", Value::of("bare, 10 µs", SHORT))),
            unit: Unit::Nanoseconds,
            bound: Bound::AtMost(1.15),
        },
        Line {
            what: "2,000 calls of an annotated 1 ms function, the process's time",
            ours: Value::of("recorded, 1 ms", LONG),
            theirs: Some(("bare", Value::of("bare, 1 ms", LONG))),
            unit: Unit::Nanoseconds,
            bound: Bound::AtMost(1.06),
        },
        Line {
            what: "the overhead that the totals of the first state, at most",
            ours: Value::of("recorded, 10 µs", STATED),
            theirs: Some(MEASURED),
            unit: Unit::Nanoseconds,
            bound: Bound::AtMost(1.25),
        },
        Line {
            what: "the same, at least",
            ours: Value::of("recorded, 10 µs", STATED),
            theirs: Some(MEASURED),
            unit: Unit::Nanoseconds,
            bound: Bound::AtLeast(0.75),
        },
    ],
};

const MEASURED: (&str, Value) =
    ("the measured one", Value::of("recorded, 10 µs", SHORT).minus("bare, 10 µs", SHORT));

/// Steps of work that take about 10 µs.
const STEPS: u64 = 9_000;

#[inline(never)]
fn work(steps: u64) -> u64 {
    let mix = |sum: u64, step| black_box(sum.wrapping_mul(6_364_136_223_846_793_005) ^ step);
    (0..steps).fold(steps, mix)
}

#[telemetry_task]
fn annotated(steps: u64) -> u64 {
    work(steps)
}

fn short_recorded(report: &mut Report) {
    recorded(report, SHORT, 200_000, STEPS);
}

fn short_bare(report: &mut Report) {
    bare(report, SHORT, 200_000, STEPS);
}

fn long_recorded(report: &mut Report) {
    recorded(report, LONG, 2_000, 100 * STEPS);
}

fn long_bare(report: &mut Report) {
    bare(report, LONG, 2_000, 100 * STEPS);
}

/// A program as users write it, from its start to its end.
fn recorded(report: &mut Report, case: &str, calls: u64, steps: u64) {
    let run = runlore::workflow("whole").start().expect("the workflow starts");
    for _ in 0..calls {
        black_box(annotated(black_box(steps)));
    }
    let totals = run.finish().expect("everything is stored");
    assert_eq!((totals.tasks, totals.dropped), (calls, 0), "tasks stored and dropped");
    report.add(case, process_cpu_ns() as f64);
    report.add(STATED, totals.overhead_cpu_ns as f64);
}

fn bare(report: &mut Report, case: &str, calls: u64, steps: u64) {
    for _ in 0..calls {
        black_box(work(black_box(steps)));
    }
    report.add(case, process_cpu_ns() as f64);
}
