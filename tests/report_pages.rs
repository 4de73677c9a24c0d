//! Pages of analyses and of diagnose bundles: what they tell, and how a browser shows it.

use std::time::Duration;

use runlore::analyze::{Diagnose, Thresholds, Timelines};
use runlore::events::TelemetryEvent;
use runlore::report::{Picture, Unit, diagnosis_page, events_page};
use serde_json::{Value, json};

use crate::browser::{self, View};

const SECOND: u64 = 1_000_000_000;
/// 2025-08-19T10:40:00Z
const START: u64 = 1_755_600_000 * SECOND;
const HOSTILE: &str =
    "</script><script>problems.push('out')</script><img src=x onerror=problems.push('out')>\"'&";

/// A device whose memory leaks, on a machine that a tracker watched.
fn tracked() -> Timelines {
    let device = |at: u64| TelemetryEvent {
        session_id: "session".into(),
        host: format!("node1 {HOSTILE}").into(),
        device_id: 0,
        timestamp_ns: START + at * SECOND,
        allocator_allocated_bytes: Some((1 << 30) + at * (40 << 20) + at % 5 * (90 << 20)),
        allocator_reserved_bytes: Some((2 << 30) + at * (40 << 20)),
        device_used_bytes: Some((3 << 30) + at * (40 << 20)),
        device_total_bytes: Some(8 << 30),
        metadata: [("gpu_percent", 90.0), ("power_watts", 240.0)].into_iter().collect(),
        ..TelemetryEvent::default()
    };
    let host = |at: u64| {
        let metadata = json!({
            "cpu_percent": 30 + at % 20, "process_cpu_percent": 180, "sent_bytes_per_sec": at * 1000, "received_bytes_per_sec": 5e6,
            "read_bytes_per_sec": 1e6, "write_bytes_per_sec": 0, "swap_used_bytes": at * (8 << 20),
            "memory_pressure_percent": if at > 60 { 22.5 } else { 0.0 },
        });
        TelemetryEvent {
            session_id: "session".into(),
            host: format!("node1 {HOSTILE}").into(),
            device_id: -1,
            timestamp_ns: START + at * SECOND,
            allocator_allocated_bytes: Some(3 << 30),
            device_used_bytes: Some(5 << 30),
            device_total_bytes: Some(16 << 30),
            metadata: metadata.as_object().unwrap().clone().into(),
            ..TelemetryEvent::default()
        }
    };
    (0..90).flat_map(|at| [device(at), host(at)]).collect()
}

#[test]
fn what_a_tracker_read_beside_memory_is_drawn() {
    let timelines = tracked();
    let report = timelines.analyze(&Thresholds::default());
    let picture = Picture::of_events(&timelines, &report);
    let panels: Vec<(&str, Unit, usize)> = picture.panels[3..]
        .iter()
        .map(|panel| (&*panel.title, panel.unit, panel.lines.len()))
        .collect();
    assert_eq!(
        panels,
        [
            ("Processors (of a process, 100 % is one)", Unit::Percent, 2),
            ("Disks", Unit::BytesPerSecond, 1),
            ("Network", Unit::BytesPerSecond, 2),
            ("GPU load", Unit::Percent, 1),
            ("GPU power", Unit::Watts, 1),
            ("Waiting for memory", Unit::Percent, 1),
            ("Swap", Unit::Bytes, 1),
        ]
    );
    assert_eq!(picture.panels[5].lines[0].points[7].value, 7000.0);
    let kinds: Vec<&str> = report.findings.iter().map(|finding| finding.kind.as_str()).collect();
    for kind in ["memory_pressure", "swapping", "leak_suspect"] {
        assert!(kinds.contains(&kind), "{kinds:?}");
    }
}

#[test]
fn the_page_of_an_analysis_has_the_evidence_and_the_timeline() {
    if !browser::is_there() {
        return;
    }
    let timelines = tracked();
    let report = timelines.analyze(&Thresholds::default());
    let html = events_page(&report, &timelines);
    let found = browser::look(
        &html,
        "analysis",
        View { size: (1280, 3000), ..View::LIGHT },
        "const all = [...document.querySelectorAll('ol.findings > li')];
        return {
          findings: all.length, text: document.querySelector('main').textContent,
          evidence: all.every((one) => one.querySelectorAll('dl.evidence dd').length > 1),
          charts: document.querySelectorAll('.live svg path.curve').length,
          rows: document.querySelectorAll('#devices + .scroll tbody tr').length,
          images: document.querySelectorAll('img').length,
        };",
    );
    assert_eq!(found["findings"], report.findings.len(), "{found}");
    assert_eq!((&found["evidence"], &found["images"]), (&Value::Bool(true), &json!(0)));
    assert_eq!(found["charts"], 3 + 2 + 9, "{found}");
    assert_eq!(found["rows"], 2, "{found}");
    for finding in &report.findings {
        assert!(found["text"].as_str().unwrap().contains(&finding.what), "{}", finding.what);
    }
    browser::can_be_read(&html.replace(&escaped(HOSTILE), ""), "analysis", 3000);
}

#[test]
fn an_analysis_that_found_nothing_has_a_page_too() {
    let timelines: Timelines = (0..20)
        .map(|at| TelemetryEvent {
            timestamp_ns: START + at * SECOND,
            allocator_allocated_bytes: Some(1 << 30),
            ..TelemetryEvent::default()
        })
        .collect();
    let html = events_page(&timelines.analyze(&Thresholds::default()), &timelines);
    assert!(html.contains("Nothing stands out.") && html.ends_with("</html>\n"));
    assert!(!html.contains(">NaN"), "what is not known is not shown as a number");
}

#[test]
fn a_bundle_has_a_page_that_its_manifest_lists() {
    let folder = tempfile::tempdir().unwrap();
    let look =
        Diagnose { duration: Duration::from_millis(60), interval: Duration::from_millis(10) };
    let mut found = look.run(&Thresholds::default());
    found.attach("report.html", diagnosis_page(&found));
    let bundle = found.write(&folder.path().join("diag"), ["runlore"]).unwrap();
    let manifest = std::fs::read(bundle.join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    for name in manifest["files"].as_array().unwrap() {
        assert!(bundle.join(name.as_str().unwrap()).is_file(), "{name}");
    }
    assert!(manifest["files"].as_array().unwrap().contains(&json!("report.html")), "{manifest}");
    let loaded = runlore::events::load(&bundle).unwrap();
    assert!(loaded.problems.is_empty() && !loaded.sessions[0].events.is_empty());
    if !browser::is_there() {
        return;
    }
    let html = std::fs::read_to_string(bundle.join("report.html")).unwrap();
    browser::can_be_read(&html, "diagnose", 1400);
    let shown = browser::look(
        &html,
        "diagnose",
        View { size: (1280, 1400), ..View::LIGHT },
        "return { curves: document.querySelectorAll('.live svg path.curve').length, facts: document.querySelectorAll('.facts dd').length };",
    );
    assert!(shown["curves"].as_u64() >= Some(1) && shown["facts"].as_u64() >= Some(4), "{shown}");
}

/// The text as it stands in a page.
fn escaped(text: &str) -> String {
    let pairs = [("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\"", "&quot;"), ("'", "&#39;")];
    pairs.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}
