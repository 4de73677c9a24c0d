//! Forward passes and the layers in them: `#[telemetry_forward]`, and the same by hand.

use std::panic::{AssertUnwindSafe, catch_unwind};

use runlore::ml::TensorStatistics;
use runlore::ml::{Attributes, Forward, Inspect, ModelProfile, Parameter, TensorFacts};
use runlore::record::{Status, TaskObject};
use runlore::store::{MemoryStore, jsonl};
use runlore::{telemetry_forward, telemetry_task};
use serde_json::{Map, Value, json};

use crate::support::{child, expect_success, is_child, record, the};

/// A matrix, as a tensor of a framework.
#[derive(Debug, Clone)]
pub(crate) struct Matrix {
    shape: [usize; 2],
    data: Vec<f32>,
    is_asynchronous: bool,
}

impl Matrix {
    fn filled(shape: [usize; 2], value: f32) -> Self {
        Self { shape, data: vec![value; shape[0] * shape[1]], is_asynchronous: false }
    }

    /// What candle's tensors have.
    fn apply(&self, layer: &impl Layer) -> Result<Matrix, String> {
        layer.forward(self)
    }
}

impl Inspect for Matrix {
    fn facts(&self) -> TensorFacts {
        TensorFacts::new(&self.shape, "f32", 4).on("cpu")
    }

    fn statistics(&self) -> Option<TensorStatistics> {
        Some(TensorStatistics::of(self.data.iter().map(|value| f64::from(*value))))
    }

    fn is_asynchronous(&self) -> bool {
        self.is_asynchronous
    }
}

trait Layer {
    fn forward(&self, x: &Matrix) -> Result<Matrix, String>;
}

struct Linear {
    weight: [usize; 2],
}

impl Layer for Linear {
    fn forward(&self, x: &Matrix) -> Result<Matrix, String> {
        let [inputs, outputs] = self.weight;
        if x.shape[1] != inputs {
            return Err(format!("{} columns, not {inputs}", x.shape[1]));
        }
        Ok(Matrix {
            data: vec![0.5; x.shape[0] * outputs],
            shape: [x.shape[0], outputs],
            ..x.clone()
        })
    }
}

impl Attributes for Linear {
    fn attributes(&self) -> Vec<(&'static str, Value)> {
        vec![("in_features", self.weight[0].into()), ("out_features", self.weight[1].into())]
    }
}

struct Relu;

impl Layer for Relu {
    fn forward(&self, x: &Matrix) -> Result<Matrix, String> {
        Ok(Matrix { data: x.data.iter().map(|value| value.max(0.0)).collect(), ..x.clone() })
    }
}

impl Attributes for Relu {
    fn attributes(&self) -> Vec<(&'static str, Value)> {
        vec![("inplace", false.into())]
    }
}

pub(crate) struct Net {
    fc1: Linear,
    act: Relu,
    fc2: Linear,
    is_training: bool,
}

impl Net {
    fn new() -> Self {
        let (fc1, fc2) = (Linear { weight: [4, 8] }, Linear { weight: [8, 1] });
        Self { fc1, act: Relu, fc2, is_training: true }
    }

    fn profile(&self) -> ModelProfile {
        let mut model = ModelProfile::new("Net");
        for (path, layer) in [("fc1", &self.fc1), ("fc2", &self.fc2)] {
            model.module(path, "Linear");
            model.attributes(path, layer);
            let [inputs, outputs] = layer.weight;
            model
                .parameter(&format!("{path}.weight"), Parameter::new(&[outputs, inputs], "f32", 4));
            model.parameter(&format!("{path}.bias"), Parameter::new(&[outputs], "f32", 4));
        }
        model.module("act", "Relu");
        model.attributes("act", &self.act);
        model
    }

    #[telemetry_forward(training = self.is_training)]
    fn forward(&self, x: &Matrix) -> Result<Matrix, String> {
        self.fc2.forward(&self.act.forward(&self.fc1.forward(x)?)?)
    }

    #[telemetry_forward(name = "Chained")]
    fn chained(&self, x: &Matrix) -> Result<Matrix, String> {
        x.apply(&self.fc1)?.apply(&self.act)?.apply(&self.fc2)
    }
}

fn x() -> Matrix {
    Matrix::filled([3, 4], 1.0)
}

fn tree(store: &MemoryStore) -> String {
    let tasks = store.tasks().into_iter().map(|mut task| {
        (task.duration_ns, task.ended_at, task.used, task.generated) = (None, None, None, None);
        task
    });
    runlore::query::Tree::new([], tasks).to_string()
}

fn object(value: &Option<Map<String, Value>>) -> Value {
    value.clone().map_or(Value::Null, Value::Object)
}

#[test]
fn a_pass_has_its_layers_below_it() {
    let store = record(|| {
        Net::new().forward(&x()).unwrap();
    });
    insta::assert_snapshot!(tree(&store), @"
    Net  FINISHED
    ├─ fc1  FINISHED
    ├─ act  FINISHED
    └─ fc2  FINISHED
    ");
    let (net, fc1) = (the(&store, "Net"), the(&store, "fc1"));
    assert_eq!(net.subtype.as_deref(), Some("parent_forward"));
    assert_eq!(object(&net.custom_metadata), json!({"is_training": true}));
    let facts = |shape: [usize; 2]| {
        json!({"shape": shape, "dtype": "f32", "device": "cpu", "nbytes": shape[0] * shape[1] * 4,
            "numel": shape[0] * shape[1], "is_sparse": false})
    };
    assert_eq!(object(&net.used), json!({"tensor": facts([3, 4])}));
    assert_eq!(object(&net.generated), json!({"tensor": facts([3, 1])}));
    assert_eq!(fc1.subtype.as_deref(), Some("child_forward"));
    assert_eq!(object(&fc1.custom_metadata), json!({"module": "Linear"}));
    assert_eq!(
        object(&fc1.used),
        json!({"tensor": facts([3, 4]), "in_features": 4, "out_features": 8, "training": true,
            "first_level_child": true})
    );
    assert_eq!(object(&fc1.generated), json!({"tensor": facts([3, 8])}));
    assert!(fc1.telemetry_at_start.is_none() && net.telemetry_at_end.is_none());
    let code = fc1.code.unwrap();
    assert!(code.file.unwrap().ends_with("forward_passes.rs"));
    assert!(code.line > net.code.unwrap().line);
}

#[test]
fn layers_that_are_applied_are_seen_too() {
    let store = record(|| {
        Net::new().chained(&x()).unwrap();
    });
    insta::assert_snapshot!(tree(&store), @"
    Chained  FINISHED
    ├─ fc1  FINISHED
    ├─ act  FINISHED
    └─ fc2  FINISHED
    ");
}

#[test]
fn a_layer_that_fails_fails_the_pass() {
    let store = record(|| {
        assert!(Net::new().forward(&Matrix::filled([3, 5], 1.0)).is_err());
    });
    insta::assert_snapshot!(tree(&store), @"
    Net  ERROR  5 columns, not 4
    └─ fc1  ERROR  5 columns, not 4
    ");
}

#[test]
fn a_layer_that_panics_does_not_end_what_is_around_the_pass() {
    struct Faulty;
    impl Layer for Faulty {
        fn forward(&self, _: &Matrix) -> Result<Matrix, String> {
            panic!("not initialised")
        }
    }
    struct Model {
        faulty: Faulty,
    }
    impl Model {
        #[telemetry_forward]
        fn forward(&self, x: &Matrix) -> Result<Matrix, String> {
            self.faulty.forward(x)
        }
    }
    let store = record(|| {
        let model = Model { faulty: Faulty };
        assert!(catch_unwind(AssertUnwindSafe(|| model.forward(&x()))).is_err());
        Net::new().forward(&x()).unwrap();
    });
    let faulty = the(&store, "faulty");
    assert_eq!(
        (faulty.status, faulty.stderr.as_deref()),
        (Some(Status::Error), Some("not initialised"))
    );
    assert_eq!(the(&store, "Model").status, Some(Status::Error));
    assert_eq!(the(&store, "Net").parent_task_id, None);
}

#[test]
fn a_model_in_a_model_is_one_of_its_layers() {
    struct Two {
        first: Net,
        second: Linear,
    }
    impl Two {
        #[telemetry_forward]
        fn forward(&self, x: &Matrix, _scale: f32) -> Result<Matrix, String> {
            let y = self.first.forward(x)?;
            let wide = self.widened(&y)?;
            [&self.second].iter().try_fold(wide, |x, layer| layer.forward(&x))
        }

        #[telemetry_forward(name = "widen")]
        fn widened(&self, x: &Matrix) -> Result<Matrix, String> {
            Ok(Matrix::filled([x.shape[0], 8], 1.0))
        }
    }
    let store = record(|| {
        let model = Two { first: Net::new(), second: Linear { weight: [8, 2] } };
        model.forward(&x(), 1.0).unwrap();
    });
    insta::assert_snapshot!(tree(&store), @"
    Two  FINISHED
    ├─ first  FINISHED
    │  ├─ fc1  FINISHED
    │  ├─ act  FINISHED
    │  └─ fc2  FINISHED
    ├─ widen  FINISHED
    └─ layer  FINISHED
    ");
    assert_eq!(the(&store, "widen").subtype.as_deref(), Some("child_forward"));
    let level = |name| object(&the(&store, name).used)["first_level_child"].clone();
    assert_eq!(
        (level("first"), level("fc1"), level("layer")),
        (true.into(), false.into(), false.into())
    );
}

#[test]
fn a_pass_by_hand_is_the_same() {
    let store = record(|| {
        let mut pass = Forward::model("Hand").input("a", &x()).input("b", &x()).start();
        let mut layer = Forward::layer("first").used("units", 8).start();
        layer.fail(&"no such device".to_owned());
        layer.finish();
        let later = Matrix { is_asynchronous: true, ..x() };
        pass.output(&later);
        pass.generated("loss", 0.25);
        pass.finish();
    });
    let (hand, first) = (the(&store, "Hand"), the(&store, "first"));
    assert_eq!(object(&hand.used).as_object().unwrap().keys().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(object(&hand.generated)["loss"], 0.25);
    let unavailable = object(&hand.unavailable);
    assert!(unavailable["duration_ns"].as_str().unwrap().contains("sync"));
    assert_eq!(first.parent_task_id.as_ref(), Some(&hand.task_id));
    assert_eq!(first.status, Some(Status::Error));
}

#[test]
fn an_asynchronous_device_is_waited_for_if_asked() {
    use std::cell::Cell;
    thread_local!(static WAITED: Cell<u32> = const { Cell::new(0) });
    struct Remote;
    impl Inspect for Remote {
        fn facts(&self) -> TensorFacts {
            TensorFacts::new(&[1], "f32", 4).on("cuda:0")
        }
        fn is_asynchronous(&self) -> bool {
            true
        }
        fn wait(&self) {
            WAITED.set(WAITED.get() + 1);
        }
    }
    #[telemetry_forward(sync = "task")]
    fn waits(x: Remote) -> Remote {
        x
    }
    #[telemetry_forward]
    fn hurries(x: Remote) -> Remote {
        x
    }
    let store = record(|| {
        waits(Remote);
        hurries(Remote);
    });
    assert_eq!(WAITED.get(), 1);
    assert_eq!(the(&store, "waits").unavailable, None);
    assert!(object(&the(&store, "hurries").unavailable)["duration_ns"].is_string());
}

#[test]
fn a_tensor_argument_is_recorded_by_its_facts() {
    #[telemetry_task(output = "y")]
    fn double(x: &Matrix, name: &str) -> Matrix {
        _ = name;
        Matrix { data: x.data.iter().map(|value| 2.0 * value).collect(), ..x.clone() }
    }
    let store = record(|| {
        double(&x(), "twice");
    });
    let task = the(&store, "double");
    assert_eq!(object(&task.used)["x"]["shape"], json!([3, 4]));
    assert_eq!(object(&task.used)["name"], "twice");
    assert_eq!(object(&task.generated)["y"]["numel"], 12);
    assert!(object(&task.used)["x"].get("data").is_none());
}

// The settings are a process's own: a training as in the golden file, in several ways.

#[test]
fn child_process() {
    if !is_child("forward_passes::child_process") {
        return;
    }
    #[telemetry_task(name = "train", output = "loss")]
    fn train(run: &runlore::WorkflowRun, model: &Net) -> f64 {
        for epoch in run.epochs(0..2) {
            for (step, batch) in epoch.batches("train", [x(), x()]) {
                model.forward(&batch).unwrap();
                step.generated("loss", 0.5);
            }
            epoch.generated("epoch_loss", 0.5);
        }
        0.5
    }
    let run = runlore::workflow("torch_golden")
        .campaign("golden_campaign")
        .metadata("note", "g")
        .start()
        .unwrap();
    let model = Net::new();
    run.register_model(&model.profile()).unwrap();
    // How busy processors are is known a while after the first look at them.
    std::thread::sleep(std::time::Duration::from_millis(50));
    train(&run, &model);
    run.finish().unwrap();
}

fn trained(settings: &[(&str, &str)]) -> jsonl::Loaded {
    let folder = tempfile::tempdir().unwrap();
    let mut command = child("forward_passes::child_process");
    command.current_dir(folder.path()).env("RUNLORE_TELEMETRY_CAPTURE__MACHINE_INFO", "no");
    for (key, value) in settings {
        command.env(format!("RUNLORE_INSTRUMENTATION__ML__{key}"), value);
    }
    expect_success(&command.output().unwrap());
    jsonl::load(folder.path().join("runlore")).unwrap()
}

fn of_subtype<'a>(loaded: &'a jsonl::Loaded, subtype: &str) -> Vec<&'a TaskObject> {
    loaded.tasks.iter().filter(|task| task.subtype.as_deref() == Some(subtype)).collect()
}

#[test]
fn what_and_children_mode_decide_what_is_recorded() {
    let counts = |settings: &[(&str, &str)]| {
        let loaded = trained(settings);
        (of_subtype(&loaded, "parent_forward").len(), of_subtype(&loaded, "child_forward").len())
    };
    assert_eq!(counts(&[]), (4, 12));
    assert_eq!(counts(&[("WHAT", "parent_only")]), (4, 0));
    assert_eq!(counts(&[("WHAT", "~")]), (0, 0));
    assert_eq!(counts(&[("CAPTURE_EPOCHS_AT_EVERY", "2")]), (2, 6));
    for (mode, is_measured, is_inspected) in [
        ("lightweight", false, false),
        ("telemetry", true, false),
        ("tensor_inspection", false, true),
        ("telemetry_and_tensor_inspection", true, true),
    ] {
        let loaded = trained(&[("CHILDREN_MODE", mode)]);
        let passes = of_subtype(&loaded, "child_forward");
        assert_eq!(passes.len(), 12);
        for pass in passes.into_iter().chain(of_subtype(&loaded, "parent_forward")) {
            assert_eq!(pass.telemetry_at_start.is_some(), is_measured, "{mode}");
            let used = object(&pass.used);
            assert_eq!(used.get("tensor").is_some(), is_inspected, "{mode}");
            assert_eq!(pass.generated.is_some(), is_inspected, "{mode}");
        }
    }
}

#[test]
fn a_training_is_one_tree() {
    let loaded = trained(&[]);
    let parent = |task: &TaskObject| {
        let id = task.parent_task_id.as_ref()?;
        Some(loaded.tasks.iter().find(|task| task.task_id == *id).expect("every parent is there"))
    };
    let chain: [(&str, &str); 4] = [
        ("child_forward", "parent_forward"),
        ("parent_forward", "train_batch_iteration"),
        ("train_batch_iteration", "epochs_loop_iteration"),
        ("epochs_loop_iteration", "train"),
    ];
    let is = |task: &TaskObject, what: &str| {
        task.subtype.as_deref() == Some(what) || task.activity_id.as_deref() == Some(what)
    };
    assert_eq!(loaded.tasks.len(), 1 + 2 + 4 + 4 + 12);
    for (inner, outer) in chain {
        for task in loaded.tasks.iter().filter(|task| is(task, inner)) {
            let around = parent(task).unwrap();
            assert!(is(around, outer), "{inner} in {outer}");
            assert!(task.duration_ns <= around.duration_ns);
        }
    }
}

#[test]
fn a_model_is_a_workflow_below_the_run() {
    let find = |loaded: &jsonl::Loaded| {
        let named = |name: &str| {
            loaded.workflows.iter().find(|it| it.name.as_deref() == Some(name)).cloned()
        };
        (named("torch_golden").unwrap(), named("Net"))
    };
    let (first, second) = (trained(&[]), trained(&[]));
    let ((run, model), (_, again)) = (find(&first), find(&second));
    let (model, again) = (model.unwrap(), again.unwrap());
    assert_eq!(model.parent_workflow_id.as_ref(), Some(&run.workflow_id));
    assert_eq!(model.campaign_id.as_deref(), Some("golden_campaign"));
    let metadata = object(&model.custom_metadata);
    assert_eq!(metadata["model_profile"]["params"], 49);
    assert_eq!(metadata["model_profile"]["max_width"], 8);
    assert_eq!(metadata["model_profile"]["n_modules"], 4);
    assert_eq!(metadata["model_id"], object(&again.custom_metadata)["model_id"]);
    assert_ne!(model.workflow_id, again.workflow_id);
    assert_eq!(find(&trained(&[("REGISTER_WORKFLOW", "no")])).1, None);
}

/// What a record is, so that records of the same kind are compared.
fn kind(record: &Value) -> String {
    let text = |key: &str| record.get(key).and_then(Value::as_str);
    let is_model = record.pointer("/custom_metadata/model_profile").is_some();
    match (text("activity_id"), text("subtype")) {
        (None, _) if is_model => "model".to_owned(),
        (None, _) => "workflow".to_owned(),
        (_, Some(subtype)) if subtype.ends_with("_forward") => subtype.to_owned(),
        (Some(activity), _) => activity.to_owned(),
    }
}

/// The paths of all fields. Modules of a model go by names that differ: `*`.
fn paths(value: &Value, path: &str, found: &mut std::collections::BTreeSet<String>) {
    let Value::Object(fields) = value else {
        found.insert(path.to_owned());
        return;
    };
    for (key, value) in fields {
        let key = if path.ends_with("/modules") { "*" } else { key };
        paths(value, &format!("{path}/{key}"), found);
    }
}

fn fields(records: impl Iterator<Item = Value>) -> std::collections::BTreeSet<String> {
    let mut found = std::collections::BTreeSet::new();
    for record in records {
        let path = kind(&record);
        paths(&record, &path, &mut found);
    }
    found
}

/// Flowcept's fields that are not covered, each with why.
const NOT_OURS: &[&str] = &[
    // Addresses in memory.
    "/id",
    "/forward",
    "/interceptor_ids",
    // What is the same in all parts: the model is a workflow, which has these itself.
    "model/custom_metadata/model_profile/modules/*/parent_task_id",
    "model/custom_metadata/model_profile/modules/*/parent_workflow_id",
    // Ours is recorded with each pass.
    "model/custom_metadata/model_profile/modules/*/training",
    // Of the run's own choosing: it is on the run here.
    "model/custom_metadata/note",
];

#[test]
fn fields_cover_those_of_flowcept() {
    let golden =
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/flowcept/torch_lightweight.jsonl");
    let golden = std::fs::read_to_string(golden).unwrap();
    let theirs = fields(golden.lines().map(|line| serde_json::from_str(line).unwrap()));
    let loaded = trained(&[
        ("TENSOR_STATISTICS", "yes"),
        ("CHILDREN_MODE", "telemetry_and_tensor_inspection"),
    ]);
    let tasks = loaded.tasks.iter().map(|task| serde_json::to_value(task).unwrap());
    let workflows = loaded.workflows.iter().map(|it| serde_json::to_value(it).unwrap());
    let ours = fields(tasks.chain(workflows));
    assert!(ours.contains("child_forward/used/tensor/density"));
    let missing: Vec<_> = theirs
        .difference(&ours)
        .filter(|path| !NOT_OURS.iter().any(|not| path.ends_with(not)))
        .collect();
    assert!(missing.is_empty(), "{missing:#?}");
}
