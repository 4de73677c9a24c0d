//! Every question that a `Provenance` can be asked, with the same answer from every store.

use std::path::Path;

use runlore::provenance::Subject;
use runlore::query::{
    Collection, Comparison, Documents, Figure, Filter, Find, Group, Pipeline, Records, Source,
    field,
};
use runlore::record::{Record, hash_of};
use runlore::store::{MemoryStore, Sink};
use runlore::{AsyncProvenance, ErrorKind, Provenance};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A workflow with a tree of tasks, one that it started, and one of another time that used the same value.
fn records() -> Vec<Value> {
    let readings = json!([3.5, 4.0, 2.5]);
    let hash = hash_of(&readings);
    let task = |id: &str, run: &str, parent: Option<&str>, name: &str, start: f64, nanos: u64| {
        json!({
            "type": "task", "task_id": id, "workflow_id": run, "parent_task_id": parent, "activity_id": name,
            "started_at": start, "ended_at": start + nanos as f64 / 1e9, "duration_ns": nanos, "status": "FINISHED",
            "telemetry_at_start": {"cpu": {"percent_all": start}, "process": {"memory": {"rss": 1000}}},
            "telemetry_at_end": {"cpu": {"percent_all": start + 1.0}, "process": {"memory": {"rss": 3000}}},
        })
    };
    let mut load = task("t2", "w1", Some("t1"), "load", 11.0, 400);
    load["generated"] = json!({"readings": readings});
    load["hashes"] = json!({"generated": {"readings": hash}});
    let mut fit = task("t3", "w1", Some("t1"), "fit", 12.0, 900);
    fit["used"] = json!({"data": readings});
    fit["hashes"] = json!({"used": {"data": hash}});
    fit["status"] = json!("ERROR");
    fit["stderr"] = json!("did not converge");
    let mut later = task("t9", "w3", None, "fit", 50.0, 300);
    later["hashes"] = json!({"used": {"input": hash}});
    vec![
        json!({"type": "workflow", "workflow_id": "w1", "name": "train", "status": "FINISHED", "started_at": 10.0,
               "ended_at": 20.0, "duration_ns": 10_000_000_000_u64}),
        json!({"type": "workflow", "workflow_id": "w2", "name": "child", "parent_workflow_id": "w1", "parent_task_id": "t3",
               "status": "FINISHED", "started_at": 13.0}),
        json!({"type": "workflow", "workflow_id": "w3", "name": "train", "status": "FINISHED", "started_at": 50.0,
               "ended_at": 65.0, "duration_ns": 15_000_000_000_u64}),
        task("t1", "w1", None, "main", 10.5, 5000),
        load,
        fit,
        task("t4", "w2", None, "score", 13.5, 100),
        later,
    ]
}

fn fill(sink: &mut Sink) {
    for record in records() {
        sink.add(&Record::from_json(record).unwrap()).unwrap();
    }
}

/// The same records in every kind of store.
fn every_store(folder: &Path) -> Vec<(&'static str, Provenance)> {
    let memory = MemoryStore::new();
    let lines = folder.join("lines");
    let mut places = vec![("lines", lines.clone())];
    if cfg!(feature = "sqlite") {
        places.push(("sqlite", folder.join("runs.db")));
    }
    #[cfg(all(unix, feature = "mongodb"))]
    if let Some(uri) = crate::mongo_server::database() {
        places.push(("mongodb", uri.into()));
    }
    for (_, place) in &places {
        let mut sink = Sink::open(&**place, "test").unwrap();
        fill(&mut sink);
        sink.finish().unwrap();
    }
    let mut sink = Sink::open(memory.clone(), "test").unwrap();
    fill(&mut sink);
    sink.finish().unwrap();
    let opened = places.into_iter().map(|(name, place)| (name, Provenance::open(place).unwrap()));
    opened.chain([("memory", Provenance::of(memory))]).collect()
}

fn in_every_store(check: impl Fn(&Provenance)) {
    let folder = TempDir::new().unwrap();
    for (name, store) in every_store(folder.path()) {
        println!("{name}");
        check(&store);
        assert_eq!(store.problems(), Vec::<String>::new());
    }
}

#[test]
fn tasks_and_workflows_are_found_by_id() {
    in_every_store(|records| {
        assert_eq!(records.task("t3").unwrap().unwrap().name(), "fit");
        assert!(records.task("nothing").unwrap().is_none());
        assert_eq!(records.workflow("w2").unwrap().unwrap().name.as_deref(), Some("child"));
        assert_eq!(records.tasks().count().unwrap(), 5);
        assert_eq!(records.workflows().filter(field("name").eq("train")).count().unwrap(), 2);
    });
}

#[test]
fn questions_are_put_together() {
    in_every_store(|records| {
        let slow = records.tasks().filter(field("workflow_id").eq("w1")).sort("-duration_ns");
        let ids: Vec<String> = slow.run().unwrap().map(|task| task.unwrap().task_id).collect();
        assert_eq!(ids, ["t1", "t3", "t2"]);
        let both = records
            .tasks()
            .filter(field("workflow_id").eq("w1"))
            .filter(field("duration_ns").lt(1000));
        assert_eq!(both.count().unwrap(), 2);
        assert_eq!(both.skip(1).count().unwrap(), 1);
        assert_eq!(records.tasks().sort("started_at").limit(3).count().unwrap(), 3);
        assert_eq!(records.tasks().filter(field("used.data.0").gt(3)).count().unwrap(), 1);
        let second = records.tasks().sort("started_at").skip(1).first().unwrap().unwrap();
        assert_eq!(second.task_id, "t2");
        let parts =
            records.tasks().sort("started_at").limit(1).fields(["status"]).to_vec().unwrap();
        assert_eq!(parts, [json!({"status": "FINISHED"})]);
        let find = Find::new().filter(field("status").eq("ERROR")).fields(["used.data"]);
        let found: Vec<Value> =
            records.find(Collection::Tasks, &find).unwrap().map(Result::unwrap).collect();
        assert_eq!(found, [json!({"used": {"data": [3.5, 4.0, 2.5]}})]);
        let slim = records.tasks().filter(field("task_id").eq("t1")).only(["task_id"]).to_vec();
        assert!(slim.unwrap()[0].telemetry_at_end.is_none());
    });
}

#[test]
fn the_family_of_a_task_is_known() {
    in_every_store(|records| {
        let names = |tasks: Vec<runlore::record::TaskObject>| -> Vec<String> {
            tasks.into_iter().map(|task| task.task_id).collect()
        };
        assert_eq!(names(records.children("t1").unwrap()), ["t2", "t3"]);
        assert_eq!(names(records.ancestors("t3").unwrap()), ["t1"]);
        assert_eq!(names(records.ancestors("t1").unwrap()), [""; 0]);
        assert_eq!(names(records.ancestors("nothing").unwrap()), [""; 0]);
        insta::assert_snapshot!("tree", records.tree("w1").unwrap().to_string());
        assert_eq!(
            records.tree_of("w1", &["used"]).unwrap().to_string(),
            records.tree("w1").unwrap().to_string()
        );
    });
}

#[test]
fn what_no_field_can_be_is_told() {
    in_every_store(|records| {
        let told = |asked: runlore::provenance::TaskQuery<'_, runlore::record::TaskObject>| {
            let error = asked.to_vec().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Query);
            error.to_string()
        };
        assert_eq!(
            told(records.tasks().filter(field("a").eq(1).or(field("$comment").eq("x")))),
            "`$comment` is no field: a name that begins with `$` is an operator"
        );
        assert_eq!(told(records.tasks().sort("-$x")), "`$x` is no path to sort by");
        assert_eq!(told(records.tasks().only(["used.$x"])), "`$x` is no path for a projection");
    });
}

#[test]
fn parents_in_a_circle_end() {
    let store = MemoryStore::new();
    let mut sink = Sink::open(store.clone(), "test").unwrap();
    for (id, parent) in [("a", "b"), ("b", "c"), ("c", "a")] {
        let task = json!({"type": "task", "task_id": id, "parent_task_id": parent});
        sink.add(&Record::from_json(task).unwrap()).unwrap();
    }
    sink.finish().unwrap();
    let around = Provenance::of(store).ancestors("a").unwrap();
    assert_eq!(around.iter().map(|task| &*task.task_id).collect::<Vec<_>>(), ["b", "c"]);
}

#[test]
fn tasks_are_summed_up_by_what_they_have_in_common() {
    in_every_store(|records| {
        let summary = records.summary(Filter::all()).unwrap();
        let groups = summary.groups();
        assert_eq!(
            groups.iter().map(Group::name).collect::<Vec<_>>(),
            ["main", "fit", "load", "score"]
        );
        let fit = &groups[1];
        assert_eq!((fit.tasks, fit.errors, fit.peak_rss), (2, 1, Some(3000)));
        assert_eq!(fit.duration.unwrap().total.as_nanos(), 1200);
        let by_status = records.summary_by("status", field("workflow_id").eq("w1")).unwrap();
        assert_eq!(by_status.groups()[0].name(), "FINISHED");
        assert_eq!(by_status.all().tasks, 3);
    });
}

#[test]
fn every_answer_can_be_written_as_json() {
    in_every_store(|records| {
        let summary = records.summary(field("workflow_id").eq("w1")).unwrap();
        let summary = serde_json::to_value(summary).unwrap();
        assert_eq!(summary[0]["key"], "main");
        assert_eq!((&summary[0]["total_ns"], &summary[0]["counted"]), (&json!(5000), &json!(1)));
        let tree = serde_json::to_value(records.tree("w1").unwrap()).unwrap();
        assert_eq!(
            (&tree[0]["depth"], &tree[0]["record"]["workflow_id"]),
            (&json!(0), &json!("w1"))
        );
        let lineage = records.lineage_of(Subject::Task("t3".into())).unwrap();
        let lineage = serde_json::to_value(lineage).unwrap();
        assert_eq!(lineage["values"][0]["used_by"][0]["task_id"], "t3");
        let runs = serde_json::to_value(records.runs().unwrap()).unwrap();
        assert_eq!(runs[0]["workflow_id"], "w1");
        assert_eq!(runs[0]["task_counts"], json!({"all": 3, "ERROR": 1, "RUNNING": 0}));
        let [before, after] = ["w1", "w3"].map(|run| records.measured(run).unwrap());
        let comparison = serde_json::to_value(Comparison::new(&before, &after)).unwrap();
        let change = &comparison["groups"][0]["changes"]["tasks"];
        assert_eq!(change, &json!({"before": 3.0, "after": 1.0}));
        let series = records.timeseries(field("task_id").eq("t3"), &["duration_ns"]).unwrap();
        let series = serde_json::to_value(series).unwrap();
        assert_eq!(series["points"][0]["values"], json!([900.0]));
    });
}

#[test]
fn runs_are_counted() {
    in_every_store(|records| {
        let runs = records.runs().unwrap();
        let counts: Vec<_> =
            runs.iter().map(|run| (&*run.workflow.workflow_id, run.tasks, run.errors)).collect();
        assert_eq!(counts, [("w1", 3, 1), ("w2", 1, 0), ("w3", 1, 0)]);
        let listed = records.list_runs().unwrap();
        let ids: Vec<_> = listed.iter().map(|run| &*run.workflow.workflow_id).collect();
        assert_eq!(ids, ["w1", "w2", "w3"]);
    });
}

#[test]
fn runs_are_compared() {
    in_every_store(|records| {
        let [before, after] = ["w1", "w3"].map(|run| records.measured(run).unwrap());
        let comparison = Comparison::new(&before, &after);
        let percent = |activity, figure| comparison.change(activity, figure).unwrap().percent();
        assert_eq!(percent(None, Figure::Duration), Some(50.0));
        assert_eq!(percent(Some("fit"), Figure::P95), Some(-(900.0 - 300.0) / 900.0 * 100.0));
        assert_eq!(percent(Some("load"), Figure::Duration), None);
    });
}

#[test]
fn numbers_come_in_the_order_of_time() {
    in_every_store(|records| {
        let asked = ["telemetry.cpu.percent_all", "duration_ns"];
        let series = records.timeseries(field("workflow_id").eq("w1"), &asked).unwrap();
        let points: Vec<_> =
            series.points.iter().map(|point| (&*point.task_id, point.values.clone())).collect();
        assert_eq!(points[0], ("t1", vec![Some(10.5), None]));
        assert_eq!(points[1], ("t1", vec![Some(11.5), Some(5000.0)]));
        assert_eq!(points.len(), 6);
        assert!(series.points.is_sorted_by(|one, other| one.at <= other.at));
    });
}

#[test]
fn a_value_is_followed_through_tasks_and_runs() {
    in_every_store(|records| {
        let ids = |traces: &[runlore::query::Trace]| -> Vec<(String, String)> {
            traces.iter().map(|it| (it.task_id.clone(), it.name.clone())).collect()
        };
        let by_value = records.lineage_of(json!([3.5, 4.0, 2.5])).unwrap();
        let by_hash = records.lineage_of(Subject::Hash(hash_of(&json!([3.5, 4.0, 2.5])))).unwrap();
        let by_task = records.lineage_of(Subject::Task("t3".into())).unwrap();
        assert_eq!(by_value, by_hash);
        assert_eq!(by_value, by_task);
        let value = &by_value.values[0];
        assert_eq!(ids(&value.generated_by), [("t2".into(), "readings".into())]);
        assert_eq!(
            ids(&value.used_by),
            [("t3".into(), "data".into()), ("t9".into(), "input".into())]
        );
        let unknown = records.lineage_of(json!("a value that no task had")).unwrap();
        assert!(unknown.values[0].used_by.is_empty());
        let error = records.lineage_of(Subject::Task("nothing".into())).unwrap_err();
        assert_eq!(error.to_string(), "there is no task nothing");
    });
}

#[test]
fn pipelines_run_over_tasks_and_workflows() {
    in_every_store(|records| {
        let pipeline = Pipeline::parse(
            r#"[{"$match": {"workflow_id": "w1"}}, {"$group": {"_id": "$status", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}]"#,
        );
        let made = |of, pipeline: &Pipeline| -> Vec<Value> {
            records.aggregate(of, pipeline).unwrap().map(Result::unwrap).collect()
        };
        let found = made(Collection::Tasks, &pipeline.unwrap());
        assert_eq!(found, [json!({"_id": "ERROR", "n": 1}), json!({"_id": "FINISHED", "n": 2})]);
        let count = Pipeline::parse(r#"[{"$count": "runs"}]"#).unwrap();
        assert_eq!(made(Collection::Workflows, &count), [json!({"runs": 3})]);
        let none = Pipeline::parse(r#"[{"$match": {"name": "x"}}, {"$count": "runs"}]"#).unwrap();
        assert_eq!(made(Collection::Workflows, &none), [json!(null); 0]);
        let spread = Pipeline::parse(
            r#"[{"$group": {"_id": {"run": "$workflow_id"}, "p": {"$percentile": {
                "input": "$duration_ns", "p": [0.5, 1], "method": "approximate"}}}}, {"$sort": {"_id.run": 1}},
                {"$project": {"_id": 0, "run": "$_id.run", "p": 1}}, {"$limit": 1}]"#,
        );
        let spread = made(Collection::Tasks, &spread.unwrap());
        assert_eq!(spread, [json!({"run": "w1", "p": [900.0, 5000.0]})]);
    });
}

#[test]
fn a_record_that_cannot_be_read_costs_itself_and_is_told() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("torn.jsonl");
    std::fs::write(&file, "{\"task_id\":\"t1\",\"activity_id\":\"a\"}\nnot JSON\n{\"task_id\":\"t2\",\"activity_id\":\"b\"}\n").unwrap();
    let records = Provenance::open(&file).unwrap();
    assert_eq!(records.tasks().to_vec().unwrap().len(), 2);
    assert_eq!(records.summary(Filter::all()).unwrap().all().tasks, 2);
    let problems = records.problems();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].contains("line 2"), "{problems:?}");
}

#[test]
fn what_is_not_there_is_an_error_and_stays_so() {
    let folder = TempDir::new().unwrap();
    let nothing = folder.path().join("nothing");
    let error = Provenance::open(&nothing).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Store);
    assert_eq!(error.to_string(), format!("there is no file or folder {}", nothing.display()));
    assert!(!nothing.exists());
    let typo = Provenance::open("sqlit://runs.db").unwrap_err().to_string();
    assert!(typo.starts_with("no store for `sqlit://` that could be read"), "{typo}");
    for uri in ["sqlite:runs.db", "jsonl:runs"] {
        let error = Provenance::open(uri).unwrap_err().to_string();
        assert!(error.contains("lacks slashes"), "{error}");
    }
    let secret = Provenance::open("mongodb:ann:hunter2@host/db").unwrap_err().to_string();
    let told =
        "`mongodb:ann:[redacted]@host/db` lacks slashes: write `mongodb://ann:[redacted]@host/db`";
    assert_eq!(secret, told);
}

#[test]
fn what_is_shown_of_a_workflow_to_be_has_no_secrets() {
    for uri in ["mongodb://ann:hunter2@host/db", "mongodb:ann:hunter2@host/db"] {
        let shown = format!("{:?}", runlore::workflow("train").store(uri));
        assert!(shown.contains("@host/db") && !shown.contains("hunter2"), "{shown}");
    }
}

#[tokio::test]
async fn questions_need_not_block() {
    let folder = TempDir::new().unwrap();
    for (name, store) in every_store(folder.path()) {
        println!("{name}");
        let records: AsyncProvenance = store.into_async();
        let task = records.ask(|records| records.task("t3")).await.unwrap();
        assert_eq!(task.unwrap().name(), "fit");
        let count =
            records.ask(|records| records.tasks().filter(field("status").eq("ERROR")).count());
        assert_eq!(count.await.unwrap(), 1);
        assert_eq!(records.ask(|records| records.tasks().count()).await.unwrap(), 5);
        assert_eq!(records.ask(|records| records.ancestors("t2")).await.unwrap().len(), 1);
        let tree = records.ask(|records| records.tree("w1")).await.unwrap();
        assert_eq!(tree.walk().count(), 6);
        let mut stream = records.tasks(Find::new().sort("task_id")).unwrap();
        let mut ids = Vec::new();
        while let Some(task) = stream.next().await {
            ids.push(task.unwrap().task_id);
        }
        assert_eq!(ids, ["t1", "t2", "t3", "t4", "t9"]);
        let mut workflows = records.workflows(Find::new()).unwrap();
        assert_eq!(workflows.next().await.unwrap().unwrap().workflow_id, "w1");
        let child = records.ask(|records| records.workflow("w2")).await.unwrap().unwrap();
        assert_eq!(child.name.as_deref(), Some("child"));
        assert_eq!(records.ask(Provenance::runs).await.unwrap().len(), 3);
        assert_eq!(records.ask(Provenance::list_runs).await.unwrap().len(), 3);
        assert_eq!(records.ask(|records| records.children("t1")).await.unwrap().len(), 2);
        let tree = records.ask(|records| records.tree_of("w1", &["used"])).await.unwrap();
        assert_eq!(tree.walk().count(), 6);
        let of_run = || field("workflow_id").eq("w1");
        let summary = records.ask(move |records| records.summary(of_run())).await.unwrap();
        assert_eq!(summary.all().tasks, 3);
        let by_status = records.ask(move |records| records.summary_by("status", of_run()));
        assert_eq!(by_status.await.unwrap().groups().len(), 2);
        let measured = records.ask(|records| records.measured("w1")).await.unwrap();
        let same = Comparison::new(&measured, &measured);
        assert_eq!(same.change(None, Figure::Tasks).unwrap().percent(), Some(0.0));
        let series = records.ask(move |records| records.timeseries(of_run(), &["duration_ns"]));
        assert_eq!(series.await.unwrap().points.len(), 3);
        let lineage = records.ask(|records| records.lineage_of(json!([3.5, 4.0, 2.5]))).await;
        assert_eq!(lineage.unwrap().values[0].used_by.len(), 2);
        let slim = records.ask(|records| records.tasks().only(["task_id"]).to_vec()).await.unwrap();
        assert!(slim.iter().all(|task| task.telemetry_at_end.is_none()));
        let find = Find::new().filter(field("status").eq("ERROR")).fields(["task_id"]);
        let mut found = records.find(Collection::Tasks, find).unwrap();
        assert_eq!(found.next().await.unwrap().unwrap(), json!({"task_id": "t3"}));
        assert!(found.next().await.is_none());
        let count = Pipeline::parse(r#"[{"$count": "n"}]"#).unwrap();
        let mut made = records.aggregate(Collection::Tasks, count).unwrap();
        assert_eq!(made.next().await.unwrap().unwrap(), json!({"n": 5}));
        let copy = folder.path().join(format!("{name}-asynchronous"));
        let copied = records.ask(move |records| records.copy_to(&*copy, |_| {})).await.unwrap();
        assert_eq!(copied.records(), 8);
        assert_eq!(records.problems(), Vec::<String>::new());
        // Dropped half way, it must not keep its thread.
        let mut stream = records.tasks(Find::new()).unwrap();
        stream.next().await.unwrap().unwrap();
    }
}

#[test]
fn a_copy_is_equal_and_may_be_made_again() {
    let folder = TempDir::new().unwrap();
    for (name, store) in every_store(folder.path()) {
        let mut places = vec![folder.path().join(format!("{name}-lines"))];
        if cfg!(feature = "sqlite") {
            places.push(folder.path().join(format!("{name}-copy.db")));
        }
        #[cfg(all(unix, feature = "mongodb"))]
        places.extend(crate::mongo_server::database().map(Into::into));
        for place in places {
            println!("{name} to {}", place.display());
            let copied = store.copy_to(&*place, |_| {}).unwrap();
            assert_eq!((copied.tasks, copied.workflows, copied.others), (5, 3, 0));
            let again = store.copy_to(&*place, |_| {}).unwrap();
            assert_eq!((again.records(), again.already_there), (0, 8));
            let copy = Provenance::open(&place).unwrap();
            let all = |of: &Provenance| {
                let tasks = of.tasks().sort("task_id").to_vec().unwrap();
                (tasks, of.workflows().sort("workflow_id").to_vec().unwrap())
            };
            assert_eq!(all(&copy), all(&store));
        }
    }
}

/// Tasks that are open, agents, ids that collide: nothing of it is there twice.
#[test]
fn a_copy_of_what_flowcept_wrote_adds_nothing_when_it_is_made_again() {
    let folder = TempDir::new().unwrap();
    for name in ["workflow", "torch_lightweight"] {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/flowcept");
        let golden = golden.join(format!("{name}.jsonl"));
        let mut places = vec![folder.path().join(name)];
        if cfg!(feature = "sqlite") {
            places.push(folder.path().join(format!("{name}.db")));
        }
        #[cfg(all(unix, feature = "mongodb"))]
        places.extend(crate::mongo_server::database().map(Into::into));
        for place in places {
            let from = Provenance::open(&golden).unwrap();
            let copied = from.copy_to(&*place, |_| {}).unwrap();
            let again = from.copy_to(&*place, |_| {}).unwrap();
            assert!(copied.records() > 10 && copied.already_there == 0, "{copied:?}");
            assert_eq!(
                (again.records(), again.already_there),
                (0, copied.records()),
                "{}",
                place.display()
            );
        }
    }
    // A folder that has the very lines has everything, too.
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/flowcept/workflow.jsonl");
    let lines = folder.path().join("lines");
    std::fs::create_dir(&lines).unwrap();
    std::fs::copy(&golden, lines.join("workflow.jsonl")).unwrap();
    let copied = Provenance::open(&golden).unwrap().copy_to(&*lines, |_| {}).unwrap();
    assert_eq!(copied.records(), 0, "{copied:?}");
}

/// Records that cannot be read to their end.
struct Torn(u64);

impl Source for Torn {
    fn documents(&self, of: Collection) -> runlore::Result<Documents<'_>> {
        Ok(of.documents(Box::new(self.records()?.take(self.0 as usize))))
    }

    fn records(&self) -> runlore::Result<Records<'_>> {
        let task = |n: u64| {
            Record::from_json(json!({
                "type": "task", "task_id": format!("t{n}"), "workflow_id": "w", "status": "FINISHED",
            }))
        };
        let end = runlore::Error::new(runlore::ErrorKind::Store, "the rest is damaged");
        Ok(Box::new((0..self.0).map(task).chain([Err(end)])))
    }
}

#[test]
fn a_copy_that_is_broken_off_makes_no_store_and_says_what_one_that_was_there_got() {
    let folder = TempDir::new().unwrap();
    let mut places = vec![folder.path().join("some/where/lines")];
    if cfg!(feature = "sqlite") {
        places.push(folder.path().join("copy.db"));
    }
    for place in places {
        let copy = |records| Provenance::of(Torn(records)).copy_to(&*place, |_| {});
        let error = copy(1500).unwrap_err().to_string();
        assert_eq!(error, "the rest is damaged");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");

        let mut sink = Sink::open(&*place, "test").unwrap();
        sink.add(&Torn(1).records().unwrap().next().unwrap().unwrap()).unwrap();
        sink.finish().unwrap();
        let error = copy(1500).unwrap_err().to_string();
        assert_eq!(
            error,
            "the rest is damaged; 1499 records were copied before that, and copying again adds the rest"
        );
        assert_eq!(Provenance::open(&place).unwrap().tasks().to_vec().unwrap().len(), 1500);
        let error = copy(1500).unwrap_err().to_string();
        assert_eq!(error, "the rest is damaged");
        for entry in std::fs::read_dir(folder.path()).unwrap() {
            let path = entry.unwrap().path();
            _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir_all(&path));
        }
    }
}
