//! Models that describe themselves, and register themselves at their first pass.

use runlore::ml::{Attributes, Inspect, ModelProfile, Profiled, TensorFacts};
use runlore::record::WorkflowObject;
use runlore::store::MemoryStore;
use runlore::telemetry_forward;
use serde_json::{Value, json};

struct Matrix {
    shape: [usize; 2],
    is_frozen: bool,
}

impl Matrix {
    fn new(rows: usize, columns: usize) -> Self {
        Self { shape: [rows, columns], is_frozen: false }
    }
}

impl Inspect for Matrix {
    fn facts(&self) -> TensorFacts {
        let mut facts = TensorFacts::new(&self.shape, "f32", 4);
        facts.requires_grad = Some(!self.is_frozen);
        facts
    }
}

struct Relu;

impl Attributes for Relu {
    fn attributes(&self) -> Vec<(&'static str, Value)> {
        vec![("inplace", false.into())]
    }
}

impl Relu {
    fn forward(&self, x: Matrix) -> Matrix {
        x
    }
}

#[derive(ModelProfile)]
struct Linear {
    weight: Matrix,
    bias: Option<Matrix>,
}

impl Linear {
    fn new(inputs: usize, outputs: usize) -> Self {
        Self { weight: Matrix::new(outputs, inputs), bias: None }
    }

    fn forward(&self, mut x: Matrix) -> Matrix {
        x.shape[1] = self.weight.shape[0];
        x
    }
}

/// A generic model, whose other field has no traits at all.
#[derive(ModelProfile)]
struct Net<C> {
    fc1: Linear,
    act: Relu,
    r#hidden: Vec<Linear>,
    scale: Matrix,
    config: C,
}

#[derive(ModelProfile)]
struct Pair(Linear, Box<Linear>);

#[derive(ModelProfile)]
struct Nothing;

struct Config;

fn net() -> Net<Config> {
    let scale = Matrix { shape: [1, 1], is_frozen: true };
    let hidden = vec![Linear::new(8, 8), Linear::new(8, 1)];
    Net { fc1: Linear::new(4, 8), act: Relu, hidden, scale, config: Config }
}

impl<C> Net<C> {
    #[telemetry_forward]
    fn forward(&self, x: Matrix) -> Matrix {
        let _ = &self.config;
        let x = self.act.forward(self.fc1.forward(x));
        self.hidden.iter().fold(x, |x, layer| layer.forward(x))
    }
}

#[derive(ModelProfile)]
struct Ensemble {
    nets: [Net<Config>; 2],
}

impl Ensemble {
    #[telemetry_forward]
    fn forward(&mut self) -> Matrix {
        self.nets[0].forward(Matrix::new(2, 4));
        self.nets[1].forward(Matrix::new(2, 4))
    }
}

struct Panics;

impl Profiled for Panics {
    fn describe(&self, _: &str, _: &mut ModelProfile) {
        panic!("no profile")
    }
}

impl Panics {
    #[telemetry_forward]
    fn forward(&self, x: Matrix) -> Matrix {
        x
    }
}

#[test]
fn a_model_is_described_by_its_fields() {
    let model = net().profile();
    assert_eq!(model.params(), 32 + 64 + 8 + 1);
    assert_eq!(model.trainable_params(), 32 + 64 + 8);
    let profile = model.to_json();
    let modules = profile["modules"].as_object().unwrap();
    let paths: Vec<&String> = modules.keys().collect();
    assert_eq!(paths.len(), 6, "{paths:?}");
    assert_eq!(modules["Net"]["parameters"]["scale"]["trainable"], false);
    assert_eq!(modules["fc1"]["type"], "Linear");
    assert_eq!(modules["fc1"]["parameters"]["weight"]["shape"], json!([8, 4]));
    assert_eq!(
        modules["act"],
        json!({
            "type": "Relu", "in_named": "act", "first_level_child": true, "inplace": false,
        })
    );
    assert_eq!(modules["hidden.1"]["type"], "Linear");
    let pair = Pair(Linear::new(2, 3), Box::new(Linear::new(3, 1))).profile().to_json();
    assert_eq!(pair["modules"]["1"]["parameters"]["weight"]["shape"], json!([1, 3]));
    assert_eq!(Nothing.profile().params(), 0);
}

fn models(store: &MemoryStore) -> Vec<WorkflowObject> {
    let mut models = store.workflows();
    models.retain(|it| it.subtype.as_deref() == Some("model"));
    models
}

#[test]
fn a_model_registers_itself_once_in_each_workflow() {
    let net = net();
    net.forward(Matrix::new(2, 4));
    let mut ids = Vec::new();
    for _ in 0..2 {
        let store = MemoryStore::new();
        let run = runlore::workflow("train").store(store.clone()).start().unwrap();
        for _ in 0..3 {
            net.forward(Matrix::new(2, 4));
        }
        let id = run.id().to_owned();
        run.finish().unwrap();
        let models = models(&store);
        assert_eq!(models.len(), 1);
        assert_eq!(models[0].parent_workflow_id, Some(id));
        assert_eq!(models[0].name.as_deref(), Some("Net"));
        let metadata = models[0].custom_metadata.as_ref().unwrap();
        assert_eq!(metadata["model_profile"], net.profile().to_json());
        ids.push(metadata["model_id"].clone());
    }
    assert_eq!(ids[0], ids[1], "the same model has the same id");
}

#[test]
fn a_model_inside_another_is_part_of_it() {
    let store = MemoryStore::new();
    let run = runlore::workflow("train").store(store.clone()).start().unwrap();
    Ensemble { nets: [net(), net()] }.forward();
    run.finish().unwrap();
    let names: Vec<_> = models(&store).into_iter().map(|it| it.name.unwrap()).collect();
    assert_eq!(names, ["Ensemble"]);
}

#[test]
fn a_profile_that_panics_does_not_reach_the_pass() {
    let store = MemoryStore::new();
    let run = runlore::workflow("train").store(store.clone()).start().unwrap();
    assert_eq!(Panics.forward(Matrix::new(1, 2)).shape, [1, 2]);
    run.finish().unwrap();
    assert_eq!(store.tasks().len(), 1);
    assert!(models(&store).is_empty());
}
