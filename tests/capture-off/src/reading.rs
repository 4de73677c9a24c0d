//! Records are read, joined and shown.

use runlore::query::{Item, Tree};
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
    let replayed = runlore::replay(&folder, folder.to_str().unwrap(), |_| ()).unwrap();
    assert_eq!((replayed.records, replayed.known), (0, 0));
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
fn graphics_processors_and_energy_are_asked_for_and_told() {
    use runlore::settings::{GpuMetric, GpuVendor};
    use runlore::telemetry::{Energy, EnergyUsed, TelemetryCapture, TelemetryType, Types};

    let power: Vec<GpuMetric> = GpuVendor::Amd.named("power").collect();
    assert!(power.len() == 2 && GpuVendor::Nvidia.metrics().any(|metric| metric.unit == "mW"));
    let capture = TelemetryCapture::new(Types::from([TelemetryType::Gpu, TelemetryType::Energy]));
    let now = capture.capture();
    assert!(now.gpu.is_none() && now.reason("gpu").is_some());
    assert!(capture.sensors().iter().any(|sensor| sensor.field == "gpu"));
    assert!(Energy::default().since(&Energy::default()).is_err());
    let nothing = EnergyUsed::default();
    assert!(nothing.joules() == 0.0 && nothing.microjoules() == 0 && nothing.by_meter().is_empty());
}
