//! Our captures agree with psutil's at the same moment.
//!
//! psutil's numbers are taken between two captures of ours. Counters only grow, so that its value lies between ours. What
//! goes up and down is compared only if it did not move; how it is counted is tested on a recorded machine, in the module.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::time::Duration;

use runlore::telemetry::{TelemetryCapture, Types};
use serde_json::Value;

use crate::python;
use crate::support::{child, expect_success, finished_in_time, is_child};

const TEST: &str = "telemetry_psutil::each_field_is_what_psutil_says";

/// How psutil's value must relate to ours before and after.
enum Rule {
    /// Equal, unless ours changed.
    Equal,
    /// Between them, give or take.
    Between(f64),
    /// At least ours, which leaves something out.
    AtLeast,
    /// Not at all, for this reason.
    Differs(#[expect(dead_code, reason = "to be read here")] &'static str),
}

/// What the process itself may come to hold between two readings.
const SLACK: f64 = 4.0 * 1024.0 * 1024.0;

fn rule(path: &str, memory: f64) -> Rule {
    let starts = |with: &str| path.starts_with(with);
    match path {
        "process.cpu_percent" => {
            Rule::Differs("psutil's is 0 at the first call of a process object")
        }
        "cpu.percent_all" => Rule::Differs("it is over another interval"),
        _ if starts("cpu.percent_per_cpu") => Rule::Differs("it is over another interval"),
        _ if starts("process.num_ctx_switches") => {
            Rule::Differs("psutil's are those of the main thread, ours those of all")
        }
        "process.cpu_number" => {
            Rule::Differs("psutil's is that of the main thread, ours of the one that asks")
        }
        "cpu.frequency" => Rule::Differs("the clock changes"),
        "memory.swap.sin" | "memory.swap.sout" => Rule::Differs("psutil counts pages of 4 KiB"),
        _ if starts("cpu.times") && (path.ends_with(".idle") || path.ends_with(".iowait")) => {
            Rule::Differs("the kernel estimates it, and may correct it downwards")
        }
        // psutil counts the descriptors that we hold.
        "process.num_open_file_descriptors" | "process.num_open_files" => Rule::AtLeast,
        // Times have the kernel's ticks, which psutil cuts at.
        _ if starts("process.cpu_times") || starts("cpu.times") => Rule::Between(0.011),
        _ if starts("process.memory.") => Rule::Between(SLACK),
        "process.memory_percent" => Rule::Between(100.0 * SLACK / memory),
        _ if starts("process.io_counters") => Rule::Between(0.0),
        _ if starts("disk.io_") || starts("network.") => Rule::Between(0.0),
        _ => Rule::Equal,
    }
}

/// What every machine has, and is therefore compared.
const ALWAYS: &[&str] = &[
    "cpu.times_avg.user",
    "cpu.times_per_cpu.0.system",
    "process.pid",
    "process.memory.rss",
    "process.cmd_line",
    "process.num_connections",
    "process.num_threads",
    "process.io_counters.read_count",
    "memory.virtual.total",
    "memory.swap.total",
    "disk.disk_usage.total",
];

fn leaves(value: &Value, path: &str, visit: &mut impl FnMut(&str, &Value)) {
    let join = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        Value::Object(entries) => {
            entries.iter().for_each(|(key, value)| leaves(value, &join(key), visit));
        }
        Value::Array(items) if path != "process.cmd_line" => {
            items
                .iter()
                .enumerate()
                .for_each(|(at, value)| leaves(value, &join(&at.to_string()), visit));
        }
        _ => visit(path, value),
    }
}

#[test]
fn each_field_is_what_psutil_says() {
    let Some(python) = python::with("psutil-alone-7.2.2", &["psutil==7.2.2"]) else { return };
    if !is_child(TEST) {
        // Alone, so that no other test opens files in between.
        return expect_success(&finished_in_time(child(TEST)));
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let _connected = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let _udp = UdpSocket::bind("127.0.0.1:0").unwrap();

    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/data/psutil/read.py");
    let mut process = Command::new(python)
        .args([script, &std::process::id().to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(process.stdout.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "ready");
    let capture = TelemetryCapture::new(Types::host()).with_idle_devices();
    std::thread::sleep(Duration::from_millis(11));
    // So that the question itself does not count between the two.
    let mut question = process.stdin.take().unwrap();

    let ours = || serde_json::to_value(capture.capture()).unwrap();
    // What appears, goes away or changes back in between looks like a difference.
    let mut wrong = Vec::new();
    for _ in 0..20 {
        let before = ours();
        question.write_all(b"now\n").unwrap();
        let theirs: Value = serde_json::from_str(&said.next().unwrap().unwrap()).unwrap();
        let after = ours();
        wrong = differences(&before, &theirs, &after);
        if wrong.is_empty() {
            break;
        }
    }
    drop(question);
    assert!(process.wait().unwrap().success());
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn differences(before: &Value, theirs: &Value, after: &Value) -> Vec<String> {
    let memory = before.pointer("/memory/virtual/total").unwrap().as_f64().unwrap();
    let reasons = before.get("unavailable").and_then(Value::as_object);
    let has_reason = |path: &str| {
        let mut parts = path.match_indices('.').map(|(end, _)| &path[..end]).chain([path]);
        reasons.is_some_and(|reasons| parts.any(|part| reasons.contains_key(part)))
    };
    let (mut compared, mut wrong) = (BTreeSet::new(), Vec::new());
    leaves(theirs, "", &mut |path, theirs| {
        // psutil has nothing to compare with, such as sums over no disks.
        if theirs.is_null() {
            return;
        }
        let pointer = format!("/{}", path.replace('.', "/"));
        let (Some(before), Some(after)) = (before.pointer(&pointer), after.pointer(&pointer))
        else {
            // An interface without traffic.
            let is_silent = path.starts_with("network.netio_per_interface") && theirs == 0;
            if !is_silent && !has_reason(path) {
                wrong.push(format!("{path} is missing"));
            }
            return;
        };
        let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
        let (low, high) = {
            let (before, after) = (number(before), number(after));
            (before.min(after), before.max(after))
        };
        let holds = match rule(path, memory) {
            Rule::Differs(_) => return,
            Rule::Equal => theirs == before || before != after,
            Rule::Between(more) => (low - more..=high + more).contains(&number(theirs)),
            Rule::AtLeast => number(theirs) >= low,
        };
        compared.insert(path.to_owned());
        if !holds {
            wrong.push(format!("{path}: {theirs} is not between {before} and {after}"));
        }
    });
    let not_compared = ALWAYS.iter().filter(|path| !compared.contains(**path));
    wrong.extend(not_compared.map(|path| format!("{path} is not compared")));
    wrong
}
