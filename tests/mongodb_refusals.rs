//! Records that the server does not want: told once, counted each, kept apart, and no other is held up by them.

use std::process::Command;

use mongodb::IndexModel;
use mongodb::bson::{Document, doc};
use mongodb::options::IndexOptions;
use runlore::{Provenance, telemetry_task};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::mongo_server::{database, recording, stored, until_stored, with_driver};
use crate::support::{expect_success, finished_in_time, is_child, tried};

const RECORDS: &str = "mongodb_refusals::records_three_of_a_kind";

#[telemetry_task]
fn work(key: &str) -> usize {
    key.len()
}

/// What a process of its own records: 22 tasks, of which three used the same.
#[test]
fn records_three_of_a_kind() {
    if !is_child(RECORDS) {
        return;
    }
    let run = runlore::workflow("twin").store(std::env::var("STORE").unwrap()).start().unwrap();
    for n in 0..20 {
        work(&format!("{}{n}", std::env::var("PREFIX").unwrap()));
    }
    work("same");
    work("same");
    work("same");
    until_stored();
    let finished = run.finish();
    let stats = runlore::stats();
    assert_eq!((stats.waiting, stats.store_errors), (0, 0));
    // What was written, dropped and refused is all that there was: 23 tasks, and the workflow's two records.
    match (finished, stats.dropped) {
        (Ok(totals), 0) => {
            assert_eq!((totals.tasks + totals.dropped + totals.refused, totals.spooled), (23, 0));
        }
        // Who asked for the end of the run is told what it lost.
        (finished, dropped) => {
            let told = finished.unwrap_err().to_string();
            assert_eq!(told, format!("{dropped} records were not stored"));
        }
    }
    assert_eq!(stats.written + stats.dropped + stats.refused, 25);
    eprintln!("report: {}", json!({"refused": stats.refused, "dropped": stats.dropped}));
}

/// Somebody's own rule for a collection: no two documents have the same in this field.
fn make_unique(uri: &str, collection: &'static str, field: &'static str) {
    with_driver(uri, async |database| {
        let options = IndexOptions::builder().unique(true).build();
        let index = IndexModel::builder().keys(doc! {field: 1}).options(options).build();
        database.collection::<Document>(collection).create_index(index).await
    });
}

/// What the process says of itself, and of what is wrong.
fn told(mut command: Command, prefix: &str) -> (Value, Vec<String>) {
    let output = finished_in_time({
        command.env("PREFIX", prefix);
        command
    });
    expect_success(&output);
    let said = String::from_utf8(output.stderr).unwrap();
    let report = said.lines().find_map(|line| line.strip_prefix("report: ")).unwrap();
    let notices = said.lines().filter_map(|line| line.strip_prefix("runlore: "));
    (serde_json::from_str(report).unwrap(), notices.map(str::to_owned).collect())
}

fn record(uri: &str, prefix: &str) -> (Value, Vec<String>) {
    let (command, _folder): (_, TempDir) = recording(RECORDS, uri);
    told(command, prefix)
}

#[test]
fn refused_records_are_counted_told_once_and_kept_apart() {
    let Some(uri) = database() else { return };
    make_unique(&uri, "tasks", "used.key");
    let (report, notices) = record(&uri, "a");
    assert_eq!(report, json!({"refused": 2, "dropped": 0}), "{notices:?}");
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(notices[0].contains("refuses a record: "), "{notices:?}");
    assert!(notices[0].contains("; it is kept in its collection refused_records"), "{notices:?}");
    assert_eq!(stored(&uri, "tasks").len(), 21);
    let refused = stored(&uri, "refused_records");
    assert_eq!(refused.len(), 2);
    for record in &refused {
        let json: Value = serde_json::from_str(record.get_str("json").unwrap()).unwrap();
        assert_eq!(json["used"], json!({"key": "same"}));
        assert!(!record.get_str("why").unwrap().is_empty());
    }
    let records = Provenance::open(&uri).unwrap();
    assert_eq!(records.runs().unwrap()[0].tasks, 21);
    // And so says the run's own record.
    let totals = &stored(&uri, "workflows")[0].get_document("totals").unwrap().clone();
    let told =
        ["tasks", "finished", "refused", "dropped"].map(|name| totals.get_i32(name).unwrap());
    assert_eq!(told, [21, 21, 2, 0]);
    let problems = records.problems();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].contains("has refused 2 records"), "{problems:?}");
    tried("records that MongoDB refuses", "2 of 25, kept apart and counted");
}

#[test]
fn a_workflow_that_is_refused_costs_no_task() {
    let Some(uri) = database() else { return };
    make_unique(&uri, "workflows", "name");
    assert_eq!(record(&uri, "a").0, json!({"refused": 0, "dropped": 0}));
    // The same workflow is refused when it begins and when it ends.
    assert_eq!(record(&uri, "b").0, json!({"refused": 2, "dropped": 0}));
    assert_eq!(stored(&uri, "tasks").len(), 46);
    assert_eq!(stored(&uri, "workflows").len(), 1);
}

#[test]
fn what_can_be_kept_nowhere_is_dropped_and_counted() {
    let Some(uri) = database() else { return };
    make_unique(&uri, "tasks", "used.key");
    // Here nothing has such a field: there can be one document only.
    make_unique(&uri, "refused_records", "no-such-field");
    let (report, notices) = record(&uri, "a");
    assert_eq!(report, json!({"refused": 1, "dropped": 1}), "{notices:?}");
    assert_eq!((stored(&uri, "tasks").len(), stored(&uri, "refused_records").len()), (21, 1));
    let totals = &stored(&uri, "workflows")[0].get_document("totals").unwrap().clone();
    assert_eq!(
        ["tasks", "refused", "dropped"].map(|name| totals.get_i32(name).unwrap()),
        [21, 1, 1]
    );
}
