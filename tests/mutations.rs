//! Files spoilt at random: no crash, no hang, and what was not touched still loads.
//!
//! `RUNLORE_TEST_CASES=1000000` or `RUNLORE_TEST_SECONDS=600` looks longer, `RUNLORE_TEST_SEED` looks elsewhere.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use runlore::record::Record;
use runlore::store::jsonl;
use tempfile::TempDir;

use crate::dead_process;
use crate::support::{Cases, Random, child, expect_success, finished_in_time, is_child, tried};

/// Pieces that mean something to JSON, to lines, or to nobody.
const BITS: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b"\\",
    b",",
    b":",
    b"null",
    b"1e999",
    b"-0",
    b"99999999999999999999999999999999999999999",
    b"0.1e-400",
    b"\\u0000",
    b"\\ud800",
    b"\r",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\xe2\x80\xa8",
    b"\0",
    b"\"task_id\":\"twice\"",
    b"\"type\":\"workflow\"",
    b"\"status\":7",
    b"\"used\":[]",
    b"\"started_at\":\"x\"",
    b"\"telemetry_at_start\":{}",
    b"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
];

/// Spoils bytes a few times. Never adds a line feed of its own.
fn spoil(random: &mut Random, bytes: &mut Vec<u8>, other: &[u8]) {
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        let until = (at + random.below(40)).min(bytes.len());
        match random.below(7) {
            0 => bytes.truncate(at),
            1 => _ = bytes.drain(at..until),
            2 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            3 => {
                let fill = random.below(256) as u8;
                bytes[at..until].fill(fill);
            }
            4 => {
                let from = random.below(other.len() + 1);
                let to = (from + random.below(200)).min(other.len());
                bytes.splice(at..until, other[from..to].iter().copied());
            }
            5 => {
                let bit = random.pick(BITS).repeat(1 + random.below(4));
                bytes.splice(at..at, bit);
            }
            _ => {
                let part = bytes[at..until].to_vec();
                bytes.splice(at..at, part);
            }
        }
    }
}

/// The lines to be spoilt: records of Flowcept, and of ours.
fn seeds() -> Vec<Vec<u8>> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/flowcept");
    let mut lines = Vec::new();
    for name in ["workflow.jsonl", "torch_lightweight.jsonl"] {
        let text = fs::read(data.join(name)).unwrap();
        lines.extend(text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec));
    }
    let folder = dead_process::folder();
    runlore::recover(folder.path()).unwrap();
    let text = fs::read(dead_process::records(folder.path())).unwrap();
    lines.extend(text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec));
    lines.retain(|line| !line.is_empty());
    lines
}

/// What a line says, if it names itself: a record without an id gets one by its place.
fn said_by(line: &[u8]) -> Option<String> {
    let json: serde_json::Value = serde_json::from_slice(line).ok()?;
    let is_workflow = json.get("type").is_some_and(|kind| kind == "workflow");
    let id = if is_workflow { "workflow_id" } else { "task_id" };
    json.get(id).is_some().then(|| told(&Record::from_json(json).ok()?))?
}

fn told(record: &Record) -> Option<String> {
    match record {
        Record::Task(task) => serde_json::to_string(task).ok(),
        Record::Workflow(workflow) => serde_json::to_string(workflow).ok(),
        Record::Other(map) => serde_json::to_string(map).ok(),
    }
}

/// A file of lines of which some are spoilt, and what the others say.
fn spoilt_file(random: &mut Random, seeds: &[Vec<u8>]) -> (Vec<u8>, Vec<String>) {
    let mut file = Vec::new();
    let mut untouched = Vec::new();
    // Whether the line before took this one's beginning.
    let mut joined = false;
    for _ in 0..1 + random.below(12) {
        let line = &seeds[random.below(seeds.len())];
        let mut bytes = line.clone();
        let spoils = random.below(2) == 0;
        if spoils {
            let other = random.below(seeds.len());
            spoil(random, &mut bytes, &seeds[other]);
        } else if !joined {
            untouched.push(line.clone());
        }
        file.append(&mut bytes);
        joined = spoils && random.below(8) == 0;
        if !joined {
            file.extend_from_slice(random.pick(&[
                &b"\n"[..],
                b"\r\n",
                b"\n\n",
                b" \n\xef\xbb\xbf",
            ]));
        }
    }
    if random.below(4) == 0 {
        file.extend_from_slice(&seeds[0][..random.below(seeds[0].len())]);
    }
    (file, untouched.iter().filter_map(|line| said_by(line)).collect())
}

#[test]
fn no_mutation_of_records_breaks_the_reader_or_costs_another_line() {
    let mut cases = Cases::new(200);
    let mut random = Random::new();
    let seeds = seeds();
    let folder = TempDir::new().unwrap();
    let (path, sidecar) = (folder.path().join("a.jsonl"), folder.path().join("a.open.jsonl"));
    for case in &mut cases {
        let (file, untouched) = spoilt_file(&mut random, &seeds);
        fs::write(&path, &file).unwrap();
        _ = fs::remove_file(&sidecar);
        if random.below(4) == 0 {
            fs::write(&sidecar, spoilt_file(&mut random, &seeds).0).unwrap();
        }
        let context = || {
            let kept = std::env::temp_dir().join(format!("runlore-case-{case}.jsonl"));
            fs::write(&kept, &file).unwrap();
            format!("case {case}: {}", kept.display())
        };

        let mut found: HashMap<String, usize> = HashMap::new();
        for record in jsonl::read(&path).unwrap().flatten() {
            *found.entry(told(&record).unwrap_or_default()).or_default() += 1;
        }
        for line in untouched {
            let count = found.get_mut(&line).filter(|count| **count > 0);
            let Some(count) = count else { panic!("lost {line}\n{}", context()) };
            *count -= 1;
        }
        let loaded = jsonl::load(folder.path()).unwrap();
        for problem in &loaded.problems {
            let text = problem.to_string();
            assert!(!text.contains('\n'), "{text}\n{}", context());
        }
        let tree = loaded.into_tree();
        assert!(tree.render().values(true).to_string().len() < 100 << 20);
        jsonl::summaries(folder.path()).unwrap();
    }
    tried("mutations of JSONL files", format!("{} files", cases.count()));
}

const SPOILS: &str = "mutations::spoils_and_recovers";
/// A process does no more: what it recovers takes a little memory that is never given back.
const AT_ONCE: u64 = 500;

#[cfg(unix)]
#[test]
fn no_mutation_of_what_a_dead_process_left_breaks_its_recovery() {
    let template = dead_process::folder();
    let mut cases = Cases::new(100);
    let mut random = Random::new();
    // In processes of their own: an overflow of the stack is no panic.
    loop {
        let first = cases.count();
        let count = (&mut cases).take(AT_ONCE as usize).count();
        if count == 0 {
            break;
        }
        let work = TempDir::new().unwrap();
        let mut command = child(SPOILS);
        command
            .env("TEMPLATE", template.path())
            .env("WORK", work.path())
            .env("SEED", random.below(usize::MAX).to_string())
            .env("COUNT", count.to_string())
            .env_remove("RUNLORE_TEST_SECONDS");
        let output = finished_in_time(command);
        if !output.status.success() {
            let kept = work.keep();
            println!("from case {first}; the folder that broke it is {}", kept.display());
        }
        expect_success(&output);
    }
    tried("mutations of a dead process's files", format!("{} recoveries", cases.count()));
}

#[test]
fn spoils_and_recovers() {
    if !is_child(SPOILS) {
        return;
    }
    let number = |name: &str| std::env::var(name).unwrap().parse::<u64>().unwrap();
    let folder = |name: &str| PathBuf::from(std::env::var(name).unwrap());
    let mut random = Random::with_seed(number("SEED"));
    for case in 0..number("COUNT") {
        spoil_and_recover(&mut random, &folder("TEMPLATE"), &folder("WORK"), case);
    }
}

fn spoil_and_recover(random: &mut Random, template: &Path, work: &Path, case: u64) {
    let (store, outside) = (work.join("store"), work.join("outside.jsonl"));
    _ = fs::remove_dir_all(&store);
    dead_process::copy(template, &store);
    fs::write(&outside, "{\"task_id\":\"half").unwrap();
    let records = dead_process::records(&store);
    let before = fs::read(&records).unwrap();
    spoil_session(random, &dead_process::session(&store));
    // A lock that nobody holds may as well be anything.
    let recovered = runlore::recover(&store);

    let after = fs::read(&records).unwrap();
    assert!(after.starts_with(&before), "case {case}: the file lost something");
    assert_eq!(fs::read(&outside).unwrap(), b"{\"task_id\":\"half", "case {case}");
    let mut entries: Vec<_> =
        fs::read_dir(work).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    entries.sort();
    assert_eq!(entries, ["outside.jsonl", "store"], "case {case}");
    for entry in fs::read_dir(&store).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            for line in fs::read_to_string(entry.path()).unwrap().lines() {
                let line: Result<serde_json::Value, _> = serde_json::from_str(line);
                assert!(line.is_ok_and(|line| line.is_object()), "case {case}");
            }
        }
    }
    // Once more, for what was left alone: nothing new.
    let files = || {
        let mut files: Vec<_> = fs::read_dir(&store)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_file())
            .map(|path| (fs::read(&path).unwrap(), path))
            .collect();
        files.sort();
        files
    };
    let once = files();
    match (recovered, runlore::recover(&store)) {
        (Ok(_), again) => assert_eq!(again.unwrap(), runlore::Recovered::default(), "case {case}"),
        (Err(first), again) => {
            assert_eq!(first.to_string(), again.unwrap_err().to_string(), "case {case}");
        }
    }
    assert!(once == files(), "case {case}: recovered twice");
}

fn spoil_session(random: &mut Random, session: &Path) {
    let names: Vec<PathBuf> =
        fs::read_dir(session).unwrap().map(|entry| entry.unwrap().path()).collect();
    for _ in 0..=random.below(3) {
        let path = &names[random.below(names.len())];
        let Ok(mut bytes) = fs::read(path) else { continue };
        let is_ring = path.file_name().unwrap().to_string_lossy().starts_with("ring-");
        match random.below(10) {
            0 => _ = fs::remove_file(path),
            1 => {
                let other = &names[random.below(names.len())];
                _ = fs::copy(other, path);
            }
            _ if is_ring => {
                spoil_ring(random, &mut bytes);
                fs::write(path, bytes).unwrap();
            }
            _ => {
                let other = bytes.clone();
                spoil(random, &mut bytes, &other);
                fs::write(path, bytes).unwrap();
            }
        }
    }
}

/// Spoils a ring mostly where it matters: its head, the heads of its events, and what is waiting in it.
fn spoil_ring(random: &mut Random, bytes: &mut Vec<u8>) {
    const NUMBERS: [u64; 12] =
        [0, 1, 7, 8, 16, 4096, 1 << 16, 1 << 31, 1 << 32, u64::MAX, u64::MAX - 7, 1 << 63];
    for _ in 0..=random.below(12) {
        let length = bytes.len();
        match random.below(10) {
            0 => bytes.truncate(random.below(length + 1)),
            1 => bytes.resize(random.below(2 * length + 1), 0),
            // A number in the head of the ring: its form, its size, its positions.
            2 | 3 => {
                let at = random.pick(&[&0_usize, &8, &16, &24, &128, &256]);
                let number = NUMBERS[random.below(NUMBERS.len())];
                if let Some(place) = bytes.get_mut(*at..at + 8) {
                    let old = u64::from_le_bytes((&*place).try_into().unwrap());
                    let new = if random.below(2) == 0 { number } else { old.wrapping_add(number) };
                    place.copy_from_slice(&new.to_le_bytes());
                }
            }
            // A number anywhere in the events.
            4 | 5 if length > 4200 => {
                let at = 4096 + random.below((length - 4104) / 8) * 8;
                let number = NUMBERS[random.below(NUMBERS.len())].to_le_bytes();
                let size = 1 << random.below(4);
                bytes[at..at + size].copy_from_slice(&number[..size]);
            }
            // One byte over and over.
            6 if length > 4200 => {
                let at = 4096 + random.below(length - 4100);
                let until = (at + random.below(3000)).min(length);
                bytes[at..until].fill(random.below(24) as u8);
            }
            _ if length > 0 => {
                let at = random.below(length);
                bytes[at] ^= 1 << random.below(8);
            }
            _ => {}
        }
    }
}

#[cfg(feature = "events")]
const EVENTS: &[&str] = &[
    "loader/b11.jsonl",
    "loader/a19.json",
    "loader/a18.json",
    "v039/events.json",
    "v039/events.csv",
    "v043/events.csv",
    "v039/sink/manifest.json",
];

/// Pieces that mean something to loaders of events.
#[cfg(feature = "events")]
const EVENT_BITS: &[&[u8]] = &[
    b"\"schema_version\":4",
    b"\"schema_version\":2,",
    b"NaN",
    b"-Infinity",
    b"\"events\":[",
    b"\"telemetry_events\":[",
    b"\"session_summary\":{",
    b"\"\"\"",
    b"{'a': ",
    b"'\\u",
    b"\x1f\x8b\x08",
    b"\x28\xb5\x2f\xfd",
    b"../segment-000001.jsonl",
    b"\n",
    b"\r\n",
];

#[cfg(feature = "events")]
#[test]
fn no_mutation_of_event_files_breaks_their_loader() {
    use std::io::Write as _;

    use runlore::events::{self, Format, ReadOptions};

    let mut cases = Cases::new(300);
    let mut random = Random::new();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/stormlog");
    let mut seeds: Vec<Vec<u8>> = EVENTS
        .iter()
        .map(|name| {
            let mut bytes = fs::read(data.join(name)).unwrap();
            bytes.truncate(6000);
            bytes
        })
        .collect();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&seeds[0]).unwrap();
    seeds.push(gzip.finish().unwrap());
    let fastest = ruzstd::encoding::CompressionLevel::Fastest;
    seeds.push(ruzstd::encoding::compress_to_vec(&seeds[0][..], fastest));

    let folder = TempDir::new().unwrap();
    let sink = folder.path().join("sink");
    fs::create_dir(&sink).unwrap();
    let path = folder.path().join("events");
    let mut loaded = 0;
    for case in &mut cases {
        let mut bytes = seeds[random.below(seeds.len())].clone();
        let other = random.below(seeds.len());
        if random.below(8) > 0 {
            spoil(&mut random, &mut bytes, &seeds[other]);
            for _ in 0..random.below(3) {
                let at = random.below(bytes.len() + 1);
                let bit = random.pick(EVENT_BITS);
                bytes.splice(at..at, bit.iter().copied());
            }
        }
        let mut options = ReadOptions::default();
        options.format =
            [None, Some(Format::Json), Some(Format::JsonLines), Some(Format::Csv)][random.below(4)];
        if random.below(6) == 0 {
            options.events_key = Some("events".to_owned());
        }
        fs::write(&path, &bytes).unwrap();
        let mut check = |path: &Path, options: &ReadOptions| {
            let Ok(reader) = events::read_with(path, options) else { return };
            let mut count = 0;
            for event in reader {
                count += 1;
                assert!(count < 100_000, "case {case}: it does not end");
                match event {
                    Ok(event) => {
                        event.check().unwrap_or_else(|error| panic!("case {case}: {error}"));
                        loaded += 1;
                    }
                    Err(problem) => assert!(!problem.to_string().is_empty()),
                }
            }
            _ = events::load_with(path, options);
        };
        check(&path, &options);
        let name = random.pick(&["manifest.json", "segment-000001.jsonl", "segment-000002.jsonl"]);
        fs::write(sink.join(name), &bytes).unwrap();
        check(&sink, &ReadOptions::default());
    }
    assert!(loaded > 0);
    tried("mutations of event files", format!("{} files", cases.count()));
}
