//! Tests the core on scripted readings: results must equal Stormlog's, and failures must be
//! handled.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::core::Core;
use super::entry::Session;
use super::time::Clock;
use super::*;
use crate::events::Identity;

const MS: u64 = 1_000_000;

fn golden(name: &str) -> Value {
    let path = format!("{}/../../tests/data/stormlog/v043/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Creates a core whose clock the test sets, in milliseconds.
fn core(about: About, alerts: Option<Alerts>, history: usize) -> (Core, Arc<AtomicU64>) {
    let time = Arc::new(AtomicU64::new(0));
    let read = (Arc::clone(&time), Arc::clone(&time));
    let clock = Clock::new(
        move || read.0.load(Ordering::Relaxed) * MS,
        move || (1_700_000_000_000 + read.1.load(Ordering::Relaxed)) * MS,
    );
    let session = Session {
        id: "session".to_owned(),
        host: "host".to_owned(),
        pid: 1,
        identity: Identity::default(),
        interval_ms: 50,
        started_ns: clock.now(),
    };
    (Core::new(session, clock, vec![about], alerts, history, false), time)
}

fn cuda() -> About {
    let supported = Supported {
        allocated: true,
        reserved: true,
        active: true,
        inactive: true,
        used: true,
        free: true,
        total: true,
    };
    About::new(0, "cuda", "scripted", supported)
}

/// Replaces the names of Stormlog's units by the binary ones: `MB` by `MiB`.
fn binary(text: &str) -> String {
    text.replace(" MB", " MiB").replace(" GB", " GiB")
}

fn kinds(core: &Core) -> Vec<String> {
    core.events().into_iter().map(|event| event.event_type.into()).collect()
}

/// Stormlog's tracker was given the readings that its samples contain.
#[test]
fn events_are_those_of_stormlog_on_the_same_readings() {
    let theirs = golden("alerts_events.json");
    let theirs = theirs.as_array().unwrap();
    let (mut core, time) = core(cuda(), Some(Alerts::default()), 10_000);
    core.start();
    for event in theirs {
        time.fetch_add(50, Ordering::Relaxed);
        let bytes = |name: &str| event[name].as_u64();
        match event["event_type"].as_str().unwrap() {
            "sample" => core.sample(
                0,
                &Ok(Reading {
                    allocated: bytes("allocator_allocated_bytes"),
                    reserved: bytes("allocator_reserved_bytes"),
                    active: bytes("allocator_active_bytes"),
                    inactive: bytes("allocator_inactive_bytes"),
                    used: bytes("device_used_bytes"),
                    free: bytes("device_free_bytes"),
                    total: bytes("device_total_bytes"),
                    host: None,
                    activity: None,
                }),
            ),
            "error" => core.failure(event["context"].as_str().unwrap().to_owned(), Map::new()),
            "stop" => core.stop(SessionStatus::Completed),
            _ => {}
        }
    }
    let ours = core.events();
    assert_eq!(ours.len(), theirs.len());
    let mut differences = Vec::new();
    for (ours, theirs) in ours.iter().zip(theirs) {
        let ours = ours.to_record(crate::events::Schema::V4).unwrap();
        for (name, value) in theirs.as_object().unwrap() {
            let is_same = match name.as_str() {
                // These differ between runs and packages.
                "session_id" | "timestamp_ns" | "collector" | "pid" | "host" | "job_id"
                | "metadata" => true,
                // The same number with another unit name.
                "context" => ours[name] == value.as_str().map(binary).unwrap_or_default(),
                _ => ours[name] == *value,
            };
            if !is_same {
                differences
                    .push(format!("{} {name}: {} for {value}", ours["event_type"], ours[name]));
            }
        }
    }
    // The device is not read before the first sample, and utilisation is based on the memory in use
    // by all processes.
    let expected = [
        r#""start" device_total_bytes: null for 17179869184"#,
        r#""warning" context: "WARNING: Memory usage at 87.5%" for "WARNING: Memory usage at 81.2%""#,
        r#""critical" context: "CRITICAL: Memory usage at 98.4%" for "CRITICAL: Memory usage at 96.9%""#,
    ];
    assert_eq!(differences, expected);

    // Hysteresis makes no difference here: memory never rose to the same level twice.
    let callbacks: Vec<Value> =
        core.told.iter().map(|alert| json!([alert.level, alert.message])).collect();
    let theirs = golden("alerts_callbacks.json");
    let level_of = |alert: &Value| alert[0].clone();
    assert_eq!(
        callbacks.iter().map(level_of).collect::<Vec<_>>(),
        theirs.as_array().unwrap().iter().map(level_of).collect::<Vec<_>>()
    );

    let ours = serde_json::to_value(core.statistics(0).unwrap()).unwrap();
    let theirs = golden("alerts_statistics.json");
    let mut differences = Vec::new();
    for (name, value) in theirs.as_object().unwrap() {
        assert!(ours.get(name).is_some(), "{name} is one of ours too");
        let is_of_the_run = name.ends_with("_time")
            || name.contains("per_second")
            || name.contains("duration")
            || matches!(&**name, "last_memory_check" | "session_id");
        if !is_of_the_run && ours[name] != *value {
            differences.push(name.as_str());
        }
    }
    // Stormlog's flight recorder was on, and its collector has another name.
    differences.sort_unstable();
    assert_eq!(
        differences,
        ["last_oom_dump_path", "memory_capabilities", "oom_flight_recorder_enabled"]
    );
}

#[test]
fn a_timeline_is_that_of_stormlog() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/stormlog/v043/");
    let loaded = crate::events::load(format!("{folder}events.json")).unwrap();
    let ours = Timeline::of(&loaded.sessions[0].events, Duration::from_millis(100));
    let theirs = golden("timeline_interval_0.1.json");
    let numbers = |name: &str| -> Vec<f64> {
        theirs[name].as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
    };
    assert_eq!(ours.timestamps.len(), numbers("timestamps").len());
    for (ours, theirs) in ours.timestamps.iter().zip(numbers("timestamps")) {
        assert!((ours - theirs).abs() < 1e-3, "{ours} for {theirs}");
    }
    let column =
        |ours: &[Option<u64>]| -> Vec<f64> { ours.iter().map(|one| one.unwrap() as f64).collect() };
    assert_eq!(column(&ours.allocated), numbers("allocated"));
    assert_eq!(column(&ours.reserved), numbers("reserved"));
}

#[test]
fn a_collector_that_fails_is_told_once_and_sampled_again() {
    let (mut core, time) = core(cuda(), None, 100);
    let reading = |allocated| {
        let all = Some(allocated);
        Ok(Reading {
            allocated: all,
            reserved: all,
            active: all,
            inactive: Some(0),
            used: all,
            free: Some(0),
            total: all,
            host: None,
            activity: None,
        })
    };
    core.sample(0, &reading(10));
    for _ in 0..3 {
        time.fetch_add(1000, Ordering::Relaxed);
        core.sample(0, &Err("the driver is gone".to_owned()));
    }
    let statistics = core.statistics(0).unwrap();
    assert_eq!(statistics.collector_health_status, "unhealthy");
    assert_eq!(statistics.collector_consecutive_failures, 3);
    assert_eq!(statistics.collector_last_error.as_deref(), Some("the driver is gone"));
    assert!(!core.devices[0].health.is_due(|| core.clock.now() + 3999 * MS));
    assert!(core.devices[0].health.is_due(|| core.clock.now() + 4000 * MS));
    core.sample(0, &reading(30));
    let expected = [
        "peak",
        "sample",
        "collector_degraded",
        "collector_recovered",
        "peak",
        "allocation",
        "sample",
    ];
    assert_eq!(kinds(&core), expected);
    assert!(core.events().iter().all(|event| event.to_record(crate::events::Schema::V4).is_ok()));
}

#[test]
fn what_there_is_no_room_for_is_counted() {
    let (mut core, _) = core(cuda(), None, 3);
    for _ in 0..5 {
        core.sample(0, &Ok(Reading::default()));
    }
    let statistics = core.statistics(0).unwrap();
    assert_eq!((statistics.history_retained_events, statistics.history_dropped_events), (3, 3));
    assert_eq!((statistics.total_events, statistics.history_window_limit_events), (6, 3));
}

#[test]
fn a_reading_that_cannot_be_is_made_an_event_all_the_same() {
    let (mut core, _) = core(cuda(), Some(Alerts::default()), 100);
    for allocated in [u64::MAX, 0] {
        let all = Some(allocated);
        let reading = Reading {
            allocated: all,
            used: all,
            total: Some(100),
            free: all,
            ..Reading::default()
        };
        core.sample(0, &Ok(reading));
    }
    for event in core.events() {
        assert!(event.to_record(crate::events::Schema::V4).is_ok(), "{event:?}");
    }
}

#[test]
fn a_clock_that_is_set_back_is_told_and_time_goes_on() {
    let (mut core, time) = core(cuda(), None, 100);
    let wall = Arc::new(AtomicU64::new(1_000_000));
    let (monotonic, since) = (Arc::clone(&time), Arc::clone(&time));
    let start = Arc::clone(&wall);
    core.clock = Clock::new(
        move || monotonic.load(Ordering::Relaxed) * MS,
        move || (start.load(Ordering::Relaxed) + since.load(Ordering::Relaxed)) * MS,
    );
    for step in 0..4 {
        time.fetch_add(600, Ordering::Relaxed);
        if step == 2 {
            wall.fetch_sub(600_000, Ordering::Relaxed);
        }
        core.sample(0, &Ok(Reading::default()));
    }
    let events = core.events();
    assert!(events.is_sorted_by_key(|event| event.timestamp_ns));
    let told: Vec<_> = events.iter().filter(|event| event.event_type == "clock_changed").collect();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].metadata["clock_step_seconds"], -600.0);
    assert_eq!(core.statistics(0).unwrap().clock_steps, 1);
}

/// The worst case: the thread holds the lock of the core during the fork, so the child can never
/// take it.
#[cfg(unix)]
#[allow(unsafe_code)]
#[test]
fn a_child_that_is_forked_while_the_thread_is_busy_waits_for_nothing() {
    let tracker = Tracker::builder().interval(Duration::from_secs(3600)).start().unwrap();
    let shared = Arc::clone(&tracker.shared);
    let (is_held, held) = std::sync::mpsc::channel();
    let (release, is_released) = std::sync::mpsc::channel::<()>();
    let busy = std::thread::spawn(move || {
        let core = shared.lock();
        is_held.send(()).unwrap();
        is_released.recv().unwrap();
        drop(core);
    });
    held.recv().unwrap();
    // SAFETY: the child makes a few calls and exits. An alarm kills it if one of them hangs.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: a plain system call.
        unsafe { libc::alarm(20) };
        let session = tracker.shared.begun.session.session_id.clone();
        tracker.set_context("of the child");
        tracker.clear_context();
        tracker.set_metadata("of", "the child");
        tracker.event("child", "of the child", [("number", 1)]);
        drop(tracker.phase("of the child"));
        tracker.sample_now();
        tracker.failed(&std::io::Error::other("out of memory"));
        let sees_nothing = tracker.events().is_empty()
            && tracker.timeline(Duration::from_secs(1)).timestamps.is_empty()
            && tracker.statistics_of(-1).is_none()
            && tracker.session().session_id == session;
        let is_well = sees_nothing && tracker.stop().session.session_id == session;
        // SAFETY: a plain system call.
        unsafe { libc::_exit(i32::from(!is_well)) };
    }
    let mut status = 0;
    // SAFETY: `status` is valid and the child is ours.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    release.send(()).unwrap();
    busy.join().unwrap();
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status:#x}");
}
