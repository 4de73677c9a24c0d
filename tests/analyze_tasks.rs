//! What the tasks of a run tell after it: where the time went, what stood out, what waited.

use std::fmt::Write as _;

use proptest::prelude::*;
use runlore::Provenance;
use runlore::analyze::{self, Finding, Kind, RunAnalysis, Severity, Thresholds};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Records of one run, written down by hand.
struct Run {
    lines: String,
    tasks: usize,
}

impl Run {
    fn new(seconds: f64) -> Self {
        Self { lines: workflow("w", 1000.0, seconds), tasks: 0 }
    }

    /// A task that begins so many seconds after the run, and what else its record has.
    fn task(&mut self, name: &str, start: f64, seconds: f64, more: Value) -> String {
        self.tasks += 1;
        let id = format!("t{}", self.tasks);
        self.lines += &task("w", &id, name, 1000.0 + start, seconds, more);
        id
    }

    fn analyzed(&self) -> RunAnalysis {
        analyzed(&self.lines, "w").unwrap()
    }
}

fn workflow(id: &str, start: f64, seconds: f64) -> String {
    let record = json!({
        "type": "workflow", "workflow_id": id, "name": "train", "status": "FINISHED",
        "started_at": start, "ended_at": start + seconds,
    });
    format!("{record}\n")
}

fn task(run: &str, id: &str, name: &str, start: f64, seconds: f64, more: Value) -> String {
    let mut record = json!({
        "type": "task", "task_id": id, "workflow_id": run, "activity_id": name, "status": "FINISHED",
        "hostname": "node1", "pid": 7, "started_at": start, "duration_ns": (seconds * 1e9) as u64,
    });
    if let (Some(record), Value::Object(more)) = (record.as_object_mut(), more) {
        record.extend(more);
    }
    format!("{record}\n")
}

fn analyzed(lines: &str, id: &str) -> runlore::Result<RunAnalysis> {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("run.jsonl"), lines).unwrap();
    analyze::run(&Provenance::open(folder.path())?, id, &Thresholds::default())
}

fn of_kind(report: &RunAnalysis, kind: Kind) -> Vec<&Finding> {
    report.findings.iter().filter(|finding| finding.kind == kind).collect()
}

fn seconds(nanoseconds: u64) -> f64 {
    (nanoseconds as f64 / 1e8).round() / 10.0
}

#[test]
fn the_critical_path_goes_through_what_ended_last() {
    let mut run = Run::new(10.0);
    let main = run.task("main", 0.0, 10.0, json!({}));
    let inside = json!({"parent_task_id": main});
    // Two loads side by side, of which the longer counts; then one fit of two layers.
    run.task("load", 0.5, 1.0, inside.clone());
    run.task("load", 0.5, 3.0, inside.clone());
    let fit = run.task("fit", 4.0, 5.0, inside);
    run.task("layer", 4.0, 2.0, json!({"parent_task_id": fit}));
    run.task("layer", 6.5, 2.0, json!({"parent_task_id": fit}));
    let report = run.analyzed();
    let path: Vec<(&str, f64, f64)> = report
        .critical_path
        .steps
        .iter()
        .map(|step| {
            (&*step.activity_id, seconds(step.start_ns) - 1000.0, seconds(step.length_ns()))
        })
        .collect();
    assert_eq!(
        path,
        [
            ("main", 0.0, 0.5),
            ("load", 0.5, 3.0),
            ("main", 3.5, 0.5),
            ("layer", 4.0, 2.0),
            ("fit", 6.0, 0.5),
            ("layer", 6.5, 2.0),
            ("fit", 8.5, 0.5),
            ("main", 9.0, 1.0),
        ]
    );
    let slow: Vec<_> = of_kind(&report, Kind::SlowActivity);
    let names: Vec<_> = slow.iter().map(|it| it.place.activity_id.as_deref().unwrap()).collect();
    assert_eq!(names, ["layer", "load"]);
    let own: Vec<(&str, f64)> =
        report.activities.iter().map(|it| (&*it.activity_id, seconds(it.own_ns))).collect();
    assert_eq!(own, [("layer", 4.0), ("load", 4.0), ("main", 2.0), ("fit", 1.0)]);
    let parallelism = report.parallelism.unwrap();
    assert_eq!((parallelism.max, (parallelism.mean * 10.0).round()), (2, 11.0));
    assert_eq!((parallelism.alone_ratio * 10.0).round(), 9.0);
}

#[test]
fn what_no_task_called_is_on_the_path_while_nothing_else_is() {
    let mut run = Run::new(14.0);
    run.task("watch", 0.0, 13.5, json!({}));
    run.task("fit", 1.0, 8.0, json!({}));
    run.task("save", 11.0, 3.0, json!({}));
    let path: Vec<(String, f64)> = run
        .analyzed()
        .critical_path
        .steps
        .into_iter()
        .map(|step| (step.activity_id.clone(), seconds(step.length_ns())))
        .collect();
    let expected = [("watch", 1.0), ("fit", 8.0), ("watch", 2.0), ("save", 3.0)];
    assert_eq!(path, expected.map(|(name, took)| (name.to_owned(), took)));
}

#[test]
fn nothing_is_said_to_wait_where_no_task_has_ended() {
    let mut run = Run::new(10.0);
    run.lines = run.lines.replace("\"ended_at\"", "\"unended_at\"");
    run.task("work", 4.0, 0.0, json!({"duration_ns": null, "ended_at": null, "status": "RUNNING"}));
    let report = run.analyzed();
    assert_eq!(of_kind(&report, Kind::Waiting).len(), 0, "{:?}", report.findings);
    assert!(report.parallelism.is_none());
    assert!(report.notes.iter().any(|note| note.contains("was killed")), "{:?}", report.notes);
}

#[test]
fn a_task_that_died_with_its_process_is_not_judged() {
    let ends = [
        ("UNKNOWN", json!(null)),
        ("ERROR", json!({"kind": "signal"})),
        ("ERROR", json!({"kind": "exit"})),
    ];
    for (status, error) in ends {
        let mut run = Run::new(10.0);
        let end = format!("\"status\":\"{status}\",\"error\":{error}");
        run.lines = run.lines.replace("\"status\":\"FINISHED\"", &end);
        for at in 0..9 {
            run.task("step", f64::from(at) * 0.1, 0.1, json!({}));
        }
        let open = json!({"duration_ns": null, "ended_at": null, "status": "RUNNING"});
        run.task("step", 1.0, 0.0, open.clone());
        run.task("hangs", 1.0, 0.0, open);
        run.task("late", 9.0, 1.0, json!({}));
        let report = run.analyzed();
        let judged = report.findings.iter().filter(|it| it.kind != Kind::LowParallelism);
        let judged: Vec<String> = judged.map(ToString::to_string).collect();
        assert_eq!(judged, Vec::<String>::new(), "{status} {error}");
        assert!(report.critical_path.interrupted_ns > 0);
        assert!(report.critical_path.steps.iter().all(|step| step.activity_id != "hangs"));
        let hangs = report.activities.iter().find(|it| it.activity_id == "hangs").unwrap();
        assert_eq!((hangs.tasks, hangs.own_ns), (1, 0));
        assert!(report.notes[0].starts_with("2 tasks were open when the process died"));
    }
}

#[test]
fn an_open_task_of_a_run_that_goes_on_is_judged() {
    let mut run = Run::new(10.0);
    run.lines = run.lines.replace("\"FINISHED\"", "\"RUNNING\"");
    run.task("work", 0.0, 0.0, json!({"duration_ns": null, "status": "RUNNING"}));
    run.task("late", 9.0, 1.0, json!({"parent_task_id": "t1"}));
    let report = run.analyzed();
    let slow = of_kind(&report, Kind::SlowActivity);
    assert_eq!(slow[0].place.activity_id.as_deref(), Some("work"));
}

#[test]
fn tasks_that_were_lost_are_the_first_finding() {
    let lines = |totals: Value| {
        let record = json!({
            "type": "workflow", "workflow_id": "w", "status": "FINISHED", "started_at": 1000.0, "totals": totals,
        });
        format!("{record}\n{}", task("w", "t", "work", 1000.0, 1.0, json!({})))
    };
    let report = analyzed(&lines(json!({"dropped": 3, "refused": 1})), "w").unwrap();
    let first = &report.findings[0];
    assert_eq!((first.kind, first.severity), (Kind::LostTasks, Severity::Critical));
    assert_eq!(first.evidence["dropped_count"], 3);
    let report = analyzed(&lines(json!({"dropped": 0})), "w").unwrap();
    assert_eq!(of_kind(&report, Kind::LostTasks).len(), 0);
}

#[test]
fn a_task_stands_out_against_its_own_activity() {
    let mut run = Run::new(100.0);
    for at in 0..20 {
        let took = if at == 13 { 9.0 } else { 1.0 + f64::from(at % 3) * 0.1 };
        run.task("step", f64::from(at) * 2.0, took, json!({}));
        // Long, but always.
        run.task("save", f64::from(at) * 2.0, 20.0, json!({}));
    }
    let report = run.analyzed();
    let outliers = of_kind(&report, Kind::Outlier);
    assert_eq!(outliers.len(), 1, "{outliers:?}");
    assert_eq!(outliers[0].severity, Severity::Warning);
    assert_eq!(outliers[0].place.task_id.as_deref(), Some("t27"));
    assert_eq!(outliers[0].what, "it took 9.0 s, where 1.1 s are usual: 9 % of the run");
}

#[test]
fn a_single_task_stands_out_against_earlier_runs() {
    let mut lines = String::new();
    for at in 0..12 {
        let (id, start) = (format!("w{at}"), 1000.0 * f64::from(at));
        lines += &workflow(&id, start, 10.0);
        let took = if at == 11 { 8.0 } else { 1.0 + f64::from(at) * 0.01 };
        lines += &task(&id, &format!("t{at}"), "prepare", start, took, json!({}));
    }
    let report = analyzed(&lines, "w11").unwrap();
    let outliers = of_kind(&report, Kind::Outlier);
    assert_eq!(outliers.len(), 1, "{report:?}");
    assert!(outliers[0].what.contains("usual in earlier runs"), "{}", outliers[0].what);
    assert_eq!(of_kind(&analyzed(&lines, "w10").unwrap(), Kind::Outlier).len(), 0);
}

#[test]
fn waiting_is_told_by_its_cause() {
    let mut run = Run::new(10.0);
    run.task("read", 0.0, 6.0, json!({"resources": {"cpu_ns": {"self": 500_000_000}}}));
    run.task("compute", 6.0, 4.0, json!({"resources": {"cpu_ns": {"self": 3_900_000_000_u64}}}));
    for at in 0..4 {
        run.task("job", 9.0, 0.5, json!({"submitted_at": 1000.0 + f64::from(at)}));
    }
    let report = run.analyzed();
    let waiting: Vec<(&str, &str)> = of_kind(&report, Kind::Waiting)
        .into_iter()
        .map(|it| (it.place.activity_id.as_deref().unwrap(), &*it.what))
        .collect();
    assert_eq!(
        waiting,
        [
            ("job", "its tasks were ready for 7.5 s on average before they began, and took 500 ms"),
            ("read", "5.5 s of its own 6.0 s were not at work on a processor"),
        ]
    );
}

#[test]
fn time_outside_of_tasks_and_time_alone_are_told() {
    let mut run = Run::new(10.0);
    run.task("a", 0.0, 6.0, json!({}));
    run.task("b", 0.0, 0.9, json!({}));
    let report = run.analyzed();
    assert_eq!(seconds(report.critical_path.outside_ns), 4.0);
    assert_eq!(of_kind(&report, Kind::LowParallelism).len(), 1);
    let idle = of_kind(&report, Kind::Waiting);
    assert_eq!(
        idle[0].what,
        "for 40 % of the run no task was at work: what happened then is not recorded"
    );
    let note = "no task tells its processor time, so that waiting is not known";
    assert!(report.notes.iter().any(|it| it == note), "{:?}", report.notes);
}

#[test]
fn iterations_that_wait_for_data_and_grow_are_found() {
    let mut run = Run::new(40.0);
    for at in 0..30_u64 {
        let rss = 500_000_000 + at * 20_000_000 + at % 2 * 5_000_000;
        run.task(
            "train_batch_iteration",
            at as f64 * 1.3,
            1.0,
            json!({
                "subtype": "iteration",
                "custom_metadata": {"wait_ns": 300_000_000},
                "telemetry_at_end": {"process": {"memory": {"rss": rss}}},
            }),
        );
    }
    let report = run.analyzed();
    let growth = of_kind(&report, Kind::MemoryGrowth);
    assert_eq!(growth.len(), 1, "{:?}", report.findings);
    assert!(growth[0].what.ends_with("by 19.1 MiB an iteration"), "{}", growth[0].what);
    let loading = of_kind(&report, Kind::DataLoading);
    assert_eq!(
        loading[0].what,
        "its iterations waited for their data for 9.0 s, 23 % of their time"
    );
}

#[test]
fn tasks_tell_of_growth_where_their_loop_does_not() {
    let mut run = Run::new(40.0);
    for at in 0..30_u64 {
        let rss = 500_000_000 + at * 20_000_000;
        run.task("train_batch_iteration", at as f64, 1.0, json!({"subtype": "iteration"}));
        let reading = json!({"telemetry_at_end": {"process": {"memory": {"rss": rss}}}});
        run.task("step", at as f64, 0.9, reading);
    }
    let report = run.analyzed();
    let growth = of_kind(&report, Kind::MemoryGrowth);
    assert_eq!(growth.len(), 1);
    assert_eq!(growth[0].place.activity_id.as_deref(), Some("step"));
}

#[test]
fn a_process_that_grew_once_does_not_grow() {
    let mut run = Run::new(40.0);
    for at in 0..30_u64 {
        let rss = if at < 15 { 500_000_000 } else { 900_000_000 };
        let reading = json!({"telemetry_at_end": {"process": {"memory": {"rss": rss}}}});
        run.task("step", at as f64, 1.0, reading);
    }
    assert_eq!(of_kind(&run.analyzed(), Kind::MemoryGrowth).len(), 0);
}

#[test]
fn what_the_machine_did_is_told_for_each_host() {
    let reading = |swapped: u64, iowait: f64, throttled_us: u64, gpu: &[&str]| {
        json!({
            "memory": {"swap": {"sin": swapped, "sout": 2 * swapped}},
            "cpu": {"times_avg": {"user": 100.0 + iowait, "idle": 50.0, "iowait": iowait, "guest": 99.0}},
            "container": {"cpu": {"throttled_us": throttled_us}},
            "gpu": {"gpu_0": {"throttle": gpu}, "gpu_1": {"throttle": ["gpu_idle"]}},
        })
    };
    let mut run = Run::new(10.0);
    for at in 0..4_u64 {
        let (before, after) = (at, at + 1);
        run.task(
            "step",
            at as f64 * 2.0,
            2.0,
            json!({
                "telemetry_at_start": reading(before << 25, before as f64, before * 500_000, &["gpu_idle"]),
                "telemetry_at_end": reading(after << 25, after as f64, after * 500_000, &["sw_power_cap"]),
            }),
        );
    }
    let report = run.analyzed();
    let told: Vec<(Kind, &str)> =
        [Kind::Swapping, Kind::IoPressure, Kind::ThrottledCpu, Kind::ThrottledGpu]
            .into_iter()
            .flat_map(|kind| of_kind(&report, kind))
            .map(|finding| (finding.kind, &*finding.what))
            .collect();
    assert_eq!(
        told,
        [
            (Kind::Swapping, "256 MiB went to swap and 128 MiB came back meanwhile"),
            (
                Kind::IoPressure,
                "for 50 % of their time the processors had nothing to do but wait for disks"
            ),
            (
                Kind::ThrottledCpu,
                "the container's threads stood still for 2.0 s in all, because its processor quota was used up"
            ),
            (Kind::ThrottledGpu, "gpu_0 ran slower than it could in 4 of 8 readings: sw_power_cap"),
        ]
    );
    assert!(of_kind(&report, Kind::Swapping)[0].place.host.as_deref() == Some("node1"));
}

#[test]
fn odd_records_do_no_harm() {
    let mut run = Run::new(10.0);
    run.task("same", 1.0, 1.0, json!({"parent_task_id": "t1"}));
    run.task("a", 2.0, 1.0, json!({"parent_task_id": "t3"}));
    run.task("b", 2.0, 1.0, json!({"parent_task_id": "t2"}));
    run.task("lost", 3.0, 1.0, json!({"parent_task_id": "nobody"}));
    run.task("open", 4.0, 0.0, json!({"duration_ns": null, "status": "RUNNING"}));
    run.task("never", 0.0, 1.0, json!({"started_at": null}));
    run.task("late", 1e12, 1.0, json!({}));
    run.task("long", 9.0, 1.0, json!({"duration_ns": u64::MAX}));
    let report = run.analyzed();
    assert_eq!((report.tasks, report.running), (8, 1));
    assert!(report.notes[0].starts_with("2 tasks do not tell when they ran"), "{:?}", report.notes);
    assert!(report.findings.iter().all(|finding| finding.confidence.is_finite()));

    let error = analyzed(&run.lines, "nothing").unwrap_err().to_string();
    assert_eq!(error, "there is no run nothing");
    let empty = analyzed(&workflow("w", 1000.0, 0.0), "w").unwrap();
    assert_eq!((empty.tasks, empty.findings.len()), (0, 0));
}

#[test]
fn many_thousand_tasks_are_no_trouble() {
    const TASKS: u32 = 20_000;
    let mut lines = workflow("w", 1000.0, 100.0);
    for at in 0..TASKS {
        let _ = writeln!(
            lines,
            "{{\"type\":\"task\",\"task_id\":\"t{at}\",\"workflow_id\":\"w\",\"activity_id\":\"a{}\",\"status\":\
             \"FINISHED\",\"started_at\":{},\"duration_ns\":{}}}",
            at % 50,
            1000.0 + f64::from(at) * 0.001,
            1_000_000 + u64::from(at % 7) * 1000,
        );
    }
    let report = analyzed(&lines, "w").unwrap();
    assert_eq!(report.tasks, u64::from(TASKS));
    assert_eq!(report.activities.len(), 50);
    assert_eq!(report.critical_path.steps.len(), 100);
    assert!(report.critical_path.steps_in_all > u64::from(TASKS) / 10);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However tasks lie beside and inside each other: the critical path fills the run without a gap and without an
    /// overlap, and what is at work at a time adds up to all own time.
    #[test]
    fn the_critical_path_fills_the_run(
        tasks in prop::collection::vec((0..100_u32, 0..60_u32, prop::option::of(0..30_usize)), 0..30)
    ) {
        let mut run = Run::new(100.0);
        for (start, seconds, parent) in tasks {
            let parent = parent.map(|parent| format!("t{parent}"));
            let more = json!({"parent_task_id": parent});
            run.task(["a", "b", "c"][start as usize % 3], f64::from(start), f64::from(seconds), more);
        }
        let report = run.analyzed();
        let window = report.window.unwrap();
        let path = &report.critical_path;
        let sum: u64 = path.by_activity.values().sum::<u64>() + path.outside_ns;
        prop_assert_eq!(sum, window.length_ns());
        for pair in path.steps.windows(2) {
            prop_assert!(pair[0].end_ns <= pair[1].start_ns, "{:?}", pair);
        }
        let own: u64 = report.activities.iter().map(|activity| activity.own_ns).sum();
        let at_work = report.parallelism.as_ref().map_or(0.0, |it| it.mean * window.length_ns() as f64);
        prop_assert!((own as f64 - at_work).abs() <= 1.0 + own as f64 * 1e-9, "{own} {at_work}");
        let parts = report.parallelism.map_or(0.0, |it| it.parts.iter().sum::<f64>() / it.parts.len() as f64);
        let mean = at_work / window.length_ns() as f64;
        prop_assert!((parts - mean).abs() < 1e-6, "{parts} {mean}");
    }
}

/// A run of so many seconds whose record says what recording cost.
fn run_with_totals(seconds: f64, totals: Value, bound: &Value) -> Run {
    let mut run = Run::new(seconds);
    let mut record: Value = serde_json::from_str(&run.lines).unwrap();
    record["totals"] = totals;
    record["settings"] = json!({"telemetry_capture": {"max_overhead_percent": bound}});
    run.lines = format!("{record}\n");
    run
}

#[test]
fn the_start_of_the_recorder_is_not_the_runs_waiting() {
    let totals = json!({"start_up_ns": 600_000_000_u64});
    let mut run = run_with_totals(1.0, totals, &json!(5));
    // Captures of 0.1 s before it and after it.
    let cost = json!({"start_ns": 100_000_000, "end_ns": 100_000_000, "nested_ns": 0});
    run.task("only", 0.7, 0.2, json!({"capture": cost}));
    assert_eq!(of_kind(&run.analyzed(), Kind::Waiting), Vec::<&Finding>::new());
    let mut run = Run::new(1.0);
    run.task("only", 0.7, 0.2, json!({}));
    assert_eq!(of_kind(&run.analyzed(), Kind::Waiting).len(), 1, "without a word of the start");
}

#[test]
fn captures_of_tasks_inside_are_not_their_callers_waiting() {
    let told = |nested_ns: u64| {
        let mut run = Run::new(1.0);
        let used = json!({"cpu_ns": {"self": 100_000_000, "inclusive": 200_000_000}});
        let capture = json!({"start_ns": 0, "end_ns": 0, "nested_ns": nested_ns});
        let more = json!({"resources": used, "capture": capture});
        let main = run.task("main", 0.0, 1.0, more);
        run.task("inner", 0.4, 0.1, json!({"parent_task_id": main}));
        of_kind(&run.analyzed(), Kind::Waiting).len()
    };
    assert_eq!(told(0), 1, "0.8 of its own 0.9 s were not at work");
    assert_eq!(told(800_000_000), 0, "they were captures");
}

#[test]
fn a_short_wait_is_not_told() {
    let mut run = Run::new(0.009);
    run.task("only", 0.008, 0.001, json!({}));
    assert_eq!(of_kind(&run.analyzed(), Kind::Waiting), Vec::<&Finding>::new());
}

#[test]
fn recording_above_its_bound_is_told_with_the_setting() {
    let found = |cost: u64, percent: f64, bound: &Value| {
        let totals = json!({"overhead_cpu_ns": cost, "overhead_percent": percent});
        let mut run = run_with_totals(10.0, totals, bound);
        run.task("all", 0.0, 10.0, json!({}));
        of_kind(&run.analyzed(), Kind::Overhead).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let told = found(1_200_000_000, 12.0, &json!(5));
    assert_eq!(told.len(), 1);
    assert!(told[0].contains("12 % of the run"), "{told:?}");
    assert!(told[0].contains("5 % of telemetry_capture.max_overhead_percent"), "{told:?}");
    assert_eq!(found(490_000_000, 4.9, &json!(5)).len(), 0, "within the bound");
    assert_eq!(found(1_200_000_000, 12.0, &json!(20)).len(), 0, "within another bound");
    assert_eq!(found(50_000_000, 80.0, &json!(5)).len(), 0, "a run that is mostly its start");
    let unbounded = found(1_200_000_000, 12.0, &Value::Null);
    assert!(unbounded[0].contains("max_overhead_percent sets no bound"), "{unbounded:?}");
}
