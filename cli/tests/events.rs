//! `events`: what Stormlog wrote, and what we make of it.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{runlore, told_by};

fn stormlog(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    root.join("tests/data/stormlog").join(name)
}

fn told(args: &[&str], files: &[&Path]) -> String {
    let text = told_by(runlore().arg("events").args(args).args(files));
    text.replace(&stormlog("").display().to_string(), "STORMLOG/")
}

#[test]
fn validate_tells_what_is_wrong_where() {
    let files = [
        &*stormlog("v039/events.json"),
        &stormlog("v043/events.csv"),
        &stormlog("v043/sink_crashed"),
        &stormlog("loader/b5.jsonl"),
        &stormlog("loader/a14.json"),
        &stormlog("loader/does-not-exist.json"),
        &stormlog("loader/a1.json"),
    ];
    insta::assert_snapshot!(told(&["validate"], &files));
}

#[test]
fn validate_as_json_is_an_object_a_problem_and_a_file() {
    let text = told(&["validate", "--json"], &[&stormlog("loader/a14.json")]);
    let lines: Vec<Value> =
        text.lines().take(2).map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["field"], "timestamp");
    assert_eq!((&lines[0]["line"], &lines[0]["index"]), (&1.into(), &0.into()));
    assert_eq!(lines[1]["wrong"], 1);
}

#[test]
fn records_of_old_are_refused_when_that_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("old.jsonl");
    fs::write(&file, "{\"timestamp\": 1}\n").unwrap();
    assert!(told(&["validate"], &[&file]).ends_with("old.jsonl: 1 event, fine\n"));
    let strict = told(&["validate", "--no-legacy"], &[&file]);
    assert!(strict.contains("line 1: Legacy record conversion is disabled"), "{strict}");
    assert!(strict.contains("--- exit code Some(1)"), "{strict}");
}

#[test]
fn convert_goes_through_every_format_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut from = stormlog("v043/alerts_events.json");
    for to in ["a.jsonl", "a.csv", "a.json"] {
        let said = told(&["convert", "--schema", "4"], &[&from, &path(to)]);
        assert!(said.ends_with(&format!("{to}: 45 events in schema 4\n")), "{said}");
        from = path(to);
    }
    let read = |path: &Path| -> Value { serde_json::from_slice(&fs::read(path).unwrap()).unwrap() };
    assert_eq!(read(&from), read(&stormlog("v043/alerts_events.json")));
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 3, "nothing else is left behind");
}

#[test]
fn convert_loses_nothing_unless_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("b.jsonl");
    let from = stormlog("v043/alerts_events.json");
    let said = told(&["convert"], &[&from, &to]);
    insta::assert_snapshot!(said.replace(&folder.path().display().to_string(), "FOLDER"));
    assert_eq!(fs::read_to_string(&to).unwrap().lines().count(), 42);

    fs::remove_file(&to).unwrap();
    let said = told(&["convert", "--strict"], &[&from, &to]);
    assert!(said.contains("nothing was written") && said.contains("exit code Some(1)"), "{said}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);

    let said = told(&["convert", "--lossy"], &[&from, &to]);
    assert!(said.ends_with("45 events in schema 3\n"), "{said}");
    let said = told(&["convert"], &[&from, &folder.path().join("b.txt")]);
    assert!(said.contains("name it *.json, *.jsonl or *.csv"), "{said}");
}

#[test]
fn sessions_and_stats_tell_what_is_in_a_sink() {
    let sink = stormlog("v039/sink");
    insta::assert_snapshot!(told(&["sessions"], &[&sink]));
    insta::assert_snapshot!(told(&["stats"], &[&stormlog("v043/alerts_events.json")]));
    let json: Value =
        serde_json::from_str(told(&["sessions", "--json"], &[&sink]).lines().next().unwrap())
            .unwrap();
    assert_eq!((&json["events"], &json["status"]), (&51.into(), &"completed".into()));
    let none = told(&["stats", "--session", "nope"], &[&sink]);
    assert!(none.contains("no event of session nope"), "{none}");
}
