//! Diagnose bundles are read wherever a file of events is.

use std::fs;

use runlore::events::{self, SessionStatus};
use serde_json::json;
use tempfile::TempDir;

use crate::events_records::data;

#[test]
fn bundles_of_stormlog_load_as_sessions() {
    for (name, rows, id) in [
        ("v039/diag", 6, "a1d596ab-e099-4446-9537-0833d0116ee4"),
        ("v043/diag", 11, "bcc0b200-36a0-40cb-8337-ac7d58a2889d"),
        ("v043/diag_risk", 0, "95689f61-6735-4d7f-bd09-6dbcb998c408"),
    ] {
        let loaded = events::load(data(name)).unwrap();
        assert_eq!(loaded.problems, [], "{name}");
        let session = loaded.session(None).unwrap().unwrap();
        assert_eq!((session.events.len(), &*session.summary.session_id), (rows, id));
        assert_eq!(session.summary.status, SessionStatus::Completed);
        assert!(session.events.iter().all(|event| event.session_id == id));
    }
    let loaded = events::load(data("v039/diag/telemetry_timeline.json")).unwrap();
    let event = &loaded.sessions[0].events[0];
    assert_eq!((event.allocator_allocated_bytes, event.device_id), (Some(544_210_944), -1));
    assert_eq!((&*event.event_type, &*event.host), ("sample", "vm"));
}

#[test]
fn what_is_wrong_with_a_bundle_costs_only_itself() {
    let folder = TempDir::new().unwrap();
    let timeline = json!({"timestamps": [1.0, true, 3.0], "allocated": [5, 6], "reserved": "none"});
    fs::write(folder.path().join("telemetry_timeline.json"), timeline.to_string()).unwrap();
    fs::write(folder.path().join("manifest.json"), "{").unwrap();
    let loaded = events::load(folder.path()).unwrap();
    let told: Vec<String> = loaded.problems.iter().map(events::Problem::reason).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains("EOF"), "{told:?}");
    assert!(told[1].starts_with("row 1 of the timeline is left out"), "{told:?}");
    let events = &loaded.sessions[0].events;
    assert_eq!(loaded.sessions.len(), 1);
    assert_eq!(events[0].allocator_reserved_bytes, Some(5));
    assert_eq!(events[1].timestamp_ns, 3_000_000_000);

    fs::write(folder.path().join("telemetry_timeline.json"), "[]").unwrap();
    let told = events::load(folder.path()).unwrap().problems;
    assert!(told.iter().any(|problem| problem.reason().contains("must be a JSON object")));
}
