//! Records in an SQLite file come back equal, whoever wrote them and in whatever order.

use std::path::{Path, PathBuf};

use runlore::record::{Record, Status};
use runlore::store::sqlite::SqliteSource;
use runlore::store::{Sink, jsonl};
use runlore::{task, telemetry_task};
use serde_json::{Value, json};
use tempfile::TempDir;

#[telemetry_task(output = "doubled")]
fn double(text: &str, n: u64) -> String {
    format!("{text}{text}{n}")
}

fn uri(path: &Path) -> String {
    format!("sqlite://{}", path.display())
}

fn records(path: &Path) -> Vec<Record> {
    SqliteSource::open(path).unwrap().records().map(Result::unwrap).collect()
}

/// Answers of a plain SQL question, as a client of another program would ask it.
fn ask(path: &Path, sql: &str) -> Vec<Vec<Value>> {
    let connection = rusqlite::Connection::open(path).unwrap();
    let mut statement = connection.prepare(sql).unwrap();
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| {
        (0..columns)
            .map(|column| {
                Ok(match row.get(column)? {
                    rusqlite::types::Value::Null => Value::Null,
                    rusqlite::types::Value::Integer(number) => number.into(),
                    rusqlite::types::Value::Real(number) => number.into(),
                    rusqlite::types::Value::Text(text) => text.into(),
                    rusqlite::types::Value::Blob(bytes) => format!("{bytes:?}").into(),
                })
            })
            .collect()
    });
    rows.unwrap().map(Result::unwrap).collect()
}

#[test]
fn a_run_is_recorded_and_read_back() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("deep/runs.db");
    let run = runlore::workflow("train").store(uri(&path)).start().unwrap();
    let outer = task("outer").start();
    let made = double("a text that is long enough to be hashed", 1);
    double(&made, 2);
    outer.finish();
    let totals = run.finish().unwrap();
    assert_eq!((totals.tasks, totals.dropped), (3, 0));

    let read = records(&path);
    let workflows: Vec<_> = read.iter().filter_map(Record::as_workflow).collect();
    assert_eq!(workflows.len(), 1);
    assert_eq!(workflows[0].status, Some(Status::Finished));
    assert_eq!(workflows[0].name.as_deref(), Some("train"));
    let tasks: Vec<_> = read.iter().filter_map(Record::as_task).collect();
    assert_eq!(tasks.len(), 3);
    let outer = tasks.iter().find(|task| task.name() == "outer").unwrap();
    let doubles: Vec<_> = tasks.iter().filter(|task| task.name() == "double").collect();
    assert!(doubles.iter().all(|task| task.parent_task_id.as_ref() == Some(&outer.task_id)));
    // All is in the one file: it can be copied as it is.
    let files = std::fs::read_dir(path.parent().unwrap()).unwrap().map(|file| file.unwrap().path());
    let files: Vec<_> = files.filter(|file| file.is_file()).collect();
    assert_eq!(files, [path.as_path()]);

    let lineage = ask(&path, "SELECT generated_by, generated_as, used_by, used_as FROM lineage");
    let expected = [&doubles[0].task_id, "doubled", &doubles[1].task_id, "text"];
    assert_eq!(lineage, [expected.map(Value::from).to_vec()]);
    let edges = ask(&path, "SELECT kind, count(*) FROM edges GROUP BY kind ORDER BY kind");
    assert_eq!(edges, [[json!("called"), json!(2)], [json!("value"), json!(1)]]);
}

#[test]
fn columns_show_what_the_record_says_around_its_telemetry() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.db");
    let run = runlore::workflow("columns").store(uri(&path)).start().unwrap();
    for n in 0..3 {
        task("with \"quotes\"").run(|| _ = double("a text that is long enough to be hashed", n));
    }
    run.finish().unwrap();
    let [count] =
        &*ask(&path, "SELECT count(*), count(json_extract(doc, '$.telemetry_at_end')) FROM task")
    else {
        panic!("one row");
    };
    assert_eq!(count, &[json!(6), json!(6)], "all of them are measured");
    let columns = [
        "task_id",
        "workflow_id",
        "campaign_id",
        "parent_task_id",
        "activity_id",
        "status",
        "started_at",
        "duration_ns",
    ];
    for column in columns {
        let sql = format!(
            "SELECT {column}, doc FROM task WHERE {column} IS NOT json_extract(doc, '$.{column}') OR odd"
        );
        assert_eq!(ask(&path, &sql), Vec::<Vec<Value>>::new(), "{column}");
    }
    let hashes = "SELECT count(*) FROM value_hash JOIN task ON task.id = task
        WHERE hash = json_extract(doc, '$.hashes.' || side || '.' || name)";
    assert_eq!(ask(&path, hashes), ask(&path, "SELECT count(*) FROM value_hash"));
    assert_ne!(ask(&path, hashes), [[json!(0)]]);
}

#[test]
fn views_show_the_main_numbers() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("runs.db");
    let run = runlore::workflow("views").store(uri(&path)).start().unwrap();
    double("x", 1);
    run.finish().unwrap();
    let task = records(&path).into_iter().find_map(|record| record.as_task().cloned()).unwrap();
    let telemetry = ask(&path, "SELECT task_id, process_rss_at_end, memory_used FROM telemetry");
    let at_end = Value::Object(task.telemetry_at_end.unwrap());
    assert_eq!(telemetry[0][0], *task.task_id);
    assert_eq!(telemetry[0][1], at_end["process"]["memory"]["rss"]);
    assert_eq!(telemetry[0][2], at_end["memory"]["virtual"]["used"]);
    let resources = ask(&path, "SELECT own_cpu_ns, cpu_ns, minor_faults FROM resources");
    let used = Value::Object(task.resources.unwrap());
    assert_eq!(resources[0][0], used["cpu_ns"]["self"]);
    assert_eq!(resources[0][1], used["cpu_ns"]["inclusive"]);
    let tasks = ask(&path, "SELECT status, seconds * 1e9, used ->> 'text' FROM tasks");
    assert_eq!(tasks[0][0], "FINISHED");
    assert_eq!(tasks[0][1].as_f64().map(|ns| ns.round() as u64), task.duration_ns);
    assert_eq!(tasks[0][2], "x");
    let workflows = ask(&path, "SELECT name, status, tasks, errors FROM workflows");
    assert_eq!(workflows, [[json!("views"), json!("FINISHED"), json!(1), json!(0)]]);
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/flowcept").join(name)
}

fn fill(path: &Path, records: impl IntoIterator<Item = Record>) -> u64 {
    let mut sink = Sink::open(uri(path), "test").unwrap();
    records.into_iter().for_each(|record| sink.add(&record).unwrap());
    sink.finish().unwrap()
}

fn record(json: Value) -> Record {
    Record::from_json(json).unwrap()
}

/// What files of JSON lines with these records hold, joined.
fn joined_as_lines(records: &[Record]) -> Vec<Value> {
    let folder = TempDir::new().unwrap();
    let mut sink = Sink::open(folder.path(), "test").unwrap();
    records.iter().for_each(|record| sink.add(record).unwrap());
    sink.finish().unwrap();
    let loaded = jsonl::load(folder.path()).unwrap();
    let workflows = loaded.workflows.into_iter().map(|it| Record::from(it).to_json());
    let tasks = loaded.tasks.into_iter().map(|it| Record::from(it).to_json());
    workflows.chain(tasks).chain(loaded.others.into_iter().map(Value::Object)).collect()
}

fn joined_as_rows(records: &[Record]) -> Vec<Value> {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.db");
    fill(&path, records.iter().cloned());
    let read: Vec<Value> = self::records(&path).iter().map(Record::to_json).collect();
    // Once more changes nothing.
    fill(&path, records.iter().cloned());
    let again: Vec<Value> = self::records(&path).iter().map(Record::to_json).collect();
    assert_eq!(again, read);
    read
}

#[test]
fn records_are_joined_as_those_of_files_are() {
    let records: Vec<Record> = [
        json!({"type": "workflow", "workflow_id": "w", "status": "RUNNING", "pid": 1, "started_at": 1.0}),
        json!({"type": "task", "task_id": "a", "workflow_id": "w", "status": "RUNNING", "used": {"x": 1},
            "hashes": {"used": {"x": "h1", "y": "h2"}}}),
        json!({"type": "task", "task_id": "a", "workflow_id": "w", "status": "FINISHED", "activity_id": "f",
            "hashes": {"used": {"x": "h1"}}}),
        json!({"type": "task", "task_id": "a", "workflow_id": "w", "status": "RUNNING", "late": true}),
        // Another task of the same id, in another workflow, and in the same.
        json!({"type": "task", "task_id": "a", "workflow_id": "v"}),
        json!({"type": "task", "task_id": "a", "workflow_id": "w", "activity_id": "g"}),
        json!({"type": "task", "task_id": "a"}),
        // A process that joins, and the end of the first.
        json!({"type": "workflow", "workflow_id": "w", "status": "FINISHED", "pid": 2, "started_at": 2.0,
            "ended_at": 3.0, "totals": {"tasks": 2}}),
        json!({"type": "workflow", "workflow_id": "w", "status": "ERROR", "pid": 1, "started_at": 1.0,
            "ended_at": 9.0, "totals": {"tasks": 3}}),
        // Of other shapes.
        json!({"type": "task", "task_id": 7, "workflow_id": 8, "activity_id": ["f"], "started_at": "now"}),
        json!({"task_id": "n", "stderr": null, "used": {"kept": null}}),
        json!({"activity_id": "no id"}),
        json!({"type": "agent", "agent_id": "x", "nothing": null}),
    ]
    .map(record)
    .into();
    assert_eq!(joined_as_rows(&records), joined_as_lines(&records));
    // Hashes are those of the record as it is now.
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.db");
    fill(&path, records);
    assert_eq!(ask(&path, "SELECT hash, side, name FROM value_hash"), [["h1", "used", "x"]]);
}

#[test]
fn hostile_texts_come_back_equal() {
    let hostile =
        ["a\0b", "'; DROP TABLE task; --", "\u{2028}\u{feff}\u{10ffff}", "", "null", "\"\\\n"];
    let records: Vec<Record> = hostile
        .iter()
        .map(|text| {
            record(json!({
                "type": "task", "task_id": text, "workflow_id": text, "activity_id": text, "status": text,
                "parent_task_id": text, "used": {*text: text, "$where": 1, "a.b": [9223372036854775808_u64, -0.0, 1e300]},
                "hashes": {"used": {*text: text}},
            }))
        })
        .collect();
    let expected: Vec<Value> = records.iter().map(Record::to_json).collect();
    assert_eq!(joined_as_rows(&records), expected);
}

#[test]
fn what_flowcept_wrote_comes_back_equal() {
    for name in ["workflow.jsonl", "torch_lightweight.jsonl"] {
        let records: Vec<Record> = jsonl::read(golden(name)).unwrap().map(Result::unwrap).collect();
        assert_eq!(joined_as_rows(&records), joined_as_lines(&records), "{name}");
    }
}

#[test]
fn what_is_no_database_of_ours_is_said_in_a_sentence_and_left_alone() {
    let folder = TempDir::new().unwrap();
    let text = folder.path().join("text.db");
    std::fs::write(&text, "this is a text that is long enough to be looked at".repeat(100))
        .unwrap();
    let foreign = folder.path().join("foreign.db");
    rusqlite::Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE theirs (x)").unwrap();
    let newer = folder.path().join("newer.db");
    fill(&newer, [record(json!({"task_id": "t"}))]);
    let connection = rusqlite::Connection::open(&newer).unwrap();
    connection.pragma_update(None, "user_version", 1000).unwrap();
    drop(connection);
    let damaged = folder.path().join("damaged.db");
    fill(&damaged, (0..5000).map(|n| record(json!({"task_id": n.to_string()}))));
    let mut bytes = std::fs::read(&damaged).unwrap();
    let (page, end) = (16 * 1024, bytes.len());
    bytes[page..end].fill(0xa5);
    std::fs::write(&damaged, bytes).unwrap();
    let empty = folder.path().join("empty.db");
    std::fs::write(&empty, "").unwrap();

    let mut told = String::new();
    for path in [&text, &foreign, &newer, &damaged, &empty, &folder.path().join("none.db")] {
        let before = std::fs::read(path).ok();
        let read =
            SqliteSource::open(path).and_then(|it| it.records().collect::<Result<Vec<_>, _>>());
        told += &format!("read:  {}\n", read.unwrap_err());
        if path != &empty && before.is_some() {
            let mut sink = Sink::open(uri(path), "test").unwrap();
            sink.add(&record(json!({"task_id": "t"}))).unwrap();
            told += &format!("write: {}\n", sink.finish().unwrap_err());
        }
        assert!(std::fs::read(path).ok() == before, "{}", path.display());
    }
    let told = told.replace(folder.path().to_str().unwrap(), "");
    insta::assert_snapshot!(told);
}

#[test]
fn beside_what_cannot_be_read_nothing_is_left() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("runs.db");
    fill(&path, (0..5000).map(|n| record(json!({"task_id": n.to_string()}))));
    let whole = std::fs::read(&path).unwrap();
    let mut damaged = whole.clone();
    damaged[whole.len() / 2..].fill(0xa5);
    for bytes in [&whole[..whole.len() / 2], &whole[..100], &damaged] {
        std::fs::write(&path, bytes).unwrap();
        let read =
            SqliteSource::open(&path).and_then(|it| it.records().collect::<Result<Vec<_>, _>>());
        assert!(read.is_err());
        assert!(std::fs::read(&path).unwrap() == bytes);
        let names = std::fs::read_dir(folder.path()).unwrap().map(|it| it.unwrap().file_name());
        let files: Vec<_> = names.filter(|name| name != ".rings").collect();
        assert_eq!(files, ["runs.db"]);
    }
}

#[test]
fn uris_that_name_no_file_are_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().display();
    let mut told = String::new();
    for uri in [
        "sqlite://",
        "sqlite:runs.db",
        "sqlite:///",
        "sqllite://x.db",
        &format!("sqlite://{path}/"),
    ] {
        told += &format!("{}\n", Sink::open(uri, "test").unwrap_err());
    }
    // Another test has a store of its own.
    let told = told.replace("gate://, ", "");
    insta::assert_snapshot!(told.replace(&path.to_string(), "/folder"));
}
