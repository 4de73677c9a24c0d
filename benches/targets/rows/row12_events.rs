//! Row 12: files of events, against the newest Stormlog.

use std::fs::File;
use std::hint::black_box;
use std::io::{BufWriter, Write};

use runlore::events::{self, Schema, Writer};
use serde_json::json;

use crate::clock::process_cpu_ns;
use crate::measure::{Report, peak_resident_mib};
use crate::peers::python;
use crate::row::{Bound, Contender, Line, Row, Unit, Value};

const LOADED: &str = "loaded";
const AT_20_K: &str = "after 20,000";
const AT_100_K: &str = "after 100,000";
const FILE: &str = "events.jsonl";
const EVENTS: u64 = 100_000;

pub(crate) static ROW: Row = Row {
    number: 12,
    rounds: 3,
    contenders: &[
        Contender { name: "ours", run: ours },
        Contender { name: "streaming", run: streaming },
        Contender { name: "Stormlog", run: stormlog },
    ],
    lines: &[
        Line {
            what: "load and validate 100,000 events of schema 3 as JSON lines, a second of processor time",
            ours: Value::of("ours", LOADED),
            theirs: Some(("the newest Stormlog", Value::of("Stormlog", LOADED))),
            unit: Unit::PerSecond,
            bound: Bound::AtLeast(25.0),
        },
        Line {
            what: "growth of memory of validate and convert, from 20,000 to 100,000 events",
            ours: Value::of("streaming", AT_100_K).minus("streaming", AT_20_K),
            theirs: None,
            unit: Unit::Mebibytes,
            // The allocator's own ups and downs; the events themselves would be about 80 MiB.
            bound: Bound::Below(0.5),
        },
    ],
};

/// A file as Stormlog's tracker of CUDA memory writes it, in schema 3.
fn write_events(count: u64) {
    let mut file = BufWriter::new(File::create(FILE).expect("the file is made"));
    for number in 0..count {
        let allocated = 2_147_483_648 + number * 4096;
        let event = json!({
            "schema_version": 3,
            "session_id": "dbbc91eb-915f-4547-93b8-7c96a8be9b9b",
            "timestamp_ns": 1_794_786_747_437_277_440 + number * 100_000_000,
            "event_type": "sample",
            "collector": "stormlog.cuda_tracker",
            "sampling_interval_ms": 100,
            "pid": 24542,
            "host": "gpu-server-01",
            "job_id": "train-7",
            "rank": number % 4,
            "local_rank": number % 4,
            "world_size": 4,
            "device_id": 0,
            "allocator_allocated_bytes": allocated,
            "allocator_reserved_bytes": allocated + 268_435_456,
            "allocator_active_bytes": allocated,
            "allocator_inactive_bytes": 134_217_728,
            "allocator_change_bytes": 4096,
            "device_used_bytes": allocated + 268_435_456,
            "device_free_bytes": 12_884_901_888_u64,
            "device_total_bytes": 17_179_869_184_u64,
            "context": "Collected CUDA telemetry sample.",
            "metadata": {
                "backend": "cuda",
                "collector_health_status": "healthy",
                "telemetry_partial": false,
                "collector_partial_fields": [],
                "sampling_source": "torch.cuda",
            },
        });
        serde_json::to_writer(&mut file, &event).expect("the event is written");
        file.write_all(b"\n").expect("the event is written");
    }
    file.flush().expect("the events are written");
}

fn ours(report: &mut Report) {
    write_events(EVENTS);
    let before = process_cpu_ns();
    let loaded = events::load(FILE).expect("the file is read");
    let spent = process_cpu_ns() - before;
    assert_eq!((loaded.sessions[0].events.len() as u64, loaded.problems.len()), (EVENTS, 0));
    black_box(&loaded);
    report.add(LOADED, EVENTS as f64 / (spent as f64 / 1e9));
}

fn streaming(report: &mut Report) {
    for (count, case) in [(20_000, AT_20_K), (EVENTS, AT_100_K)] {
        write_events(count);
        let mut converted = Writer::create("converted.csv", Schema::V4).expect("the file is made");
        for event in events::read(FILE).expect("the file is read") {
            converted.write(&event.expect("the event is fine")).expect("the event is written");
        }
        converted.finish().expect("the file is whole");
        if let Some(peak) = peak_resident_mib() {
            report.add(case, peak);
        }
    }
}

fn stormlog(report: &mut Report) {
    write_events(EVENTS);
    let count = EVENTS.to_string();
    python::report("stormlog", "stormlog_load.py", &[FILE, LOADED, &count], report);
}
