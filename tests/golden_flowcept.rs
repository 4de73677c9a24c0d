//! Files that Flowcept itself wrote load, print as a tree, and come back equal.

use std::fs;
use std::path::PathBuf;

use runlore::record::Record;
use runlore::store::jsonl;
use serde_json::Value;

use crate::support::sort_values;

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/flowcept").join(name)
}

/// The file as plain JSON, with what reading may change: top-level nulls go, `type` is inferred, ids are
/// filled.
fn expected(name: &str, read: &[Record]) -> Vec<Value> {
    let text = fs::read_to_string(golden(name)).unwrap();
    text.lines()
        .zip(read)
        .map(|(line, read)| {
            let Ok(Value::Object(mut object)) = serde_json::from_str(line) else {
                panic!("{line}")
            };
            object.retain(|_, value| !value.is_null());
            if object.contains_key("activity_id") {
                object.entry("type").or_insert_with(|| "task".into());
                let id = &read.as_task().unwrap().task_id;
                object.entry("task_id").or_insert_with(|| id.as_str().into());
            }
            Value::Object(object)
        })
        .collect()
}

fn comes_back_equal(name: &str) -> Vec<Record> {
    let read: Vec<Record> = jsonl::read(golden(name)).unwrap().map(Result::unwrap).collect();
    let written: Vec<Value> = read.iter().map(Record::to_json).collect();
    assert_eq!(written, expected(name, &read));
    read
}

fn tree(name: &str) -> String {
    let mut loaded = jsonl::load(golden(name)).unwrap();
    assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
    loaded.tasks.iter_mut().for_each(sort_values);
    loaded.into_tree().render().values(true).to_string()
}

#[test]
fn a_workflow_comes_back_equal() {
    let read = comes_back_equal("workflow.jsonl");
    assert_eq!(read.len(), 33);
    assert_eq!(read.iter().filter(|record| record.as_task().is_some()).count(), 30);
    assert_eq!(read.iter().filter(|record| record.as_workflow().is_some()).count(), 2);
}

#[test]
fn torch_and_loops_come_back_equal() {
    let read = comes_back_equal("torch_lightweight.jsonl");
    assert_eq!(read.len(), 26);
    assert_eq!(read.iter().filter(|record| record.as_task().is_some()).count(), 23);
}

#[test]
fn a_workflow_prints_as_a_tree() {
    insta::assert_snapshot!(tree("workflow.jsonl"));
}

#[test]
fn torch_and_loops_print_as_a_tree() {
    insta::assert_snapshot!(tree("torch_lightweight.jsonl"));
}
