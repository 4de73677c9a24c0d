//! Row 7: a task with complete telemetry, from call to return.

use runlore::telemetry_task;

use crate::measure::{Cases, Report};
use crate::peers::{ours, telemetry};
use crate::row::{Bound, Contender, Line, ROUNDS, Row, Unit, Value};

const TASK: &str = "task";
const LIGHT: &str = "light task";
const CAPTURE: &str = "capture";

pub(crate) static ROW: Row = Row {
    number: 7,
    rounds: ROUNDS,
    contenders: &[Contender { name: "ours", run: ours }],
    lines: &[
        Line {
            what: "a task with complete telemetry",
            ours: Value::of("ours", TASK),
            theirs: Some(("two captures", Value::of("ours", CAPTURE).per(0.5))),
            unit: Unit::Nanoseconds,
            bound: Bound::AtMost(1.10),
        },
        Line {
            what: "a task with light telemetry",
            ours: Value::of("ours", LIGHT),
            theirs: None,
            unit: Unit::Nanoseconds,
            bound: Bound::None,
        },
    ],
};

#[telemetry_task(telemetry(cpu, per_cpu, process_info, mem, disk, network))]
#[inline(never)]
fn measured() {}

#[telemetry_task(telemetry = "light")]
#[inline(never)]
fn light() {}

/// Tasks a batch: their records fill a quarter of a queue.
const CALLS: u32 = 30;

fn ours(report: &mut Report) {
    telemetry::close_inherited();
    let run = ours::to_nowhere();
    let capture = telemetry::complete();
    let mut bytes = Vec::new();
    let mut captures = 0;
    let calls = Cases::queued()
        .case(TASK, CALLS, measured)
        .case(CAPTURE, CALLS, || {
            captures += 1;
            telemetry::capture_into(&capture, &mut bytes);
        })
        .case(LIGHT, CALLS, light)
        .measure(report);
    ours::finish(run, calls - captures);
}
