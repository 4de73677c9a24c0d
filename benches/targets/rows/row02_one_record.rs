//! Row 2: one record without host telemetry, on the caller's thread.

use std::time::Instant;

use crate::measure::{Cases, RECORDS, Report};
use crate::peers::otel::Otel;
use crate::peers::{block_on, fastrace, otel, ours, tracing};
use crate::row::{Bound, Contender, Line, ROUNDS, Row, Unit, Value};

const LEAF: &str = "leaf";
const ASYNC: &str = "async";
const FLAT_OUT: &str = "flat out";

pub(crate) static ROW: Row = Row {
    number: 2,
    rounds: ROUNDS,
    contenders: &[
        Contender { name: "ours", run: ours },
        Contender { name: "ours, flat out", run: ours_flat_out },
        Contender { name: "otel", run: otel },
        Contender { name: "tracing", run: tracing },
        Contender { name: "fastrace", run: fastrace },
        Contender { name: "two clocks", run: two_clocks },
    ],
    lines: &[
        line("one record", "OpenTelemetry, batch processor", "otel", Bound::AtMost(0.5)),
        line("one record", "tracing, no-op layer", "tracing", Bound::AtMost(1.5)),
        line("one record", "fastrace, dropping reporter", "fastrace", Bound::None),
        line("one record", "the clock read twice, nothing else", "two clocks", Bound::None),
        Line {
            what: "one record, async",
            ours: Value::of("ours", ASYNC),
            theirs: Some(("tracing, no-op layer", Value::of("tracing", ASYNC))),
            unit: Unit::Nanoseconds,
            bound: Bound::None,
        },
        Line {
            what: "one record, the queue always full",
            ours: Value::of("ours, flat out", FLAT_OUT),
            theirs: Some(("ours, the queue below half", Value::of("ours", LEAF))),
            unit: Unit::Nanoseconds,
            bound: Bound::None,
        },
    ],
};

const fn line(
    what: &'static str,
    against: &'static str,
    contender: &'static str,
    bound: Bound,
) -> Line {
    Line {
        what,
        ours: Value::of("ours", LEAF),
        theirs: Some((against, Value::of(contender, LEAF))),
        unit: Unit::Nanoseconds,
        bound,
    }
}

fn ours(report: &mut Report) {
    let run = ours::to_nowhere();
    let calls = Cases::queued()
        .case(LEAF, RECORDS, ours::leaf)
        .case(ASYNC, RECORDS, || block_on!(ours::leaf_async()))
        .measure(report);
    ours::finish(run, calls);
}

fn ours_flat_out(report: &mut Report) {
    let run = ours::to_nowhere();
    let calls = Cases::pure().case(FLAT_OUT, 50_000, ours::leaf).measure(report);
    ours::finish(run, calls);
}

fn otel(report: &mut Report) {
    let otel = Otel::new();
    let spans = Cases::queued().case(LEAF, RECORDS, || otel::leaf(&otel.tracer)).measure(report);
    otel.finish(spans);
}

fn tracing(report: &mut Report) {
    tracing::to_nothing();
    Cases::queued()
        .case(LEAF, RECORDS, tracing::leaf)
        .case(ASYNC, RECORDS, || block_on!(tracing::leaf_async()))
        .measure(report);
}

/// What no record that has a start and a duration can do without.
fn two_clocks(report: &mut Report) {
    Cases::queued()
        .case(LEAF, RECORDS, || {
            std::hint::black_box(Instant::now());
            std::hint::black_box(Instant::now());
        })
        .measure(report);
}

fn fastrace(report: &mut Report) {
    let reported = fastrace::start();
    let calls = Cases::queued()
        .batch(LEAF, RECORDS, |calls| fastrace::under_roots(calls, fastrace::leaf))
        .measure(report);
    ::fastrace::flush();
    let reported = reported.load(std::sync::atomic::Ordering::Relaxed);
    assert!(reported >= calls, "{reported} of {calls} spans were reported");
}
