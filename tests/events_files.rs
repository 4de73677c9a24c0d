//! Files of events: what Stormlog wrote is read, what is wrong costs only itself, and all three formats keep everything.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use proptest::prelude::*;
use runlore::events::{self, Format, ReadOptions, Schema, TelemetryEvent, Text, Writer};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::events_records::{cases, data};

/// Loads as Stormlog does: the first thing that is wrong is the result.
fn strictly(path: &Path, kwargs: &Value) -> Result<usize, String> {
    let mut options = ReadOptions::default();
    options.events_key = kwargs["events_key"].as_str().map(str::to_owned);
    let loaded = events::load_with(path, &options).map_err(|error| error.to_string())?;
    if let Some(problem) = loaded.problems.iter().find(|problem| !problem.is_torn()) {
        return Err(problem.to_string());
    }
    let session = loaded.session(kwargs["session_id"].as_str()).map_err(|e| e.to_string())?;
    Ok(session.map_or(0, |session| session.events.len()))
}

/// Where we differ on purpose: what we say instead, and why.
const DIFFERENT: [(&str, Result<usize, &str>, &str); 9] = [
    (
        "json_empty_file",
        Err("the file is empty: JSON is expected"),
        "Stormlog passes on the words of Python's parser",
    ),
    (
        "json_truncated",
        Err("line 1: the file ends in the middle of its events"),
        "the same; the events before are loaded",
    ),
    (
        "json_nan_timestamp",
        Err("Legacy record is missing a valid timestamp"),
        "Stormlog passes on the words of Python's int()",
    ),
    ("json_bom", Ok(1), "a byte order mark says nothing about the data"),
    (
        "jsonl_invalid_record_last_no_nl",
        Err("line 2: Missing required telemetry fields: timestamp_ns, event_type, "),
        "0.4.3 fails with a KeyError",
    ),
    (
        "jsonl_u2028_in_string",
        Ok(1),
        "U+2028 may stand in a JSON string; Stormlog takes it for the end of a line",
    ),
    ("csv_via_loader", Ok(45), "Stormlog cannot read the CSV that it writes"),
    (
        "missing_file",
        Err("does_not_exist.json: No such file or directory"),
        "the words of the system, with the path",
    ),
    (
        "empty_dir",
        Err("is a folder without telemetry: no manifest.json, no segment-*.jsonl"),
        "the words of the system do not help",
    ),
];

#[test]
fn every_file_loads_or_fails_as_in_stormlog() {
    let folder = TempDir::new().unwrap();
    let empty_sink = folder.path().join("emptysink");
    fs::create_dir(&empty_sink).unwrap();
    fs::write(
        empty_sink.join("manifest.json"),
        r#"{"schema_version": 2, "sessions": [], "segments": []}"#,
    )
    .unwrap();
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).unwrap();

    let cases = cases("loader_cases.jsonl");
    assert_eq!(cases.len(), 24);
    for case in cases {
        let name = case["name"].as_str().unwrap();
        let path = match name {
            "missing_file" => folder.path().join("does_not_exist.json"),
            "empty_sink_dir" => empty_sink.clone(),
            "empty_dir" => empty.clone(),
            _ => data("loader").join(case["file"].as_str().unwrap()),
        };
        let ours = strictly(&path, &case["kwargs"]);
        let theirs = match case["result"]["message"].as_str() {
            Some(message) => {
                Err(message.replace("<DIR>", &path.parent().unwrap().to_string_lossy()))
            }
            None => Ok(case["result"]["ok_events"].as_u64().unwrap() as usize),
        };
        let different = DIFFERENT.iter().find(|(other, ..)| *other == name);
        let expected = different.map_or(theirs, |(_, ours, _)| ours.map_err(str::to_owned));
        match (&ours, &expected) {
            (Err(ours), Err(expected)) => assert!(ours.contains(&**expected), "{name}: {ours}"),
            _ => assert_eq!(ours, expected, "{name}"),
        }
    }
}

fn all(path: &Path) -> Vec<TelemetryEvent> {
    events::read(path).unwrap().map(|event| event.unwrap_or_else(|e| panic!("{e}"))).collect()
}

#[test]
fn everything_that_stormlog_wrote_loads_completely() {
    for (version, schema, count) in [("v039", Schema::V3, 33), ("v043", Schema::V4, 32)] {
        let path = data(version).join("events.json");
        let events = all(&path);
        assert_eq!(events.len(), count);
        let theirs: Vec<Value> = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        for (event, theirs) in events.iter().zip(theirs) {
            assert_eq!(event.to_record(schema).unwrap(), theirs);
        }
        assert_eq!(all(&data(version).join("events.csv")), events, "{version}: CSV tells the same");
    }
    let alerts = all(&data("v043/alerts_events.json"));
    assert_eq!(alerts.len(), 45);
    assert_eq!(all(&data("loader/d1.csv")), alerts, "of pandas' floats, and of Python's repr");
}

#[test]
fn sinks_are_what_stormlog_sees_in_them() {
    for sink in ["v039/sink", "v043/sink", "v043/sink_crashed"] {
        let loaded = events::load(data(sink)).unwrap();
        let expected = match sink {
            "v043/sink_crashed" => "v043/sink_crashed.loaded.json".to_owned(),
            sink => format!("{sink}_loaded.json"),
        };
        let expected: Vec<Value> =
            serde_json::from_slice(&fs::read(data(&expected)).unwrap()).unwrap();
        assert_eq!(loaded.sessions.len(), expected.len());
        for (session, expected) in loaded.sessions.iter().zip(&expected) {
            assert_eq!(
                serde_json::to_value(&session.summary).unwrap(),
                expected["summary"],
                "{sink}"
            );
            assert_eq!(session.events.len(), expected["events"], "{sink}");
            if let Some(sources) = expected["sources"].as_array().filter(|all| all.len() > 1) {
                let names: Vec<_> = session
                    .sources
                    .iter()
                    .map(|path| path.file_name().unwrap().to_str().unwrap())
                    .collect();
                assert_eq!(json!(names), json!(sources));
            }
        }
        let torn = usize::from(sink == "v043/sink_crashed");
        assert_eq!(loaded.problems.iter().filter(|problem| problem.is_torn()).count(), torn);
        assert_eq!(loaded.problems.len(), torn, "{:?}", loaded.problems);
    }
}

#[test]
fn projected_records_have_stormlogs_ids() {
    for (version, schema) in [("v039", Schema::V3), ("v043", Schema::V4)] {
        let text = fs::read(data(version).join("projected_records.json")).unwrap();
        let expected: Vec<Value> = serde_json::from_slice(&text).unwrap();
        let loaded = events::load(data(version).join("events.json")).unwrap();
        let session = loaded.session(None).unwrap().unwrap();
        let ours = session.records(schema).unwrap();
        for (ours, expected) in ours.iter().zip(&expected) {
            assert_eq!(&serde_json::to_value(ours).unwrap(), expected);
        }
        assert_eq!(session.resources().len(), 1);
        let phases = session.correlations();
        assert!(phases.len() > 1 && phases[0].phase.is_empty());
    }
}

#[test]
fn one_bad_record_costs_only_itself() {
    let folder = TempDir::new().unwrap();
    let good = fs::read_to_string(data("loader/b11.jsonl")).unwrap();
    let good = good.lines().next().unwrap().trim();
    let path = folder.path().join("mixed.jsonl");
    let mixed = format!(
        "\u{feff}{good}\r\n\nnot JSON\n12\n{{\"schema_version\":9}}\n\u{ff}{good}\n{good}\n{{\"schema"
    );
    let mut bytes = mixed.into_bytes();
    // A byte that is no UTF-8, in a line of its own.
    bytes.splice(0..0, b"{\"\xff\":1}\n".iter().copied());
    fs::write(&path, bytes).unwrap();
    let (events, problems): (Vec<_>, Vec<_>) =
        events::read(&path).unwrap().partition(Result::is_ok);
    assert_eq!(events.len(), 2);
    let problems: Vec<String> = problems
        .into_iter()
        .map(|problem| {
            let problem = problem.unwrap_err();
            format!("{} {}", problem.line().unwrap(), problem.reason())
        })
        .collect();
    insta::assert_snapshot!(problems.join("\n"), @r"
    1 not UTF-8 from byte 3
    4 not JSON at column 2 (expected ident)
    5 record must be a mapping
    6 Unsupported schema_version: 9
    7 not JSON at column 1 (expected value)
    9 torn: the file ends in the middle of it
    ");

    let path = folder.path().join("mixed.json");
    fs::write(
        &path,
        format!("[{good},\n{{\"schema_version\":9}},\n{good}, 5, {{\"a\" 1}}, {good}]"),
    )
    .unwrap();
    let (events, problems): (Vec<_>, Vec<_>) =
        events::read(&path).unwrap().partition(Result::is_ok);
    assert_eq!(events.len(), 3);
    let problems: Vec<String> = problems
        .into_iter()
        .map(|problem| {
            let problem = problem.unwrap_err();
            format!("{} {} {}", problem.line().unwrap(), problem.index().unwrap(), problem.reason())
        })
        .collect();
    insta::assert_snapshot!(problems.join("\n"), @r"
    2 1 Unsupported schema_version: 9
    3 3 Event at index 3 must be an object
    3 4 not JSON at column 6 (expected `:`)
    ");
}

#[test]
fn packed_files_are_read_and_torn_ones_told() {
    let folder = TempDir::new().unwrap();
    let text = fs::read(data("v039/sink/segment-000006.jsonl")).unwrap();
    let plain = all(&data("v039/sink/segment-000006.jsonl"));

    let packed = folder.path().join("a.jsonl.gz");
    let (first, second) = text.split_at(5000);
    let mut bytes = Vec::new();
    for part in [first, second] {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(part).unwrap();
        bytes.extend(gzip.finish().unwrap());
    }
    fs::write(&packed, &bytes).unwrap();
    assert_eq!(all(&packed), plain, "of two members");
    fs::write(&packed, &bytes[..bytes.len() - 40]).unwrap();
    let (events, problems): (Vec<_>, Vec<_>) =
        events::read(&packed).unwrap().partition(Result::is_ok);
    assert!(!events.is_empty() && problems.len() == 1, "{problems:?}");

    let packed = folder.path().join("a.jsonl.zst");
    let level = ruzstd::encoding::CompressionLevel::Fastest;
    let mut bytes = Vec::new();
    for part in [first, second] {
        // Something that is no data, as tools put it between frames.
        bytes.extend_from_slice(b"\x50\x2a\x4d\x18\x03\0\0\0abc");
        bytes.extend(ruzstd::encoding::compress_to_vec(part, level));
    }
    fs::write(&packed, &bytes).unwrap();
    assert_eq!(all(&packed), plain, "of two frames");
    fs::write(&packed, &bytes[..bytes.len() - 40]).unwrap();
    assert!(events::read(&packed).unwrap().any(|event| event.is_err()));
}

/// A few kilobytes of zstd that unpack to more than a gigabyte of one byte: blocks that say how often it is repeated.
fn bomb(byte: u8) -> Vec<u8> {
    let mut packed = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x40];
    let (repeated, size) = (1 << 1, 128 * 1024_u32);
    for _ in 0..10_000 {
        packed.extend_from_slice(&(repeated | size << 3).to_le_bytes()[..3]);
        packed.push(byte);
    }
    // The last block, which is empty.
    packed.extend_from_slice(&[1, 0, 0]);
    packed
}

/// Half a megabyte of gzip that unpacks to half a gigabyte of blank lines: the same member again and again.
fn gzip_bomb() -> Vec<u8> {
    let lines = format!("{}\n", " ".repeat(1023)).repeat(8 << 10);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(lines.as_bytes()).unwrap();
    gzip.finish().unwrap().repeat(64)
}

#[test]
fn a_file_that_unpacks_out_of_all_proportion_is_not_read_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in
        [("a.jsonl.zst", bomb(b'x')), ("a.json.zst", bomb(b' ')), ("a.jsonl.gz", gzip_bomb())]
    {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        let told = match events::read(&path) {
            Ok(reader) => reader.map(|event| event.unwrap_err().to_string()).collect(),
            Err(error) => vec![error.to_string()],
        };
        let told = told.last().unwrap();
        assert!(told.contains("unpacks to more than 250 times its size"), "{name}: {told}");
    }
}

#[test]
fn made_up_ids_do_not_change_when_a_file_moves_is_packed_or_grows() {
    let folder = TempDir::new().unwrap();
    let id = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        let ids: std::collections::BTreeSet<_> =
            all(&path).into_iter().map(|event| event.session_id).collect();
        assert_eq!(ids.len(), 1, "one session for all that name none");
        ids.into_iter().next().unwrap()
    };
    let first = r#"{"timestamp": 1, "memory_allocated": 5}"#;
    let here = id("a.jsonl", &format!("{first}\n"));
    assert!(here.starts_with("legacy-"));
    assert_eq!(id("b.jsonl", &format!("{first}\n{{\"timestamp\": 2}}\n")), here);
    assert_eq!(id("c.json", &format!("{{\"events\": [{first}]}}")), here);
    assert_eq!(id("d.csv", "timestamp,memory_allocated\n1,5\n"), here);
    assert_ne!(id("e.jsonl", "{\"timestamp\": 2, \"memory_allocated\": 5}\n"), here);
}

#[test]
fn nothing_outside_a_sink_is_read() {
    let folder = TempDir::new().unwrap();
    let sink = folder.path().join("sink");
    fs::create_dir(&sink).unwrap();
    let secret = folder.path().join("outside.jsonl");
    fs::write(&secret, "{\"timestamp\": 1, \"message\": \"secret\"}\n").unwrap();
    fs::write(sink.join("segment-000001.jsonl"), "{\"timestamp\": 2}\n").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(&secret, sink.join("segment-000002.jsonl")).unwrap();
    let segments: Vec<Value> = [
        "../outside.jsonl",
        "/etc/passwd",
        "segment-000002.jsonl",
        "a/../../outside.jsonl",
        ".",
        "",
        "gone.jsonl",
        "..\\outside.jsonl",
        secret.to_str().unwrap(),
    ]
    .iter()
    .map(|name| json!({"filename": name, "event_count": 1}))
    .collect();
    let manifest =
        json!({"schema_version": 2, "segments": segments, "sessions": [{"session_id": ""}]});
    fs::write(sink.join("manifest.json"), manifest.to_string()).unwrap();
    let (events, problems): (Vec<_>, Vec<_>) =
        events::read(&sink).unwrap().partition(Result::is_ok);
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(problems.len(), 1 + 7 + usize::from(cfg!(unix)), "{problems:#?}");
}

#[test]
fn an_export_is_believed_only_if_its_events_agree() {
    let folder = TempDir::new().unwrap();
    let event = fs::read_to_string(data("loader/b11.jsonl")).unwrap();
    let event: Value = serde_json::from_str(event.lines().next().unwrap()).unwrap();
    let summary = json!({
        "session_id": event["session_id"], "status": " Interrupted ", "started_at_ns": "7", "host": "h", "source": "s",
    });
    let path = folder.path().join("export.json");
    fs::write(&path, json!({"session_summary": summary, "telemetry_events": [event]}).to_string())
        .unwrap();
    let loaded = events::load(&path).unwrap();
    assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
    let summary = &loaded.sessions[0].summary;
    assert_eq!(
        (summary.status.as_str(), summary.started_at_ns, summary.pid),
        ("interrupted", 7, -1)
    );
}

/// Events with all that may go wrong on the way through a file.
fn any_event() -> impl Strategy<Value = TelemetryEvent> {
    let text = "[ -~\u{e9}\u{2028}\u{1f600}\r\n\t\0]{0,8}";
    let word = text.prop_map(|word| format!("{word}w"));
    let value = prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text.prop_map(Value::from),
        Just(json!([null, {"a": [true]}])),
    ];
    let metadata = prop::collection::btree_map(text, value, 0..3);
    let bytes = || prop::option::of(any::<u64>());
    let counters = (bytes(), bytes(), bytes(), bytes(), prop::option::of(any::<i64>()));
    let device = (bytes(), bytes(), prop::option::of(Just(u64::MAX)));
    let names = (word.clone(), word.clone(), word.clone(), word.clone(), prop::option::of(word));
    let numbers = (any::<u64>(), any::<u64>(), -1..i64::MAX, any::<i64>(), 0..3_u64);
    (names, numbers, counters, device, prop::option::of(text), metadata).prop_map(
        |(names, numbers, counters, device, context, metadata)| TelemetryEvent {
            session_id: names.0.into(),
            event_type: names.1.into(),
            collector: names.2.into(),
            host: names.3.into(),
            job_id: names.4.map(Text::from),
            timestamp_ns: numbers.0,
            sampling_interval_ms: numbers.1,
            pid: numbers.2,
            device_id: numbers.3,
            rank: numbers.4,
            local_rank: 2 - numbers.4,
            world_size: 3,
            allocator_allocated_bytes: counters.0,
            allocator_reserved_bytes: counters.1,
            allocator_active_bytes: counters.2,
            allocator_inactive_bytes: counters.3,
            // Without an allocation there is no change of it.
            allocator_change_bytes: counters.0.and(counters.4),
            device_used_bytes: device.0,
            device_free_bytes: device.1,
            device_total_bytes: device.2,
            context: context.map(Text::from),
            metadata: metadata.into_iter().collect(),
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn each_format_gives_back_what_it_got(events in prop::collection::vec((any_event(), 1..3_usize), 0..4)) {
        let folder = TempDir::new().unwrap();
        // Some with the same metadata in a row, which are read together.
        let written: Vec<TelemetryEvent> =
            events.into_iter().flat_map(|(event, times)| vec![event; times]).collect();
        for name in ["a.json", "a.jsonl", "a.csv"] {
            let path = folder.path().join(name);
            let mut writer = Writer::create(&path, Schema::V4).unwrap();
            for event in &written {
                writer.write(event).unwrap();
            }
            writer.finish().unwrap();
            let mut read = all(&path);
            for event in &mut read {
                event.metadata.remove("memory_capabilities");
            }
            prop_assert_eq!(&read, &written, "{}", name);
        }
    }
}

/// Whoever is killed while it writes leaves half a row.
#[test]
fn half_a_row_at_the_end_is_torn() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("killed.csv");
    let mut writer = Writer::create(&path, Schema::V4).unwrap();
    let mut event = TelemetryEvent { session_id: "s".into(), ..TelemetryEvent::default() };
    event.metadata.insert("text".to_owned(), json!("a, \"b\" é"));
    for _ in 0..2 {
        writer.write(&event).unwrap();
    }
    writer.finish().unwrap();
    let whole = fs::read(&path).unwrap();
    let ends: Vec<usize> = whole
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'\n')
        .map(|(at, _)| at + 1)
        .collect();
    let (first, last) = (ends[1], ends[2]);
    // But for the quote at its very end, and the line's.
    for length in first + 1..last - 2 {
        fs::write(&path, &whole[..length]).unwrap();
        let loaded = events::load(&path).unwrap();
        assert_eq!(loaded.sessions[0].events.len(), 1, "{length}");
        let told: Vec<String> = loaded.problems.iter().map(events::Problem::reason).collect();
        assert_eq!(told, ["torn: the file ends in the middle of it"], "{length}");
    }
    // A row that lacks nothing but its end is whole.
    fs::write(&path, &whole[..last - 1]).unwrap();
    assert_eq!(all(&path).len(), 2);
}

#[test]
fn formats_are_told_by_name_or_by_what_is_inside() {
    for (name, format) in [
        ("a.json", Some(Format::Json)),
        ("a.jsonl.gz", Some(Format::JsonLines)),
        ("A.CSV.zst", Some(Format::Csv)),
        ("a.txt", None),
    ] {
        assert_eq!(Format::of_name(Path::new(name)), format, "{name}");
    }
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("events");
    for text in [
        "[{\"timestamp\": 1}, {\"timestamp\": 2}]",
        "{\"timestamp\": 1}\n{\"timestamp\": 2}\n",
        "{\"events\": [{\"timestamp\": 1}, {\"timestamp\": 2}]}",
        "timestamp,memory_allocated\n1,5\n2,\n",
    ] {
        fs::write(&path, text).unwrap();
        assert_eq!(all(&path).len(), 2, "{text}");
    }
}
