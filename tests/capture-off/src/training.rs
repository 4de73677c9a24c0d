//! Loops and passes by hand are recorded, as other tasks by hand; annotated passes are not.

use runlore::ml::{
    Attributes, Forward, Inspect, ModelProfile, Parameter, Summary, TensorFacts, TensorStatistics,
};
use runlore::settings::LoopMode;
use runlore::store::MemoryStore;
use runlore::telemetry_forward;

use crate::block_on;

struct Tensor(Vec<f64>);

impl Inspect for Tensor {
    fn facts(&self) -> TensorFacts {
        TensorFacts::new(&[self.0.len()], "f64", 8).on("cpu")
    }

    fn statistics(&self) -> Option<TensorStatistics> {
        Some(TensorStatistics::of(self.0.iter().copied()))
    }

    fn wait_later(&self) -> Option<Box<dyn FnOnce() + Send>> {
        Some(Box::new(|| ()))
    }
}

struct Double;

impl Double {
    fn forward(&self, x: &Tensor) -> Tensor {
        Tensor(x.0.iter().map(|x| 2.0 * x).collect())
    }
}

impl Attributes for Double {
    fn attributes(&self) -> Vec<(&'static str, serde_json::Value)> {
        vec![("factor", 2.into())]
    }
}

struct Model {
    double: Double,
}

impl Model {
    #[telemetry_forward(training = true, sync = "task", name = "model", tensors = runlore)]
    fn forward(&self, x: &Tensor) -> Tensor {
        self.double.forward(x)
    }
}

#[test]
fn loops_are_recorded_and_annotated_passes_are_not() {
    let store = MemoryStore::new();
    let run = runlore::workflow("train").store(store.clone()).start().unwrap();
    let mut profile = ModelProfile::new("Model");
    profile.module("double", "Double");
    profile.attributes("double", &Double);
    profile.parameter("double.factor", Parameter::new(&[1], "f64", 8).frozen());
    profile.printed("Model(Double)");
    profile.training(false);
    profile.metadata("kind", "test");
    assert_eq!((profile.params(), profile.trainable_params(), profile.nbytes()), (1, 0, 8));
    assert_eq!((profile.max_width(), profile.to_string().as_str()), (1, "Model(Double)"));
    run.register_model(&profile).unwrap();

    let model = Model { double: Double };
    for epoch in run.epochs(0..2).mode(LoopMode::Lightweight) {
        assert_eq!(
            (*epoch.item(), epoch.to_string().as_str()),
            (epoch.index(), &*epoch.to_string())
        );
        for (step, x) in epoch.batches("train", [Tensor(vec![1.0])]) {
            assert_eq!(model.forward(&x).0, [2.0]);
            step.used("rows", 1);
            step.items(1);
            step.metadata("kind", "test");
            step.generated("loss", 0.5);
            step.sync(&x);
            assert_eq!(step.context().task_id(), step.id());
        }
        epoch.finish();
    }
    for (step, _) in run.iterate("fold", 0..1).detached() {
        step.run(|| ());
        block_on(step.track(async {}));
        step.finish();
    }
    for (step, _) in runlore::ml::iterate("again", 0..1).detached().attached() {
        step.fail("on purpose".to_owned());
    }
    for epoch in runlore::ml::epochs(0..1) {
        drop(epoch);
    }
    let mut pass =
        Forward::model("by hand").training(false).sync().input("x", &Tensor(vec![])).start();
    assert!(pass.is_recorded());
    Forward::layer("inner").used("n", 1).start().finish();
    pass.output(&Tensor(vec![1.0]));
    pass.generated("n", 1);
    pass.fail("on purpose".to_owned());
    pass.finish();

    let totals = run.finish().unwrap();
    assert_eq!((totals.tasks, totals.errors), (4 + 2 + 1 + 2, 2));
    assert!(!Summary::of(&store.tasks()).to_string().is_empty());
    let names = store.tasks().into_iter().filter_map(|task| task.activity_id);
    assert_eq!(names.filter(|name| name == "model" || name == "double").count(), 0);
}
