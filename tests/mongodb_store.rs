//! Records in MongoDB come back equal, whoever wrote them and in whatever order.

use mongodb::bson::{Bson, Document, doc};
use runlore::query::{Collection, Source as _, field};
use runlore::record::{Record, Status};
use runlore::store::Sink;
use runlore::store::mongodb::MongodbSource;
use runlore::{ErrorKind, Provenance, task, telemetry_task};
use serde_json::{Value, json};

use crate::mongo_server::{database, record_all, recording, stored, with_driver};
use crate::support::is_child;

#[telemetry_task(output = "doubled")]
fn double(text: &str, n: u64) -> String {
    format!("{text}{text}{n}")
}

fn add(uri: &str, records: &[Value]) {
    let mut sink = Sink::open(uri, "test").unwrap();
    for record in records {
        sink.add(&Record::from_json(record.clone()).unwrap()).unwrap();
    }
    sink.finish().unwrap();
}

fn tasks(uri: &str) -> Vec<Value> {
    let source = MongodbSource::open(uri).unwrap();
    source.documents(Collection::Tasks).unwrap().map(Result::unwrap).collect()
}

const TEXT: &str = "a text that is long enough to be hashed";
const TRAINS: &str = "mongodb_store::trains";

/// What a process of its own records.
#[test]
fn trains() {
    if !is_child(TRAINS) {
        return;
    }
    let run = runlore::workflow("train").store(std::env::var("STORE").unwrap()).start().unwrap();
    let outer = task("outer").start();
    let made = double(TEXT, 1);
    double(&made, 2);
    outer.finish();
    let totals = run.finish().unwrap();
    assert_eq!((totals.tasks, totals.dropped), (3, 0));
}

#[test]
fn a_run_is_recorded_and_read_back() {
    let Some(uri) = database() else { return };
    let (command, folder) = recording(TRAINS, &uri);
    record_all(command, &folder, &uri);

    let records = Provenance::open(&uri).unwrap();
    let runs = records.runs().unwrap();
    assert_eq!((runs.len(), runs[0].tasks, runs[0].errors, runs[0].running), (1, 3, 0, 0));
    assert_eq!(runs[0].workflow.status, Some(Status::Finished));
    let outer = records.tasks().filter(field("activity_id").eq("outer")).first().unwrap().unwrap();
    let inner = records.children(&outer.task_id).unwrap();
    assert_eq!(
        inner.iter().map(runlore::record::TaskObject::name).collect::<Vec<_>>(),
        ["double"; 2]
    );
    let lineage = records.lineage_of(json!(format!("{TEXT}{TEXT}1"))).unwrap();
    assert_eq!(lineage.values[0].generated_by.len(), 1);
    assert_eq!(lineage.values[0].used_by[0].task_id, inner[1].task_id);
}

#[test]
fn clients_of_the_server_find_dates_flags_and_exact_times() {
    let Some(uri) = database() else { return };
    add(
        &uri,
        &[
            json!({"type": "task", "task_id": "t", "workflow_id": "w", "status": "FINISHED", "started_at": 1.234_567_8}),
            json!({"type": "workflow", "workflow_id": "w", "name": "n", "status": "RUNNING", "started_at": 1.0}),
        ],
    );
    let task = stored(&uri, "tasks").remove(0);
    assert_eq!(task.get_datetime("started_at").unwrap().timestamp_millis(), 1234);
    assert!(task.get_bool("finished").unwrap());
    assert!(task.get_datetime("registered_at").is_ok());
    let own = task.get_document("_runlore").unwrap().get_document("own").unwrap();
    assert_eq!(own.get_f64("started_at").unwrap(), 1.234_567_8);
    assert_eq!(stored(&uri, "workflows")[0].get_str("name").unwrap(), "n");
    let indexes = with_driver(&uri, async |database| {
        database.collection::<Document>("tasks").list_index_names().await
    });
    for name in [
        "task_id_1",
        "workflow_id_1",
        "parent_task_id_1",
        "campaign_id_1",
        "activity_id_1_status_1",
    ] {
        assert!(indexes.iter().any(|index| index == name), "{name} in {indexes:?}");
    }
}

/// Whatever looks like an operator, a path or an end is a value.
fn hostile() -> Vec<Value> {
    let mut deep = json!(1);
    for _ in 0..110 {
        deep = json!({"a": deep});
    }
    let values = [
        json!({"$where": "while(true){}", "$gt": "", "a.b": {"c.d": 1}, "": {"": 0}}),
        json!({"$ref": "x", "$id": 1, "$db": [null]}),
        json!({"nul\0key": "nul\0value"}),
        json!({"big": u64::MAX, "least": i64::MIN, "half": 0.5, "minus": -0.0, "tiny": 5e-324, "huge": 1e308}),
        json!(["$$ROOT", "$used", {"$set": {"used": 1}}]),
        json!({"deep": deep}),
        json!("\u{ffff}\u{10ffff}\u{2028}é"),
        json!({"started_at": "soon", "_id": 5, "_runlore": {"json": "{}"}}),
    ];
    let task = |(number, value): (usize, Value)| {
        let mut task = json!({
            "type": "task", "task_id": format!("$t.{number}"), "workflow_id": "$w", "activity_id": "$activity",
            "used": {"value": value.clone()}, "status": "FINISHED", "started_at": 1.5, "finished": "no", "_id": number,
        });
        if let Value::Object(map) = value {
            task.as_object_mut().unwrap().extend(map);
        }
        task
    };
    values.into_iter().enumerate().map(task).collect()
}

#[test]
fn hostile_values_come_back_equal_and_are_found() {
    let Some(uri) = database() else { return };
    let records = hostile();
    add(&uri, &records);
    let found = tasks(&uri);
    assert_eq!(found.len(), records.len());
    for (found, record) in found.iter().zip(&records) {
        assert_eq!(found, record);
    }
    let records = Provenance::open(&uri).unwrap();
    let count = |filter| records.tasks().filter(filter).count().unwrap();
    assert_eq!(count(field("used.value.big").eq(u64::MAX)), 1);
    assert_eq!(count(field("activity_id").eq("$activity")), 8);
    assert_eq!(count(field("_id").gte(3)), 5);
    assert_eq!(count(field("finished").eq("no")), 8);
    assert_eq!(count(field("started_at").eq("soon")), 1);
}

#[test]
fn a_record_that_is_written_again_changes_nothing() {
    let Some(uri) = database() else { return };
    let records = hostile();
    add(&uri, &records);
    let before = stored(&uri, "tasks");
    add(&uri, &records);
    assert_eq!(stored(&uri, "tasks"), before);
}

#[test]
fn an_ended_task_wins_over_an_open_one_whichever_comes_first() {
    let Some(uri) = database() else { return };
    let open = |id: &str| json!({"type": "task", "task_id": id, "workflow_id": "w", "status": "RUNNING", "used": {"x": 1}});
    let ended = |id: &str| json!({"type": "task", "task_id": id, "workflow_id": "w", "status": "FINISHED", "generated": {"y": 2}});
    add(&uri, &[open("a"), ended("b")]);
    add(&uri, &[ended("a"), open("b")]);
    // In one batch, too.
    add(&uri, &[open("c"), ended("c")]);
    let joined = |id: &str| json!({"type": "task", "task_id": id, "workflow_id": "w", "status": "FINISHED", "used": {"x": 1}, "generated": {"y": 2}});
    assert_eq!(tasks(&uri), [joined("a"), joined("b"), joined("c")]);
    for task in stored(&uri, "tasks") {
        assert_eq!((task.get("finished"), task.get("running")), (Some(&Bson::Boolean(true)), None));
    }
}

#[test]
fn two_tasks_that_share_an_id_are_both_kept() {
    let Some(uri) = database() else { return };
    let task = |name: &str, workflow: &str| json!({"type": "task", "task_id": "1.5", "workflow_id": workflow, "activity_id": name, "status": "FINISHED"});
    let all = [task("a", "w"), task("b", "w"), task("a", "v")];
    for _ in 0..2 {
        add(&uri, &all);
        assert_eq!(tasks(&uri), all);
    }
    // In another order: a copy that is found first must not be taken for the task that has the id.
    add(&uri, &[task("b", "w"), task("a", "w")]);
    assert_eq!(tasks(&uri), all);
    let records = Provenance::open(&uri).unwrap();
    assert_eq!(records.tasks().filter(field("task_id").eq("1.5")).count().unwrap(), 3);
}

#[test]
fn processes_of_a_workflow_speak_as_one() {
    let Some(uri) = database() else { return };
    let part = |pid: u64, start: f64, status: &str, tasks: u64| {
        json!({"type": "workflow", "workflow_id": "w", "name": format!("p{pid}"), "pid": pid, "hostname": "h", "status": status,
               "started_at": start, "totals": {"tasks": tasks}})
    };
    add(&uri, &[part(1, 1.0, "RUNNING", 0), part(2, 2.0, "RUNNING", 0)]);
    add(&uri, &[part(2, 2.0, "FINISHED", 3), part(1, 1.0, "FINISHED", 4)]);
    let source = MongodbSource::open(&uri).unwrap();
    let joined: Vec<_> =
        source.documents(Collection::Workflows).unwrap().map(Result::unwrap).collect();
    assert_eq!(joined.len(), 1);
    assert_eq!((&joined[0]["name"], &joined[0]["totals"]), (&json!("p1"), &json!({"tasks": 7})));
}

#[test]
fn a_record_that_is_too_large_is_summarised_and_costs_no_other() {
    let Some(uri) = database() else { return };
    let large = json!({
        "type": "task", "task_id": "large", "workflow_id": "w", "status": "FINISHED",
        "used": {"text": "x".repeat(20 << 20), "lr": 0.5}, "generated": {"numbers": vec![1; 2_000_000]},
    });
    let small =
        |id: &str| json!({"type": "task", "task_id": id, "workflow_id": "w", "used": {"x": id}});
    add(&uri, &[small("a"), large, small("b")]);
    let found = tasks(&uri);
    assert_eq!((&found[0], &found[2]), (&small("a"), &small("b")));
    let large = &found[1];
    assert_eq!((&large["task_id"], &large["used"]["lr"]), (&json!("large"), &json!(0.5)));
    let why = large["unavailable"]["used.text"].as_str().unwrap();
    assert!(why.ends_with("MongoDB takes 16 MB a document"), "{why}");
}

#[test]
fn records_of_other_kinds_are_kept_once() {
    let Some(uri) = database() else { return };
    let agent =
        json!({"type": "agent", "agent_id": "a", "name": "$x", "deep": {"b": 1, "a": [null]}});
    add(&uri, std::slice::from_ref(&agent));
    add(&uri, std::slice::from_ref(&agent));
    let source = MongodbSource::open(&uri).unwrap();
    let records: Vec<_> =
        source.records().unwrap().map(|record| record.unwrap().to_json()).collect();
    assert_eq!(records, [agent]);
}

#[test]
fn what_flowcept_stored_is_read_beside_ours() {
    let Some(uri) = database() else { return };
    add(
        &uri,
        &[
            json!({"type": "task", "task_id": "ours", "activity_id": "a", "started_at": 2.5, "status": "FINISHED"}),
        ],
    );
    with_driver(&uri, async |database| {
        let theirs = doc! {
            "task_id": "theirs", "activity_id": "a", "status": "FINISHED", "finished": true,
            "started_at": mongodb::bson::DateTime::from_millis(1500),
        };
        database.collection::<Document>("tasks").insert_one(theirs).await
    });
    let records = Provenance::open(&uri).unwrap();
    let found =
        records.tasks().filter(field("started_at").gt(1.0)).sort("started_at").to_vec().unwrap();
    let seen: Vec<_> = found.iter().map(|task| (&*task.task_id, task.started_at)).collect();
    assert_eq!(seen, [("theirs", Some(1.5)), ("ours", Some(2.5))]);
}

#[test]
fn uris_that_name_no_server_are_refused_without_their_password() {
    for uri in ["mongodb://", "mongodb://ann:hunter2@/x", "mongodb://h:99999/x", "mongodb:h"] {
        let error = runlore::workflow("w").store(uri).start().err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Store);
        assert!(!error.to_string().contains("hunter2"), "{error}");
        assert!(Provenance::open(uri).is_err());
    }
}
