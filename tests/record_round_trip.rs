//! A record that is read and written again is the same record.

use proptest::prelude::*;
use runlore::record::{Record, Status, TaskObject};
use serde_json::{Map, Value, json};

/// What reading may change: top-level nulls go, `type` is inferred, an id is filled.
fn expected(mut object: Map<String, Value>, read: &Record) -> Value {
    let (kind, id, value) = match read {
        Record::Task(task) => ("task", "task_id", &task.task_id),
        Record::Workflow(workflow) => ("workflow", "workflow_id", &workflow.workflow_id),
        Record::Other(_) => return Value::Object(object),
    };
    object.retain(|_, value| !value.is_null());
    object.insert("type".into(), kind.into());
    object.entry(id).or_insert_with(|| value.as_str().into());
    Value::Object(object)
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        prop::sample::select(vec!["RUNNING", "ERROR", "CANCELLED"]).prop_map(Value::from),
    ];
    let key = prop_oneof![
        ".{0,4}",
        prop::sample::select(vec!["message", "kind", "type", "chain", "line", "id", "name"])
            .prop_map(String::from),
    ];
    leaf.prop_recursive(3, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key.clone(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn any_record() -> impl Strategy<Value = Map<String, Value>> {
    let names = vec![
        "type",
        "task_id",
        "workflow_id",
        "activity_id",
        "parent_task_id",
        "tags",
        "status",
        "started_at",
        "ended_at",
        "duration_ns",
        "ended_early",
        "used",
        "generated",
        "stderr",
        "stdout",
        "error",
        "code",
        "thread",
        "capture",
        "pid",
        "hashes",
        "data",
        "name",
        "totals",
        "catalogue",
        "agent_id",
        "object_id",
        "mine",
    ];
    let key = prop_oneof![
        9 => prop::sample::select(names).prop_map(String::from),
        1 => ".{0,6}",
    ];
    let entries = prop::collection::btree_map(key, any_json(), 0..12);
    let kind = prop::option::of(prop::sample::select(vec!["task", "workflow", "agent"]));
    (entries, kind).prop_map(|(entries, kind)| {
        let mut object: Map<String, Value> = entries.into_iter().collect();
        if let Some(kind) = kind {
            object.insert("type".into(), kind.into());
        }
        object
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn any_object_comes_back_equal(object in any_record(), line in 0_u64..3) {
        let read = Record::from_json_at(Value::Object(object.clone()), line).unwrap();
        let written = read.to_json();
        prop_assert_eq!(&written, &expected(object, &read));

        // As text too: a key written twice would show here.
        let text = serde_json::to_string(&read).unwrap();
        prop_assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), written.clone());
        prop_assert_eq!(Record::from_json(written).unwrap(), read);
    }
}

#[test]
fn an_odd_field_does_not_cost_the_record() {
    let json = json!({
        "type": "task", "task_id": 7, "started_at": "2026-01-01T00:00:00Z", "ended_at": 5,
        "duration_ns": -1, "used": [1, 2], "tags": "one", "status": "CANCELLED",
        "error": {"message": 3}, "stderr": {"exception": "boom", "traceback": "…"},
    });
    let record = Record::from_json(json.clone()).unwrap();
    let task = record.as_task().unwrap();
    assert_eq!(task.task_id, "7");
    assert_eq!(task.started_at, None);
    assert_eq!(task.ended_at, Some(5.0));
    assert_eq!(task.status, Some(Status::Unknown));
    assert_eq!(task.error_message().unwrap(), "boom");
    assert_eq!(record.to_json(), json);
}

#[test]
fn a_changed_field_is_what_is_written() {
    let json =
        json!({"type": "task", "task_id": 7, "status": "CANCELLED", "started_at": 5, "used": [1]});
    let mut task: TaskObject = serde_json::from_value(json).unwrap();
    task.task_id = "8".into();
    task.status = Some(Status::Error);
    task.started_at = None;
    assert_eq!(
        Record::from(task).to_json(),
        json!({"type": "task", "task_id": "8", "status": "ERROR", "used": [1]})
    );
}

#[test]
fn nulls_inside_values_stay_and_a_time_that_is_not_a_number_is_left_out() {
    let mut task: TaskObject = serde_json::from_value(
        json!({"task_id": "t", "parent_task_id": null, "generated": {"none": null}}),
    )
    .unwrap();
    task.started_at = Some(f64::NAN);
    assert_eq!(
        Record::from(task).to_json(),
        json!({"type": "task", "task_id": "t", "generated": {"none": null}})
    );
}

#[test]
fn the_type_is_inferred() {
    let kind = |json: Value| match Record::from_json(json).unwrap() {
        Record::Task(_) => "task",
        Record::Workflow(_) => "workflow",
        Record::Other(_) => "other",
    };
    assert_eq!(kind(json!({"activity_id": "loop", "workflow_id": "w"})), "task");
    assert_eq!(kind(json!({"task_id": "t"})), "task");
    assert_eq!(kind(json!({"type": null, "workflow_id": "w", "name": "n"})), "workflow");
    assert_eq!(kind(json!({"agent_id": "a", "name": "n", "workflow_id": "w"})), "other");
    assert_eq!(kind(json!({"object_id": "o", "task_id": "t"})), "other");
    assert_eq!(kind(json!({"type": "agent", "task_id": "t"})), "other");
    assert_eq!(kind(json!({})), "other");
    assert!(Record::from_json(json!([1])).unwrap_err().to_string().contains("found an array"));
}
