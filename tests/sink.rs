//! Sinks, as they are written: rotation, retention, one writer, and whatever may go wrong.

use std::fs;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use runlore::events::{
    self, Problem, SessionStatus, SessionSummary, SinkOptions, SinkWriter, TelemetryEvent,
};
use runlore::tracker::{About, Collector, Reading, Supported, Tracker};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{self, Random, child, expect_success, is_child, tried};

fn event(session: &str, number: u64) -> TelemetryEvent {
    TelemetryEvent {
        session_id: session.into(),
        timestamp_ns: 1_700_000_000_000_000_000 + number * 1_000_000,
        host: "host".into(),
        allocator_allocated_bytes: Some(number),
        device_used_bytes: Some(number),
        ..TelemetryEvent::default()
    }
}

fn open(folder: &Path, options: SinkOptions, session: &str) -> SinkWriter {
    SinkWriter::open(folder, options, SessionSummary::of(&event(session, 0))).unwrap()
}

fn manifest(folder: &Path) -> Value {
    serde_json::from_slice(&fs::read(folder.join("manifest.json")).unwrap()).unwrap()
}

/// The numbers of all events of a session, as a reader finds them.
fn numbers(folder: &Path, session: &str) -> Vec<u64> {
    let loaded = events::load(folder).unwrap();
    let session = loaded.session(Some(session)).unwrap().unwrap();
    session.events.iter().map(|event| event.allocator_allocated_bytes.unwrap()).collect()
}

#[test]
fn segments_follow_each_other_and_none_is_larger_than_it_may_be() {
    let folder = TempDir::new().unwrap();
    let options = SinkOptions {
        segment_events: 10,
        flush_events: 7,
        keep_files: 4,
        ..SinkOptions::default()
    };
    let mut sink = open(folder.path(), options, "s");
    for number in 0..95 {
        sink.append(&event("s", number)).unwrap();
    }
    let totals = sink.close(SessionStatus::Completed, 1).unwrap();
    assert_eq!((totals.events, totals.rollovers, totals.pruned_segments), (95, 9, 6));
    let manifest = manifest(folder.path());
    let segments = manifest["segments"].as_array().unwrap();
    let counts: Vec<_> =
        segments.iter().map(|segment| segment["event_count"].as_u64().unwrap()).collect();
    assert_eq!(counts, [10, 10, 10, 5]);
    for segment in segments {
        let path = folder.path().join(segment["filename"].as_str().unwrap());
        assert_eq!(fs::metadata(path).unwrap().len(), segment["size_bytes"].as_u64().unwrap());
        assert_eq!(segment["closed"], true);
    }
    assert_eq!(numbers(folder.path(), "s"), (60..95).collect::<Vec<_>>());
    assert!(folder.path().join("rollups.json").exists());
}

#[test]
fn bytes_are_bounded_too() {
    let folder = TempDir::new().unwrap();
    let options = SinkOptions {
        segment_bytes: 8 << 10,
        keep_bytes: 24 << 10,
        flush_events: 3,
        ..SinkOptions::default()
    };
    let mut sink = open(folder.path(), options, "s");
    for number in 0..300 {
        sink.append(&event("s", number)).unwrap();
        let sizes = || fs::read_dir(folder.path()).unwrap().flatten();
        let segments =
            sizes().filter(|entry| entry.file_name().to_string_lossy().starts_with("segment-"));
        let sum: u64 = segments.map(|entry| entry.metadata().unwrap().len()).sum();
        assert!(sum <= 24 << 10, "{sum} bytes after {number} events");
    }
    sink.close(SessionStatus::Completed, 1).unwrap();
    assert_eq!(numbers(folder.path(), "s").last(), Some(&299));
}

/// Runs that are too short to fill a segment leave one each.
#[test]
fn no_more_is_kept_of_many_short_runs_than_of_a_long_one() {
    let folder = TempDir::new().unwrap();
    for number in 0..14 {
        let session = format!("s{number}");
        let mut sink = open(folder.path(), SinkOptions::default(), &session);
        sink.append(&event(&session, number)).unwrap();
        let totals = sink.close(SessionStatus::Completed, 1).unwrap();
        assert_eq!(totals.retained_files, (number + 1).min(8));
        assert_eq!(totals.pruned_segments, u64::from(number >= 8));
    }
    let names = fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.file_name());
    let segments = names.filter(|name| name.to_string_lossy().starts_with("segment-")).count();
    assert_eq!(segments, 8);
    assert_eq!(manifest(folder.path())["segments"].as_array().unwrap().len(), 8);
    let loaded = events::load(folder.path()).unwrap();
    assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
    assert_eq!(numbers(folder.path(), "s6"), [6], "the oldest that is kept");
}

#[test]
fn a_segment_whose_number_nobody_counts_up_to_is_in_nobodys_way() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("segment-18446744073709551615.jsonl"), "").unwrap();
    fs::write(folder.path().join("segment-000007.jsonl"), "").unwrap();
    let mut sink = open(folder.path(), SinkOptions::default(), "s");
    sink.append(&event("s", 1)).unwrap();
    sink.close(SessionStatus::Completed, 1).unwrap();
    assert!(folder.path().join("segment-000008.jsonl").exists());
    assert_eq!(numbers(folder.path(), "s"), [1]);
}

#[test]
fn a_second_writer_is_told_so_in_one_sentence() {
    let folder = TempDir::new().unwrap();
    let first = open(folder.path(), SinkOptions::default(), "first");
    let summary = SessionSummary::of(&event("second", 0));
    let refused = SinkWriter::open(folder.path(), SinkOptions::default(), summary).unwrap_err();
    assert!(refused.to_string().contains("another tracker writes to"), "{refused}");
    assert_eq!(events::read(folder.path()).unwrap().summaries()[0].status, SessionStatus::Running);
    drop(first);
    open(folder.path(), SinkOptions::default(), "second");
}

#[test]
fn what_makes_no_sense_is_told() {
    let folder = TempDir::new().unwrap();
    let summary = || SessionSummary::of(&event("s", 0));
    let refused =
        |options| SinkWriter::open(folder.path(), options, summary()).unwrap_err().to_string();
    let none = SinkOptions { flush_events: 0, ..SinkOptions::default() };
    assert_eq!(refused(none), "a sink's flush_events must be more than 0");
    let small = SinkOptions { keep_bytes: 10, ..SinkOptions::default() };
    assert!(refused(small).contains("keep at least as much as one segment"));
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let error = SinkWriter::open(&file, SinkOptions::default(), summary()).unwrap_err();
    assert!(error.to_string().contains("cannot write to the sink"), "{error}");

    let mut sink = open(folder.path(), SinkOptions::default(), "s");
    let foreign = sink.append(&event("other", 0)).unwrap_err();
    assert!(foreign.to_string().contains("does not match the active session"), "{foreign}");
}

#[test]
fn a_session_whose_writer_has_gone_is_interrupted_for_whoever_reads_it() {
    let folder = TempDir::new().unwrap();
    let options = SinkOptions { flush_events: 2, ..SinkOptions::default() };
    let mut sink = open(folder.path(), options, "dead");
    for number in 0..5 {
        sink.append(&event("dead", number)).unwrap();
    }
    drop(sink);
    // As if it was killed: nothing is closed. The fifth was in memory only, and half of it on disk.
    let segment = folder.path().join("segment-000001.jsonl");
    let whole = fs::read_to_string(&segment).unwrap();
    let mut text: String = whole.split_inclusive('\n').take(4).collect();
    text.push_str("{\"schema_version\": 4, \"sess");
    fs::write(&segment, &text).unwrap();

    let loaded = events::load(folder.path()).unwrap();
    let summary = &loaded.sessions[0].summary;
    assert_eq!(summary.status, SessionStatus::Interrupted);
    assert_eq!(summary.ended_at_ns, Some(1_700_000_000_003_000_000), "its last event tells");
    assert_eq!(numbers(folder.path(), "dead"), [0, 1, 2, 3]);
    let told: Vec<String> = loaded.problems.iter().map(Problem::reason).collect();
    assert_eq!(
        told,
        [
            "the session dead was interrupted: events that were not flushed then are missing",
            "torn: the file ends in the middle of it",
        ]
    );
    assert!(loaded.problems.iter().all(Problem::is_torn));
    assert_eq!(
        manifest(folder.path())["sessions"][0]["status"],
        "running",
        "readers change nothing"
    );

    // The next writer puts it in order for those who do not look so closely.
    open(folder.path(), SinkOptions::default(), "next").close(SessionStatus::Completed, 1).unwrap();
    let after = manifest(folder.path());
    assert_eq!(after["sessions"][0]["status"], "interrupted");
    assert_eq!(after["sessions"][0]["ended_at_ns"], 1_700_000_000_003_000_000_u64);
    assert_eq!(after["segments"][0]["event_count"], 4);
    let size = fs::metadata(&segment).unwrap().len();
    assert_eq!(after["segments"][0]["size_bytes"].as_u64(), Some(size));
    assert!(events::load(folder.path()).unwrap().problems.is_empty());
}

#[test]
fn a_removed_folder_is_made_anew_and_told() {
    let parent = TempDir::new().unwrap();
    let folder = parent.path().join("sink");
    let options = SinkOptions { flush_events: 1, ..SinkOptions::default() };
    let mut sink = open(&folder, options, "s");
    sink.append(&event("s", 1)).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    sink.append(&event("s", 2)).unwrap();
    let totals = sink.totals();
    assert_eq!((totals.removed_events, totals.dropped_events), (1, 0));
    assert!(totals.last_error.unwrap().contains("was removed"));
    sink.append(&event("s", 3)).unwrap();
    assert_eq!(sink.totals().last_error, None, "it is over");
    sink.close(SessionStatus::Completed, 1).unwrap();
    assert_eq!(numbers(&folder, "s"), [2, 3]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_tracker_tells_that_its_sink_was_removed_and_how_much_is_gone() {
    let parent = TempDir::new().unwrap();
    let folder = parent.path().join("sink");
    let tracker = Tracker::builder()
        .interval(Duration::from_secs(3600))
        .sink_with(&folder, SinkOptions { flush_events: 1, ..SinkOptions::default() })
        .start()
        .unwrap();
    // Each waits until all before is flushed.
    tracker.sample_now();
    tracker.sample_now();
    let before = tracker.statistics().total_events;
    fs::remove_dir_all(&folder).unwrap();
    for _ in 0..3 {
        tracker.sample_now();
    }
    let told: Vec<TelemetryEvent> = tracker.events();
    let of = |kind: &str| told.iter().find(|event| event.event_type == kind);
    let degraded = of("sink_degraded").expect("it is told");
    assert!(degraded.context.as_ref().unwrap().contains("was removed"), "{degraded:?}");
    assert_eq!(degraded.metadata["removed_events"], before);
    assert!(of("sink_recovered").is_some());
    let stopped = tracker.stop();
    assert!(stopped.problem.is_none(), "{:?}", stopped.problem);
    let statistics = stopped.statistics;
    assert_eq!((statistics.sink_removed_events, statistics.sink_last_error), (before, None));
    let left = events::load(&folder).unwrap().sessions[0].events.len() as u64;
    assert_eq!(left + before, statistics.total_events, "all are there or counted");
}

#[test]
fn what_is_flushed_is_on_disk_or_the_error_says_why_not() {
    let parent = TempDir::new().unwrap();
    let folder = parent.path().join("sink");
    let tracker =
        Tracker::builder().interval(Duration::from_secs(3600)).sink(&folder).start().unwrap();
    let written = || fs::read_to_string(folder.join("segment-000001.jsonl")).unwrap_or_default();
    tracker.event("note", "first", [("number", 1)]);
    tracker.flush().unwrap();
    assert!(written().contains("first"));
    tracker.flush().expect("nothing waits");
    fs::remove_dir_all(&folder).unwrap();
    fs::write(&folder, "in its way").unwrap();
    tracker.event("note", "second", [("number", 2)]);
    let error = tracker.flush().unwrap_err().to_string();
    assert!(error.contains("cannot write") && error.contains("sink"), "{error}");
    fs::remove_file(&folder).unwrap();
    tracker.flush().unwrap();
    let loaded = events::load(&folder).unwrap();
    let texts = loaded.sessions[0].events.iter().filter_map(|event| event.context.as_deref());
    assert_eq!(texts.filter(|text| *text == "second").count(), 1);
}

#[test]
fn what_waits_is_on_disk_after_the_time_that_was_set() {
    let parent = TempDir::new().unwrap();
    let folder = parent.path().join("sink");
    let options = SinkOptions { flush_every: Duration::from_millis(50), ..SinkOptions::default() };
    let tracker =
        Tracker::builder().interval(Duration::from_secs(3600)).sink_with(&folder, options);
    let tracker = tracker.start().unwrap();
    tracker.event("note", "nobody flushes", [("number", 1)]);
    let segment = folder.join("segment-000001.jsonl");
    let is_there = || fs::read_to_string(&segment).unwrap_or_default().contains("nobody flushes");
    crate::support::wait_until("one event is fewer than a flush is due for", is_there);
    drop(tracker);
}

#[test]
fn a_collector_that_hangs_keeps_nothing_from_the_disk() {
    struct Hangs(mpsc::Sender<()>, mpsc::Receiver<()>);

    impl Collector for Hangs {
        fn about(&self) -> About {
            About::new(3, "cuda", "hanging", Supported::default())
        }

        fn collect(&mut self) -> Result<Reading, String> {
            _ = self.0.send(());
            // Until the test is over.
            _ = self.1.recv();
            Err("it was let go".to_owned())
        }
    }

    let parent = TempDir::new().unwrap();
    let folder = parent.path().join("sink");
    let ((hangs, is_hanging), (lets_go, is_let_go)) = (mpsc::channel(), mpsc::channel());
    let tracker = Tracker::builder()
        .interval(Duration::from_secs(3600))
        .collector(Hangs(hangs, is_let_go))
        .sink(&folder)
        .start()
        .unwrap();
    is_hanging.recv().unwrap();
    tracker.event("note", "meanwhile", [("number", 1)]);
    tracker.flush().unwrap();
    let written = fs::read_to_string(folder.join("segment-000001.jsonl")).unwrap();
    assert!(written.contains("meanwhile"));
    drop(lets_go);
    assert!(tracker.stop().problem.is_none());
}

#[test]
fn flushes_of_many_threads_lose_nothing_and_write_nothing_twice() {
    const THREADS: usize = 8;
    const ROUNDS: usize = 40;
    let parent = TempDir::new().unwrap();
    let folder = parent.path().join("sink");
    // The thread flushes, too.
    let options = SinkOptions { flush_events: 3, sync: false, ..SinkOptions::default() };
    let tracker = Tracker::builder()
        .interval(Duration::from_millis(1))
        .sink_with(&folder, options)
        .start()
        .unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let tracker = &tracker;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    tracker.event("note", "one of many", [("number", thread * ROUNDS + round)]);
                    tracker.flush().unwrap();
                }
            });
        }
    });
    let stopped = tracker.stop();
    assert!(stopped.problem.is_none(), "{:?}", stopped.problem);
    let loaded = events::load(&folder).unwrap();
    let session = &loaded.sessions[0];
    assert_eq!(session.events.len() as u64, stopped.statistics.total_events);
    assert!(session.events.is_sorted_by_key(|event| event.timestamp_ns));
    let notes = session.events.iter().filter(|event| event.event_type == "note");
    let mut numbers: Vec<_> =
        notes.map(|event| event.metadata["number"].as_u64().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..(THREADS * ROUNDS) as u64).collect::<Vec<_>>());
}

/// A disk that is full for a while: no file may be larger, which the kernel tells in the same way.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_survived_and_what_is_lost_is_counted() {
    const TEST: &str = "sink::a_full_disk_is_survived_and_what_is_lost_is_counted";
    if !is_child(TEST) {
        let output = crate::support::finished_in_time(child(TEST));
        return expect_success(&output);
    }
    let folder = TempDir::new().unwrap();
    let options = SinkOptions { flush_events: 1, buffer_bytes: 4 << 10, ..SinkOptions::default() };
    let mut sink = open(folder.path(), options, "s");
    sink.append(&event("s", 0)).unwrap();
    let largest = fs::metadata(folder.path().join("segment-000001.jsonl")).unwrap().len();
    limit_files(Some(largest + 100));
    for number in 1..=100 {
        sink.append(&event("s", number)).unwrap();
    }
    let totals = sink.totals();
    assert!(
        totals.last_error.as_deref().is_some_and(|error| error.contains("cannot write")),
        "{totals:?}"
    );
    assert!(totals.dropped_events > 50, "{totals:?}");
    limit_files(None);
    sink.flush().unwrap();
    assert_eq!(sink.totals().last_error, None);
    sink.close(SessionStatus::Completed, 1).unwrap();
    let found = numbers(folder.path(), "s");
    assert_eq!(found.len() as u64 + totals.dropped_events, 101, "all are there or counted");
    assert_eq!((found[0], *found.last().unwrap()), (0, 100));
    assert!(events::load(folder.path()).unwrap().problems.is_empty(), "no line was torn");
}

/// A disk that is full in earnest, under a tracker; there is room again later.
#[cfg(target_os = "linux")]
#[test]
fn a_disk_without_room_is_told_and_written_again_when_it_has_some() {
    const TEST: &str = "sink::a_disk_without_room_is_told_and_written_again_when_it_has_some";
    const FOLDER: &str = "RUNLORE_TEST_FOLDER";
    if is_child(TEST) {
        return on_a_small_disk(Path::new(&std::env::var(FOLDER).unwrap()));
    }
    let what = "a full disk under a sink (tmpfs)";
    let Some(flags) = support::may_mount(what) else { return };
    let folder = TempDir::new().unwrap();
    let inner = child(TEST);
    let mut outer = std::process::Command::new("unshare");
    let script = r#"mount -t tmpfs -o size=1m tmpfs "$1" && shift && exec "$@""#;
    outer.args([flags, "sh", "-c", script, "sh"]).arg(folder.path());
    outer.arg(inner.get_program()).args(inner.get_args());
    outer.env("RUNLORE_TEST_CHILD", TEST).env(FOLDER, folder.path());
    expect_success(&support::finished_in_time(outer));
    tried(what, "once; with room again after it was told");
}

/// One that stays full: what is lost with the end is counted, too.
#[cfg(target_os = "linux")]
#[test]
fn what_is_lost_at_the_end_is_in_the_statistics() {
    const TEST: &str = "sink::what_is_lost_at_the_end_is_in_the_statistics";
    if !is_child(TEST) {
        return expect_success(&support::finished_in_time(child(TEST)));
    }
    let folder = TempDir::new().unwrap();
    let tracker = Tracker::builder()
        .interval(Duration::from_secs(3600))
        .sink_with(
            folder.path(),
            SinkOptions { flush_every: Duration::from_secs(3600), ..SinkOptions::default() },
        )
        .start()
        .unwrap();
    tracker.sample_now();
    limit_files(Some(1));
    let stopped = tracker.stop();
    limit_files(None);
    let (statistics, problem) = (stopped.statistics, stopped.problem.unwrap().to_string());
    let lost = statistics.total_events;
    assert!(problem.ends_with(&format!("; {lost} events are lost")), "{problem}");
    assert_eq!(statistics.sink_dropped_events, lost);
    assert_eq!(statistics.sink_last_error, Some(problem));
}

#[cfg(target_os = "linux")]
fn on_a_small_disk(disk: &Path) {
    let tracker = Tracker::builder()
        .interval(Duration::from_millis(5))
        .sink_with(disk.join("sink"), SinkOptions { flush_events: 10, ..SinkOptions::default() })
        .start()
        .unwrap();
    let ballast = disk.join("ballast");
    fs::write(&ballast, vec![b'x'; 2 << 20]).unwrap_err();
    let told = |kind: &str| {
        let began = std::time::Instant::now();
        loop {
            let found = tracker.events().into_iter().find(|event| event.event_type == kind);
            if let Some(event) = found {
                return event.context.unwrap().to_string();
            }
            assert!(began.elapsed() < Duration::from_secs(60), "{:?}", tracker.statistics());
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let problem = told("sink_degraded");
    assert!(problem.contains("cannot write") && problem.contains("No space left"), "{problem}");
    assert_eq!(tracker.statistics().sink_last_error.as_ref(), Some(&problem));
    fs::remove_file(ballast).unwrap();
    told("sink_recovered");
    let stopped = tracker.stop();
    assert!(stopped.problem.is_none(), "{:?}", stopped.problem);
    let statistics = stopped.statistics;
    assert_eq!((statistics.sink_last_error, statistics.sink_dropped_events), (None, 0));
    let loaded = events::load(disk.join("sink")).unwrap();
    assert!(loaded.problems.is_empty(), "no line was torn: {:?}", loaded.problems);
    let events = &loaded.sessions[0].events;
    assert_eq!(events.len() as u64, statistics.total_events, "what came meanwhile waited");
    assert!(events.is_sorted_by_key(|event| event.timestamp_ns));
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
fn limit_files(bytes: Option<u64>) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: plain calls with a place for the limit; the signal would end this process, the error does not.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit);
        limit.rlim_cur = bytes.unwrap_or(limit.rlim_max);
        libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit);
    }
}

/// A writer in a process of its own, which is killed; what it says it has flushed must be there.
#[cfg(unix)]
#[test]
fn a_writer_that_is_killed_loses_no_more_than_what_was_not_flushed() {
    const TEST: &str = "sink::a_writer_that_is_killed_loses_no_more_than_what_was_not_flushed";
    const EACH: u64 = 7;
    if is_child(TEST) {
        let folder = std::env::var("RUNLORE_TEST_FOLDER").unwrap();
        let ledger = std::path::PathBuf::from(&folder).with_extension("ledger");
        let options = SinkOptions {
            flush_events: usize::MAX,
            flush_every: Duration::from_secs(3600),
            segment_events: 40,
            keep_files: usize::MAX,
            keep_bytes: u64::MAX,
            sync: false,
            ..SinkOptions::default()
        };
        let mut sink = open(Path::new(&folder), options, "killed");
        let ledger = fs::File::create(ledger).unwrap();
        for number in 0.. {
            sink.append(&event("killed", number)).unwrap();
            if (number + 1) % EACH == 0 {
                sink.flush().unwrap();
                std::os::unix::fs::FileExt::write_all_at(&ledger, &(number + 1).to_le_bytes(), 0)
                    .unwrap();
            }
        }
    }
    let mut random = Random::new();
    // The suite of reliability dies in four ways; here there is one.
    let all = support::number("RUNLORE_TEST_ROUNDS").map_or(6, |rounds| rounds * 4);
    let mut flushed_in_all = 0;
    for _ in 0..all {
        let parent = TempDir::new().unwrap();
        let folder = parent.path().join("sink");
        let mut process = child(TEST)
            .env("RUNLORE_TEST_FOLDER", &folder)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let ledger = folder.with_extension("ledger");
        let read = || {
            fs::read(&ledger)
                .ok()
                .and_then(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?)))
        };
        while read().is_none() {
            if let Some(status) = process.try_wait().unwrap() {
                panic!("it ended before it was killed: {status}");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(random.below(20_000) as u64));
        process.kill().unwrap();
        process.wait().unwrap();
        let flushed = read().unwrap();
        let loaded = events::load(&folder).unwrap();
        assert_eq!(loaded.sessions[0].summary.status, SessionStatus::Interrupted);
        let found = numbers(&folder, "killed");
        let expected: Vec<u64> = (0..found.len() as u64).collect();
        assert_eq!(found, expected, "in order, each once");
        assert!(found.len() as u64 >= flushed, "{} of {flushed}", found.len());
        assert!((found.len() as u64) < flushed + 2 * EACH);
        let said =
            |text: &str| loaded.problems.iter().any(|problem| problem.reason().contains(text));
        assert!(said("was interrupted"), "{:?}", loaded.problems);
        assert!(loaded.problems.iter().all(Problem::is_torn), "{:?}", loaded.problems);
        // Whoever comes next goes on in order.
        open(&folder, SinkOptions::default(), "next").close(SessionStatus::Completed, 1).unwrap();
        assert!(events::load(&folder).unwrap().problems.is_empty());
        flushed_in_all += flushed;
    }
    tried("a sink's writer killed", format!("{all} times, {flushed_in_all} events flushed"));
}

/// In `Drop`, since whoever leaves by `?` or a panic never comes to `close`.
#[test]
fn a_writer_that_is_dropped_writes_what_waits() {
    let folder = TempDir::new().unwrap();
    let mut sink = open(folder.path(), SinkOptions::default(), "s");
    for number in 0..3 {
        sink.append(&event("s", number)).unwrap();
    }
    drop(sink);
    assert_eq!(numbers(folder.path(), "s"), [0, 1, 2]);
    let loaded = events::load(folder.path()).unwrap();
    assert_eq!(loaded.sessions[0].summary.status, SessionStatus::Interrupted);
}

#[test]
fn nobody_leads_a_writer_out_of_its_folder() {
    let folder = TempDir::new().unwrap();
    let outside = folder.path().join("outside.jsonl");
    fs::write(&outside, "precious").unwrap();
    let sink = folder.path().join("sink");
    fs::create_dir(&sink).unwrap();
    let notes = sink.join("notes.txt");
    fs::write(&notes, "a line\nand no more").unwrap();
    let manifest = r#"{"format": "stormlog.append_only_telemetry_sink", "sessions": 3, "segments": [
        {"filename": "../outside.jsonl", "closed": false},
        {"filename": "segment-/../../outside.jsonl", "closed": false},
        {"filename": "notes.txt", "closed": false},
        {"filename": "manifest.json", "closed": true}]}"#;
    fs::write(sink.join("manifest.json"), manifest).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(&outside, sink.join("segment-000009.jsonl")).unwrap();
    // Of all segments only the last two are kept.
    let options =
        SinkOptions { flush_events: 1, segment_events: 1, keep_files: 2, ..SinkOptions::default() };
    let mut writer = open(&sink, options, "s");
    for number in 1..=4 {
        writer.append(&event("s", number)).unwrap();
    }
    writer.close(SessionStatus::Completed, 1).unwrap();
    assert_eq!(fs::read_to_string(&outside).unwrap(), "precious");
    assert_eq!(fs::read_to_string(&notes).unwrap(), "a line\nand no more");
    assert_eq!(numbers(&sink, "s"), [3, 4]);
}

#[test]
fn a_folder_with_the_manifest_of_something_else_is_refused_and_left_as_it_is() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("manifest.json");
    let bundle = concat!(env!("CARGO_MANIFEST_DIR"), "/data/stormlog/v043/diag/manifest.json");
    let bundle = fs::read_to_string(bundle).unwrap();
    let others = [&*bundle, r#"{"format": "of another tool"}"#, r#"["a list"]"#, "no JSON", ""];
    for text in others {
        fs::write(&path, text).unwrap();
        let summary = SessionSummary::of(&event("s", 0));
        let refused = SinkWriter::open(folder.path(), SinkOptions::default(), summary);
        let expected = format!(
            "the manifest.json in {} is not that of a sink: give the sink a folder of its own",
            folder.path().display()
        );
        assert_eq!(refused.unwrap_err().to_string(), expected, "{text}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else was made");
    }
    // Segments tell that it is a sink whose manifest was damaged.
    fs::write(folder.path().join("segment-000001.jsonl"), "").unwrap();
    open(folder.path(), SinkOptions::default(), "s").close(SessionStatus::Completed, 1).unwrap();
}

/// A link could lead anywhere, and whoever opens a pipe waits for the other end.
#[cfg(unix)]
#[test]
fn links_and_pipes_are_neither_followed_nor_waited_for() {
    const TEST: &str = "sink::links_and_pipes_are_neither_followed_nor_waited_for";
    if !is_child(TEST) {
        return expect_success(&crate::support::finished_in_time(child(TEST)));
    }
    let folder = TempDir::new().unwrap();
    let outside = folder.path().join("outside");
    fs::write(&outside, "precious").unwrap();
    let sink = folder.path().join("sink");
    fs::create_dir(&sink).unwrap();
    std::os::unix::fs::symlink(&outside, sink.join("rollups.tmp")).unwrap();
    let pipe = sink.join("manifest.tmp");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut writer = open(&sink, SinkOptions::default(), "s");
    writer.append(&event("s", 1)).unwrap();
    writer.close(SessionStatus::Completed, 1).unwrap();
    assert_eq!(numbers(&sink, "s"), [1]);
    assert!(sink.join("rollups.json").symlink_metadata().unwrap().is_file());

    let lock = sink.join("writer.lock");
    fs::remove_file(&lock).unwrap();
    std::os::unix::fs::symlink(&outside, &lock).unwrap();
    let summary = SessionSummary::of(&event("s", 0));
    let refused = SinkWriter::open(&sink, SinkOptions::default(), summary).unwrap_err();
    assert!(refused.to_string().ends_with("writer.lock is not a plain file"), "{refused}");
    assert_eq!(fs::read_to_string(&outside).unwrap(), "precious");
}
