//! Row 11: memory of a million tasks.

use crate::measure::{Report, peak_resident_mib};
use crate::peers::{ours, plain};
use crate::row::{Bound, Contender, Line, Row, Unit, Value};

const AT_100_K: &str = "after 100,000";
const AT_1_M: &str = "after 1,000,000";

pub(crate) static ROW: Row = Row {
    number: 11,
    rounds: 3,
    contenders: &[
        Contender { name: "ours", run: ours },
        Contender { name: "spilling", run: spilling },
        Contender { name: "plain", run: plain },
    ],
    lines: &[
        Line {
            what: "peak memory of 1,000,000 tasks, above a twin without",
            ours: Value::of("ours", AT_1_M).minus("plain", AT_1_M),
            theirs: None,
            unit: Unit::Mebibytes,
            bound: Bound::Below(64.0),
        },
        Line {
            what: "its growth between 100,000 and 1,000,000 tasks",
            ours: Value::of("ours", AT_1_M).minus("ours", AT_100_K),
            theirs: None,
            unit: Unit::Mebibytes,
            // The allocator's own ups and downs; a byte a task would show as 0.86.
            bound: Bound::Below(0.5),
        },
        Line {
            what: "peak memory while threads spill, above a twin without",
            ours: Value::of("spilling", AT_1_M).minus("plain", AT_1_M),
            theirs: None,
            unit: Unit::Mebibytes,
            bound: Bound::Below(64.0),
        },
        Line {
            what: "its growth between 100,000 and 1,000,000 tasks",
            ours: Value::of("spilling", AT_1_M).minus("spilling", AT_100_K),
            theirs: None,
            unit: Unit::Mebibytes,
            bound: Bound::Below(0.5),
        },
    ],
};

fn ours(report: &mut Report) {
    let run = ours::to_jsonl();
    tasks(report, ours::leaf);
    ours::finish(run, 1_000_000);
}

/// With a queue so small that the writer cannot keep up.
fn spilling(report: &mut Report) {
    std::fs::write("settings.yaml", "recorder:\n  ring_bytes: 16KiB\n").expect("settings");
    let run = ours::to_jsonl();
    tasks(report, ours::leaf);
    let totals = run.finish().expect("everything is stored");
    assert_eq!((totals.tasks, totals.dropped), (1_000_000, 0), "tasks stored and dropped");
    assert!(totals.overflowed > 0, "nothing was spilled");
}

fn plain(report: &mut Report) {
    tasks(report, plain::leaf);
}

/// As fast as they go, so that every queue is as full as it gets.
fn tasks(report: &mut Report, task: fn()) {
    let mut peak = |case| {
        runlore::flush().expect("the writer answers");
        if let Some(peak) = peak_resident_mib() {
            report.add(case, peak);
        }
    };
    for _ in 0..100_000 {
        task();
    }
    peak(AT_100_K);
    for _ in 100_000..1_000_000 {
        task();
    }
    peak(AT_1_M);
}
