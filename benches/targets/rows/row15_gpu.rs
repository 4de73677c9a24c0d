//! Row 15: graphics processors, from the caller's side. There need be none: AMD's stub answers for two, at once, so that what
//! is measured is ours: waking the thread that reads, its reading, and waiting for it.

use runlore::telemetry::{TelemetryCapture, TelemetryType, Types};

use crate::measure::{Cases, Report};
use crate::peers::{gpu, telemetry};
use crate::row::{Bound, Contender, Line, ROUNDS, Row, Unit, Value};

const FRESH: &str = "fresh";
const SHARED: &str = "shared";
const LATE: &str = "late";

pub(crate) static ROW: Row = Row {
    number: 15,
    rounds: ROUNDS,
    contenders: &[Contender { name: "ours", run: ours }],
    lines: &[
        Line {
            what: "two graphics processors, read for this capture",
            ours: Value::of("ours", FRESH),
            theirs: None,
            unit: Unit::Nanoseconds,
            bound: Bound::None,
        },
        Line {
            what: "the same, a young reading shared",
            ours: Value::of("ours", SHARED),
            theirs: None,
            unit: Unit::Nanoseconds,
            bound: Bound::None,
        },
        Line {
            what: "the same, while the driver hangs",
            ours: Value::of("ours", LATE),
            theirs: None,
            unit: Unit::Nanoseconds,
            bound: Bound::None,
        },
    ],
};

fn ours(report: &mut Report) {
    telemetry::close_inherited();
    gpu::install_stub();
    let types = Types::from([TelemetryType::Gpu]);
    let fresh = gpu::capture("0s");
    let shared = gpu::capture("1h");
    let (mut one, mut other) = (Vec::new(), Vec::new());
    Cases::pure()
        .case(FRESH, 100, || telemetry::capture_types_into(&fresh, types, &mut one))
        .case(SHARED, 100, || telemetry::capture_types_into(&shared, types, &mut other))
        .measure(report);
    gpu::hang();
    let late = |capture: &TelemetryCapture| capture.capture().gpu.is_none();
    assert!(late(&fresh), "it waited for a driver that hangs");
    Cases::pure()
        .case(LATE, 100, || telemetry::capture_types_into(&fresh, types, &mut one))
        .measure(report);
    gpu::go_on();
}
