//! The same verbs accept the same values on tasks, steps, epochs, passes and workflows.

use std::error::Error;
use std::io;

use runlore::ml::Forward;
use runlore::record::TaskObject;
use runlore::store::MemoryStore;
use runlore::telemetry::{TaskTelemetry, TelemetryCapture, TelemetryChoice, TelemetryType};
use runlore::{ErrorKind, Id, Stats, WorkflowRun, task, telemetry_task};
use serde_json::{Value, json};

fn run(work: impl FnOnce(&mut WorkflowRun)) -> MemoryStore {
    let store = MemoryStore::new();
    let mut run = runlore::workflow("consistent").store(store.clone()).start().unwrap();
    work(&mut run);
    run.finish().unwrap();
    store
}

fn boxed() -> Box<dyn Error + Send + Sync> {
    "broken".into()
}

/// Calls a method with every kind of error that it accepts.
macro_rules! fail_with_each {
    ($fail:expr) => {{
        $fail(|it| it.fail(io::Error::other("broken")));
        $fail(|it| it.fail(&io::Error::other("broken")));
        $fail(|it| it.fail(&io::Error::other("broken") as &dyn Error));
        $fail(|it| it.fail(anyhow::anyhow!("broken")));
        $fail(|it| it.fail(&anyhow::anyhow!("broken")));
        $fail(|it| it.fail(boxed()));
        $fail(|it| it.fail(&boxed()));
        $fail(|it| it.fail(Box::<dyn Error>::from("broken")));
        $fail(|it| it.fail("broken"));
        $fail(|it| it.fail(&"broken"));
        $fail(|it| it.fail("broken".to_owned()));
        $fail(|it| it.fail(&"broken".to_owned()));
    }};
}

fn assert_broken(store: &MemoryStore) {
    let task = store.tasks().into_iter().find(TaskObject::is_error).unwrap();
    assert_eq!(task.stderr.as_deref(), Some("broken"));
    let type_name = task.error.unwrap().type_name.unwrap_or_default();
    assert!(!type_name.starts_with('&') && !type_name.starts_with("dyn "), "{type_name}");
}

#[test]
fn every_fail_accepts_every_error() {
    fail_with_each!(|fail: fn(&mut runlore::TaskGuard)| {
        assert_broken(&run(|_| {
            let mut guard = task("guard").start();
            fail(&mut guard);
            guard.finish();
        }));
    });
    fail_with_each!(|fail: fn(&runlore::ml::Step)| {
        assert_broken(&run(|run| run.iterate("fold", [1]).for_each(|(step, _)| fail(&step))));
        assert_broken(&run(|run| run.epochs(0..1).for_each(|epoch| fail(&epoch))));
    });
    fail_with_each!(|fail: fn(&mut runlore::ml::ForwardPass)| {
        assert_broken(&run(|_| {
            let mut pass = Forward::model("Net").start();
            fail(&mut pass);
            pass.finish();
        }));
    });
    fail_with_each!(|fail: fn(&mut WorkflowRun)| {
        let workflow = run(fail).workflows().pop().unwrap();
        assert_eq!(workflow.stderr.as_deref(), Some("broken"));
    });
    /// The current task, with the method's name.
    struct Current;
    impl Current {
        fn fail<K>(&self, error: impl runlore::Failure<K>) {
            runlore::fail(error);
        }
    }
    fail_with_each!(|fail: fn(&Current)| {
        assert_broken(&run(|_| task("current").run(|| fail(&Current))));
    });
}

#[test]
fn values_are_accepted_with_and_without_a_reference() {
    let rows = vec![1, 2];
    let store = run(|run| {
        run.used("rows", &rows);
        run.generated("rows", rows.len());
        run.metadata("note", "as a whole");
        let mut guard =
            task("task").used("path", "a.csv").used("rows", &rows).metadata("n", 1).start();
        guard.used("later", &rows);
        guard.generated("rows", rows.len());
        guard.metadata("note", "in the body");
        runlore::generated("mean", 1.5);
        guard.finish();
        for epoch in run.epochs(0..1) {
            epoch.used("rate", 0.5);
            epoch.generated("loss", 0.25);
        }
    });
    let tasks = store.tasks();
    let named = |name: &str| tasks.iter().find(|task| task.name() == name).unwrap();
    let the = |fields: &Option<serde_json::Map<String, Value>>| json!(fields);
    let guard = named("task");
    assert_eq!(the(&guard.used), json!({"path": "a.csv", "rows": [1, 2], "later": [1, 2]}));
    assert_eq!(the(&guard.generated), json!({"mean": 1.5, "rows": 2}));
    assert_eq!(the(&guard.custom_metadata), json!({"n": 1, "note": "in the body"}));
    let epoch = named("epochs_loop_iteration");
    assert_eq!(the(&epoch.used), json!({"i": 0, "epoch": 0, "rate": 0.5}));
    assert_eq!(the(&epoch.generated), json!({"loss": 0.25}));
    let workflow = store.workflows().pop().unwrap();
    assert_eq!(the(&workflow.used), json!({"rows": [1, 2]}));
    assert_eq!(the(&workflow.generated), json!({"rows": 2}));
    assert_eq!(the(&workflow.custom_metadata), json!({"note": "as a whole"}));
}

#[test]
fn values_of_a_workflow_are_redacted_and_bounded() {
    let store = run(|run| {
        run.generated("password", "hunter2");
        run.generated("long", vec![1; 1000]);
    });
    let generated = store.workflows().pop().unwrap().generated.unwrap();
    assert!(!json!(generated).to_string().contains("hunter2"));
    assert!(json!(generated["long"]).to_string().len() < 1000);
}

#[test]
fn answers_can_be_stored_and_read_again() {
    let id = Id::new();
    let text = serde_json::to_string(&id).unwrap();
    assert_eq!(serde_json::from_str::<Id>(&text).unwrap(), id);
    let error = serde_json::from_str::<Id>("\"seven\"").unwrap_err().to_string();
    assert!(error.starts_with("`seven` is not a UUID"), "{error}");
    let stats = runlore::stats();
    let json = serde_json::to_value(stats).unwrap();
    assert_eq!(serde_json::from_value::<Stats>(json).unwrap(), stats);
}

#[test]
fn a_debugged_error_shows_its_kind() {
    let error = "seven".parse::<Id>().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Record);
    assert_eq!(format!("{error:?}"), format!("Record: {error}"));
}

#[telemetry_task(telemetry(disk))]
fn chooses_disk() {}

#[telemetry_task]
fn chooses_nothing() {}

/// The parts of a task's capture.
fn parts(store: &MemoryStore, name: &str) -> Vec<String> {
    let task = store.tasks().into_iter().find(|task| task.name() == name).unwrap();
    let capture = task.telemetry_at_end.unwrap_or_default();
    capture.keys().filter(|name| *name != "unavailable").cloned().collect()
}

#[cfg(target_os = "linux")]
#[test]
fn a_workflow_chooses_the_telemetry_of_its_tasks() {
    let store = MemoryStore::new();
    let types = [TelemetryType::Mem, TelemetryType::Network];
    let run = runlore::workflow("chooses").telemetry(types).store(store.clone()).start().unwrap();
    chooses_nothing();
    chooses_disk();
    task("light").telemetry(TelemetryChoice::Light).run(|| {});
    let inner = MemoryStore::new();
    let other = runlore::workflow("other").store(inner.clone()).start().unwrap();
    chooses_nothing();
    other.finish().unwrap();
    run.finish().unwrap();
    let network: Vec<String> =
        parts(&store, "chooses_nothing").into_iter().filter(|it| it != "container").collect();
    assert_eq!(network, ["memory", "network"]);
    assert_eq!(parts(&store, "chooses_disk"), ["disk"]);
    assert_eq!(parts(&store, "light"), [""; 0]);
    assert!(!parts(&inner, "chooses_nothing").contains(&"network".to_owned()));
    assert!(parts(&inner, "chooses_nothing").contains(&"cpu".to_owned()));
    let none = MemoryStore::new();
    let bare = runlore::workflow("bare").telemetry(TelemetryChoice::None).store(none.clone());
    bare.run(chooses_nothing).unwrap();
    assert_eq!(parts(&none, "chooses_nothing"), [""; 0]);
}

#[cfg(target_os = "linux")]
#[test]
fn the_telemetry_of_a_stored_task_has_types() {
    let store = MemoryStore::new();
    let types = [TelemetryType::Cpu, TelemetryType::ProcessInfo];
    let run = runlore::workflow("typed").telemetry(types).store(store.clone()).start().unwrap();
    task("task").run(|| {});
    task("bare").telemetry(TelemetryChoice::None).run(|| {});
    run.finish().unwrap();
    let tasks = store.tasks();
    let named = |name: &str| tasks.iter().find(|task| task.name() == name).unwrap();
    let task = named("task");
    assert!(task.telemetry_at_start().unwrap().cpu.is_some());
    let process = task.telemetry_at_end().unwrap().process.unwrap();
    assert_eq!(process.pid, u64::from(std::process::id()));
    let resources = task.resources().unwrap();
    assert_eq!(json!(resources), json!(task.resources), "nothing is lost");
    assert!(resources.cpu_ns.unwrap().inclusive >= resources.cpu_ns.unwrap().own.unwrap());
    let error = named("bare").resources().unwrap_err().to_string();
    assert!(error.ends_with("has no `resources`"), "{error}");
}

#[test]
fn malformed_telemetry_is_an_error_that_names_the_field() {
    let task: TaskObject = serde_json::from_value(json!({
        "task_id": "t", "telemetry_at_end": {"cpu": {"percent_all": 1.5}, "memory": "much"},
        "resources": {"cpu_ns": {"self": 3}},
    }))
    .unwrap();
    let error = task.telemetry_at_end().unwrap_err();
    assert!(
        error.to_string().starts_with("task `t` has a `telemetry_at_end.memory` of another form")
    );
    assert_eq!(error.kind(), ErrorKind::Record);
    let error = task.resources().unwrap_err().to_string();
    assert!(error.contains("`resources.cpu_ns`") && error.contains("inclusive"), "{error}");
}

#[test]
fn a_capture_by_hand_is_that_of_tasks() {
    let settings = runlore::settings::Settings::load().settings.telemetry_capture;
    let types = runlore::telemetry::Types::from_settings(&settings);
    assert_eq!(TelemetryCapture::from_settings().types(), types);
}
