//! Servers that refuse, encrypt and fail; and many programs at one of them.

use std::collections::HashSet;
use std::process::Stdio;
use std::time::Duration;

use mongodb::bson::{Bson, Document, doc};
use runlore::query::{Collection, Find, Source as _, field};
use runlore::record::Record;
use runlore::store::Sink;
use runlore::store::mongodb::MongodbSource;
use runlore::{Provenance, telemetry_task};
use serde_json::json;

use crate::mongo_server::{
    Server, Want, database, queues, record_all, recording, stored, until_stored, with_driver,
};
use crate::support::{expect_success, finished_in_time, is_child, number, tried};

const RECORDS: &str = "mongodb_servers::records";

#[telemetry_task]
fn outer(n: u64) -> u64 {
    inner(n) + 1
}

#[telemetry_task]
fn inner(n: u64) -> u64 {
    n
}

/// What a process of its own does: so many tasks into a store.
#[test]
fn records() {
    if !is_child(RECORDS) {
        return;
    }
    let tasks: u64 = std::env::var("TASKS").unwrap().parse().unwrap();
    let run = runlore::workflow("many").store(std::env::var("STORE").unwrap()).start().unwrap();
    (0..tasks / 2).for_each(|n| assert_eq!(outer(n), n + 1));
    if std::env::var("IS_IN_VAIN").is_err() {
        until_stored();
    }
    let totals = run.finish().unwrap();
    assert_eq!((totals.tasks, totals.dropped), (tasks, 0));
}

/// Two tasks by a process of its own.
fn record_two(store: &str) {
    let (mut command, folder) = recording(RECORDS, store);
    command.env("TASKS", "2");
    record_all(command, &folder, store);
}

/// The same where nothing can be stored: the program ends well, and says where its records wait. Gives what it said.
fn record_in_vain(store: &str) -> String {
    let (mut command, folder) = recording(RECORDS, store);
    command.env("TASKS", "2").env("IS_IN_VAIN", "yes");
    let output = finished_in_time(command);
    expect_success(&output);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("records wait in"), "{said}");
    assert!(queues(&folder).join(".spool").read_dir().unwrap().count() > 0);
    said
}

#[test]
fn eight_processes_lose_and_mix_nothing() {
    let Some(uri) = database() else { return };
    let tasks = number("RUNLORE_TEST_TASKS").unwrap_or(100).min(20_000);
    let start = || {
        let (mut command, folder) = recording(RECORDS, &uri);
        command.env("TASKS", tasks.to_string()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Eight writers and a server may have one processor: a task waits for its writer, however long that waits for its turn.
        command.env("RUNLORE_RECORDER__MAX_WAIT_MS", "60s");
        (command.spawn().unwrap(), folder)
    };
    let children: Vec<_> = (0..8).map(|_| start()).collect();
    for (child, folder) in children {
        expect_success(&child.wait_with_output().unwrap());
        // What the end of a run was too short for.
        runlore::replay(queues(&folder).join(".spool"), &uri, |_| ()).unwrap();
    }
    let source = MongodbSource::open(&uri).unwrap();
    let found: Vec<_> = source.documents(Collection::Tasks).unwrap().map(Result::unwrap).collect();
    let ids: HashSet<&str> = found.iter().filter_map(|task| task["task_id"].as_str()).collect();
    assert_eq!((found.len() as u64, ids.len() as u64), (8 * tasks, 8 * tasks));
    let parents = found.iter().filter_map(|task| task.get("parent_task_id")?.as_str());
    assert!(parents.clone().all(|parent| ids.contains(parent)));
    assert_eq!(parents.count() as u64, 4 * tasks);
    let runs = source.runs().unwrap().runs;
    assert_eq!(runs.iter().map(|run| run.tasks).collect::<Vec<_>>(), [tasks; 8]);
    tried("processes that record into one MongoDB database", format!("8 × {tasks} tasks"));
}

#[test]
fn a_user_signs_in_and_a_wrong_password_is_refused() {
    let Some(mut server) = Server::start(&[]) else { return };
    with_driver(&server.uri("admin"), async |database| {
        let user = doc! {"createUser": "ann", "pwd": "right-one", "roles": ["root"]};
        database.run_command(user).await
    });
    // What it has just written may not be on its disk yet.
    std::thread::sleep(Duration::from_secs(2));
    server.kill();
    server.restart(&[Want::Users]);
    let uri = |who: &str| format!("mongodb://{who}{}/lab?authSource=admin", server.host());
    record_two(&uri("ann:right-one@"));
    let count = || Provenance::open(uri("ann:right-one@")).unwrap().tasks().count().unwrap();
    assert_eq!(count(), 2);
    let told = Provenance::open(uri("ann:wrong-one@")).unwrap_err().to_string();
    assert!(told.contains("refuses the user or the password"), "{told}");
    for who in ["ann:wrong-one@", ""] {
        let told = Provenance::open(uri(who)).unwrap_err().to_string() + &record_in_vain(&uri(who));
        assert!(!told.contains("wrong-one"), "{told}");
    }
    assert_eq!(count(), 2);
}

#[test]
fn a_connection_is_encrypted() {
    let Some(server) = Server::start(&[Want::Encryption]) else { return };
    let uri = server.database();
    record_two(&uri);
    assert_eq!(Provenance::open(&uri).unwrap().tasks().count().unwrap(), 2);
    // An authority that is not trusted, and no encryption at all.
    let (open, _) = uri.split_once('?').unwrap();
    let told = Provenance::open(format!("{open}?tls=true")).unwrap_err().to_string();
    assert!(told.contains("the certificate of") && told.contains("tls_ca_file"), "{told}");
    assert!(Provenance::open(open).is_err());
}

#[test]
fn a_wrong_host_is_told_and_the_program_is_not_held_up() {
    for host in ["localhost:1", "no-such-host.invalid"] {
        let uri = format!("mongodb://{host}/lab");
        let error = Provenance::open(&uri).unwrap_err().to_string();
        assert!(error.starts_with(&format!("no MongoDB server answers at {uri}")), "{error}");
        record_in_vain(&uri);
    }
}

/// Lets the server fail in a certain way, so often or until it is told otherwise.
fn fail(server: &Server, mode: impl Into<Bson>, data: Document) {
    let mode = mode.into();
    with_driver(&server.uri("admin"), async |database| {
        let command = doc! {"configureFailPoint": "failCommand", "mode": mode, "data": data};
        database.run_command(command).await
    });
}

/// So many tasks into a store.
fn add(sink: &mut Sink, tasks: std::ops::Range<u32>) {
    for n in tasks {
        let task = json!({"type": "task", "task_id": format!("t{n}"), "workflow_id": "w", "status": "FINISHED"});
        sink.add(&Record::from_json(task).unwrap()).unwrap();
    }
}

/// A command that is refused, whatever is in it, with a code that many mistakes have.
fn refused(commands: &[&str]) -> Document {
    doc! {"failCommands": commands, "errorCode": 2}
}

#[test]
fn a_document_that_has_its_command_refused_costs_no_other() {
    let Some(server) = Server::start(&[Want::FailPoints]) else { return };
    // The first is refused with the other, and alone: its core and its text are taken.
    let uri = server.database();
    let mut sink = Sink::open(&*uri, "test").unwrap();
    add(&mut sink, 0..2);
    fail(&server, doc! {"times": 2}, refused(&["insert"]));
    sink.finish().unwrap();
    let tasks = stored(&uri, "tasks");
    assert_eq!((tasks.len(), stored(&uri, "refused_records").len()), (2, 0));
    let has_text = |id: &str| {
        let task =
            tasks.iter().find(|task| task.get_str("task_id").is_ok_and(|it| it == id)).unwrap();
        task.get_document("_runlore").unwrap().contains_key("json")
    };
    assert!(has_text("t0") && !has_text("t1"), "{tasks:?}");
    // All get in by and by, wherever the wrong ones were.
    let uri = server.database();
    let mut sink = Sink::open(&*uri, "test").unwrap();
    add(&mut sink, 0..200);
    fail(&server, doc! {"times": 9}, refused(&["insert"]));
    sink.finish().unwrap();
    let ids: HashSet<_> = stored(&uri, "tasks")
        .iter()
        .map(|task| task.get_str("task_id").unwrap().to_owned())
        .collect();
    assert_eq!((ids.len(), stored(&uri, "refused_records").len()), (200, 0));
}

#[test]
fn a_server_that_refuses_every_command_loses_no_record() {
    let Some(server) = Server::start(&[Want::FailPoints]) else { return };
    for tasks in [2, 100] {
        let uri = server.database();
        let (mut command, folder) = recording(RECORDS, &uri);
        command.env("TASKS", tasks.to_string()).env("IS_IN_VAIN", "yes");
        fail(&server, "alwaysOn", refused(&["insert", "update"]));
        expect_success(&finished_in_time(command));
        fail(&server, "off", Document::new());
        let replayed = runlore::replay(queues(&folder).join(".spool"), &uri, |_| ()).unwrap();
        assert_eq!(replayed.records, tasks + 2);
        assert_eq!(stored(&uri, "tasks").len() as u64, tasks);
        assert_eq!(stored(&uri, "refused_records").len(), 0);
    }
}

#[test]
fn what_fails_for_a_moment_is_tried_again() {
    let Some(server) = Server::start(&[Want::FailPoints]) else { return };
    let cases = [
        ("not primary", doc! {"failCommands": ["insert"], "errorCode": 10_107}),
        ("connection closed", doc! {"failCommands": ["insert"], "closeConnection": true}),
        (
            "write concern",
            doc! {"failCommands": ["insert"], "writeConcernError": {"code": 91, "errmsg": "shutting down"}},
        ),
    ];
    for (name, data) in cases {
        let uri = server.database();
        let mut sink = Sink::open(&*uri, "test").unwrap();
        add(&mut sink, 0..50);
        fail(&server, doc! {"times": 1}, data);
        assert_eq!(sink.finish().unwrap_or_else(|error| panic!("{name}: {error}")), 50);
        assert_eq!(stored(&uri, "tasks").len(), 50, "{name}");
    }
}

/// So many tasks with all that the usual questions are about.
fn add_linked(uri: &str, tasks: u32) {
    let mut sink = Sink::open(uri, "test").unwrap();
    for n in 0..tasks {
        let parent = (n > 0).then(|| format!("t{}", n / 10));
        let task = json!({
            "type": "task", "task_id": format!("t{n}"), "workflow_id": format!("w{}", n % 100), "parent_task_id": parent,
            "campaign_id": format!("c{}", n % 100), "activity_id": format!("a{}", n % 50),
            "status": if n.is_multiple_of(100) { "ERROR" } else { "FINISHED" }, "started_at": f64::from(n),
            "hashes": {"used": {"x": format!("h{}", n % 5000)}},
        });
        sink.add(&Record::from_json(task).unwrap()).unwrap();
    }
    sink.finish().unwrap();
}

/// A task as Flowcept stores it.
fn foreign_task(n: u32) -> Document {
    doc! {
        "task_id": format!("f{n}"), "workflow_id": "flowcept", "activity_id": "theirs", "status": "FINISHED", "finished": true,
        "started_at": mongodb::bson::DateTime::from_millis(i64::from(n) * 1000),
    }
}

fn ids(tasks: Vec<runlore::record::TaskObject>) -> Vec<String> {
    tasks.into_iter().map(|task| task.task_id).collect()
}

const FILLS: &str = "mongodb_servers::fills";

/// What a process of its own does, for the indexes are quicker made afterwards.
#[test]
fn fills() {
    if is_child(FILLS) {
        add_linked(&std::env::var("STORE").unwrap(), 20_000);
    }
}

#[test]
fn the_usual_questions_are_answered_by_indexes() {
    let Some(uri) = database() else { return };
    let (mut command, _folder) = recording(FILLS, &uri);
    command.env("RUNLORE_DATABASES__MONGODB__CREATE_COLLECTION_INDEX", "no");
    expect_success(&command.output().unwrap());
    add_linked(&uri, 1);
    let of = |name: &str, value: &str| Find::new().filter(field(name).eq(value));
    let both = field("activity_id").eq("a1").and(field("status").eq("ERROR"));
    let cases = [
        ("one task", of("task_id", "t7")),
        ("children", of("parent_task_id", "t7").sort("started_at")),
        ("of a campaign", of("campaign_id", "c7")),
        ("last of a workflow", of("workflow_id", "w1").sort("-started_at").limit(50)),
        ("activity and status", Find::new().filter(both)),
        ("errors, newest first", of("status", "ERROR").sort("-started_at").limit(20)),
        (
            "since a moment",
            Find::new().filter(field("started_at").gt(19_000)).sort("started_at").limit(5),
        ),
    ];
    let by_index = |name: &str, plan: &serde_json::Value| {
        let plan = plan["queryPlanner"]["winningPlan"].to_string();
        assert!(plan.contains("IXSCAN") && !plan.contains("COLLSCAN"), "{name}: {plan}");
    };
    let source = MongodbSource::open(&uri).unwrap();
    for is_shared in [false, true] {
        if is_shared {
            with_driver(&uri, async |database| {
                let tasks = database.collection::<Document>("tasks");
                tasks.insert_many((0..100).map(foreign_task)).await
            });
        }
        for (name, find) in &cases {
            by_index(name, &source.explain(Collection::Tasks, find).unwrap());
        }
        // What is asked besides.
        let besides = [
            ("with a value", doc! {"_runlore.hashes": {"$in": ["h7"]}}),
            ("what is odd", doc! {"_runlore.plain": Bson::Null}),
        ];
        for (name, filter) in besides {
            let plan = with_driver(&uri, async |database| {
                let find = doc! {"find": "tasks", "filter": filter};
                database.run_command(doc! {"explain": find, "verbosity": "queryPlanner"}).await
            });
            by_index(name, &serde_json::to_value(plan).unwrap());
        }
    }
    // And the answers are right.
    let records = Provenance::open(&uri).unwrap();
    let last = records.tasks().filter(field("workflow_id").eq("w1")).sort("-started_at").limit(2);
    assert_eq!(ids(last.to_vec().unwrap()), ["t19901", "t19801"]);
    let last = records.tasks().filter(field("started_at").lt(3)).sort("-started_at").limit(5);
    assert_eq!(ids(last.to_vec().unwrap()), ["t2", "f2", "t1", "f1", "t0"]);
    assert_eq!(ids(records.ancestors("t12345").unwrap()), ["t1234", "t123", "t12", "t1", "t0"]);
    assert_eq!(source.tasks_with(&HashSet::from(["h7".to_owned()])).unwrap().count(), 4);
    let runs = records.runs().unwrap();
    let counts: Vec<_> = runs.iter().map(|run| run.tasks).collect();
    assert_eq!((runs.len(), counts.iter().sum::<u64>()), (101, 20_100));
}

#[test]
fn ancestors_are_found_where_the_server_cannot_follow_them() {
    let Some(server) = Server::start(&[Want::FailPoints]) else { return };
    let uri = server.database();
    add_linked(&uri, 200);
    let mut sink = Sink::open(&*uri, "test").unwrap();
    for (id, parent) in [("a", "b"), ("b", "c"), ("c", "a"), ("orphan", "nobody")] {
        let task = json!({"type": "task", "task_id": id, "parent_task_id": parent});
        sink.add(&Record::from_json(task).unwrap()).unwrap();
    }
    sink.finish().unwrap();
    let records = Provenance::open(&uri).unwrap();
    let around = |id: &str| ids(records.ancestors(id).unwrap());
    let asked = ["t123", "t0", "a", "orphan", "nobody"];
    let expected = asked.map(around);
    assert_eq!(expected[0], ["t12", "t1", "t0"]);
    assert_eq!(expected[2], ["b", "c"]);
    fail(&server, "alwaysOn", refused(&["aggregate"]));
    assert_eq!(asked.map(around), expected);
    // What fails otherwise is told, and is no answer.
    fail(&server, "alwaysOn", refused(&["aggregate", "find"]));
    assert!(records.ancestors("t123").is_err());
    fail(&server, "off", Document::new());
}
