//! Row 3: three tasks inside each other.

use crate::measure::{Cases, RECORDS, Report};
use crate::peers::otel::Otel;
use crate::peers::{fastrace, otel, ours, tracing};
use crate::row::{Bound, Contender, Line, ROUNDS, Row, Unit, Value};

const NESTED: &str = "nested";

/// Calls a batch: three records each.
const CALLS: u32 = RECORDS / 3;

pub(crate) static ROW: Row = Row {
    number: 3,
    rounds: ROUNDS,
    contenders: &[
        Contender { name: "ours", run: ours },
        Contender { name: "otel", run: otel },
        Contender { name: "tracing", run: tracing },
        Contender { name: "fastrace", run: fastrace },
    ],
    lines: &[
        line("OpenTelemetry, batch processor", "otel", Bound::AtMost(0.45)),
        line("tracing, no-op layer", "tracing", Bound::AtMost(1.0)),
        line("fastrace, dropping reporter", "fastrace", Bound::None),
    ],
};

const fn line(against: &'static str, contender: &'static str, bound: Bound) -> Line {
    Line {
        what: "three nested records",
        ours: Value::of("ours", NESTED),
        theirs: Some((against, Value::of(contender, NESTED))),
        unit: Unit::Nanoseconds,
        bound,
    }
}

fn ours(report: &mut Report) {
    let run = ours::to_nowhere();
    let calls = Cases::queued().case(NESTED, CALLS, ours::nested).measure(report);
    ours::finish(run, 3 * calls);
}

fn otel(report: &mut Report) {
    let otel = Otel::new();
    let calls = Cases::queued().case(NESTED, CALLS, || otel::nested(&otel.tracer)).measure(report);
    otel.finish(3 * calls);
}

fn tracing(report: &mut Report) {
    tracing::to_nothing();
    Cases::queued().case(NESTED, CALLS, tracing::nested).measure(report);
}

fn fastrace(report: &mut Report) {
    let reported = fastrace::start();
    // A hundred calls a root: whole hundreds, so that the calls counted are the calls made.
    let calls = Cases::queued()
        .batch(NESTED, 200, |calls| fastrace::under_roots(calls, fastrace::nested))
        .measure(report);
    ::fastrace::flush();
    let reported = reported.load(std::sync::atomic::Ordering::Relaxed);
    assert!(reported >= 3 * calls, "{reported} of {} spans were reported", 3 * calls);
}
