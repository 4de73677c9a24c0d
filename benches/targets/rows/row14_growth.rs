//! Row 14: what a task costs does not depend on how many there were.

use crate::clock::process_cpu_ns;
use crate::measure::{Cases, RECORDS, Report, steadily};
use crate::peers::ours;
use crate::row::{Bound, Contender, Line, Row, Unit, Value};

const CALLER: [&str; 3] =
    ["caller, after 10,000", "caller, after 100,000", "caller, after 1,000,000"];
const TOGETHER: [&str; 3] = [
    "caller and writer, after 10,000",
    "caller and writer, after 100,000",
    "caller and writer, after 1,000,000",
];

pub(crate) static ROW: Row = Row {
    number: 14,
    rounds: 3,
    contenders: &[Contender { name: "ours", run: ours }],
    lines: &[
        line("one record after 100,000 others, caller", CALLER[1], CALLER[0]),
        line("one record after 1,000,000 others, caller", CALLER[2], CALLER[0]),
        line("the same, caller and writer", TOGETHER[2], TOGETHER[0]),
    ],
};

/// Constant, but for what one measurement differs from the next.
const fn line(what: &'static str, late: &'static str, early: &'static str) -> Line {
    Line {
        what,
        ours: Value::of("ours", late),
        theirs: Some(("after 10,000 others", Value::of("ours", early))),
        unit: Unit::Nanoseconds,
        bound: Bound::AtMost(1.15),
    }
}

fn ours(report: &mut Report) {
    let run = ours::to_jsonl();
    let mut done = 0;
    for (at, after) in [10_000, 100_000, 1_000_000].into_iter().enumerate() {
        while done < after {
            ours::leaf();
            done += 1;
        }
        done += Cases::queued().case(CALLER[at], RECORDS, ours::leaf).measure(report);
        runlore::flush().expect("the writer answers");
        let before = process_cpu_ns();
        let records = steadily(ours::leaf);
        runlore::flush().expect("the writer answers");
        report.add(TOGETHER[at], (process_cpu_ns() - before) as f64 / records as f64);
        done += records;
    }
    ours::finish(run, done);
}
