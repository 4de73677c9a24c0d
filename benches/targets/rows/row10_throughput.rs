//! Row 10: what the writer thread gets done, with records of 5 KB: tasks with telemetry.
//!
//! Records for each second of processor time that the writing thread used: the wall clock would measure who else is on
//! the machine.

use std::fs::File;
use std::hint::black_box;
use std::io::{BufWriter, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use runlore::store::mongodb::Documents;
use runlore::store::{Batch, Store};
use runlore::telemetry::{Telemetry, TelemetryCapture, Types};
use runlore::{Id, WorkflowRun, telemetry_task};
use serde::Serialize;

use crate::clock::{process_cpu_ns, thread_cpu_ns};
use crate::measure::Report;
use crate::peers::{ours, telemetry};
use crate::row::{Bound, Contender, Line, ROUNDS, Row, Unit, Value};

const PER_SECOND: &str = "records per second";
const ALONE: &str = "records per second, nothing beside it";
const BYTES: &str = "bytes a record";
const RECORDS: u64 = 8_000;
/// Records before a pause: less than half a queue.
const BURST: u64 = 32;

pub(crate) static ROW: Row = Row {
    number: 10,
    rounds: ROUNDS,
    contenders: &[
        Contender { name: "ours", run: |report| ours(report, ours::to_jsonl(), measured) },
        Contender { name: "ours, values", run: ours_with_values },
        Contender { name: "serde_json", run: bare },
        Contender { name: "ours, SQLite", run: |report| ours(report, ours::to_sqlite(), measured) },
        Contender { name: "rusqlite", run: bare_sqlite },
        Contender { name: "ours, BSON", run: ours_bson },
        Contender { name: "bson", run: bare_bson },
    ],
    lines: &[
        Line {
            what: "JSONL, tasks with complete telemetry, a second of the writer's time",
            ours: Value::of("ours", PER_SECOND),
            theirs: Some(("serde_json and BufWriter", Value::of("serde_json", PER_SECOND))),
            unit: Unit::PerSecond,
            bound: Bound::AtLeast(0.9),
        },
        Line {
            what: "bytes of such a record",
            ours: Value::of("ours", BYTES),
            theirs: Some(("serde_json and BufWriter", Value::of("serde_json", BYTES))),
            unit: Unit::Count,
            bound: Bound::None,
        },
        Line {
            what: "SQLite, the same tasks, a second of the writer's time",
            ours: Value::of("ours, SQLite", PER_SECOND),
            theirs: Some(("bare rusqlite, 1,000 rows at once", Value::of("rusqlite", PER_SECOND))),
            unit: Unit::PerSecond,
            bound: Bound::AtLeast(0.75),
        },
        Line {
            what: "SQLite, the same tasks, a second of the writer's time",
            ours: Value::of("ours, SQLite", PER_SECOND),
            theirs: Some((
                "bare rusqlite, flat out while nothing else runs",
                Value::of("rusqlite", ALONE),
            )),
            unit: Unit::PerSecond,
            bound: Bound::None,
        },
        Line {
            what: "MongoDB, batches of such tasks made documents of, a second of the store's time",
            ours: Value::of("ours, BSON", PER_SECOND),
            theirs: Some(("bson, raw, from structures", Value::of("bson", PER_SECOND))),
            unit: Unit::PerSecond,
            bound: Bound::None,
        },
        Line {
            what: "bytes of such a document",
            ours: Value::of("ours, BSON", BYTES),
            theirs: Some(("bson, raw, from structures", Value::of("bson", BYTES))),
            unit: Unit::Count,
            bound: Bound::None,
        },
        Line {
            what: "as much in values of the program's own, which are hashed",
            ours: Value::of("ours, values", PER_SECOND),
            theirs: Some(("serde_json and BufWriter", Value::of("serde_json", PER_SECOND))),
            unit: Unit::PerSecond,
            bound: Bound::None,
        },
        Line {
            what: "bytes of such a record",
            ours: Value::of("ours, values", BYTES),
            theirs: Some(("serde_json and BufWriter", Value::of("serde_json", BYTES))),
            unit: Unit::Count,
            bound: Bound::None,
        },
    ],
};

#[telemetry_task(telemetry(cpu, per_cpu, process_info, mem, disk, network))]
#[inline(never)]
fn measured() {}

/// The captures as what the task got.
#[telemetry_task(telemetry = "none")]
#[inline(never)]
fn arguments(started: &Telemetry, ended: &Telemetry) {
    black_box((started, ended));
}

fn ours_with_values(report: &mut Report) {
    let (started, ended) = captures();
    ours(report, ours::to_jsonl(), || arguments(&started, &ended));
}

/// Two captures, with something to compare percentages with.
fn captures() -> (Telemetry, Telemetry) {
    let capture = TelemetryCapture::new(Types::host());
    let take = || {
        thread::sleep(Duration::from_millis(20));
        capture.capture()
    };
    (take(), take())
}

/// Does something for each record, with pauses: the writer's time is wanted, not a full queue.
fn in_bursts(mut step: impl FnMut(u64)) {
    for number in 0..RECORDS {
        step(number);
        if number % BURST == BURST - 1 {
            thread::sleep(Duration::from_millis(4));
        }
    }
}

fn ours(report: &mut Report, run: WorkflowRun, step: impl Fn()) {
    // The tables are there when somebody begins to measure.
    runlore::flush().expect("the writer answers");
    let (process, thread) = (process_cpu_ns(), thread_cpu_ns());
    in_bursts(|_| step());
    runlore::flush().expect("the writer answers");
    // There are two threads: what was not ours here was the writer's.
    let writer = (process_cpu_ns() - process) - (thread_cpu_ns() - thread);
    report.add(PER_SECOND, RECORDS as f64 / (writer as f64 / 1e9));
    report.add(BYTES, runlore::stats().bytes as f64 / runlore::stats().written as f64);
    ours::finish(run, RECORDS);
}

/// A record as its writer would have it without us: typed, and with everything that ours holds.
#[derive(Debug, Serialize)]
struct Record<'a> {
    r#type: &'a str,
    task_id: &'a str,
    workflow_id: &'a str,
    campaign_id: &'a str,
    activity_id: &'a str,
    started_at: f64,
    ended_at: f64,
    duration_ns: u64,
    status: &'a str,
    telemetry_at_start: &'a Telemetry,
    telemetry_at_end: &'a Telemetry,
    capture: Capture,
    resources: Resources,
    hostname: &'a str,
    pid: u32,
    thread: Thread<'a>,
    code: Code<'a>,
}

#[derive(Debug, Serialize)]
struct Capture {
    start_ns: u64,
    end_ns: u64,
    nested_ns: u64,
}

#[derive(Debug, Serialize)]
struct Resources {
    cpu_ns: Figure,
    minor_faults: Figure,
    major_faults: Figure,
    voluntary_switches: Figure,
    involuntary_switches: Figure,
    read_bytes: Figure,
    write_bytes: Figure,
    rss_bytes: Figure,
}

#[derive(Debug, Serialize)]
struct Figure {
    #[serde(rename = "self")]
    own: u64,
    inclusive: u64,
}

#[derive(Debug, Serialize)]
struct Thread<'a> {
    id: u64,
    name: &'a str,
}

#[derive(Debug, Serialize)]
struct Code<'a> {
    #[serde(rename = "crate")]
    package: &'a str,
    version: &'a str,
    module: &'a str,
    file: &'a str,
    line: u32,
    column: u32,
}

/// A record of number so much, and its id.
fn record<'a>(
    number: u64,
    id: &'a str,
    (started, ended): (&'a Telemetry, &'a Telemetry),
) -> Record<'a> {
    let figure = |own: u64| Figure { own, inclusive: own };
    Record {
        r#type: "task",
        task_id: id,
        workflow_id: WORKFLOW,
        campaign_id: WORKFLOW,
        activity_id: "measured",
        started_at: 1_763_260_625.123_456_7 + number as f64,
        ended_at: 1_763_260_625.123_459_8 + number as f64,
        duration_ns: 3_100 + number,
        status: "FINISHED",
        telemetry_at_start: started,
        telemetry_at_end: ended,
        capture: Capture { start_ns: 61_234, end_ns: 59_876, nested_ns: 0 },
        resources: Resources {
            cpu_ns: figure(1_700 + number),
            minor_faults: figure(0),
            major_faults: figure(0),
            voluntary_switches: figure(0),
            involuntary_switches: figure(0),
            read_bytes: figure(0),
            write_bytes: figure(0),
            rss_bytes: figure(0),
        },
        hostname: "localhost",
        pid: 4711,
        thread: Thread { id: 4711, name: "main" },
        code: Code {
            package: "runlore-bench",
            version: "0.1.0",
            module: module_path!(),
            file: file!(),
            line: line!(),
            column: 4,
        },
    }
}

const WORKFLOW: &str = "0199a0c5-7b6f-7a3e-9d4c-2f1e5b8a6c3d";

fn bare(report: &mut Report) {
    let (started, ended) = captures();
    let file = File::create("records.jsonl").expect("the file is made");
    let before = thread_cpu_ns();
    let mut writer = BufWriter::new(file);
    for number in 0..RECORDS {
        let record = record(number, WORKFLOW, (&started, &ended));
        serde_json::to_writer(&mut writer, black_box(&record)).expect("the record is written");
        writer.write_all(b"\n").expect("the record is written");
    }
    writer.flush().expect("the records are written");
    let spent = thread_cpu_ns() - before;
    report.add(PER_SECOND, RECORDS as f64 / (spent as f64 / 1e9));
    let size = std::fs::metadata("records.jsonl").expect("the file is there").len();
    report.add(BYTES, size as f64 / RECORDS as f64);
}

/// The same records into the same tables with the same indexes, as somebody would write them who needs nothing else: by a thread of
/// its own, which learns of tasks as ours does, in bursts, while another one measures them. Then once more with nothing beside it.
fn bare_sqlite(report: &mut Report) {
    // Makes the tables.
    ours::to_sqlite().finish().expect("everything is stored");
    let (started, ended) = captures();
    let done = "SQLite does what it is told";
    let connection = rusqlite::Connection::open("records.db").expect(done);
    connection.pragma_update(None, "synchronous", "NORMAL").expect(done);
    let sql = "INSERT INTO task (
            task_id, workflow_id, campaign_id, parent_task_id, activity_id, status, started_at, duration_ns, copy, doc
        ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, ?)";
    let mut insert = connection.prepare(sql).expect(done);
    let mut text = Vec::new();
    let mut write = |number: u64| {
        if number.is_multiple_of(1000) {
            connection.execute_batch("BEGIN IMMEDIATE").expect(done);
        }
        let id = Id::new().to_string();
        let record = record(number, &id, (&started, &ended));
        text.clear();
        serde_json::to_writer(&mut text, black_box(&record)).expect("the record is written");
        let text = std::str::from_utf8(&text).expect("JSON is text");
        let parent: Option<&str> = None;
        insert
            .execute(rusqlite::params![
                record.task_id,
                record.workflow_id,
                record.campaign_id,
                parent,
                record.activity_id,
                record.status,
                record.started_at,
                record.duration_ns as i64,
                text
            ])
            .expect(done);
        if number % 1000 == 999 {
            connection.execute_batch("COMMIT").expect(done);
        }
    };
    let mut measure = |case, bursts: &mut dyn Iterator<Item = u64>| {
        let before = thread_cpu_ns();
        bursts.for_each(|first| (first..first + BURST).for_each(&mut write));
        let spent = thread_cpu_ns() - before;
        report.add(case, RECORDS as f64 / (spent as f64 / 1e9));
    };
    let (told, bursts) = mpsc::channel();
    let tasks = thread::spawn(move || {
        let capture = TelemetryCapture::new(Types::host());
        let mut bytes = Vec::new();
        in_bursts(|number| {
            telemetry::capture_into(&capture, &mut bytes);
            telemetry::capture_into(&capture, &mut bytes);
            if number % BURST == BURST - 1 {
                told.send(number + 1 - BURST).expect("somebody writes");
            }
        });
    });
    measure(PER_SECOND, &mut bursts.into_iter());
    tasks.join().expect("the tasks are done");
    measure(ALONE, &mut (0..RECORDS).step_by(BURST as usize));
}

/// A store that makes documents of what it gets, as the one for MongoDB does, and sends them nowhere.
struct Encoding {
    documents: Documents,
    encoded: Arc<Encoded>,
}

#[derive(Debug, Default)]
struct Encoded {
    records: AtomicU64,
    bytes: AtomicU64,
    cpu_ns: AtomicU64,
}

impl Store for Encoding {
    fn write(&mut self, batch: &Batch<'_>) -> runlore::Result<()> {
        let before = thread_cpu_ns();
        let documents = black_box(self.documents.of(batch)?);
        let spent = thread_cpu_ns() - before;
        // The workflow's own record comes by itself.
        if !documents.is_empty() {
            let bytes: usize = documents.iter().map(|document| document.as_bytes().len()).sum();
            self.encoded.records.fetch_add(documents.len() as u64, Relaxed);
            self.encoded.bytes.fetch_add(bytes as u64, Relaxed);
            self.encoded.cpu_ns.fetch_add(spent, Relaxed);
        }
        Ok(())
    }
}

/// Tasks with telemetry, each with its own; of the writer's time only that in which batches become documents.
fn ours_bson(report: &mut Report) {
    let encoded = Arc::new(Encoded::default());
    let store = Encoding { documents: Documents::default(), encoded: Arc::clone(&encoded) };
    let run = ours::to(store);
    in_bursts(|_| measured());
    runlore::flush().expect("the writer answers");
    ours::finish(run, RECORDS);
    assert_eq!(encoded.records.load(Relaxed), RECORDS, "documents that were made");
    let spent = encoded.cpu_ns.load(Relaxed);
    report.add(PER_SECOND, RECORDS as f64 / (spent as f64 / 1e9));
    report.add(BYTES, encoded.bytes.load(Relaxed) as f64 / RECORDS as f64);
}

/// Pairs of captures that `bson` is given in turn: no two records after each other are the same.
const PAIRS: usize = 128;

/// The same records as their writer would make documents of them without us.
fn bare_bson(report: &mut Report) {
    let capture = TelemetryCapture::new(Types::host());
    let take = || {
        thread::sleep(Duration::from_millis(2));
        capture.capture()
    };
    let pairs: Vec<_> = (0..PAIRS).map(|_| (take(), take())).collect();
    let mut bytes = 0;
    let before = thread_cpu_ns();
    for number in 0..RECORDS {
        let (started, ended) = &pairs[number as usize % PAIRS];
        let record = record(number, WORKFLOW, (started, ended));
        let document = mongodb::bson::serialize_to_raw_document_buf(black_box(&record));
        bytes += black_box(document.expect("the record is a document")).as_bytes().len();
    }
    let spent = thread_cpu_ns() - before;
    report.add(PER_SECOND, RECORDS as f64 / (spent as f64 / 1e9));
    report.add(BYTES, bytes as f64 / RECORDS as f64);
}
