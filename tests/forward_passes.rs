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
        model.training(self.is_training);
        model.metadata("note", "g");
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
    assert!(fc1.telemetry_at_start.is_none() && fc1.resources.is_none());
    assert!(net.telemetry_at_start.is_some() && net.telemetry_at_end.is_some());
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
fn layers_that_are_told_whether_they_train_are_seen_too() {
    struct Dropout;
    impl Dropout {
        fn forward_t(&self, x: &Matrix, train: bool) -> Matrix {
            Matrix {
                data: x.data.iter().map(|it| if train { it / 2.0 } else { *it }).collect(),
                ..x.clone()
            }
        }
    }
    trait Apply {
        fn apply_t(&self, layer: &Dropout, train: bool) -> Matrix;
    }
    impl Apply for Matrix {
        fn apply_t(&self, layer: &Dropout, train: bool) -> Matrix {
            layer.forward_t(self, train)
        }
    }
    struct Model {
        first: Dropout,
        second: Dropout,
    }
    impl Model {
        #[telemetry_forward]
        fn forward_t(&self, x: &Matrix, train: bool) -> Matrix {
            self.first.forward_t(x, train).apply_t(&self.second, train)
        }
    }
    let store = record(|| {
        let y = Model { first: Dropout, second: Dropout }.forward_t(&x(), true);
        assert_eq!(y.data, [0.25; 12]);
    });
    insta::assert_snapshot!(tree(&store), @"
    Model  FINISHED
    ├─ first  FINISHED
    └─ second  FINISHED
    ");
    for layer in ["first", "second"] {
        assert_eq!(the(&store, layer).subtype.as_deref(), Some("child_forward"));
    }
}

#[test]
fn a_call_is_evaluated_as_without_the_attribute() {
    use std::cell::RefCell;
    thread_local!(static DONE: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) });
    fn note<T>(what: &'static str, value: T) -> T {
        DONE.with_borrow_mut(|done| done.push(what));
        value
    }
    struct Add(f32);
    impl Add {
        fn forward(&mut self, x: f32, seen: &mut Vec<f32>, then: impl Fn(f32) -> f32) -> f32 {
            seen.push(x);
            self.0 += 1.0;
            then(x + self.0)
        }
    }
    struct Model {
        layers: Vec<Add>,
    }
    impl Model {
        fn layer(&mut self, at: usize) -> &mut Add {
            note("layer", &mut self.layers[at])
        }

        #[telemetry_forward]
        fn forward(&mut self, x: f32, seen: &mut Vec<f32>) -> f32 {
            self.layer(0).forward(note("x", x), seen, |y| y.max(0.0));
            let y = self.layers[note("index", 1)].forward(note("again", x), seen, |y| 2.0 * y);
            (&mut self.layers[0]).forward(y, seen, |y| y) + self.layers[1].forward(x, seen, |y| y)
        }
    }
    let store = record(|| {
        let (mut model, mut seen) = (Model { layers: vec![Add(0.0), Add(1.0)] }, Vec::new());
        assert_eq!(model.forward(1.0, &mut seen), 6.0 + 2.0 + 1.0 + 3.0);
        assert_eq!(seen, [1.0, 1.0, 6.0, 1.0]);
    });
    assert_eq!(DONE.take(), ["layer", "x", "index", "again"]);
    assert_eq!(store.tasks().len(), 1 + 3, "`self.layer(0)` may be a layer of another model");
}

#[test]
fn tensors_in_tuples_are_seen() {
    struct Split;
    impl Split {
        fn forward(&self, x: &Matrix) -> (Matrix, usize) {
            (x.clone(), 2)
        }
    }
    struct Model {
        split: Split,
    }
    impl Model {
        #[telemetry_forward]
        fn forward(&self, (a, b): (&Matrix, Vec<Matrix>)) -> Option<(Matrix, [Matrix; 2])> {
            let (first, count) = self.split.forward(a);
            assert_eq!(count, b.len());
            Some((first, [b[0].clone(), b[1].clone()]))
        }
    }
    #[telemetry_task]
    fn merge(parts: Vec<Matrix>, more: &[Matrix]) -> (Matrix, Option<Matrix>) {
        (parts[0].clone(), more.first().cloned())
    }
    let store = record(|| {
        Model { split: Split }.forward((&x(), vec![x(), x()])).unwrap();
        merge(vec![x(), x()], &[x()]);
    });
    let rows = |value: &Value| match value {
        Value::Array(all) => all.iter().map(|facts| facts["numel"].as_u64().unwrap()).collect(),
        one => vec![one["numel"].as_u64().unwrap()],
    };
    let (model, split) = (the(&store, "Model"), the(&store, "split"));
    assert_eq!(rows(&object(&model.used)["a"]), [12]);
    assert_eq!(rows(&object(&model.used)["b"]), [12, 12]);
    assert_eq!(rows(&object(&model.generated)["tensor"]), [12, 12, 12]);
    assert_eq!(rows(&object(&split.generated)["tensor"]), [12], "the first of a tuple");
    let merge = the(&store, "merge");
    assert_eq!(rows(&object(&merge.used)["parts"]), [12, 12]);
    assert_eq!(rows(&object(&merge.used)["more"]), [12]);
    assert_eq!(rows(&object(&merge.generated)["value"]), [12, 12]);
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
        layer.fail("no such device".to_owned());
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

/// A tensor on a device that computes while the program goes on.
struct Remote;

thread_local! {
    /// How often the device was waited for by a tensor, and after one was gone.
    static WAITED: std::cell::Cell<(u32, u32)> = const { std::cell::Cell::new((0, 0)) };
}

impl Inspect for Remote {
    fn facts(&self) -> TensorFacts {
        TensorFacts::new(&[1], "f32", 4).on("cuda:0")
    }

    fn is_asynchronous(&self) -> bool {
        true
    }

    fn wait(&self) {
        WAITED.set((WAITED.get().0 + 1, WAITED.get().1));
    }

    fn wait_later(&self) -> Option<Box<dyn FnOnce() + Send>> {
        Some(Box::new(|| WAITED.set((WAITED.get().0, WAITED.get().1 + 1))))
    }
}

fn is_outstanding(task: &TaskObject) -> bool {
    object(&task.unavailable).get("duration_ns").is_some()
}

#[test]
fn an_asynchronous_device_is_waited_for_if_asked() {
    struct Output {
        _x: Remote,
    }
    #[telemetry_forward(sync = "task")]
    fn waits(x: Remote) -> Remote {
        x
    }
    #[telemetry_forward(sync = "task")]
    fn waits_for_pair(x: Remote) -> (Remote, Remote) {
        (x, Remote)
    }
    #[telemetry_forward(sync = "task")]
    fn waits_by_input(x: Remote) -> Output {
        Output { _x: x }
    }
    #[telemetry_forward]
    fn hurries(x: Remote) -> Remote {
        x
    }
    #[telemetry_forward]
    fn hurries_into_struct(x: Remote) -> Output {
        Output { _x: x }
    }
    let store = record(|| {
        waits(Remote);
        assert_eq!(WAITED.take(), (1, 0));
        waits_for_pair(Remote);
        assert_eq!(WAITED.take(), (2, 0));
        waits_by_input(Remote);
        assert_eq!(WAITED.take(), (0, 1));
        hurries(Remote);
        hurries_into_struct(Remote);
        assert_eq!(WAITED.take(), (0, 0));
    });
    for name in ["waits", "waits_for_pair", "waits_by_input"] {
        assert_eq!(the(&store, name).unavailable, None, "{name}");
    }
    for name in ["hurries", "hurries_into_struct"] {
        assert!(is_outstanding(&the(&store, name)), "{name}");
    }
}

#[test]
fn any_task_with_tensors_may_wait_for_the_device() {
    #[telemetry_task(sync = "task")]
    fn waits(x: &Remote, rows: usize) -> Result<Remote, String> {
        _ = (x, rows);
        Ok(Remote)
    }
    #[telemetry_task(sync = "task")]
    fn waits_by_input(x: Remote) -> usize {
        [x].len()
    }
    #[telemetry_task]
    fn hurries(x: &Remote) -> (Remote, Remote) {
        _ = x;
        (Remote, Remote)
    }
    let store = record(|| {
        waits(&Remote, 3).unwrap();
        assert_eq!(WAITED.take(), (1, 0));
        waits_by_input(Remote);
        assert_eq!(WAITED.take(), (0, 1));
        hurries(&Remote);
        let mut pass = Forward::model("by hand").sync().input("x", &Remote).start();
        pass.output(&Remote);
        pass.finish();
        assert_eq!(WAITED.take(), (1, 0));
        Forward::model("without output").sync().input("x", &Remote).start().finish();
        assert_eq!(WAITED.take(), (0, 1));
    });
    for name in ["waits", "waits_by_input", "by hand", "without output"] {
        assert_eq!(the(&store, name).unavailable, None, "{name}");
    }
    let hurries = the(&store, "hurries");
    assert_eq!(hurries.unavailable.as_ref().map(Map::len), Some(1), "told once");
    assert!(is_outstanding(&hurries));
    assert_eq!(object(&the(&store, "waits").used)["rows"], 3);
}

#[test]
fn a_batch_tells_that_its_device_may_be_at_work() {
    #[telemetry_forward]
    fn forward(x: Remote) -> Remote {
        x
    }
    let store = record(|| {
        for (step, number) in runlore::ml::iterate("train_batch", 0..3) {
            if number > 0 {
                let y = forward(Remote);
                if number > 1 {
                    step.sync(&y);
                }
            }
        }
    });
    assert_eq!(WAITED.take(), (1, 0));
    let batches = store.tasks().into_iter().filter(|task| task.name() == "train_batch_iteration");
    assert_eq!(batches.map(|task| is_outstanding(&task)).collect::<Vec<_>>(), [false, true, false]);
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
        run.register_model(&model.profile()).unwrap();
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
        let loaded = trained(&[("CHILDREN_MODE", mode), ("PARENT_MODE", "lightweight")]);
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
fn epochs_and_parents_have_telemetry_whatever_their_children_have() {
    for mode in ["lightweight", "tensor_inspection"] {
        let loaded = trained(&[("CHILDREN_MODE", mode), ("EPOCH_LOOP", "lightweight")]);
        let epochs = loaded
            .tasks
            .iter()
            .filter(|task| task.activity_id.as_deref() == Some("epochs_loop_iteration"));
        let parents: Vec<_> =
            of_subtype(&loaded, "parent_forward").into_iter().chain(epochs).collect();
        assert!(parents.len() > 4);
        for parent in parents {
            assert!(parent.telemetry_at_start.is_some(), "{mode}: {parent:?}");
            assert!(parent.telemetry_at_end.is_some(), "{mode}: {parent:?}");
        }
        for child in of_subtype(&loaded, "child_forward") {
            assert!(child.telemetry_at_start.is_none(), "{mode}: {child:?}");
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

/// Flowcept's fields that are not covered: all of them are addresses in memory, which tell nothing afterwards.
const ADDRESSES: &[&str] = &["/id", "/forward", "/interceptor_ids"];

/// Flowcept's fields that stand elsewhere here: a model is a workflow, which has these itself.
const ELSEWHERE: &[(&str, &str)] = &[
    ("model/custom_metadata/model_profile/modules/*/parent_task_id", "model/parent_task_id"),
    (
        "model/custom_metadata/model_profile/modules/*/parent_workflow_id",
        "model/parent_workflow_id",
    ),
];

#[test]
fn fields_cover_those_of_flowcept() {
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/data/flowcept/torch_lightweight.jsonl");
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
    let is_ours = |path: &str| {
        let moved = ELSEWHERE.iter().find(|(theirs, _)| *theirs == path);
        ours.contains(moved.map_or(path, |(_, here)| here))
    };
    let missing: Vec<_> = theirs.iter().filter(|path| !is_ours(path)).collect();
    let (addresses, missing): (Vec<_>, Vec<_>) =
        missing.into_iter().partition(|path| ADDRESSES.iter().any(|name| path.ends_with(name)));
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(!addresses.is_empty());
    for line in golden.lines() {
        for (key, value) in scalars(&serde_json::from_str(line).unwrap()) {
            if ADDRESSES.iter().any(|name| name.trim_start_matches('/') == key) {
                assert!(value.contains("1407"), "{key} is no address: {value}");
            }
        }
    }
}

/// Each value that is no object, with its key, as text.
fn scalars(value: &Value) -> Vec<(String, String)> {
    let Value::Object(fields) = value else { return Vec::new() };
    let of = |(key, value): (&String, &Value)| match value {
        Value::Object(_) => scalars(value),
        _ => vec![(key.clone(), value.to_string())],
    };
    fields.iter().flat_map(of).collect()
}
