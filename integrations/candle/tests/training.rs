//! The examples train, and their records form one tree: run, epoch, batch, pass, layer.

use candle_core::{DType, Device, Module, Tensor, Var};
use candle_nn::{Activation, linear, seq};
use candle_nn::{VarBuilder, VarMap};
use runlore::ml::Inspect;
use runlore::record::{Status, TaskObject};
use runlore::store::MemoryStore;
use runlore::{WorkflowRun, telemetry_task};
use runlore_candle::{Instrumented, Probe};
use serde_json::json;

#[path = "../examples/cnn.rs"]
mod cnn;
#[path = "../examples/mlp.rs"]
mod mlp;

fn recorded(work: impl FnOnce(&WorkflowRun)) -> MemoryStore {
    let store = MemoryStore::new();
    let run = runlore::workflow("test").store(store.clone()).start().unwrap();
    work(&run);
    run.finish().unwrap();
    store
}

fn is(task: &TaskObject, what: &str) -> bool {
    task.subtype.as_deref() == Some(what) || task.activity_id.as_deref() == Some(what)
}

/// How many tasks of a kind there are; each must be inside one of the kinds around it, in its time.
fn count(tasks: &[TaskObject], what: &str, around: &[&str]) -> usize {
    let all: Vec<_> = tasks.iter().filter(|task| is(task, what)).collect();
    for task in &all {
        assert_eq!(task.status, Some(Status::Finished));
        let parent = task.parent_task_id.as_ref();
        let parent = parent.map(|id| tasks.iter().find(|task| task.task_id == *id).unwrap());
        match parent {
            Some(parent) => {
                assert!(
                    around.iter().any(|around| is(parent, around)),
                    "{what} in {}",
                    parent.name()
                );
                assert!(task.duration_ns <= parent.duration_ns);
            }
            None => assert!(around.is_empty(), "{what} is in nothing"),
        }
    }
    all.len()
}

#[test]
fn the_mlp_learns_and_is_one_tree() {
    let store = recorded(|run| {
        let loss = mlp::train(run, 3).unwrap();
        assert!(loss < 0.5, "{loss}");
    });
    let tasks = store.tasks();
    assert_eq!(count(&tasks, "epochs_loop_iteration", &[]), 3);
    assert_eq!(count(&tasks, "train_batch_iteration", &["epochs_loop_iteration"]), 3 * 14);
    assert_eq!(count(&tasks, "validation_batch_iteration", &["epochs_loop_iteration"]), 3 * 2);
    let batches = ["train_batch_iteration", "validation_batch_iteration"];
    assert_eq!(count(&tasks, "parent_forward", &batches), 3 * 16);
    assert_eq!(count(&tasks, "child_forward", &["parent_forward"]), 3 * 16 * 3);
    assert_eq!(tasks.len(), 3 * (1 + 16 + 16 + 48));
    let fc1 = tasks.iter().find(|task| is(task, "fc1")).unwrap();
    let used = fc1.used.as_ref().unwrap();
    assert_eq!(used["tensor"]["shape"], json!([64, 2]));
    assert_eq!((&used["in_features"], &used["out_features"]), (&json!(2), &json!(32)));
    let model = store.workflows().into_iter().find(|it| it.name.as_deref() == Some("Mlp")).unwrap();
    let profile = &model.custom_metadata.as_ref().unwrap()["model_profile"];
    assert_eq!((&profile["params"], &profile["max_width"]), (&json!(129), &json!(32)));
}

#[test]
fn the_cnn_learns_and_is_one_tree() {
    let store = recorded(|run| {
        let right = cnn::train(run, 3).unwrap();
        assert!(right > 0.9, "{right}");
    });
    let tasks = store.tasks();
    assert_eq!(count(&tasks, "epochs_loop_iteration", &[]), 3);
    assert_eq!(count(&tasks, "train_batch_iteration", &["epochs_loop_iteration"]), 3 * 10);
    assert_eq!(count(&tasks, "accuracy", &["epochs_loop_iteration"]), 3);
    assert_eq!(count(&tasks, "parent_forward", &["train_batch_iteration", "accuracy"]), 3 * 11);
    assert_eq!(count(&tasks, "child_forward", &["parent_forward"]), 3 * 11 * 5);
    assert_eq!(tasks.len(), 3 * (1 + 10 + 1 + 11 + 55));
    let accuracy = tasks.iter().find(|task| is(task, "accuracy")).unwrap();
    let used = accuracy.used.as_ref().unwrap();
    assert_eq!(used["images"]["shape"], json!([32, 1, 12, 12]));
    assert_eq!(used["labels"]["dtype"], "u32");
}

#[test]
fn tensors_are_told_by_facts() {
    let tensor = Tensor::new(&[[0.0_f64, 2.0], [0.0, f64::NAN]], &Device::Cpu).unwrap();
    let facts = Probe(&tensor).facts();
    assert_eq!((&*facts.shape, &*facts.dtype, &*facts.device), (&[2, 2][..], "f64", "cpu"));
    assert_eq!((facts.nbytes, facts.numel, facts.is_sparse), (32, 4, false));
    let told = Probe(&tensor).statistics().unwrap();
    assert_eq!((told.density, told.min, told.max, told.nan_count), (0.5, Some(0.0), Some(2.0), 1));
    assert_eq!(facts.requires_grad, Some(false));
    let variable = Var::from_tensor(&tensor).unwrap();
    assert_eq!(Probe(&variable).facts().requires_grad, Some(true));
    assert!(!Probe(&&variable).is_asynchronous());
}

#[test]
fn a_tensor_argument_never_leaves_its_data() {
    #[telemetry_task(tensors = runlore_candle)]
    fn with_facts(x: &Tensor, scale: f64) -> candle_core::Result<Tensor> {
        x * scale
    }
    #[telemetry_task]
    fn without(x: Tensor) {
        drop(x);
    }
    let x = Tensor::new(&[123.5_f32, 124.5], &Device::Cpu).unwrap();
    let store = recorded(|_| {
        with_facts(&x, 2.0).unwrap();
        without(x.clone());
    });
    for task in store.tasks() {
        // Elsewhere numbers of the machine are, which may be any.
        let text = serde_json::to_string(&(&task.used, &task.generated)).unwrap();
        assert!(!text.contains("123.5") && !text.contains("247"), "{text}");
    }
    let task = store.tasks().into_iter().find(|task| is(task, "with_facts")).unwrap();
    assert_eq!(task.used.as_ref().unwrap()["scale"], 2.0);
    assert_eq!(task.generated.as_ref().unwrap()["value"]["shape"], json!([2]));
}

#[test]
fn modules_are_recorded_inside_a_sequential() {
    let variables = VarMap::new();
    let vb = VarBuilder::from_varmap(&variables, DType::F32, &Device::Cpu);
    let model = seq()
        .add(Instrumented::new("fc1", linear(2, 4, vb.pp("fc1")).unwrap()))
        .add(Activation::Relu)
        .add(Instrumented::new("fc2", linear(4, 1, vb.pp("fc2")).unwrap()));
    let model = Instrumented::new("Sequence", model);
    let store = recorded(|_| {
        model.forward(&Tensor::zeros((3, 2), DType::F32, &Device::Cpu).unwrap()).unwrap();
        assert!(model.forward(&Tensor::zeros((3, 5), DType::F32, &Device::Cpu).unwrap()).is_err());
    });
    let tasks = store.tasks();
    let of = |name: &str| tasks.iter().filter(|task| is(task, name)).collect::<Vec<_>>();
    assert_eq!((of("Sequence").len(), of("fc1").len(), of("fc2").len()), (2, 2, 1));
    assert_eq!(of("fc1")[0].subtype.as_deref(), Some("child_forward"));
    assert_eq!(of("fc1")[0].custom_metadata.as_ref().unwrap()["module"], "Linear");
    let failed = of("Sequence").into_iter().filter(|task| task.status == Some(Status::Error));
    assert_eq!(failed.count(), 1);
}
