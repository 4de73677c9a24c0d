//! Records are read, joined and shown.

use runlore::query::{
    Collection, Documents, Find, Gather, Item, Pipeline, Records, Source, Tree, field,
};
use runlore::record::{Id, Limits, Record, Status, TaskObject, hash_of, is_secret_name};
use runlore::store::jsonl;
use runlore::task;
use serde_json::json;

#[test]
fn what_was_written_is_read() {
    let folder = std::env::temp_dir().join(format!("runlore-capture-off-{}", std::process::id()));
    let run = runlore::workflow("files").store(folder.as_path()).start().unwrap();
    task("outer").run(|| task("inner").run(|| ()));
    run.finish().unwrap();

    assert_eq!(jsonl::read(&folder).unwrap().filter(Result::is_ok).count(), 4);
    assert_eq!(jsonl::summaries(&folder).unwrap().runs.len(), 1);
    assert_eq!(jsonl::load_with(&folder, |_| None).unwrap().tasks.len(), 0);
    let loaded = jsonl::load(&folder).unwrap();
    assert!(loaded.problems.is_empty());
    let tree = loaded.into_tree();
    let depths: Vec<usize> = tree.walk().map(|(depth, _)| depth).collect();
    assert_eq!(depths, [0, 1, 2]);
    assert!(tree.render().values(true).to_string().contains("└─ inner  FINISHED"));
    assert_eq!(runlore::spooled(&folder).unwrap(), []);
    let records = runlore::Provenance::open(&folder).unwrap();
    let run = records.runs().unwrap().remove(0).workflow;
    let thresholds = runlore::analyze::Thresholds::default();
    let report = runlore::analyze::run(&records, &run.workflow_id, &thresholds).unwrap();
    let runs = records.list_runs().unwrap();
    let among = runlore::analyze::RunAnalysis::builder(&records, &run.workflow_id)
        .runs(&runs)
        .thresholds(&thresholds)
        .build()
        .unwrap();
    assert_eq!(among, report);
    assert_eq!((report.tasks, report.activities.len()), (2, 2));
    let replayed = runlore::replay(&folder, folder.to_str().unwrap(), |_| ()).unwrap();
    assert_eq!((replayed.records, replayed.known), (0, 0));
    let redirected = runlore::replay_from(&folder, "old", folder.to_str().unwrap(), |_| ());
    assert_eq!(redirected.unwrap(), replayed);
    assert!(runlore::store::names_database("runs.db"));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_hash_of_another_feature_is_told() {
    let text = "instrumentation: {hash: blake3}";
    let loaded = runlore::settings::Search::nowhere().text("mine.yaml", text).load();
    let told = loaded.problems()[0].to_string();
    assert!(told.contains("add the feature `blake3` of the crate `runlore`"), "{told}");
}

#[test]
fn records_are_made_and_compared() {
    let task = TaskObject {
        task_id: Id::new().to_string(),
        status: Some(Status::Finished),
        ..TaskObject::default()
    };
    let record = Record::from(task);
    assert_eq!(Record::from_json(record.to_json()).unwrap(), record);
    let tree = Tree::new([], record.as_task().cloned());
    assert!(matches!(tree.walk().next().unwrap().1.item, Item::Task(_)));
    assert!(hash_of(&json!({"a": 1})).starts_with("xxh3-128:"));
    assert!(is_secret_name("api_key"));
    assert_eq!(Limits::current(), Limits::DEFAULT);
}

#[test]
fn queries_are_asked() {
    use runlore::query::{Filter, Find, Pipeline, SyntaxError, field};

    let both = field("a").gt(1).and(field("tags").all(["x"])).and(field("b").exists(false));
    let either = field("a").is_in([1, 2]).or(field("t").regex_with("^x", "i").unwrap());
    let items = field("i").elem_match(field("n").ne(1)).and(field("i").size(1));
    let bounds = field("a")
        .gte(2)
        .and(field("a").lt(3))
        .and(field("a").lte(2))
        .and(!field("a").eq(3))
        .and(field("b").not_in([1]));
    let document = json!({"a": 2, "tags": ["x"], "i": [{"n": 2}]});
    let values = field("tags").any_item(|tag| tag.gte("x").ne("y").is_in(["x"]).not_in(["z"]));
    let values = values.and(field("a").not(|a| a.gt(1).lte(1).eq(1).lt(9)));
    let values = values.and(field("a").of_type("int").unwrap());
    for filter in [both, either, items, bounds, values] {
        assert!(filter.matches(&document), "{filter}");
        assert_eq!(Filter::parse(&filter.to_json()).unwrap(), filter);
    }
    let find = Find::new().sort("-a").skip(0).limit(1).fields(["a"]);
    assert_eq!(find.apply([document.clone()]).next(), Some(json!({"a": 2})));
    let pipeline: Pipeline = r#"[{"$count": "n"}]"#.parse().unwrap();
    assert_eq!(pipeline.apply([document]).next(), Some(json!({"n": 1})));
    let error = Filter::parse("{").unwrap_err();
    assert_eq!(error.get_ref().unwrap().downcast_ref::<SyntaxError>().unwrap().column(), 2);
}

#[test]
fn graphics_processors_and_energy_are_asked_for_and_told() {
    use runlore::settings::{GpuMetric, GpuVendor};
    use runlore::telemetry::{Energy, EnergyUsed, TelemetryCapture, TelemetryType, Types};

    let power: Vec<GpuMetric> = GpuVendor::Amd.named("power").collect();
    assert!(power.len() == 2 && GpuVendor::Nvidia.metrics().any(|metric| metric.unit == "mW"));
    let capture = TelemetryCapture::new(Types::from([TelemetryType::Gpu, TelemetryType::Energy]));
    assert!(!capture.cost_of(capture.types()).is_zero());
    let now = capture.capture();
    assert!(now.gpu.is_none() && now.reason("gpu").is_some());
    assert!(capture.sensors().iter().any(|sensor| sensor.field == "gpu"));
    assert!(Energy::default().since(&Energy::default()).is_err());
    let nothing = EnergyUsed::default();
    assert!(nothing.joules() == 0.0 && nothing.microjoules() == 0 && nothing.by_meter().is_empty());
}

#[test]
fn a_source_of_ones_own_is_asked() {
    struct Three;

    impl Source for Three {
        fn documents(&self, of: Collection) -> runlore::Result<Documents<'_>> {
            assert_eq!(of, Collection::Tasks);
            let task =
                |n: u64| Ok(json!({"task_id": n, "hashes": {"used": {"x": format!("h{n}")}}}));
            Ok(Box::new((1..4).map(task)))
        }

        fn records(&self) -> runlore::Result<Records<'_>> {
            let documents = self.documents(Collection::Tasks)?;
            Ok(Box::new(documents.map(|document| Record::from_json(document?))))
        }
    }

    let find = Find::new().filter(field("task_id").gt(1)).limit(1);
    assert_eq!(Three.find(Collection::Tasks, &find).unwrap().count(), 1);
    let pipeline = Pipeline::new().count("n");
    assert_eq!(pipeline, Pipeline::parse(r#"[{"$count": "n"}]"#).unwrap());
    let counted = Three.aggregate(Collection::Tasks, &pipeline).unwrap().next().unwrap();
    assert_eq!(counted.unwrap(), json!({"n": 3}));
    assert_eq!(Three.tasks_with(&["h2".to_owned()].into()).unwrap().count(), 1);
    assert_eq!(Three.records().unwrap().count(), 3);
    assert_eq!(Three.ancestors("t").unwrap().count(), 0);
    let all = [("n", Gather::count()), ("most", Gather::max("task_id"))];
    let gathered = Pipeline::new().skip(1).group_all(all).fields(["n"]);
    let made: Vec<_> = Three.aggregate(Collection::Tasks, &gathered).unwrap().flatten().collect();
    assert_eq!(made, [json!({"_id": null, "n": 2})]);
}
