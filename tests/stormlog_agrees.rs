//! Stormlog itself, of two versions, makes of records what we make of them, and reads what we write.
//!
//! Random records are the same each time; `RUNLORE_TEST_CASES=20000 cargo test stormlog_agrees` tries more of them, and
//! `RUNLORE_TEST_SEED` others.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use runlore::events::{
    Options, Schema, SessionStatus, SessionSummary, SinkOptions, SinkWriter, Target,
    TelemetryEvent, Writer,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::events_records::cases;
use crate::python;
use crate::support::{Cases, Random};

/// Each version with the schema that it writes.
fn stormlogs() -> Vec<(PathBuf, Schema)> {
    if python::is_unchanged("stormlog") {
        return Vec::new();
    }
    let old = python::with("stormlog-0.3.9", &["stormlog==0.3.9"]);
    let new = python::with("stormlog-newest", &["stormlog"]);
    [(old, Schema::V3), (new, Schema::V4)]
        .into_iter()
        .filter_map(|(python, schema)| Some((python?, schema)))
        .collect()
}

fn ask(python: &PathBuf, arguments: &[&str], input: &str) -> Vec<Value> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/data/stormlog/compare.py");
    let mut process = Command::new(python)
        .arg(script)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = process.stdin.take().unwrap();
    let input = input.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()).unwrap());
    let output = process.wait_with_output().unwrap();
    writer.join().unwrap();
    let said = python::succeeded("Stormlog", &output);
    said.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A value of any kind, often one that a field may have.
fn any_value(random: &mut Random, depth: usize) -> Value {
    const TEXTS: &[&str] = &[
        "",
        " ",
        "sample",
        "stop",
        "cuda:1",
        "CPU",
        "/gpu:0",
        "cuda",
        " rocm ",
        "1",
        "\u{e9}\u{1f600}",
        "a\u{1c}",
        "stormlog.cpu_tracker",
        "warning",
    ];
    const NUMBERS: [i64; 12] =
        [0, 1, 2, 3, -1, -2, 100, 4096, 1 << 40, i64::MAX, i64::MIN, 1_709_480_430];
    match random.below(if depth == 0 { 7 } else { 9 }) {
        0 => Value::Null,
        1 => (random.below(2) == 0).into(),
        2 | 3 => NUMBERS[random.below(NUMBERS.len())].into(),
        4 => (random.below(1 << 30) as f64 / 1024.0 - 1000.0).into(),
        5 | 6 => random.pick(TEXTS).into(),
        7 => (0..random.below(3)).map(|_| any_value(random, depth - 1)).collect::<Vec<_>>().into(),
        _ => any_metadata(random, depth - 1),
    }
}

fn any_metadata(random: &mut Random, depth: usize) -> Value {
    const KEYS: &[&str] = &[
        "a",
        "b",
        "rank",
        "world_size",
        "session_id",
        "pid",
        "host",
        "backend",
        "severity",
        "total_memory",
        "phase_scope",
        "name",
        "severity_text",
        "memory_capabilities",
        "sampling_source",
    ];
    let entries =
        (0..random.below(3)).map(|_| (random.pick(KEYS).to_owned(), any_value(random, depth)));
    Value::Object(entries.collect::<Vec<_>>().into_iter().collect())
}

/// One of the recorded records with up to three fields taken out, spoilt or added.
fn any_record(random: &mut Random, seeds: &[Value]) -> Value {
    let mut record = seeds[random.below(seeds.len())].clone();
    let names: Vec<String> =
        seeds[random.below(seeds.len())].as_object().unwrap().keys().cloned().collect();
    let fields = record.as_object_mut().unwrap();
    for _ in 0..random.below(4) {
        let name = match random.below(8) {
            0 => "unknown".to_owned(),
            1 => "metadata_x".to_owned(),
            _ => names[random.below(names.len())].clone(),
        };
        if random.below(4) == 0 {
            fields.remove(&name);
        } else {
            let value =
                if name == "metadata" { any_metadata(random, 2) } else { any_value(random, 2) };
            fields.insert(name, value);
        }
    }
    record
}

/// Where we differ on purpose.
fn is_different(
    record: &Value,
    schema: Schema,
    ours: &Value,
    theirs: &Value,
) -> Option<&'static str> {
    let said = ours["error"].as_str().unwrap_or_default();
    let holds_containers = |value: &Value| value.is_array() || value.is_object();
    let metadata = &record["metadata"];
    if said.ends_with("of at most 64 bits") {
        Some("its numbers have no limit")
    } else if theirs.get("exception").is_some() && !said.is_empty() {
        Some("it fails with another exception than its own")
    } else if schema == Schema::V4
        && record["schema_version"] == 2
        && record.get("session_id").is_some()
    {
        Some("its newest refuses a session in schema 2")
    } else if holds_containers(&metadata["sampling_source"])
        || holds_containers(&record["metadata_sampling_source"])
    {
        Some("Python writes lists otherwise than as JSON")
    } else {
        None
    }
}

#[test]
fn random_records_go_through_both_and_agree() {
    let seeds: Vec<Value> = cases("records.jsonl")
        .into_iter()
        .map(|case| case["record"].clone())
        .filter(Value::is_object)
        .collect();
    for (python, schema) in stormlogs() {
        let mut random = Random::new();
        let mut count = Cases::new(3000);
        let records: Vec<(Value, bool)> = (&mut count)
            .take(200_000)
            .map(|_| (any_record(&mut random, &seeds), random.below(8) > 0))
            .filter(|(record, _)| schema == Schema::V4 || record["schema_version"] != 4)
            .collect();
        let lines: String = records
            .iter()
            .map(|(record, legacy)| {
                format!("{}\n", json!({"record": record, "permissive_legacy": legacy}))
            })
            .collect();
        let answers = ask(&python, &["records"], &lines);
        assert_eq!(answers.len(), records.len());
        let (mut good, mut refused, mut different) = (0, 0, 0);
        for ((record, legacy), theirs) in records.iter().zip(answers) {
            let mut options = Options::default();
            options.legacy = *legacy;
            let ours = TelemetryEvent::from_record(record, &options).and_then(|event| {
                let projected = event.project(schema)?;
                Ok(json!({"event": event.to_record(schema)?, "record_id": projected.record_id}))
            });
            let ours = ours
                .map_or_else(|error| json!({"error": error.to_string()}), |ok| json!({"ok": ok}));
            if is_different(record, schema, &ours, &theirs).is_some() {
                different += 1;
                continue;
            }
            assert_eq!(ours, theirs, "{record}");
            *(if ours.get("ok").is_some() { &mut good } else { &mut refused }) += 1;
        }
        println!(
            "schema {}: {good} equal, {refused} refused alike, {different} differ on purpose",
            schema.number()
        );
        assert!(good > records.len() / 10 && refused > records.len() / 10);
        assert!(different < records.len() / 10, "{different}");
    }
}

#[test]
fn what_we_write_is_loaded_as_it_was() {
    let stormlogs = stormlogs();
    let events: Vec<TelemetryEvent> = cases("records.jsonl")
        .iter()
        .filter_map(|case| {
            let options = Options::default().session("one-session");
            let event = TelemetryEvent::from_record(&case["record"], &options).ok()?;
            Some(TelemetryEvent { session_id: "one-session".into(), ..event })
        })
        .collect();
    assert!(events.len() > 40);
    for (python, theirs) in &stormlogs {
        for schema in [Schema::V2, Schema::V3, Schema::V4] {
            if schema > *theirs {
                continue;
            }
            let folder = TempDir::new().unwrap();
            let paths = ["a.json", "a.jsonl"].map(|name| folder.path().join(name));
            let target = Target::from(schema).lossy();
            for path in &paths {
                let mut writer = Writer::create(path, target).unwrap();
                for event in &events {
                    writer.write(event).unwrap();
                }
                writer.finish().unwrap();
            }
            let mut arguments = vec!["files"];
            arguments.extend(paths.iter().map(|path| path.to_str().unwrap()));
            // In the order of time, and as it says them: with what schema 2 puts into the metadata.
            let mut wanted: Vec<(u64, Value)> = events
                .iter()
                .map(|event| {
                    let record = event.to_record(target).unwrap();
                    let again = TelemetryEvent::from_record(&record, &Options::default()).unwrap();
                    (again.timestamp_ns, again.to_record(*theirs).unwrap())
                })
                .collect();
            wanted.sort_by_key(|(time, _)| *time);
            let wanted: Vec<Value> = wanted.into_iter().map(|(_, record)| record).collect();
            for answer in ask(python, &arguments, "") {
                assert_eq!(answer["ok"], json!(wanted), "schema {}: {answer}", schema.number());
            }
        }
    }
}

/// A sink of each kind: one that was closed, and one whose writer died.
#[test]
fn our_sinks_are_loaded_as_they_are() {
    for (python, schema) in stormlogs() {
        let folder = TempDir::new().unwrap();
        let mut wanted = Vec::new();
        for is_closed in [true, false] {
            let path = folder.path().join(is_closed.to_string());
            let options = SinkOptions {
                segment_events: 10,
                flush_events: 5,
                target: Target::from(schema).lossy(),
                ..SinkOptions::default()
            };
            let event = |number: u64| TelemetryEvent {
                session_id: "session-1".into(),
                timestamp_ns: 1_700_000_000_000_000_000 + number,
                host: "host".into(),
                context: Some("\u{2028} and \u{1f600}".into()),
                allocator_allocated_bytes: Some(number),
                allocator_reserved_bytes: Some(number),
                allocator_change_bytes: Some(1),
                device_used_bytes: Some(number),
                ..TelemetryEvent::default()
            };
            let summary = SessionSummary::of(&event(0));
            let mut sink = SinkWriter::open(&path, options, summary.clone()).unwrap();
            for number in 0..32 {
                sink.append(&event(number)).unwrap();
            }
            if is_closed {
                sink.close(SessionStatus::Completed, 1_700_000_000_000_000_032).unwrap();
            } else {
                drop(sink);
            }
            let status = if is_closed { "completed" } else { "running" };
            let records: Vec<Value> =
                (0..32).map(|number| event(number).to_record(schema).unwrap()).collect();
            wanted.push((path.to_str().unwrap().to_owned(), status, summary, records));
        }
        let mut arguments = vec!["sessions"];
        arguments.extend(wanted.iter().map(|(path, ..)| &**path));
        let answers = ask(&python, &arguments, "");
        for ((path, status, summary, records), answer) in wanted.iter().zip(answers) {
            let sessions = answer["ok"].as_array().unwrap_or_else(|| panic!("{path}: {answer}"));
            assert_eq!(sessions.len(), 1, "{path}");
            assert_eq!(sessions[0]["session"]["status"], *status, "{path}");
            assert_eq!(sessions[0]["session"]["started_at_ns"], summary.started_at_ns, "{path}");
            assert_eq!(sessions[0]["session"]["source"], summary.source, "{path}");
            assert_eq!(sessions[0]["events"], json!(records), "{path}");
        }
    }
}
