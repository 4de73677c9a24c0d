//! The portable source and the kernel's files tell the same.
#![cfg(all(target_os = "linux", feature = "portable"))]

use std::collections::BTreeSet;
use std::time::Duration;

use runlore::settings::Search;
use runlore::telemetry::{SensorState, TelemetryCapture};
use serde_json::Value;

use crate::support::{child, expect_success, finished_in_time, is_child};

fn capture(backend: &str) -> TelemetryCapture {
    let text = format!(
        "telemetry_capture: {{backend: {backend}, cpu: yes, per_cpu: yes, process_info: yes, mem: yes, disk: yes, network: yes}}"
    );
    let loaded = Search::nowhere().text("settings.yaml", &text).load();
    assert!(loaded.problems().is_empty(), "{:?}", loaded.problems());
    TelemetryCapture::configured(&loaded.settings.telemetry_capture)
}

/// How the portable source's value must relate to those of the kernel's files before and after.
enum Rule {
    /// Equal but for rounding, unless the kernel's value changed.
    Near(f64),
    /// Between them: it only grows.
    Between,
    /// At least as much, for it counts our own descriptors too.
    AtLeast,
    /// Not at all.
    Differs,
}

fn rule(path: &str) -> Rule {
    let starts = |with: &str| path.starts_with(with);
    match path {
        // They are over other intervals.
        "process.cpu_percent" | "cpu.percent_all" | "cpu.interval_s" => Rule::Differs,
        _ if starts("cpu.percent_per_cpu") => Rule::Differs,
        "cpu.frequency" => Rule::Near(1.0),
        "process.num_open_file_descriptors" => Rule::AtLeast,
        "process.memory_percent" => Rule::Near(0.01),
        // The portable source knows mounted disks only.
        _ if starts("disk.io_sum") => Rule::Differs,
        _ if starts("process.io_counters") || starts("disk.io_") || starts("network.") => {
            Rule::Between
        }
        _ => Rule::Near(0.0),
    }
}

/// What the portable source says differently, and how many values were compared.
fn differences(before: &Value, portable: &Value, after: &Value) -> (Vec<String>, BTreeSet<String>) {
    let (mut wrong, mut compared) = (Vec::new(), BTreeSet::new());
    compare("", [before, portable, after], &mut |path, [before, portable, after]| {
        let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
        let (low, high) = (number(before).min(number(after)), number(before).max(number(after)));
        let theirs = number(portable);
        let holds = match rule(path) {
            Rule::Differs => return,
            Rule::Near(_) if before != after => true,
            Rule::Near(more) => portable == before || (theirs - low).abs() <= more,
            Rule::Between => (low..=high).contains(&theirs),
            Rule::AtLeast => theirs >= low,
        };
        compared.insert(path.to_owned());
        if !holds {
            wrong.push(format!("{path}: {portable} is not between {before} and {after}"));
        }
    });
    (wrong, compared)
}

/// Visits what all three have.
fn compare(path: &str, values: [&Value; 3], visit: &mut impl FnMut(&str, [&Value; 3])) {
    match values {
        [Value::Object(before), Value::Object(portable), Value::Object(after)] => {
            for (key, before) in before.iter().filter(|(key, _)| *key != "unavailable") {
                if let (Some(portable), Some(after)) = (portable.get(key), after.get(key)) {
                    let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    compare(&path, [before, portable, after], visit);
                }
            }
        }
        _ => visit(path, values),
    }
}

const TEST: &str = "telemetry_portable::what_both_sources_know_agrees";

#[test]
fn what_both_sources_know_agrees() {
    if !is_child(TEST) {
        // Alone, so that no other test opens files or takes memory in between.
        return expect_success(&finished_in_time(child(TEST)));
    }
    let (linux, portable) = (capture("linux"), capture("portable"));
    // The portable source looks at the load no more often than this.
    std::thread::sleep(Duration::from_millis(250));
    // What appears, goes away or changes back in between looks like a difference.
    let mut wrong = Vec::new();
    for _ in 0..20 {
        let [before, theirs, after] = [&linux, &portable, &linux]
            .map(|capture| serde_json::to_value(capture.capture()).unwrap());
        let percent = theirs["cpu"]["percent_all"].as_f64().unwrap();
        assert!((0.0..=100.0).contains(&percent));
        let (different, compared) = differences(&before, &theirs, &after);
        for path in [
            "process.pid",
            "process.cmd_line",
            "process.memory.rss",
            "process.io_counters.read_bytes",
            "memory.virtual.total",
            "memory.virtual.available",
            "memory.swap.free",
            "disk.disk_usage.total",
        ] {
            assert!(compared.contains(path), "{path} is not compared");
        }
        wrong = different;
        if wrong.is_empty() {
            return;
        }
    }
    panic!("{wrong:#?}");
}

#[test]
fn what_the_portable_source_lacks_has_a_reason() {
    let portable = capture("portable");
    std::thread::sleep(Duration::from_millis(250));
    let sensors = portable.sensors();
    assert!(!sensors.is_empty());
    for sensor in sensors {
        if let SensorState::Missing { reason, .. } = sensor.state {
            assert_ne!(reason, "it was not captured", "{}", sensor.field);
        }
    }
}
