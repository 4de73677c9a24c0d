//! Row 10: what the writer thread gets done, with records of 5 KB.
//!
//! Records for each second of processor time that the writing thread used: the wall clock would measure who else is on
//! the machine.

use std::fs::File;
use std::hint::black_box;
use std::io::{BufWriter, Write};
use std::time::Duration;

use runlore::telemetry_task;
use serde::Serialize;

use crate::clock::{process_cpu_ns, thread_cpu_ns};
use crate::measure::Report;
use crate::peers::ours;
use crate::row::{Bound, Contender, Line, ROUNDS, Row, Unit, Value};

const PER_SECOND: &str = "records per second";
const BYTES: &str = "bytes a record";
const RECORDS: u64 = 8_000;
/// Records before a pause: less than half a queue.
const BURST: u64 = 32;

pub(crate) static ROW: Row = Row {
    number: 10,
    rounds: ROUNDS,
    contenders: &[
        Contender { name: "ours", run: |report| ours(report, facts) },
        Contender { name: "ours, hashed", run: |report| ours(report, arguments) },
        Contender { name: "serde_json", run: bare },
    ],
    lines: &[
        Line {
            what: "JSONL, records of 5 KB, a second of the writer's time",
            ours: Value::of("ours", PER_SECOND),
            theirs: Some(("serde_json and BufWriter", Value::of("serde_json", PER_SECOND))),
            unit: Unit::PerSecond,
            bound: Bound::AtLeast(0.9),
        },
        Line {
            what: "the same as arguments, which are hashed",
            ours: Value::of("ours, hashed", PER_SECOND),
            theirs: Some(("serde_json and BufWriter", Value::of("serde_json", PER_SECOND))),
            unit: Unit::PerSecond,
            bound: Bound::None,
        },
        Line {
            what: "bytes of such a record",
            ours: Value::of("ours", BYTES),
            theirs: Some(("serde_json and BufWriter", Value::of("serde_json", BYTES))),
            unit: Unit::Count,
            bound: Bound::None,
        },
    ],
};

/// About what a capture of the machine looks like.
#[derive(Debug, Clone, Serialize)]
struct Snapshot {
    cpu: Cpu,
    per_cpu: Vec<Cpu>,
    memory: Memory,
    disk: Vec<Device>,
    network: Vec<Device>,
    process: Process,
}

#[derive(Debug, Clone, Serialize)]
struct Cpu {
    user: f64,
    system: f64,
    idle: f64,
    iowait: f64,
    steal: f64,
    percent: f64,
    frequency: f64,
}

#[derive(Debug, Clone, Serialize)]
struct Memory {
    total: u64,
    available: u64,
    used: u64,
    free: u64,
    buffers: u64,
    cached: u64,
    swap_total: u64,
    swap_used: u64,
}

#[derive(Debug, Clone, Serialize)]
struct Device {
    name: String,
    read_count: u64,
    write_count: u64,
    read_bytes: u64,
    write_bytes: u64,
    read_time: u64,
    write_time: u64,
    errors: u64,
}

#[derive(Debug, Clone, Serialize)]
struct Process {
    pid: u32,
    rss: u64,
    vms: u64,
    threads: u32,
    open_files: u32,
    connections: u32,
    user: f64,
    system: f64,
    executable: String,
    command_line: Vec<String>,
    status: String,
}

fn snapshot(step: u32) -> Snapshot {
    let n = u64::from(step);
    let cpu = |core: u32| Cpu {
        user: f64::from(step * 7 + core) * 0.01,
        system: f64::from(step * 3 + core) * 0.01,
        idle: 84_213.37 + f64::from(core),
        iowait: 0.25,
        steal: 1.5,
        percent: 37.5,
        frequency: 2449.998,
    };
    let device = |name: &str| Device {
        name: name.to_owned(),
        read_count: 184_467 + n,
        write_count: 92_233 + n,
        read_bytes: 7_378_697_629 + n,
        write_bytes: 3_689_348_814 + n,
        read_time: 18_446,
        write_time: 9_223,
        errors: 0,
    };
    Snapshot {
        cpu: cpu(0),
        per_cpu: (0..4).map(cpu).collect(),
        memory: Memory {
            total: 16_777_216_000,
            available: 12_582_912_000 - n,
            used: 4_194_304_000 + n,
            free: 8_388_608_000,
            buffers: 104_857_600,
            cached: 4_089_446_400,
            swap_total: 2_147_483_648,
            swap_used: 0,
        },
        disk: ["vda", "vdb"].map(device).to_vec(),
        network: ["lo", "eth0", "eth1", "docker0", "wlan0"].map(device).to_vec(),
        process: Process {
            pid: 4711,
            rss: 52_428_800 + n,
            vms: 314_572_800,
            threads: 9,
            open_files: 17,
            connections: 3,
            user: f64::from(step) * 0.01,
            system: 0.75,
            executable: "/usr/local/bin/simulation".to_owned(),
            command_line: ["simulation", "--steps", "1000", "--out", "results/run-17"]
                .map(str::to_owned)
                .to_vec(),
            status: "running".to_owned(),
        },
    }
}

/// The snapshots as telemetry will be: facts about the task, which have no hash.
#[telemetry_task(telemetry = "none", skip_all, metadata(started = started, ended = ended))]
#[inline(never)]
fn facts(started: &Snapshot, ended: &Snapshot) {
    black_box((started, ended));
}

/// The snapshots as what the task got.
#[telemetry_task(telemetry = "none")]
#[inline(never)]
fn arguments(started: &Snapshot, ended: &Snapshot) {
    black_box((started, ended));
}

fn ours(report: &mut Report, step: fn(&Snapshot, &Snapshot)) {
    let (started, ended) = (snapshot(1), snapshot(2));
    let run = ours::to_jsonl();
    let (process, thread) = (process_cpu_ns(), thread_cpu_ns());
    for number in 0..RECORDS {
        step(&started, &ended);
        if number % BURST == BURST - 1 {
            // The writer's time is wanted, not a full queue.
            std::thread::sleep(Duration::from_millis(4));
        }
    }
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
    custom_metadata: Facts<'a>,
    started_at: f64,
    ended_at: f64,
    duration_ns: u64,
    status: &'a str,
    hostname: &'a str,
    pid: u32,
    thread: Thread<'a>,
    code: Code<'a>,
}

#[derive(Debug, Serialize)]
struct Facts<'a> {
    started: &'a Snapshot,
    ended: &'a Snapshot,
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

fn bare(report: &mut Report) {
    let (started, ended) = (snapshot(1), snapshot(2));
    let id = "0199a0c5-7b6f-7a3e-9d4c-2f1e5b8a6c3d";
    let file = File::create("records.jsonl").expect("the file is made");
    let before = thread_cpu_ns();
    let mut writer = BufWriter::new(file);
    for number in 0..RECORDS {
        let record = Record {
            r#type: "task",
            task_id: id,
            workflow_id: id,
            campaign_id: id,
            activity_id: "facts",
            custom_metadata: Facts { started: &started, ended: &ended },
            started_at: 1_763_260_625.123_456_7 + number as f64,
            ended_at: 1_763_260_625.123_459_8 + number as f64,
            duration_ns: 3_100 + number,
            status: "FINISHED",
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
        };
        serde_json::to_writer(&mut writer, black_box(&record)).expect("the record is written");
        writer.write_all(b"\n").expect("the record is written");
    }
    writer.flush().expect("the records are written");
    let spent = thread_cpu_ns() - before;
    report.add(PER_SECOND, RECORDS as f64 / (spent as f64 / 1e9));
    let size = std::fs::metadata("records.jsonl").expect("the file is there").len();
    report.add(BYTES, size as f64 / RECORDS as f64);
}
