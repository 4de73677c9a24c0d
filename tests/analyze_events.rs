//! What events tell after the run, beyond what Stormlog looks for.

use proptest::prelude::*;
use runlore::analyze::{EventReport, Finding, Kind, Severity, Thresholds, Timelines};
use runlore::events::TelemetryEvent;

const MIB: u64 = 1 << 20;
const SECOND: u64 = 1_000_000_000;

/// Samples of a second each: what is allocated, in MiB, of a device of 16 GiB of which the allocator has all that is used.
fn allocated(values: impl IntoIterator<Item = u64>) -> Vec<TelemetryEvent> {
    values
        .into_iter()
        .enumerate()
        .map(|(at, value)| TelemetryEvent {
            session_id: "s".into(),
            timestamp_ns: 1_700_000_000 * SECOND + at as u64 * SECOND,
            device_id: 0,
            allocator_allocated_bytes: Some(value * MIB),
            allocator_reserved_bytes: Some(value * MIB),
            device_used_bytes: Some(value * MIB),
            device_total_bytes: Some(16 << 30),
            ..TelemetryEvent::default()
        })
        .collect()
}

/// The same with something hidden beside 1 GiB of the allocator's.
fn hidden(values: impl IntoIterator<Item = u64>) -> Vec<TelemetryEvent> {
    let mut events = allocated(values);
    for event in &mut events {
        event.allocator_allocated_bytes = Some(1 << 30);
        event.allocator_reserved_bytes = Some(1 << 30);
        event.device_used_bytes = event.device_used_bytes.map(|bytes| bytes + (1 << 30));
    }
    events
}

fn analyzed(events: Vec<TelemetryEvent>) -> EventReport {
    events.into_iter().collect::<Timelines>().analyze(&Thresholds::default())
}

fn kinds(report: &EventReport) -> Vec<(Kind, Severity)> {
    report.findings.iter().map(|finding| (finding.kind, finding.severity)).collect()
}

fn the(report: &EventReport, kind: Kind) -> &Finding {
    let mut all = report.findings.iter().filter(|finding| finding.kind == kind);
    let found = all.next().unwrap_or_else(|| panic!("no {kind} in {:?}", report.findings));
    assert!(all.next().is_none(), "one {kind}");
    found
}

#[test]
fn a_leak_is_told_from_iterations_and_from_a_step() {
    // Each iteration takes 500 MiB and gives them back; every fourth keeps 20.
    let leaking = (0..200).map(|at| 1000 + at / 4 * 20 + if at % 4 < 2 { 500 } else { 0 });
    let report = analyzed(allocated(leaking));
    let leak = the(&report, Kind::LeakSuspect);
    assert_eq!(leak.severity, Severity::Warning);
    assert!(leak.confidence > 0.95);
    let slope = leak.evidence["slope_bytes_per_sec"].as_f64().unwrap() / MIB as f64;
    assert!((slope - 5.0).abs() < 0.3, "{slope}");
    assert!(leak.what.contains("from 1.09 GiB to 1.82 GiB, by 4.99 MiB a second"), "{}", leak.what);

    // A program that ends gives everything back, within a sample or two.
    let ended = (0..200).map(|at| if at < 197 { 1000 + at * 20 } else { (199 - at) * 13 });
    assert_eq!(kinds(&analyzed(allocated(ended))), [(Kind::LeakSuspect, Severity::Warning)]);

    let steady = (0..200).map(|at| 1000 + if at % 4 < 2 { 500 } else { 0 });
    assert_eq!(kinds(&analyzed(allocated(steady))), []);
    let one_step = (0..200).map(|at| if at < 90 { 1000 } else { 4000 });
    assert_eq!(kinds(&analyzed(allocated(one_step))), []);
    let warm_up = (0..200).map(|at| 1000 + at.min(20) * 100);
    assert_eq!(kinds(&analyzed(allocated(warm_up))), []);
}

#[test]
fn a_leak_is_told_of_a_program_that_was_caught_while_it_ended() {
    let growing = || (0..200).map(|at| 1000 + at * 20);
    // However much of it was free by then.
    for last in [&[][..], &[2800], &[3500, 2600], &[10], &[4000, 4000, 3900], &[4500, 3000]] {
        let report = analyzed(allocated(growing().chain(last.iter().copied())));
        let leak = the(&report, Kind::LeakSuspect);
        assert!(leak.confidence > 0.95, "{last:?}: {leak:?}");
    }
    // One that gives back what it took while it goes on does not leak.
    let given_back = growing().chain((0..60).map(|_| 1000));
    assert_eq!(kinds(&analyzed(allocated(given_back))), []);
}

#[test]
fn a_leak_that_fills_the_device_soon_is_critical() {
    let report = analyzed(allocated((0..100).map(|at| 2000 + at * 80)));
    let leak = the(&report, Kind::LeakSuspect);
    assert_eq!(leak.severity, Severity::Critical);
    assert!(leak.what.contains("the device is full"), "{}", leak.what);
}

#[test]
fn hidden_memory_is_told_apart() {
    let drifting = (0..40).map(|at| at * 50 + at % 3 * 20);
    assert_eq!(kinds(&analyzed(hidden(drifting))), [(Kind::PersistentDrift, Severity::Critical)]);
    let step = (0..40).map(|at| if at < 25 { 10 } else { 2000 + at % 2 });
    let report = analyzed(hidden(step));
    let found = the(&report, Kind::Step);
    assert_eq!(kinds(&report), [(Kind::Step, Severity::Warning)]);
    let window = found.place.window.unwrap();
    assert_eq!((window.start_ns / SECOND, window.end_ns / SECOND), (1_700_000_024, 1_700_000_025));
    // Even a step that is so late that most samples know nothing of it.
    let late = (0..40).map(|at| if at < 37 { 10 } else { 2000 });
    assert_eq!(kinds(&analyzed(hidden(late))), [(Kind::Step, Severity::Warning)]);
    let spike = (0..40).map(|at| if at == 20 || at == 21 { 2000 } else { 10 });
    assert_eq!(kinds(&analyzed(hidden(spike))), [(Kind::TransientSpike, Severity::Critical)]);
    let stairs = (0..40).map(|at| at / 8 * 500);
    assert_eq!(kinds(&analyzed(hidden(stairs))), [(Kind::PersistentDrift, Severity::Critical)]);
    let always = analyzed(hidden([5000; 40]));
    assert_eq!(kinds(&always), [(Kind::HiddenMemory, Severity::Warning)]);
    let hardly = (0..40).map(|at| 2000 + at / 4);
    assert_eq!(kinds(&analyzed(hidden(hardly))), [(Kind::HiddenMemory, Severity::Info)]);
}

#[test]
fn a_full_device_says_how_full_and_when() {
    let report = analyzed(allocated((0..20).map(|at| if at == 9 { 15_900 } else { 14_000 })));
    let full = the(&report, Kind::HighUtilization);
    assert_eq!(full.severity, Severity::Critical);
    assert_eq!(full.evidence["peak_timestamp_ns"].as_u64().unwrap() / SECOND, 1_700_000_009);
    assert_eq!(full.evidence["high_ratio"], 1.0);
    assert!(full.what.starts_with("15.5 GiB of 16 GiB"), "{}", full.what);
}

#[test]
fn churn_is_more_than_growing_and_shrinking() {
    let churn = (0..50).map(|at| if at % 2 == 0 { 200 } else { 4000 });
    assert_eq!(kinds(&analyzed(allocated(churn))), [(Kind::Churn, Severity::Info)]);
    let once = (0..50).map(|at| 200 + if (10..40).contains(&at) { 4000 } else { 0 });
    assert_eq!(kinds(&analyzed(allocated(once))), []);
}

#[test]
fn fragmentation_is_sure_only_where_the_allocator_tells() {
    let mut events = allocated([4000; 10]);
    for event in &mut events {
        event.allocator_allocated_bytes = Some(2000 * MIB);
    }
    let report = analyzed(events.clone());
    let guess = the(&report, Kind::Fragmentation);
    assert_eq!((guess.severity, &guess.evidence["is_exact"]), (Severity::Info, &false.into()));
    for event in &mut events {
        event.allocator_inactive_bytes = Some(2200 * MIB);
    }
    let report = analyzed(events);
    assert_eq!(the(&report, Kind::Fragmentation).severity, Severity::Critical);
}

#[test]
fn running_out_of_memory_is_found_by_type_and_by_words() {
    let mut events = allocated([4000; 10]);
    events[3].event_type = "oom".into();
    events[7].event_type = "error".into();
    events[7].context = Some("CUDA out of memory. Tried to allocate 2 GiB".into());
    let report = analyzed(events);
    let found = the(&report, Kind::OutOfMemory);
    assert_eq!((found.severity, &found.evidence["oom_count"]), (Severity::Critical, &2.into()));
    assert_eq!(found.place.window.unwrap().length_ns(), 4 * SECOND);
    assert_eq!(report.findings[0].kind, Kind::OutOfMemory, "the worst is first");
}

#[test]
fn other_programs_on_a_machine_are_not_hidden_memory() {
    let mut events = hidden((0..40).map(|at| if at < 20 { 3000 } else { 9000 }));
    for event in &mut events {
        event.device_id = -1;
        // What is resident is more than what was handed out.
        event.allocator_allocated_bytes = Some(300 << 20);
    }
    let report = analyzed(events);
    assert_eq!(kinds(&report), []);
    assert!(report.notes.is_empty(), "{:?}", report.notes);
    assert_eq!(report.series[0].peak_used_bytes, Some(10_024 * MIB));
}

#[test]
fn sessions_of_one_rank_are_not_mixed() {
    // A job that was started again: the second time everything is larger.
    let mut events = hidden([100; 30]);
    let mut again = hidden([3000; 30]);
    for event in &mut again {
        event.session_id = "t".into();
        event.timestamp_ns += 1000 * SECOND;
    }
    events.extend(again);
    let report = analyzed(events);
    assert_eq!(kinds(&report), [(Kind::HiddenMemory, Severity::Info)]);
    assert_eq!(report.findings[0].place.session_id.as_deref(), Some("t"));
    assert_eq!(report.series.len(), 2);
}

#[test]
fn jobs_and_hosts_with_the_same_rank_are_not_mixed() {
    // Each of them holds what it holds; one after the other they would look like a leak.
    let runs = |name: fn(&mut TelemetryEvent, u64)| -> Vec<TelemetryEvent> {
        let one = |number: u64| {
            let mut events = allocated([1000 + number * 500; 30]);
            for event in &mut events {
                name(event, number);
                event.timestamp_ns += number * 30 * SECOND;
            }
            events
        };
        (0..8).flat_map(one).collect()
    };
    let by_job = runs(|event, number| event.job_id = Some(format!("job-{number}").into()));
    let by_host = runs(|event, number| event.host = format!("node-{number}").into());
    for events in [by_job, by_host] {
        let report = analyzed(events);
        assert_eq!(kinds(&report), []);
        assert_eq!(report.series.len(), 8);
        assert!(report.series.iter().all(|series| series.samples == 30), "{:?}", report.series);
    }
}

/// The samples of a rank of three, of a job that has a sample a second.
fn rank(rank: u64, values: impl IntoIterator<Item = u64>) -> Vec<TelemetryEvent> {
    let mut events = allocated(values);
    for event in &mut events {
        (event.rank, event.world_size) = (rank, 3);
    }
    events
}

#[test]
fn the_first_cause_is_where_the_jump_is() {
    // Rank 0 rises slowly from the start and jumps last, rank 1 jumps first, rank 2 rises and never jumps.
    let jump = |at: u64, when: u64| if at >= when { 3000 } else { 0 };
    let events = [
        rank(0, (0..60).map(|at| 2000 + at * 5 + jump(at, 45))),
        rank(1, (0..60).map(|at| 2000 + jump(at, 30))),
        rank(2, (0..60).map(|at| 2000 + at * 10)),
    ];
    let report = analyzed(events.concat());
    let suspects: Vec<(u64, u64, u64)> = report.cross_rank[0]
        .first_cause_suspects
        .iter()
        .map(|it| {
            let second = it.first_spike_timestamp_ns / SECOND - 1_700_000_000;
            (it.rank, second, it.peak_delta_bytes / MIB)
        })
        .collect();
    assert_eq!(suspects, [(1, 30, 3000), (0, 45, 3005)]);
    let found = the(&report, Kind::FirstCause);
    assert_eq!((found.place.rank, found.severity), (Some(1), Severity::Warning));
    let window = found.place.window.unwrap();
    assert_eq!(window.start_ns / SECOND, 1_700_000_030);
}

#[test]
fn a_jump_may_take_several_samples() {
    // Both climb by 1 GiB in three samples, after and before they rise by a little.
    let climb = |at: u64, when: u64| (at.max(when - 1) - (when - 1)).min(3) * 1000;
    let events = [
        rank(0, (0..40).map(|at| 2000 + at + climb(at, 20))),
        rank(1, (0..40).map(|at| 2000 + at + climb(at, 25))),
        rank(2, [2000; 40]),
    ];
    let report = analyzed(events.concat());
    let first = &report.cross_rank[0].first_cause_suspects[0];
    assert_eq!((first.rank, first.spike_window_samples), (0, 3));
    assert_eq!(first.first_spike_timestamp_ns / SECOND, 1_700_000_020);
    assert_eq!(first.peak_delta_bytes / MIB, 3003);
}

#[test]
fn a_world_of_any_size_is_no_trouble() {
    let mut events = allocated([100; 5]);
    for (at, event) in events.iter_mut().enumerate() {
        event.rank = at as u64 % 2 * 1_000_000_000_000;
        event.world_size = u64::MAX;
    }
    let report = analyzed(events);
    assert_eq!(report.cross_rank[0].participating_ranks, [0, 1_000_000_000_000]);
    assert!(
        report.cross_rank[0].notes[0].ends_with("and more"),
        "{:?}",
        report.cross_rank[0].notes
    );
}

#[test]
fn the_order_of_events_and_files_given_twice_change_nothing() {
    let events = hidden((0..40).map(|at| at * 50));
    let expected = analyzed(events.clone());
    let mut turned: Vec<_> = events.iter().rev().cloned().collect();
    turned.extend(events);
    assert_eq!(analyzed(turned), expected);
}

fn event() -> impl Strategy<Value = TelemetryEvent> {
    let bytes = || {
        prop_oneof![
            Just(None),
            Just(Some(0)),
            Just(Some(u64::MAX)),
            (0..1_u64 << 40).prop_map(Some)
        ]
    };
    let kind = prop_oneof![4 => Just("sample"), 1 => Just("oom"), 1 => Just("warning")];
    let time = prop_oneof![Just(0), Just(u64::MAX), 0..1_u64 << 40];
    let counters = (bytes(), bytes(), bytes(), bytes(), bytes());
    (time, kind, 0..3_u64, -1..2_i64, counters).prop_map(
        |(timestamp_ns, kind, rank, device_id, (allocated, reserved, inactive, used, total))| {
            TelemetryEvent {
                session_id: "s".into(),
                timestamp_ns,
                event_type: kind.into(),
                rank,
                world_size: 3,
                device_id,
                allocator_allocated_bytes: allocated,
                allocator_reserved_bytes: reserved,
                allocator_inactive_bytes: inactive,
                device_used_bytes: used,
                device_total_bytes: total,
                ..TelemetryEvent::default()
            }
        },
    )
}

proptest! {
    /// Whatever the numbers are, the report is one that can be written and read: confidences between 0 and 1, windows
    /// that begin before they end, no number that JSON does not have.
    #[test]
    fn every_report_can_be_written(events in prop::collection::vec(event(), 0..60)) {
        let report = analyzed(events);
        for finding in &report.findings {
            prop_assert!((0.0..=1.0).contains(&finding.confidence), "{finding:?}");
            let window = finding.place.window.unwrap();
            prop_assert!(window.start_ns <= window.end_ns, "{finding:?}");
            prop_assert!(!finding.evidence.values().any(serde_json::Value::is_null), "{finding:?}");
            prop_assert!(!finding.to_try.is_empty() && !finding.what.is_empty());
            let text = serde_json::to_string(finding).unwrap();
            prop_assert_eq!(&serde_json::from_str::<Finding>(&text).unwrap(), finding);
        }
    }
}
