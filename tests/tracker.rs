//! The tracker at work: its own thread, sinks, alerts, phases, tasks, and what it says where it cannot begin.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use runlore::events::{self, Identity, Schema, SessionStatus, TelemetryEvent};
use runlore::profile::Profiler;
use runlore::task;
use runlore::tracker::{
    About, AlertKind, Alerts, Collector, FlightRecorder, Level, Reading, Supported, Tracker,
};
use serde_json::json;
use tempfile::TempDir;

use crate::support::{child, expect_success, finished_in_time, is_child, record, the};

/// A device that says what the test says.
#[derive(Clone, Default)]
struct Scripted {
    used: Arc<AtomicU64>,
    broken: Arc<Mutex<Option<String>>>,
}

impl Collector for Scripted {
    fn about(&self) -> About {
        let supported =
            Supported { allocated: true, used: true, total: true, ..Supported::default() };
        About::new(3, "cuda", "scripted", supported)
    }

    fn collect(&mut self) -> Result<Reading, String> {
        if let Some(why) = self.broken.lock().unwrap().clone() {
            match why.as_str() {
                "panic" => panic!("on purpose"),
                _ => return Err(why),
            }
        }
        let used = Some(self.used.load(Ordering::Relaxed));
        Ok(Reading { allocated: used, used, total: Some(100), ..Reading::default() })
    }
}

impl Scripted {
    fn set(&self, used: u64) {
        self.used.store(used, Ordering::Relaxed);
    }
}

fn kinds(events: &[TelemetryEvent]) -> Vec<&str> {
    events.iter().map(|event| &*event.event_type).collect()
}

/// Never by itself: the test says when.
const RARELY: Duration = Duration::from_secs(3600);

#[test]
fn what_a_tracker_saw_is_in_its_sink() {
    let folder = TempDir::new().unwrap();
    let device = Scripted::default();
    let tracker = Tracker::builder()
        .interval(RARELY)
        .collector(device.clone())
        .sink(folder.path())
        .job("job-7")
        .session("session-1")
        .start()
        .unwrap();
    tracker.sample_now();
    tracker.set_context("warm-up");
    tracker.set_metadata("batch", 32);
    device.set(50);
    tracker.sample_now();
    tracker.event("checkpoint", "saved", [("path", "a.bin")]);
    {
        let _outer = tracker.phase("train");
        let _inner = tracker.phase("forward");
    }
    let seen = tracker.events();
    tracker.export(folder.path().join("events.json"), Schema::V4).unwrap();
    let stopped = tracker.stop();
    assert!(stopped.problem.is_none(), "{:?}", stopped.problem);
    assert_eq!(stopped.session.status, SessionStatus::Completed);
    assert_eq!(stopped.statistics.peak_memory, 50);

    let loaded = events::load(folder.path()).unwrap();
    assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
    let session = &loaded.sessions[0];
    assert_eq!(session.summary, stopped.session);
    let found = &session.events;
    assert_eq!(found[..seen.len()], seen[..], "what memory holds is what was written");
    assert_eq!(found.last().unwrap().event_type, "stop");
    assert_eq!(found[0].event_type, "start");
    let of = |kind: &str| found.iter().rfind(|event| event.event_type == kind).unwrap();
    assert_eq!(of("sample").context.as_deref(), Some("warm-up"));
    assert_eq!((of("sample").metadata["batch"].as_u64(), of("sample").device_id), (Some(32), 3));
    assert_eq!(of("sample").job_id.as_deref(), Some("job-7"));
    assert_eq!(of("checkpoint").metadata["path"], "a.bin");
    let forward = found
        .iter()
        .find(|event| {
            event.metadata.get("phase_scope").is_some_and(|scope| scope["name"] == "forward")
        })
        .unwrap();
    let scope = &forward.metadata["phase_scope"];
    assert_eq!(scope["path"], serde_json::json!(["train", "forward"]));
    assert_eq!((&scope["depth"], &scope["scope_id"]), (&2.into(), &"session-1:2".into()));
    assert_eq!(scope["parent_scope_id"], "session-1:1");
    assert_eq!(
        kinds(&found[found.len() - 5..]),
        ["phase_enter", "phase_enter", "phase_exit", "phase_exit", "stop"]
    );
    let exported = events::load(folder.path().join("events.json")).unwrap();
    assert_eq!(exported.sessions[0].events, seen);
}

/// Reads all counters that schema 2 and 3 require.
struct Complete;

impl Collector for Complete {
    fn about(&self) -> About {
        let supported =
            Supported { allocated: true, reserved: true, used: true, ..Supported::default() };
        About::new(0, "cuda", "scripted", supported)
    }

    fn collect(&mut self) -> Result<Reading, String> {
        let (allocated, reserved, used) = (Some(5), Some(7), Some(9));
        Ok(Reading { allocated, reserved, used, ..Reading::default() })
    }
}

#[test]
fn events_are_exported_in_every_schema_and_format() {
    let folder = TempDir::new().unwrap();
    let tracker = Tracker::builder().interval(RARELY).collector(Complete).start().unwrap();
    tracker.event("checkpoint", "before the first sample that was asked for", [("step", 1)]);
    tracker.sample_now();
    let seen = tracker.events();
    assert_eq!(kinds(&seen)[..3], ["start", "peak", "sample"]);
    let start = &seen[0];
    assert_eq!(start.allocator_allocated_bytes, Some(5));
    assert_eq!((start.allocator_reserved_bytes, start.device_used_bytes), (Some(7), Some(9)));
    assert!(seen.iter().all(|event| event.allocator_change_bytes == Some(0)), "{seen:?}");
    for (number, schema) in [(2, Schema::V2), (3, Schema::V3), (4, Schema::V4)] {
        for format in ["json", "jsonl", "csv"] {
            let file = folder.path().join(format!("v{number}.{format}"));
            tracker.export(&file, schema).unwrap();
            let loaded = events::load(&file).unwrap();
            assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
            assert_eq!(kinds(&loaded.sessions[0].events), kinds(&seen), "{file:?}");
        }
    }
}

#[test]
fn a_tracker_is_stopped_then_exported() {
    let folder = TempDir::new().unwrap();
    let tracker = Tracker::builder().interval(RARELY).collector(Complete).start().unwrap();
    tracker.sample_now();
    let seen = tracker.events();
    let stopped = tracker.stop();
    let events = stopped.events();
    assert_eq!(events[..seen.len()], seen[..]);
    assert_eq!(kinds(&events).last(), Some(&"stop"));
    // As Stormlog's users write it: the folder is not there yet.
    let file = folder.path().join("artifacts/events.json");
    stopped.export(&file, Schema::V2).unwrap();
    assert_eq!(kinds(&events::load(&file).unwrap().sessions[0].events), kinds(&events));
    assert_eq!(stopped.timeline(RARELY).allocated, [Some(5)]);
}

#[test]
fn an_export_that_fails_leaves_the_file_as_it_was() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("events.json");
    fs::write(&file, "precious").unwrap();
    let tracker = Tracker::builder().interval(RARELY).collector(Scripted::default()).start();
    // It does not know what is reserved, which schema 3 cannot say.
    let refused = tracker.unwrap().export(&file, Schema::V3).unwrap_err().to_string();
    assert!(refused.contains("allocator_reserved_bytes"), "{refused}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
}

#[test]
fn samples_come_by_themselves_on_time() {
    let tracker = Tracker::builder().interval(Duration::from_millis(5)).start().unwrap();
    let began = Instant::now();
    while tracker.statistics().samples < 10 {
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", tracker.statistics());
        std::thread::sleep(Duration::from_millis(5));
    }
    let statistics = tracker.stop().statistics;
    assert_eq!(statistics.backend, "cpu");
    if cfg!(target_os = "linux") {
        assert!(statistics.current_memory_reserved > Some(1 << 20), "{statistics:?}");
        assert!(statistics.device_total > statistics.current_device_used, "{statistics:?}");
        assert_eq!(statistics.collector_health_status, "healthy", "{statistics:?}");
    }
}

#[test]
fn alerts_reach_callbacks_the_cleanup_and_the_flight_recorder() {
    let folder = TempDir::new().unwrap();
    let device = Scripted::default();
    let told = Arc::new(Mutex::new(Vec::new()));
    let cleaned = Arc::new(AtomicU64::new(0));
    let (tell, clean) = (Arc::clone(&told), Arc::clone(&cleaned));
    let tracker = Tracker::builder()
        .interval(RARELY)
        .collector(device.clone())
        .alerts(Alerts::default().memory(80.0, 95.0))
        .on_alert(|_| panic!("a callback that fails harms nobody"))
        .on_alert(move |alert| tell.lock().unwrap().push((alert.level, alert.kind)))
        .cleanup(move || _ = clean.fetch_add(1, Ordering::Relaxed))
        .flight_recorder(FlightRecorder::new(folder.path().join("dumps")))
        .start()
        .unwrap();
    for used in [10, 85, 85, 97, 97, 99] {
        device.set(used);
        tracker.sample_now();
    }
    for _ in 0..2 {
        assert!(tracker.failed(&std::io::Error::other("out of memory")));
    }
    let seen = tracker.events();
    let stopped = tracker.stop();
    let expected = [
        (Level::Warning, AlertKind::Memory),
        (Level::Critical, AlertKind::Memory),
        (Level::Error, AlertKind::Failure),
        (Level::Error, AlertKind::Failure),
    ];
    assert_eq!(*told.lock().unwrap(), expected);
    assert_eq!(cleaned.load(Ordering::Relaxed), 1);
    assert_eq!(kinds(&seen).iter().filter(|kind| **kind == "cleanup").count(), 1);
    let cleanup = &seen.iter().find(|event| event.event_type == "cleanup").unwrap().metadata;
    assert!(cleanup["alert"] == "memory" && cleanup["succeeded"] == true, "{cleanup:?}");
    assert_eq!(stopped.statistics.alert_count, 4);

    let dumps = fs::read_dir(folder.path().join("dumps")).unwrap().flatten();
    let mut dumps: Vec<_> = dumps.map(|dump| dump.path()).collect();
    dumps.sort();
    assert_eq!(dumps.len(), 2, "one for the alert, one for the failures: {dumps:?}");
    let failure = dumps.pop().unwrap();
    assert_eq!(stopped.statistics.last_oom_dump_path.as_deref(), failure.to_str());
    let loaded = events::load(&failure).unwrap();
    assert!(kinds(&loaded.sessions[0].events).contains(&"error"));
    assert!(failure.join("environment.json").exists());
    let dump = dumps.pop().unwrap();
    let loaded = events::load(&dump).unwrap();
    assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
    assert_eq!(loaded.sessions[0].summary.status, SessionStatus::Incomplete);
    assert!(kinds(&loaded.sessions[0].events).contains(&"critical"));
    let flight: serde_json::Value =
        serde_json::from_slice(&fs::read(dump.join("flight.json")).unwrap()).unwrap();
    assert_eq!(flight["reason"], "CRITICAL: Memory usage at 97.0%");
    assert_eq!(flight["statistics"]["peak_device_used"], 97);
    assert!(dump.join("environment.json").exists());
}

#[test]
fn a_collector_that_fails_or_panics_costs_nothing_but_its_samples() {
    let device = Scripted::default();
    let tracker = Tracker::builder().interval(RARELY).collector(device.clone()).start().unwrap();
    tracker.sample_now();
    *device.broken.lock().unwrap() = Some("panic".to_owned());
    tracker.sample_now();
    tracker.sample_now();
    let statistics = tracker.statistics();
    assert_eq!(statistics.collector_health_status, "unhealthy");
    assert_eq!(statistics.collector_consecutive_failures, 1, "it is not tried again at once");
    assert_eq!(statistics.collector_last_error.as_deref(), Some("the collector panicked"));
    assert!(tracker.stop().problem.is_none());
}

#[test]
fn samples_carry_the_open_task() {
    let events = Arc::new(Mutex::new(Vec::new()));
    let all = Arc::clone(&events);
    let store = record(move || {
        let around = task("around").start();
        let tracker = Tracker::builder().interval(RARELY).start().unwrap();
        tracker.sample_now();
        task("inside").run(|| tracker.sample_now());
        around.finish();
        tracker.sample_now();
        *all.lock().unwrap() = tracker.events();
    });
    let mut samples: Vec<Option<String>> = events
        .lock()
        .unwrap()
        .iter()
        .filter(|event| event.event_type == "sample")
        .map(|event| event.metadata.get("task_id").map(|id| id.as_str().unwrap().to_owned()))
        .collect();
    // The first one that it takes by itself may come before the first that is asked for.
    samples.dedup();
    let id = |name| the(&store, name).task_id.to_string();
    assert_eq!(samples[0].as_deref(), Some(&*id("around")));
    assert_eq!(samples[1].as_deref(), Some(&*id("inside")));
    assert_ne!(samples[2].as_deref(), Some(&*id("around")));
}

#[test]
fn what_cannot_be_is_told_in_one_sentence() {
    let refused =
        |builder: runlore::tracker::TrackerBuilder| builder.start().unwrap_err().to_string();
    assert_eq!(
        refused(Tracker::builder().interval(Duration::ZERO)),
        "an interval of 0ns between samples is impossible: give 1 ms to 24 h"
    );
    assert!(
        refused(Tracker::builder().alerts(Alerts::default().memory(90.0, 80.0)))
            .contains("90 and 80 percent")
    );
    assert!(refused(Tracker::builder().job(" ")).contains("a job cannot be called"));
    assert!(refused(Tracker::builder().session("")).contains("a session cannot be called"));
    let third = Identity { rank: 3, ..Identity::default() };
    assert_eq!(
        refused(Tracker::builder().identity(third)),
        "a process of rank 3 and local rank 0 cannot be one of 1: both must be below `world_size`"
    );
    let folder = TempDir::new().unwrap();
    let tracker = Tracker::builder().sink(folder.path()).start().unwrap();
    assert!(refused(Tracker::builder().sink(folder.path())).contains("another tracker writes to"));
    drop(tracker);
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(refused(Tracker::builder().sink(&file)).contains("cannot write to the sink"));
    let dumps = refused(Tracker::builder().flight_recorder(FlightRecorder::new(&file)));
    assert!(dumps.starts_with("cannot write dumps to "), "{dumps}");
}

#[test]
fn what_is_prepared_reads_nothing_and_changes_no_file_until_it_starts() {
    struct Counted(Arc<AtomicU64>);

    impl Collector for Counted {
        fn about(&self) -> About {
            Scripted::default().about()
        }

        fn collect(&mut self) -> Result<Reading, String> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(Reading::default())
        }
    }

    let folder = TempDir::new().unwrap();
    let [old, new, sink] = ["old.jsonl", "new.jsonl", "sink"].map(|name| folder.path().join(name));
    fs::write(&old, "precious").unwrap();
    let read = Arc::new(AtomicU64::new(0));
    let prepared = || {
        Tracker::builder()
            .interval(Duration::from_millis(1))
            .collector(Counted(Arc::clone(&read)))
            .output(&old, None, Schema::V4)
            .output(&new, None, Schema::V4)
            .sink(&sink)
            .prepare()
            .unwrap()
    };
    drop(prepared());
    assert_eq!(fs::read_to_string(&old).unwrap(), "precious");
    assert!(!new.exists());
    let manifest: serde_json::Value =
        serde_json::from_slice(&fs::read(sink.join("manifest.json")).unwrap()).unwrap();
    assert_eq!(manifest["sessions"][0]["status"], "incomplete");

    let waiting = prepared();
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(read.load(Ordering::Relaxed), 0);
    let tracker = waiting.start().unwrap();
    tracker.sample_now();
    assert!(tracker.stop().problem.is_none());
    assert!(read.load(Ordering::Relaxed) > 0);
    for path in [&old, &new] {
        assert_eq!(events::load(path).unwrap().sessions[0].events[0].event_type, "start");
    }
}

/// Everything below a folder, as one text.
fn all_in(folder: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        text += &if path.is_dir() { all_in(&path) } else { fs::read_to_string(&path).unwrap() };
    }
    text
}

#[test]
fn secrets_are_in_no_event_file_or_dump() {
    let folder = TempDir::new().unwrap();
    let device = Scripted::default();
    let tracker = Tracker::builder()
        .interval(RARELY)
        .collector(device.clone())
        .sink(folder.path().join("sink"))
        .output(folder.path().join("events.jsonl"), None, Schema::V4)
        .flight_recorder(FlightRecorder::new(folder.path().join("dumps")))
        .start()
        .unwrap();
    tracker.set_context("with password=hunter2");
    tracker.set_metadata("api_key", "hunter2");
    tracker.set_metadata("store", json!({"url": "pg://ann:hunter2@host/db", "token": ["hunter2"]}));
    tracker.sample_now();
    tracker.event("login token=hunter2", "at https://h/?token=hunter2", [("password", "hunter2")]);
    drop(tracker.phase_with("fetch secret=hunter2", [("authorization", "Bearer hunter2")]));
    *device.broken.lock().unwrap() = Some("cannot ask pg://ann:hunter2@host".to_owned());
    tracker.sample_now();
    assert!(tracker.failed(&std::io::Error::other("out of memory, password=hunter2")));
    let seen = format!("{:?}{:?}", tracker.events(), tracker.statistics());
    let stopped = tracker.stop();
    assert!(stopped.problem.is_none(), "{:?}", stopped.problem);
    assert!(stopped.statistics.last_oom_dump_path.is_some());
    for text in [seen, all_in(folder.path())] {
        assert!(text.contains("[redacted]") && text.contains("ann"), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
    }
}

#[test]
fn an_event_that_is_none_is_told_at_the_end_and_costs_only_itself() {
    let folder = TempDir::new().unwrap();
    let tracker = Tracker::builder()
        .interval(RARELY)
        .collector(Scripted::default())
        .sink(folder.path().join("sink"))
        .flight_recorder(FlightRecorder::new(folder.path().join("dumps")))
        .start()
        .unwrap();
    tracker.event("good", "before", [("number", 1)]);
    // What every event says of its device cannot be anything.
    tracker.event("bad", "it", [("memory_capabilities", "none of yours")]);
    tracker.event("good", "after", [("number", 2)]);
    assert!(tracker.failed(&std::io::Error::other("out of memory")));
    let stopped = tracker.stop();
    let problem = stopped.problem.unwrap().to_string();
    assert_eq!(
        problem,
        "1 event is not in the sink: metadata.memory_capabilities must be an object"
    );
    assert_eq!(stopped.statistics.sink_dropped_events, 1);
    let dump = PathBuf::from(stopped.statistics.last_oom_dump_path.unwrap());
    for sink in [folder.path().join("sink"), dump.clone()] {
        let loaded = events::load(&sink).unwrap();
        let found = kinds(&loaded.sessions[0].events);
        assert_eq!(found.iter().filter(|kind| **kind == "good").count(), 2, "{found:?}");
        assert!(!found.contains(&"bad"), "{found:?}");
    }
    let flight: serde_json::Value =
        serde_json::from_slice(&fs::read(dump.join("flight.json")).unwrap()).unwrap();
    assert_eq!(flight["refused_event_count"], 1);
}

#[test]
fn all_that_went_wrong_is_told_at_the_end() {
    let folder = TempDir::new().unwrap();
    let tracker = Tracker::builder()
        .interval(RARELY)
        .collector(Scripted::default())
        .sink(folder.path().join("sink"))
        // Schema 3 cannot express that the reserved bytes are unknown.
        .output(folder.path().join("events.jsonl"), None, Schema::V3)
        .start()
        .unwrap();
    tracker.event("bad", "it", [("memory_capabilities", "none of yours")]);
    let problem = tracker.stop().problem.unwrap().to_string();
    let (sink, file) = problem.split_once("; ").unwrap();
    assert!(sink.starts_with("1 event is not in the sink: "), "{problem}");
    assert!(file.contains("missing from the file: "), "{problem}");
}

#[test]
fn a_file_is_begun_when_the_tracker_is_and_soon_has_what_was_seen() {
    let folder = TempDir::new().unwrap();
    let (file, sink) = (folder.path().join("events.jsonl"), folder.path().join("sink"));
    let begun = || Tracker::builder().interval(RARELY).output(&file, None, Schema::V4);
    fs::write(&file, "precious").unwrap();
    fs::write(&sink, "in the way").unwrap();
    for impossible in [begun().session(" "), begun().sink(&sink)] {
        impossible.start().unwrap_err();
        assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    }
    let tracker = begun().start().unwrap();
    let began = Instant::now();
    while !fs::read_to_string(&file).unwrap().ends_with('\n') {
        assert!(began.elapsed() < Duration::from_secs(60), "nothing is in the file");
        std::thread::sleep(Duration::from_millis(20));
    }
    let loaded = events::load(&file).unwrap();
    assert_eq!(loaded.sessions[0].events[0].event_type, "start");
    assert!(tracker.stop().problem.is_none());
}

#[test]
fn events_have_the_rank_that_tasks_have() {
    const TEST: &str = "tracker::events_have_the_rank_that_tasks_have";
    if !is_child(TEST) {
        let mut command = child(TEST);
        // The first launcher says what cannot be.
        command.env("RANK", "x").env("WORLD_SIZE", "4");
        command.env("SLURM_PROCID", "5").env("SLURM_LOCALID", "2").env("SLURM_NTASKS", "6");
        command.env_remove("OMPI_COMM_WORLD_RANK");
        return expect_success(&finished_in_time(command));
    }
    let store = record(|| {
        let tracker = Tracker::builder().interval(RARELY).start().unwrap();
        let identity = tracker.events()[0].identity();
        assert_eq!((identity.rank, identity.local_rank, identity.world_size), (5, 2, 6));
        task("inside").run(|| ());
    });
    assert_eq!(the(&store, "inside").rank, Some(5));
}

#[cfg(unix)]
#[test]
fn a_forked_child_leaves_its_parents_tracker_alone() {
    let folder = TempDir::new().unwrap();
    let tracker = Tracker::builder()
        .interval(RARELY)
        .collector(Scripted::default())
        .sink(folder.path())
        .start()
        .unwrap();
    tracker.sample_now();
    let status = fork_and(|| {
        tracker.sample_now();
        tracker.set_context("of the child");
        tracker.clear_context();
        tracker.set_metadata("of", "the child");
        tracker.event("child", "of the child", [("number", 1)]);
        drop(tracker.phase("of the child"));
        assert!(tracker.failed(&std::io::Error::other("out of memory")));
        let seen = tracker.events().len();
        let stopped = tracker.stop();
        assert!(stopped.problem.is_none());
        assert_eq!(seen as u64, stopped.statistics.total_events);
    });
    assert_eq!(status, 0);
    // The parent's has ended with the closure, which ran in the child only.
    let loaded = events::load(folder.path()).unwrap();
    assert_eq!(loaded.sessions[0].summary.status, SessionStatus::Completed);
    let mut found = kinds(&loaded.sessions[0].events);
    found.dedup();
    assert_eq!(found, ["start", "sample", "stop"]);
}

/// Runs a closure in a forked child, and waits for that; its exit code. The parent forgets what the closure holds.
#[cfg(unix)]
#[allow(unsafe_code)]
fn fork_and(work: impl FnOnce()) -> i32 {
    // SAFETY: the child runs the closure and ends; an alarm ends it if that hangs.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: plain calls.
        unsafe { libc::alarm(20) };
        let is_well = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_ok();
        // SAFETY: as above.
        unsafe { libc::_exit(i32::from(!is_well)) };
    }
    drop(work);
    let mut status = 0;
    // SAFETY: the place is valid and the child is ours.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -1 }
}

/// In a process of its own: what others free meanwhile would be taken off what it holds.
#[test]
fn a_scope_is_a_task_with_its_memory() {
    const TEST: &str = "tracker::a_scope_is_a_task_with_its_memory";
    if !is_child(TEST) {
        return expect_success(&finished_in_time(child(TEST)));
    }
    let profiler = Profiler::new();
    let inside = profiler.clone();
    let store = record(move || {
        let kept = inside.scope("load").run(|| std::hint::black_box(vec![1_u8; 64 << 20]));
        let mut scope = inside.scope("fit");
        scope.snapshot("half way");
        drop(kept);
        scope.finish();
        _ = std::panic::catch_unwind(|| inside.scope("fail").run(|| panic!("on purpose")));
    });
    let results = profiler.results();
    let names: Vec<_> = results.iter().map(|result| &*result.name).collect();
    assert_eq!(names, ["load", "fit", "fail"]);
    let load = &results[0];
    assert_eq!(load.task_id.as_deref(), Some(&*the(&store, "load").task_id.to_string()));
    let recorded = the(&store, "load").generated.unwrap();
    assert_eq!(recorded["memory"]["after_bytes"].as_u64(), load.after_bytes);
    assert_eq!(the(&store, "fail").status, Some(runlore::record::Status::Error));
    if cfg!(target_os = "linux") {
        assert!(load.change_bytes() > 60 << 20, "{load:?}");
        assert!(load.peak_bytes >= load.after_bytes, "{load:?}");
    }
    let report = serde_json::to_value(profiler.report()).unwrap();
    assert_eq!(report["summary"]["by_name"]["load"]["count"], 1);
    assert_eq!(report["snapshots"][0]["label"], "half way");
    let folder = TempDir::new().unwrap();
    profiler.export(folder.path().join("profile.json")).unwrap();
    let file: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.path().join("profile.json")).unwrap()).unwrap();
    assert_eq!(file, report);
}

#[test]
fn a_process_can_be_tracked_alone() {
    use runlore::tracker::Device;

    let tracker = Tracker::builder().interval(RARELY).device(Device::Process).start().unwrap();
    tracker.sample_now();
    let events = tracker.events();
    let sample = events.iter().rfind(|event| event.event_type == "sample").unwrap();
    assert!(sample.allocator_reserved_bytes.is_some_and(|bytes| bytes > 0), "{sample:?}");
    assert_eq!(sample.metadata["rss_bytes"], sample.allocator_reserved_bytes.unwrap());
    assert_eq!((sample.device_used_bytes, sample.device_total_bytes), (None, None));
    assert!(!sample.metadata.contains_key("swap_total_bytes"), "{sample:?}");
    let statistics = tracker.statistics();
    assert!(!statistics.telemetry_partial, "nothing is missing that it should know");
    assert_eq!(statistics.memory_capabilities["supports_device_used"], false);
}

/// On a machine that has none: a library answers as the vendor's does.
#[cfg(all(target_os = "linux", feature = "nvidia", feature = "amd"))]
#[test]
fn graphics_processors_are_devices_of_their_own() {
    use crate::gpu_stub::Machine;
    use runlore::tracker::Device;

    const TEST: &str = "tracker::graphics_processors_are_devices_of_their_own";
    Machine::with(&["nvml"]).run(TEST, || {
        let tracker = Tracker::builder()
            .interval(RARELY)
            .device(Device::Host)
            .device(Device::Gpus)
            .start()
            .unwrap();
        let began = Instant::now();
        // On a busy machine a driver may be late, and is then asked again.
        while tracker.statistics_of(0).is_none_or(|device| device.current_device_used.is_none()) {
            assert!(began.elapsed() < Duration::from_secs(60), "{:?}", tracker.statistics_of(0));
            tracker.sample_now();
        }
        let device = tracker.statistics_of(0).unwrap();
        assert_eq!(device.backend, "cuda");
        assert!(device.device_total >= device.current_device_used, "{device:?}");
        assert_eq!(device.memory_capabilities["supports_allocator_reserved"], false);
        let events = tracker.events();
        let devices: std::collections::BTreeSet<i64> =
            events.iter().map(|event| event.device_id).collect();
        assert!(devices.contains(&-1) && devices.contains(&0), "{devices:?}");
        let tells = |event: &TelemetryEvent| event.metadata.contains_key("temperature_celsius");
        assert!(events.iter().any(|event| event.device_id == 0 && tells(event)), "{events:?}");
        assert!(events.iter().all(|event| event.to_record(Schema::V4).is_ok()));
        let none = Tracker::builder().device(Device::Gpu(77)).start().unwrap_err();
        assert!(none.to_string().contains("none has the number 77"), "{none}");
    });
}
