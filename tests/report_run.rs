//! Reports of runs: small ones, large ones, and what a browser makes of them.

use std::fmt::Write;

use runlore::Provenance;
use runlore::report::RunReport;
use serde_json::{Value, json};

use crate::browser::{self, View};

const HOSTILE: &str =
    "</script><script>problems.push('out')</script><img src=x onerror=problems.push('out')>\"'&|";
const RUN: &str = "0198c2a0-0000-7000-8000-00000000a001";

/// A run of batches, each with three tasks of which one may fail; every second batch was on another process.
fn records(batches: u64) -> String {
    let mut lines = String::new();
    let mut add = |record: Value| writeln!(lines, "{record}").unwrap();
    let start = 1_755_600_000.25;
    for batch in 0..batches {
        let began = start + batch as f64;
        let memory = json!({"cpu": {"percent_all": 20.0 + (batch % 50) as f64}, "process": {
            "memory": {"rss": 100_000_000 + batch * 1000}, "io_counters": {"read_bytes": batch * 4_000_000, "write_bytes": 0}}});
        let fails = batch % 10 == 3;
        let parts = [("load", 0.0, 0.2), ("transform", 0.2, 0.5), ("save", 0.7, 0.1)];
        for (at, (name, after, took)) in parts.into_iter().enumerate() {
            let has_failed = fails && name == "save";
            let mut task = json!({
                "type": "task", "task_id": format!("t{batch}-{at}"), "parent_task_id": format!("t{batch}"), "workflow_id": RUN,
                "activity_id": name, "started_at": began + after, "ended_at": began + after + took,
                "duration_ns": (took * 1e9) as u64 + batch, "status": if has_failed { "ERROR" } else { "FINISHED" },
                "used": {"rows": batch, "note": HOSTILE}, "hostname": "node1", "pid": 4711 + batch % 2,
                "telemetry_at_start": memory, "telemetry_at_end": memory,
                "resources": {"cpu_ns": {"self": 1_000_000, "inclusive": 1_000_000}},
                "hashes": {"used": {"rows": format!("h{batch}-{at}")}, "generated": {"rows": format!("h{batch}-{}", at + 1)}},
            });
            if has_failed {
                task["error"] = json!({"type": "std::io::Error", "kind": "error", "message": format!("disk full {HOSTILE}")});
            }
            if batch == 1 {
                task["unavailable"] = json!({"gpu": "no driver"});
            }
            add(task);
        }
        add(json!({
            "type": "task", "task_id": format!("t{batch}"), "workflow_id": RUN, "activity_id": format!("batch {HOSTILE}"),
            "started_at": began, "ended_at": began + 0.9, "duration_ns": 900_000_000, "status": "FINISHED", "hostname": "node1",
        }));
    }
    add(json!({
        "type": "workflow", "workflow_id": RUN, "name": format!("nightly {HOSTILE}"), "status": "FINISHED", "started_at": start,
        "ended_at": start + batches as f64, "hostname": "node1", "user": "ada",
        "machine_info": {"node1": {"hostname": "node1", "cpu": {"brand_raw": "Example 9000", "count": 8}}},
        "settings": {"telemetry_capture": {"cpu": true}}, "code_repository": {"commit": "abc123"},
        "totals": {"tasks": batches * 4, "dropped": 2, "spooled": 0, "bytes_written": 12345, "capture_ns": 5_000_000, "capture_percent": 0.5},
    }));
    lines
}

fn report_of(folder: &std::path::Path) -> RunReport {
    RunReport::builder(&Provenance::open(folder).unwrap(), RUN).build().unwrap()
}

fn report(batches: u64) -> RunReport {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("run.jsonl"), records(batches)).unwrap();
    report_of(folder.path())
}

#[test]
fn a_small_run_is_told_in_full() {
    let report = report(10);
    assert_eq!((report.tasks.tasks, report.tasks.errors), (40, 1));
    assert_eq!((report.picture.bars.len(), report.picture.density.len()), (40, 0));
    assert_eq!(report.slowest.len(), 40);
    let [batch] = &report.calls[..] else { panic!("{:?}", report.calls) };
    let called: Vec<&str> = batch.calls.iter().map(|call| &*call.activity).collect();
    assert_eq!((batch.tasks, called), (10, vec!["load", "transform", "save"]));
    assert_eq!(report.failures[0].example.task_id, "t3-2");
    let flows: Vec<(&str, &str, u64)> =
        report.lineage.flows.iter().map(|flow| (&*flow.from, &*flow.to, flow.values)).collect();
    assert_eq!(flows, [("load", "transform", 10), ("transform", "save", 10)]);
    assert_eq!((report.unavailable[0].tasks, &*report.unavailable[0].reason), (3, "no driver"));
    let titles: Vec<&str> = report.picture.panels.iter().map(|panel| &*panel.title).collect();
    let processors = "Processors (of a process, 100 % is one)";
    assert_eq!(titles, [processors, "Memory of the process", "Disks"]);
    let names: Vec<&str> = report.picture.panels[1].lines.iter().map(|line| &*line.name).collect();
    assert_eq!(names, ["process 4711 of node1, resident", "process 4712 of node1, resident"]);
    assert_eq!(report.picture.length_ns / 1_000_000_000, 10, "as long as the run");
    // 4 MB each second, of two processes that count apart.
    let read = &report.picture.panels[2].lines[0];
    assert!(read.points.iter().any(|point| point.value > 3_000_000.0), "{read:?}");
}

#[test]
fn what_was_lost_in_any_of_the_runs_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let run = |id: &str, parent: Value, totals: Value| {
        json!({"type": "workflow", "workflow_id": id, "parent_workflow_id": parent, "name": id, "status": "FINISHED",
            "started_at": 1.0, "ended_at": 9.0, "totals": totals})
    };
    let task = json!({"type": "task", "task_id": "t", "workflow_id": RUN, "activity_id": "a", "started_at": 2.0, "ended_at": 4.0,
        "duration_ns": 2_000_000_000_u64, "status": "FINISHED", "code": {"crate": "wheel", "version": "1.2.3", "file": "src/a.rs"}});
    let lines = [
        run(
            RUN,
            Value::Null,
            json!({"dropped": 0, "refused": 7, "spooled": 0, "capture_ns": 1_000_000, "capture_percent": 0.0}),
        ),
        run(
            "inner",
            RUN.into(),
            json!({"dropped": 55, "spooled": 3, "capture_ns": 79_000_000, "capture_percent": 1.0}),
        ),
        task,
    ];
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    std::fs::write(folder.path().join("run.jsonl"), lines.join("\n")).unwrap();
    let report = report_of(folder.path());
    let cost = &report.cost;
    assert_eq!((cost.dropped, cost.refused, cost.spooled), (Some(55), Some(7), Some(3)));
    assert_eq!((cost.capture_ns, cost.capture_percent), (Some(80_000_000), Some(1.0)));
    let html = report.to_html();
    for told in [
        "tasks of which no record was kept: 55",
        "records that a store would not have: 7",
        "records that wait on disk for their store: 3",
        "Code: wheel 1.2.3",
    ] {
        assert!(html.contains(told), "{told}");
    }
    assert!(report.to_markdown().contains("62 not recorded, 3 waiting for their store"));
    assert_eq!(report.picture.length_ns, 8_000_000_000, "the chart is as long as the run");
}

#[test]
fn markdown_is_what_it_was() {
    insta::assert_snapshot!(report(10).to_markdown());
}

#[test]
fn json_has_what_the_page_tells() {
    let json: Value = serde_json::from_str(&report(10).to_json()).unwrap();
    assert_eq!(json["tasks"]["errors"], 1);
    assert_eq!(json["cost"]["dropped"], 2);
    assert_eq!(json["code"]["commit"], "abc123");
    assert_eq!(json["activities"][0]["tasks"], 10);
}

#[test]
fn a_large_run_stays_a_small_page() {
    let report = report(2_500);
    assert_eq!(report.tasks.tasks, 10_000);
    assert!(report.picture.bars.len() <= 1_500);
    assert_eq!(report.failures[0].tasks, 250);
    let html = report.to_html();
    assert!(html.len() < 1_000_000, "{} bytes", html.len());
}

#[test]
fn a_run_that_goes_round_in_circles_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let task = |id: &str, parent: &str| {
        json!({"type": "task", "task_id": id, "parent_task_id": parent, "workflow_id": RUN, "activity_id": id, "started_at": 1.0,
            "status": "RUNNING"})
    };
    let lines = format!("{}\n{}\n{}\n", task("a", "b"), task("b", "a"), task("c", "c"));
    std::fs::write(folder.path().join("run.jsonl"), lines).unwrap();
    let report = report_of(folder.path());
    assert_eq!(report.tasks.running, 3);
    assert!(report.to_html().contains("What ran"));
    assert!(!report.to_markdown().is_empty());
}

#[test]
fn a_run_without_tasks_is_told() {
    let report = report(0);
    assert_eq!(report.tasks.tasks, 0);
    assert!(report.to_html().contains("No task tells when it began."));
    assert!(report.to_markdown().contains("0 tasks"));
}

#[test]
fn a_page_runs_no_script_but_its_own() {
    let html = report(10).to_html();
    assert!(html.contains("script-src 'sha256-") && !html.contains("script-src 'unsafe-inline'"));
    if browser::is_there() {
        browser::runs_no_script_but_its_own(&html);
    }
}

#[test]
fn a_page_can_be_searched() {
    if !browser::is_there() {
        return;
    }
    let found = browser::look(
        &report(10).to_html(),
        "run",
        View::LIGHT,
        "const search = document.getElementById('search'), failed = document.getElementById('only-failed');
        const rows = () => [...document.querySelectorAll('#activities ~ .scroll tbody tr')].filter((row) => row.dataset.text && !row.hidden).length;
        const faded = () => document.querySelectorAll('rect.bar.faded').length;
        const found = { bars: document.querySelectorAll('.live rect.bar').length, rows: rows(), images: document.querySelectorAll('img').length };
        search.value = 'LOAD';
        search.dispatchEvent(new Event('input'));
        found.searched = [rows(), faded(), document.getElementById('found').textContent];
        found.tree = [...document.querySelectorAll('.tree [data-text]')].filter((one) => !one.hidden).length;
        search.value = '';
        failed.checked = true;
        failed.dispatchEvent(new Event('change'));
        found.failed = [rows(), faded()];
        failed.checked = false;
        failed.dispatchEvent(new Event('change'));
        found.again = [rows(), faded()];
        return found;",
    );
    assert_eq!(found["bars"], 40);
    assert_eq!(found["rows"], 4);
    assert_eq!(found["images"], 0);
    assert_eq!((&found["searched"][0], &found["searched"][1]), (&json!(1), &json!(30)), "{found}");
    let told = found["searched"][2].as_str().unwrap();
    assert!(told.starts_with("10 tasks found, 10 of them with a bar; "), "{found}");
    // The activity itself, and the one that calls it.
    assert_eq!(found["tree"], 2);
    assert_eq!(found["failed"], json!([1, 39]));
    assert_eq!(found["again"], json!([4, 0]));
}

#[test]
fn a_page_can_be_read_in_light_and_dark_and_on_a_phone() {
    if !browser::is_there() {
        return;
    }
    for (batches, page) in [(3, "run-small"), (300, "run-colours")] {
        let html = report(batches).to_html().replace(&escaped(HOSTILE), "…");
        browser::can_be_read(&html, page, 2400);
    }
}

/// A run that ended by an error, with tasks that had not ended by then.
#[test]
fn a_page_of_a_failed_run_says_so_first() {
    if !browser::is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut lines = String::new();
    let mut add = |record: Value| writeln!(lines, "{record}").unwrap();
    let names = ["fetch", "parse", "train", "evaluate"];
    for (at, name) in names.into_iter().enumerate() {
        let began = 1_755_600_000.0 + at as f64 * 2.0;
        let mut task = json!({"type": "task", "task_id": format!("t{at}"), "workflow_id": RUN, "activity_id": name,
            "started_at": began, "status": "FINISHED", "ended_at": began + 1.9, "duration_ns": 1_900_000_000_u64,
            "used": {"path": format!("data/{name}.csv")}, "hostname": "node1"});
        if name == "train" {
            task["status"] = "ERROR".into();
            task["error"] = json!({"type": "OutOfMemory", "message": "cannot allocate 12 GiB", "kind": "error",
                "chain": ["cannot allocate 12 GiB", "the device has 8 GiB"]});
        }
        if name == "evaluate" {
            task["status"] = "RUNNING".into();
            for gone in ["ended_at", "duration_ns"] {
                task.as_object_mut().unwrap().remove(gone);
            }
        }
        add(task);
    }
    add(
        json!({"type": "workflow", "workflow_id": RUN, "name": "train", "status": "ERROR", "started_at": 1_755_600_000.0,
        "ended_at": 1_755_600_008.0, "hostname": "node1", "user": "ada", "stderr": "cannot allocate 12 GiB"}),
    );
    std::fs::write(folder.path().join("run.jsonl"), lines).unwrap();
    let report = report_of(folder.path());
    browser::can_be_read(&report.to_html(), "run-failed", 1800);
    let found = browser::look(
        &report.to_html(),
        "run-failed",
        View::LIGHT,
        "return { head: document.querySelector('main').textContent.slice(0, 700), failed: document.querySelectorAll('rect.bar.failed').length };",
    );
    assert!(found["head"].as_str().unwrap().contains("cannot allocate 12 GiB"), "{found}");
    assert!(found["failed"].as_u64().unwrap() >= 1, "{found}");
}

/// So many tasks that all that a page holds is at its bound: more bars, readings and failures than it shows. A hundred thousand
/// make the same page, and take five times as long to read.
const MANY: u64 = 20_000;

/// Many tasks in two levels, with telemetry.
fn many() -> String {
    let mut lines = String::new();
    for task in 0..MANY {
        let (batch, step) = (task / 10, task % 10);
        let began = 1_755_600_000.0 + batch as f64 * 0.1 + step as f64 * 0.009;
        let (parent, name, took) = match step {
            0 => (String::new(), "batch", 95_000_000),
            _ => (
                format!("\"parent_task_id\":\"t{}\",", batch * 10),
                "step",
                8_000_000 + task % 977 * 1000,
            ),
        };
        let status = if task % 999 == 77 { "ERROR" } else { "FINISHED" };
        writeln!(
            lines,
            "{{\"type\":\"task\",\"task_id\":\"t{task}\",{parent}\"workflow_id\":\"{RUN}\",\"activity_id\":\"{name}\",\
             \"started_at\":{began:.6},\"ended_at\":{:.6},\"duration_ns\":{took},\"status\":\"{status}\",\
             \"hostname\":\"node1\",\"pid\":7,\"telemetry_at_end\":{{\"cpu\":{{\"percent_all\":{}}},\
             \"process\":{{\"memory\":{{\"rss\":{}}}}}}}}}",
            began + took as f64 / 1e9,
            task % 97,
            100_000_000 + task * 1000,
        )
        .unwrap();
    }
    lines
}

#[test]
fn a_page_of_very_many_tasks_can_be_used() {
    if !browser::is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("run.jsonl"), many()).unwrap();
    let report = report_of(folder.path());
    assert_eq!(report.tasks.tasks, MANY);
    assert_eq!(report.picture.bars.len(), 1_500);
    let halves = |bar: &&runlore::report::Bar| bar.start_ns < report.picture.length_ns / 2;
    let first = report.picture.bars.iter().filter(halves).count();
    assert!(
        (600..900).contains(&first),
        "bars are chosen from all of the run: {first} in its first half"
    );
    assert!(!report.findings.is_empty(), "a run of any size is analysed");
    let html = report.to_html();
    assert!(html.len() <= 5_000_000, "{} bytes", html.len());
    let ready = browser::milliseconds_until_ready(&html);
    assert!(ready.is_finite(), "the page says when it can be used");
    eprintln!("a page of {MANY} tasks: {} bytes, ready after {ready:.0} ms", html.len());
    browser::can_be_read(&html, "run-large", 2400);
    let found = browser::look(
        &html,
        "run-large",
        View::LIGHT,
        "const svg = document.querySelector('.live svg');
        const before = Number(svg.dataset.bars), all = svg.dataset.to - svg.dataset.from;
        [...document.querySelectorAll('button')].find((one) => one.textContent === '+').click();
        const zoomed = (svg.dataset.to - svg.dataset.from) / all, after = Number(svg.dataset.bars);
        const search = document.getElementById('search');
        search.value = 'step';
        search.dispatchEvent(new Event('input'));
        return { before, zoomed, after, density: document.querySelectorAll('.live path.density').length,
          drawn: document.querySelectorAll('.live rect.bar').length, found: document.getElementById('found').textContent };",
    );
    assert_eq!((&found["before"], &found["zoomed"]), (&json!(1_500), &json!(0.5)), "{found}");
    assert!((500..1_200).contains(&found["after"].as_u64().unwrap()), "{found}");
    assert_eq!(found["drawn"], found["after"], "{found}");
    assert_eq!(found["density"], 1, "{found}");
    let told = found["found"].as_str().unwrap();
    assert!(told.starts_with("18,000 tasks found, "), "all of them are counted: {told}");
}

/// The text as it stands in a page.
fn escaped(text: &str) -> String {
    let pairs = [("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\"", "&quot;"), ("'", "&#39;")];
    pairs.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}
