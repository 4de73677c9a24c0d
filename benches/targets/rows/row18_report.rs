//! Row 18: the report of a run of 100,000 tasks, out of each store that is a file.
//!
//! The processor time of all that `runlore report` does: open the store, list its runs, read the tasks, analyse them, and
//! write the page.

use std::path::PathBuf;
use std::thread;

use runlore::Provenance;
use runlore::report::RunReport;

use crate::clock::process_cpu_ns;
use crate::compare::scratch;
use crate::measure::Report;
use crate::row::{Bound, Contender, Line, Row, Unit, Value};

const TIME: &str = "time";
const SIZE: &str = "size";
/// Each makes four tasks more.
const PARTS: u64 = 20_000;
const TASKS: u64 = 5 * PARTS;
const THREADS: u64 = 4;

const fn time(what: &'static str, contender: &'static str) -> Line {
    Line {
        what,
        ours: Value::of(contender, TIME),
        theirs: None,
        unit: Unit::Nanoseconds,
        bound: Bound::Below(5e9),
    }
}

pub(crate) static ROW: Row = Row {
    number: 18,
    rounds: 3,
    contenders: &[
        Contender { name: "JSON lines", run: json_lines },
        Contender { name: "SQLite", run: sqlite },
    ],
    lines: &[
        time(
            "a report of 100,000 tasks with telemetry in JSON lines, the process's time",
            "JSON lines",
        ),
        time("the same, in SQLite", "SQLite"),
        Line {
            what: "the page",
            ours: Value::of("JSON lines", SIZE),
            theirs: None,
            unit: Unit::Mebibytes,
            bound: Bound::Below(1.0),
        },
    ],
};

#[runlore::telemetry_task(output = "rows")]
fn load(part: u64) -> Vec<u64> {
    (0..64 + part % 64).map(|row| row * part).collect()
}

#[runlore::telemetry_task(output = "kept")]
fn clean(rows: Vec<u64>) -> Vec<u64> {
    rows.into_iter().filter(|row| row % 3 != 0).collect()
}

#[runlore::telemetry_task(output = "sum")]
fn add_up(kept: &[u64], part: u64) -> Result<u64, String> {
    match part % 1000 {
        7 => Err(format!("nothing is left of part {}", part % 5)),
        _ => Ok(kept.iter().sum()),
    }
}

#[runlore::telemetry_task]
fn part(number: u64) {
    let kept = clean(load(number));
    if let Ok(sum) = add_up(&kept, number) {
        runlore::task("save").used("sum", sum).run(|| ());
    } else {
        runlore::task("give up").run(|| ());
    }
}

/// The run, recorded once for all rounds with the telemetry that is the default.
fn recorded(name: &str, uri: impl Fn(&str) -> String) -> PathBuf {
    let place = scratch().join(name);
    if place.exists() {
        return place;
    }
    let new = scratch().join(format!("new-{name}"));
    _ = std::fs::remove_dir_all(&new);
    _ = std::fs::remove_file(&new);
    let run = runlore::workflow("nightly").store(uri(&new.display().to_string()));
    let run = run.start().expect("the run starts");
    let context = runlore::current();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                let _inside = context.enter();
                (thread..PARTS).step_by(THREADS as usize).for_each(part);
            });
        }
    });
    let totals = run.finish().expect("the run is stored");
    assert_eq!((totals.tasks, totals.dropped), (TASKS, 0));
    std::fs::rename(&new, &place).expect("the store gets its name");
    place
}

fn json_lines(report: &mut Report) {
    let folder = recorded("row18", str::to_owned);
    measure(&folder.display().to_string(), report);
}

fn sqlite(report: &mut Report) {
    let uri = |path: &str| format!("sqlite://{path}");
    let file = recorded("row18.db", uri);
    measure(&uri(&file.display().to_string()), report);
}

fn measure(store: &str, report: &mut Report) {
    let before = process_cpu_ns();
    let records = Provenance::open(store).expect("the store opens");
    let runs = records.list_runs().expect("the store is read");
    let id = &runs[0].workflow.workflow_id;
    let made = RunReport::builder(&records, id).runs(&runs).build().expect("the run is read");
    let page = made.to_html();
    let spent = process_cpu_ns() - before;
    assert_eq!(made.tasks.tasks, TASKS);
    assert!(!made.findings.is_empty());
    report.add(TIME, spent as f64);
    report.add(SIZE, page.len() as f64 / 1_048_576.0);
}
