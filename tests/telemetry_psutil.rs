//! What we tell is what psutil tells at the same moment.
//!
//! psutil's numbers are taken between two captures of ours. Counters only grow, so that its value lies between ours; other
//! values may be anywhere near.
#![cfg(target_os = "linux")]

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
    Equal,
    /// Between them, give or take.
    Between(f64),
    /// At least ours, which leaves something out.
    AtLeast,
    /// Not at all, for this reason.
    Differs(#[expect(dead_code, reason = "to be read here")] &'static str),
}

const MIB: f64 = 1024.0 * 1024.0;

fn rule(path: &str) -> Rule {
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
        // psutil counts the descriptors that we hold.
        "process.num_open_file_descriptors" | "process.num_open_files" => Rule::AtLeast,
        // A tick, for psutil cuts at ticks; idle time is an estimate that may go back.
        _ if starts("process.cpu_times") => Rule::Between(0.011),
        _ if starts("cpu.times") => Rule::Between(0.05),
        // MHz.
        "cpu.frequency" => Rule::Between(500.0),
        _ if starts("process.memory.") => Rule::Between(4.0 * MIB),
        "process.memory_percent" => Rule::Between(1.0),
        _ if path.ends_with(".percent") => Rule::Between(2.0),
        _ if starts("process.io_counters") => Rule::Between(0.0),
        // Other programs use memory and space too.
        _ if starts("memory.virtual.") && path != "memory.virtual.total" => {
            Rule::Between(256.0 * MIB)
        }
        _ if starts("memory.swap.") => Rule::Between(16.0 * MIB),
        _ if starts("disk.disk_usage.") && path != "disk.disk_usage.total" => {
            Rule::Between(256.0 * MIB)
        }
        _ if starts("disk.io_") || starts("network.") => Rule::Between(0.0),
        _ => Rule::Equal,
    }
}

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

    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/psutil/read.py");
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
    let before = ours();
    question.write_all(b"now\n").unwrap();
    let theirs: Value = serde_json::from_str(&said.next().unwrap().unwrap()).unwrap();
    let after = ours();
    drop(question);
    assert!(process.wait().unwrap().success());

    assert_eq!(before.get("unavailable"), None);
    let (mut compared, mut wrong) = (0, Vec::new());
    leaves(&theirs, "", &mut |path, theirs| {
        let pointer = format!("/{}", path.replace('.', "/"));
        let (Some(before), Some(after)) = (before.pointer(&pointer), after.pointer(&pointer))
        else {
            // An interface without traffic.
            if path.starts_with("network.netio_per_interface") && theirs == 0 {
                return;
            }
            return wrong.push(format!("{path} is missing"));
        };
        let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
        let (low, high) = {
            let (before, after) = (number(before), number(after));
            (before.min(after), before.max(after))
        };
        let holds = match rule(path) {
            Rule::Differs(_) => return,
            Rule::Equal => theirs == before,
            Rule::Between(more) => (low - more..=high + more).contains(&number(theirs)),
            Rule::AtLeast => number(theirs) >= low,
        };
        compared += 1;
        if !holds {
            wrong.push(format!("{path}: {theirs} is not between {before} and {after}"));
        }
    });
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(compared > 100, "{compared}");
}
