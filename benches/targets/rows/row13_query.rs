//! Row 13: questions to a million tasks of 1 KB in an SQLite file.
//!
//! The wall time of one question on a connection that has just been opened and has answered none, the document read and
//! parsed: what somebody waits for who asks.

use std::path::PathBuf;
use std::time::Instant;

use runlore::query::{Collection, Find, Source, field};
use runlore::record::Record;
use runlore::store::Sink;
use runlore::store::sqlite::SqliteSource;
use serde_json::json;

use crate::compare::scratch;
use crate::measure::{Report, median};
use crate::row::{Bound, Contender, Line, Row, Unit, Value};

const TASKS: u64 = 1_000_000;
const WORKFLOWS: u64 = 100;
const ACTIVITIES: u64 = 50;
/// Questions of each kind; the median counts.
const QUESTIONS: u64 = 25;

const BY_ID: &str = "by id";
const CHILDREN: &str = "children";
const LAST: &str = "last of a workflow";
const BOTH: &str = "activity and status";
const NEWEST_ERRORS: &str = "newest errors";

const fn line(what: &'static str, case: &'static str) -> Line {
    Line {
        what,
        ours: Value::of("ours", case),
        theirs: None,
        unit: Unit::Nanoseconds,
        bound: Bound::Below(5e6),
    }
}

pub(crate) static ROW: Row = Row {
    number: 13,
    rounds: 3,
    contenders: &[Contender { name: "ours", run: ours }],
    lines: &[
        line("one of 1,000,000 tasks by its id", BY_ID),
        line("the 10 children of a task", CHILDREN),
        line("the last 50 of a workflow of 10,000", LAST),
        line("the 200 tasks of an activity with a status", BOTH),
        line("the 20 newest errors of 10,000", NEWEST_ERRORS),
    ],
};

fn task(number: u64) -> Record {
    let json = json!({
        "type": "task",
        "task_id": id(number),
        "workflow_id": format!("workflow-{}", number / (TASKS / WORKFLOWS)),
        "campaign_id": "campaign",
        "parent_task_id": id(number / 10),
        "activity_id": activity(number),
        "status": if (number / ACTIVITIES).is_multiple_of(100) { "ERROR" } else { "FINISHED" },
        "started_at": 1_763_260_625.0 + number as f64 / 1000.0,
        "ended_at": 1_763_260_625.5 + number as f64 / 1000.0,
        "duration_ns": 500_000_000 + number,
        "used": {"path": format!("/data/part-{number}.bin"), "text": "x".repeat(360)},
        "generated": {"value": number, "text": "y".repeat(240)},
        "hostname": "localhost",
        "hashes": {"used": {"path": format!("xxh3-128:{number:032x}")}},
    });
    Record::from_json(json).expect("it is a record")
}

/// Ids as they are: 36 characters that begin with the time.
fn id(number: u64) -> String {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("{:08x}-7b6f-7a3e-9d4c-{:012x}", number >> 4, mixed >> 16)
}

fn activity(number: u64) -> String {
    format!("activity-{}", number % ACTIVITIES)
}

/// A question: its name, how many answers it has, and the question about one of many.
type Kind<'a> = (&'a str, usize, &'a dyn Fn(u64) -> Find);

/// The file, made once for all rounds.
fn filled() -> PathBuf {
    let path = scratch().join("row13.db");
    if path.exists() {
        return path;
    }
    let new = scratch().join("row13-new.db");
    _ = std::fs::remove_file(&new);
    let mut sink = Sink::open(format!("sqlite://{}", new.display()), "bench").expect("it opens");
    for number in 0..TASKS {
        sink.add(&task(number)).expect("the record is stored");
    }
    assert_eq!(sink.finish().expect("the records are stored"), TASKS);
    std::fs::rename(&new, &path).expect("the file gets its name");
    path
}

fn ours(report: &mut Report) {
    let path = filled();
    // A number that leads all over the file.
    let some = |question: u64| (question + 1).wrapping_mul(389_999_999) % TASKS;
    let workflow = |number: u64| format!("workflow-{}", number % WORKFLOWS);
    let ask = |find: &Find, expected: usize| {
        let source = SqliteSource::open(&path).expect("the file opens");
        let before = Instant::now();
        let found = source.find(Collection::Tasks, find).expect("it is answered");
        let found = found.filter(Result::is_ok).count();
        let spent = before.elapsed();
        assert_eq!(found, expected, "{find:?}");
        spent.as_nanos() as f64
    };
    let kinds: [Kind<'_>; 5] = [
        (BY_ID, 1, &|n| Find::new().filter(field("task_id").eq(id(n)))),
        (CHILDREN, 10, &|n| {
            Find::new().filter(field("parent_task_id").eq(id(1 + n % (TASKS / 10 - 1))))
        }),
        (LAST, 50, &|n| {
            Find::new().filter(field("workflow_id").eq(workflow(n))).sort("-started_at").limit(50)
        }),
        (BOTH, 200, &|n| {
            Find::new()
                .filter(field("activity_id").eq(activity(n)).and(field("status").eq("ERROR")))
        }),
        (NEWEST_ERRORS, 20, &|_| {
            Find::new().filter(field("status").eq("ERROR")).sort("-started_at").limit(20)
        }),
    ];
    for (case, expected, find) in kinds {
        let mut times: Vec<f64> =
            (0..QUESTIONS).map(|question| ask(&find(some(question)), expected)).collect();
        report.add(case, median(&mut times));
    }
}
