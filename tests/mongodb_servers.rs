//! Servers that refuse, encrypt and fail; and many programs at one of them.

use std::collections::HashSet;
use std::process::Stdio;
use std::time::Duration;

use mongodb::bson::{Bson, Document, doc};
use runlore::query::{Collection, Source as _, field};
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
    assert!(Provenance::open(format!("{open}?tls=true")).is_err());
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

#[test]
fn the_usual_questions_are_answered_by_indexes() {
    let Some(uri) = database() else { return };
    // As the store writes them; by the driver, for the indexes are quicker made afterwards.
    let task = |n: u32| {
        doc! {
            "type": "task", "task_id": format!("t{n}"), "workflow_id": format!("w{}", n % 100),
            "parent_task_id": format!("t{}", n / 10), "activity_id": format!("a{}", n % 50),
            "status": if n.is_multiple_of(100) { "ERROR" } else { "FINISHED" },
            "hashes": {"used": {"x": format!("h{}", n % 5000)}},
            "_runlore": {
                "own": {"started_at": f64::from(n)}, "plain": true, "rev": 0_i64, "hashes": [format!("h{}", n % 5000)],
            },
        }
    };
    with_driver(&uri, async |database| {
        let tasks = database.collection::<Document>("tasks");
        for first in (1..20_000).step_by(1000) {
            tasks.insert_many((first..first + 1000).filter(|n| *n < 20_000).map(task)).await?;
        }
        Ok(())
    });
    let mut sink = Sink::open(&*uri, "test").unwrap();
    let last = json!({"type": "task", "task_id": "t0", "workflow_id": "w0", "started_at": 0.0});
    sink.add(&Record::from_json(last).unwrap()).unwrap();
    sink.finish().unwrap();
    let start = "_runlore.own.started_at";
    let cases: [(&str, Document, Document); 8] = [
        ("one task", doc! {"task_id": {"$eq": "t7"}}, doc! {"_id": 1}),
        ("children", doc! {"parent_task_id": {"$eq": "t7"}}, doc! {"_id": 1}),
        ("last of a workflow", doc! {"workflow_id": {"$eq": "w1"}}, doc! {start: -1}),
        ("activity and status", doc! {"activity_id": "a1", "status": "ERROR"}, doc! {"_id": 1}),
        ("errors, newest first", doc! {"status": {"$eq": "ERROR"}}, doc! {start: -1}),
        ("since a moment", doc! {start: {"$gt": 19_000.0}}, doc! {start: 1}),
        ("with a value", doc! {"_runlore.hashes": {"$in": ["h7"]}}, doc! {"_id": 1}),
        ("what is odd", doc! {"_runlore.plain": Bson::Null}, doc! {}),
    ];
    for (name, filter, sort) in cases {
        let plan = with_driver(&uri, async |database| {
            let find = doc! {"find": "tasks", "filter": filter, "sort": sort};
            database.run_command(doc! {"explain": find, "verbosity": "queryPlanner"}).await
        });
        let plan =
            plan.get_document("queryPlanner").unwrap().get("winningPlan").unwrap().to_string();
        assert!(plan.contains("IXSCAN") && !plan.contains("COLLSCAN"), "{name}: {plan}");
    }
    // And the answers are right.
    let records = Provenance::open(&uri).unwrap();
    let last = records.tasks().filter(field("workflow_id").eq("w1")).sort("-started_at").limit(2);
    let ids: Vec<_> = last.to_vec().unwrap().into_iter().map(|task| task.task_id).collect();
    assert_eq!(ids, ["t19901", "t19801"]);
    let around: Vec<_> =
        records.ancestors("t12345").unwrap().into_iter().map(|task| task.task_id).collect();
    assert_eq!(around, ["t1234", "t123", "t12", "t1", "t0"]);
    let source = MongodbSource::open(&uri).unwrap();
    assert_eq!(source.tasks_with(&HashSet::from(["h7".to_owned()])).unwrap().count(), 4);
}
