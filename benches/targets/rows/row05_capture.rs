//! Row 5: a complete capture against the bare system calls that it cannot do without. What it does not read each time (the
//! frequency and the swap counters where they cannot change, the limits of a container) the bare calls do not read either.

use crate::measure::{Cases, Report};
use crate::peers::{bare, telemetry};
use crate::row::{Bound, Contender, Line, ROUNDS, Row, Unit, Value};

const CAPTURE: &str = "capture";
const BARE: &str = "bare calls";
const NAIVE: &str = "bare calls, constant sources too";
const PROCESS: &str = "the process alone";
const LIGHT: &str = "what a thread used";
const JSON: &str = "its JSON";
const JSON_BY_SERDE: &str = "the same by serde_json";

pub(crate) static ROW: Row = Row {
    number: 5,
    rounds: ROUNDS,
    contenders: &[Contender { name: "ours", run: ours }],
    lines: &[
        Line {
            what: "complete capture",
            ours: Value::of("ours", CAPTURE),
            theirs: Some(("the same sources, nothing parsed", Value::of("ours", BARE))),
            unit: Unit::Nanoseconds,
            bound: Bound::AtMost(1.25),
        },
        Line {
            what: "complete capture",
            ours: Value::of("ours", CAPTURE),
            theirs: Some(("all sources, constant ones too", Value::of("ours", NAIVE))),
            unit: Unit::Nanoseconds,
            bound: Bound::None,
        },
        Line {
            what: "the process alone",
            ours: Value::of("ours", PROCESS),
            theirs: None,
            unit: Unit::Nanoseconds,
            bound: Bound::None,
        },
        Line {
            what: "what a thread used",
            ours: Value::of("ours", LIGHT),
            theirs: None,
            unit: Unit::Nanoseconds,
            bound: Bound::None,
        },
        Line {
            what: "a capture as JSON, writer",
            ours: Value::of("ours", JSON),
            theirs: Some(("serde_json, typed", Value::of("ours", JSON_BY_SERDE))),
            unit: Unit::Nanoseconds,
            bound: Bound::AtMost(1.0),
        },
    ],
};

const CALLS: u32 = 200;

fn ours(report: &mut Report) {
    telemetry::close_inherited();
    let capture = telemetry::complete();
    let (mut same, mut naive) = bare::Calls::same_and_naive();
    let mut bytes = Vec::new();
    let mut process = Vec::new();
    let one = telemetry::process_only();
    let mut text = Vec::new();
    let taken = telemetry::taken(&capture);
    let typed = taken.decode();
    Cases::pure()
        .case(CAPTURE, CALLS, || telemetry::capture_into(&capture, &mut bytes))
        .case(BARE, CALLS, || same.make())
        .case(NAIVE, CALLS, || naive.make())
        .case(PROCESS, CALLS, || telemetry::capture_types_into(&capture, one, &mut process))
        .case(LIGHT, CALLS, telemetry::light)
        .case(JSON, CALLS, || taken.write_json(&mut text))
        .measure(report);
    let mut text = Vec::new();
    Cases::pure()
        .case(JSON_BY_SERDE, CALLS, || {
            text.clear();
            serde_json::to_writer(&mut text, &typed).expect("JSON");
        })
        .measure(report);
}
