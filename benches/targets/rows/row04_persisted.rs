//! Row 4: the same record, written to a file as JSON.

use crate::clock::process_cpu_ns;
use crate::measure::{Cases, RECORDS, Report, steadily};
use crate::peers::{ours, tracing};
use crate::row::{Bound, Contender, Line, ROUNDS, Row, Unit, Value};

const CALLER: &str = "caller";
const TOGETHER: &str = "caller and writer";

pub(crate) static ROW: Row = Row {
    number: 4,
    rounds: ROUNDS,
    contenders: &[
        Contender { name: "ours", run: ours },
        Contender { name: "tracing", run: tracing },
    ],
    lines: &[
        line("one record as JSONL, caller's thread", CALLER, 0.05),
        line("one record as JSONL, caller and writer", TOGETHER, 0.25),
    ],
};

const fn line(what: &'static str, case: &'static str, most: f64) -> Line {
    Line {
        what,
        ours: Value::of("ours", case),
        theirs: Some(("tracing, JSON, non-blocking", Value::of("tracing", case))),
        unit: Unit::Nanoseconds,
        bound: Bound::AtMost(most),
    }
}

fn ours(report: &mut Report) {
    let run = ours::to_jsonl();
    let calls = Cases::queued().case(CALLER, RECORDS, ours::leaf).measure(report);
    runlore::flush().expect("the writer answers");
    let before = process_cpu_ns();
    let records = steadily(ours::leaf);
    runlore::flush().expect("the writer answers");
    report.add(TOGETHER, (process_cpu_ns() - before) as f64 / records as f64);
    ours::finish(run, calls + records);
}

fn tracing(report: &mut Report) {
    let writer = tracing::to_json();
    let calls = Cases::queued().case(CALLER, RECORDS, tracing::leaf).measure(report);
    let before = process_cpu_ns();
    let records = steadily(tracing::leaf);
    drop(writer);
    report.add(TOGETHER, (process_cpu_ns() - before) as f64 / records as f64);
    let text = std::fs::read_to_string(tracing::FILE).expect("the file is there");
    assert_eq!(text.lines().count() as u64, calls + records, "lines written");
}
