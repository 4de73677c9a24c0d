//! Tests that the documented file and the types agree.

use std::collections::BTreeSet;

use super::node::{self, Value};
use super::reader::Reader;
use super::setting::Setting as _;
use super::*;

fn paths(entries: &[node::Entry], above: &str, all: &mut BTreeSet<String>) {
    for entry in entries {
        let path = format!("{above}{}", entry.key);
        match &entry.node.value {
            Value::Map(inner) if !inner.is_empty() => paths(inner, &format!("{path}."), all),
            _ => _ = all.insert(path),
        }
    }
}

#[test]
fn the_documented_file_is_the_defaults() {
    let mut settings = Settings::blank();
    let mut reader = Reader::default();
    let node = node::parse(DEFAULT_YAML).unwrap().unwrap();
    settings.read(&node, &mut reader);
    assert!(reader.found.is_empty() && reader.foreign.is_empty(), "{reader:?}");
    assert_eq!(settings, Settings::default());

    let Value::Map(entries) = &node.value else { panic!("{node:?}") };
    let mut in_file = BTreeSet::new();
    paths(entries, "", &mut in_file);
    let in_types: BTreeSet<String> = settings.keys().into_iter().map(|(path, _)| path).collect();
    assert_eq!(in_file, in_types);
}

#[test]
fn the_documented_file_loads_without_a_word() {
    let loaded = Search::nowhere().text("settings.yaml", DEFAULT_YAML).load();
    assert_eq!(loaded.problems(), []);
    assert_eq!(loaded.settings, Settings::default());
}

#[test]
fn every_key_of_the_documented_file_has_a_comment() {
    let active = DEFAULT_YAML.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    for line in active {
        assert!(line.contains(" # "), "no comment: {line}");
        assert!(line.chars().count() <= 130, "too long: {line}");
    }
}

#[test]
fn the_defaults_are_those_of_the_design() {
    let settings = Settings::default();
    let telemetry = &settings.telemetry_capture;
    assert!(telemetry.cpu && telemetry.mem && telemetry.process_info && telemetry.machine_info);
    assert!(
        !telemetry.per_cpu && !telemetry.disk && !telemetry.network && telemetry.gpu.is_empty()
    );
    assert!(telemetry.max_age.is_zero());
    assert_eq!(telemetry.max_overhead_percent, Some(5.0));
    let instrumentation = &settings.instrumentation;
    assert!(instrumentation.enabled && instrumentation.signals);
    assert!(!instrumentation.implicit_workflow && !instrumentation.backtrace);
    let limits = &instrumentation.limits;
    assert_eq!((limits.value_bytes.get(), limits.items, limits.depth), (4096, 64, 8));
    let recorder = &settings.recorder;
    assert_eq!(recorder.durability, Durability::Process);
    assert_eq!((recorder.ring_bytes.get(), recorder.budget_bytes.get()), (512 << 10, 64 << 20));
    assert_eq!((recorder.max_wait_ms.as_millis(), recorder.when_full), (100, WhenFull::Spill));
    assert_eq!((recorder.flush_ms.as_millis(), recorder.flush_records), (200, 512));
    let databases = &settings.databases;
    assert!(databases.jsonl.enabled && !databases.sqlite.enabled && !databases.mongodb.enabled);
    assert_eq!(databases.jsonl.path.to_str(), Some("runlore"));
}

#[test]
fn a_node_is_found_again_in_its_text() {
    let text = "a: 1\nb:\n  - x\n  - c: [y,\n    z]\nd: &e {f: 2}\ng: *e\n";
    let node = node::parse(text).unwrap().unwrap();
    let Value::Map(entries) = &node.value else { panic!("{node:?}") };
    let place = |number| node::locate(text, number);
    assert_eq!(place(node.number), Some((1, 1)));
    assert_eq!(place(entries[0].number), Some((1, 1)));
    assert_eq!(place(entries[0].node.number), Some((1, 4)));
    assert_eq!(place(entries[1].number), Some((2, 1)));
    let Value::List(items) = &entries[1].node.value else { panic!("{node:?}") };
    assert_eq!(place(items[0].number), Some((3, 5)));
    let Value::Map(inner) = &items[1].value else { panic!("{node:?}") };
    assert_eq!(place(inner[0].number), Some((4, 5)));
    let Value::List(deep) = &inner[0].node.value else { panic!("{node:?}") };
    assert_eq!(place(deep[1].number), Some((5, 5)));
    assert_eq!(place(entries[3].number), Some((7, 1)));
    assert_eq!(place(u32::MAX), None);
}

#[test]
fn what_is_shown_of_settings_has_no_password() {
    let mut settings = Settings::default();
    settings.databases.mongodb.uri = Some("mongodb://ann:hunter2@host/db".to_owned());
    let shown = format!("{settings:?}");
    assert!(shown.contains("uri: (hidden), host: \"") && !shown.contains("hunter2"), "{shown}");
}
