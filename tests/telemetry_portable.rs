//! The portable source and the kernel's files tell the same.
#![cfg(all(target_os = "linux", feature = "portable"))]

use std::time::Duration;

use runlore::settings::Search;
use runlore::telemetry::{SensorState, TelemetryCapture};
use serde_json::Value;

fn capture(backend: &str) -> TelemetryCapture {
    let text = format!(
        "telemetry_capture: {{backend: {backend}, cpu: yes, per_cpu: yes, process_info: yes, mem: yes, disk: yes, network: yes}}"
    );
    let loaded = Search::nowhere().text("settings.yaml", &text).load();
    assert!(loaded.problems().is_empty(), "{:?}", loaded.problems());
    TelemetryCapture::from_settings(&loaded.settings.telemetry_capture)
}

/// How far apart two values may be: other tests of this process run and open files at the same time.
fn tolerance(path: &str) -> Option<f64> {
    const MIB: f64 = 1024.0 * 1024.0;
    let starts = |with: &str| path.starts_with(with);
    Some(match path {
        "process.pid" | "memory.virtual.total" | "memory.swap.total" | "disk.disk_usage.total" => {
            0.0
        }
        // They are over other intervals.
        "process.cpu_percent" | "cpu.percent_all" | "cpu.interval_s" => return None,
        _ if starts("cpu.percent_per_cpu") => return None,
        // One tells whole MHz.
        "cpu.frequency" => 500.0,
        "process.num_open_file_descriptors" => 200.0,
        "process.memory_percent" => 2.0,
        _ if path.ends_with("percent") => 5.0,
        _ if starts("process.memory") => 256.0 * MIB,
        _ if starts("process.io_counters") => 64.0 * MIB,
        // The portable source knows mounted disks only.
        _ if starts("disk.io_sum") => f64::INFINITY,
        _ if starts("memory.") || starts("disk.") => 512.0 * MIB,
        _ if starts("network.") => 64.0 * MIB,
        _ => return None,
    })
}

fn compare(path: &str, ours: &Value, theirs: &Value, compared: &mut usize) {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            for (key, value) in ours {
                if let Some(other) = theirs.get(key)
                    && key != "unavailable"
                {
                    let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    compare(&path, value, other, compared);
                }
            }
        }
        (Value::Number(ours), Value::Number(theirs)) => {
            let Some(tolerance) = tolerance(path) else { return };
            let (ours, theirs) = (ours.as_f64().unwrap(), theirs.as_f64().unwrap());
            assert!((ours - theirs).abs() <= tolerance, "{path}: {ours} and {theirs}");
            *compared += 1;
        }
        (Value::Array(ours), Value::Array(theirs)) if path.starts_with("cpu.") => {
            assert_eq!(ours.len(), theirs.len(), "{path}");
        }
        _ => assert_eq!(ours, theirs, "{path}"),
    }
}

#[test]
fn what_both_sources_know_agrees() {
    let (linux, portable) = (capture("linux"), capture("portable"));
    // The portable source looks at the load no more often than this.
    std::thread::sleep(Duration::from_millis(250));
    let ours = serde_json::to_value(linux.capture()).unwrap();
    let theirs = serde_json::to_value(portable.capture()).unwrap();
    let mut compared = 0;
    compare("", &ours, &theirs, &mut compared);
    assert!(compared >= 25, "{compared}");
    let percent = theirs["cpu"]["percent_all"].as_f64().unwrap();
    assert!((0.0..=100.0).contains(&percent));
}

#[test]
fn what_the_portable_source_lacks_has_a_reason() {
    let portable = capture("portable");
    std::thread::sleep(Duration::from_millis(250));
    let sensors = portable.sensors();
    assert!(sensors.len() > 80);
    for sensor in sensors {
        if let SensorState::Missing { reason, .. } = sensor.state {
            assert_ne!(reason, "it was not captured", "{}", sensor.field);
        }
    }
}
