//! The examples train, and their records form one tree: run, epoch, batch, pass, layer.

#[cfg(feature = "train")]
use burn::optim::AdamConfig;
use burn::tensor::{Bool, Device, Int, Tensor};
#[cfg(feature = "train")]
use burn::train::metric::LossMetric;
#[cfg(feature = "train")]
use burn::train::renderer::CliMetricsRenderer;
#[cfg(feature = "train")]
use burn::train::{ExecutionStrategy, Learner, MultiDeviceOptim, SupervisedTraining};
use runlore::ml::Inspect;
use runlore::record::{Status, TaskObject};
use runlore::store::MemoryStore;
use runlore::{WorkflowRun, telemetry_task};
use runlore_burn::Probe;
#[cfg(feature = "train")]
use runlore_burn::Training;
use serde_json::json;

#[path = "../examples/cnn.rs"]
mod cnn;
#[path = "../examples/mlp.rs"]
mod mlp;
#[cfg(feature = "train")]
#[path = "../examples/supervised.rs"]
mod supervised;

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
        assert_eq!(task.ended_early, None);
        let parent = task.parent_task_id.as_ref();
        let parent = parent.map(|id| tasks.iter().find(|task| task.task_id == *id).unwrap());
        match parent {
            Some(parent) => {
                assert!(
                    around.iter().any(|around| is(parent, around)),
                    "{what} in {}",
                    parent.name()
                );
                // Metrics come later than their batch.
                assert!(task.duration_ns <= parent.duration_ns || is(task, "metrics"));
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
    assert_eq!(profile["trainable_params"], 129);
    assert_eq!(profile["modules"]["fc1"]["type"], "Linear");
    assert_eq!(profile["n_modules"], 4, "{profile:#}");
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
    assert_eq!(used["labels"]["device"], "cpu");
}

/// Burn's loops are its own, and it tells metrics late, from another thread.
#[cfg(feature = "train")]
#[test]
fn a_training_by_burn_is_one_tree() {
    let directory = tempfile::tempdir().unwrap();
    let store = recorded(|run| supervised::train(run, directory.path(), 2).unwrap());
    let tasks = store.tasks();
    assert_eq!(count(&tasks, "epochs_loop_iteration", &[]), 2);
    assert_eq!(count(&tasks, "train_batch_iteration", &["epochs_loop_iteration"]), 2 * 14);
    assert_eq!(count(&tasks, "valid_batch_iteration", &["epochs_loop_iteration"]), 2 * 2);
    let batches = ["train_batch_iteration", "valid_batch_iteration"];
    assert_eq!(count(&tasks, "parent_forward", &batches), 2 * 16);
    assert_eq!(count(&tasks, "child_forward", &["parent_forward"]), 2 * 16 * 3);
    assert_eq!(count(&tasks, "train_metrics", &["train_batch_iteration"]), 2 * 14);
    assert_eq!(count(&tasks, "valid_metrics", &["valid_batch_iteration"]), 2 * 2);
    assert_eq!(count(&tasks, "train_epoch_metrics", &["epochs_loop_iteration"]), 2);
    assert_eq!(count(&tasks, "valid_epoch_metrics", &["epochs_loop_iteration"]), 2);
    for metrics in tasks.iter().filter(|task| is(task, "train_metrics")) {
        let parent = metrics.parent_task_id.as_ref().unwrap();
        let batch = tasks.iter().find(|task| task.task_id == *parent).unwrap();
        let index = batch.used.as_ref().unwrap()["i"].as_u64().unwrap();
        assert_eq!(metrics.used.as_ref().unwrap()["iteration"], index + 1);
        assert!(metrics.generated.as_ref().unwrap()["Loss"].is_f64());
        assert_eq!(batch.custom_metadata.as_ref().unwrap()["items"], 64);
    }
}

/// A training by burn, as `set` says it.
#[cfg(feature = "train")]
fn train_by_burn(
    run: &WorkflowRun,
    directory: &std::path::Path,
    set: impl FnOnce(SupervisedTraining<supervised::Mlp>) -> SupervisedTraining<supervised::Mlp>,
) {
    let device = Device::flex().autodiff();
    let training = Training::new(run);
    let supervised = SupervisedTraining::new(
        directory,
        training.loader("train", supervised::loader(0..256, &device)),
        training.loader("valid", supervised::loader(256..320, &Device::flex())),
    );
    let learner = Learner::new(supervised::Mlp::new(&device), AdamConfig::new().init(), 0.01);
    let supervised = supervised
        .metrics((LossMetric::new(),))
        .with_metric_logger(training.logger())
        .with_application_logger(None)
        .renderer(Box::new(CliMetricsRenderer::new()));
    set(supervised).launch(learner);
    training.finish();
}

/// The epochs that metrics are of, and that of the record they are below.
#[cfg(feature = "train")]
fn epochs_of_metrics(tasks: &[TaskObject], name: &str) -> Vec<(u64, Option<u64>)> {
    let number = |task: &TaskObject| task.used.as_ref()?.get("epoch")?.as_u64();
    let parent = |task: &TaskObject| {
        let id = task.parent_task_id.clone()?;
        tasks.iter().find(|task| task.task_id == id)
    };
    let metrics = tasks.iter().filter(|task| is(task, name));
    metrics
        .map(|task| {
            let above = parent(task).map(|it| {
                if is(it, "iteration") && number(it).is_none() { parent(it).unwrap() } else { it }
            });
            (number(task).unwrap(), above.and_then(number))
        })
        .collect()
}

#[cfg(feature = "train")]
#[test]
fn a_training_goes_on_from_a_checkpoint() {
    let directory = tempfile::tempdir().unwrap();
    recorded(|run| {
        train_by_burn(run, directory.path(), |it| it.with_default_checkpointers().num_epochs(2));
    });
    let store = recorded(|run| {
        train_by_burn(run, directory.path(), |it| {
            it.with_default_checkpointers().checkpoint(2).num_epochs(4)
        });
    });
    let tasks = store.tasks();
    let epochs = tasks.iter().filter(|task| is(task, "epochs_loop_iteration"));
    let numbers: Vec<_> = epochs.map(|task| task.used.as_ref().unwrap()["epoch"].clone()).collect();
    assert_eq!(numbers, [3, 4]);
    assert_eq!(count(&tasks, "train_metrics", &["train_batch_iteration"]), 2 * 4);
    assert_eq!(epochs_of_metrics(&tasks, "train_epoch_metrics"), [(3, Some(3)), (4, Some(4))]);
    assert_eq!(epochs_of_metrics(&tasks, "valid_epoch_metrics"), [(3, Some(3)), (4, Some(4))]);
}

/// With several devices burn splits the loader and trains on threads of its own.
#[cfg(feature = "train")]
#[test]
fn devices_share_an_epoch() {
    let directory = tempfile::tempdir().unwrap();
    let device = Device::flex().autodiff();
    let devices = vec![device.clone(), device];
    let strategy = ExecutionStrategy::multi(devices, MultiDeviceOptim::OptimMainDevice);
    let store = recorded(|run| {
        train_by_burn(run, directory.path(), |it| {
            it.with_training_strategy(strategy.into()).num_epochs(2)
        });
    });
    let tasks = store.tasks();
    assert_eq!(count(&tasks, "epochs_loop_iteration", &[]), 2);
    assert_eq!(count(&tasks, "train_batch_iteration", &["epochs_loop_iteration"]), 2 * 4);
    assert_eq!(count(&tasks, "train_metrics", &["epochs_loop_iteration"]), 2 * 4);
    assert_eq!(count(&tasks, "valid_metrics", &["valid_batch_iteration"]), 2);
    assert_eq!(count(&tasks, "valid_epoch_metrics", &["epochs_loop_iteration"]), 2);
    let batches = tasks.iter().filter(|task| is(task, "train_batch_iteration"));
    let parts: Vec<_> =
        batches.map(|task| task.used.as_ref().unwrap()["part"].to_string()).collect();
    assert_eq!(parts.iter().filter(|part| *part == "[0,128]").count(), 4, "{parts:?}");
}

#[test]
fn a_model_is_the_same_with_and_without_autodiff() {
    use burn::nn::LinearConfig;
    let on = |device: &Device| {
        let layer = LinearConfig::new(2, 3).init(device);
        // Parameters are made when they are first used.
        layer.forward(Tensor::<2>::zeros([1, 2], device));
        runlore_burn::profile(&layer)
    };
    let (plain, learning) = (on(&Device::flex()), on(&Device::flex().autodiff()));
    assert_eq!(plain.id(), learning.id());
    assert_eq!((plain.trainable_params(), learning.trainable_params()), (9, 9));
}

#[test]
fn tensors_are_told_by_facts() {
    let device = Device::flex();
    let tensor = Tensor::<2>::from_data([[0.0, 2.0], [0.0, f32::NAN]], &device);
    let facts = Probe(&tensor).facts();
    assert_eq!((&*facts.shape, &*facts.dtype, &*facts.device), (&[2, 2][..], "f32", "cpu"));
    assert_eq!((facts.nbytes, facts.numel, facts.requires_grad), (16, 4, Some(false)));
    let told = Probe(&tensor).statistics().unwrap();
    assert_eq!((told.density, told.min, told.max, told.nan_count), (0.5, Some(0.0), Some(2.0), 1));
    let flags = Tensor::<1, Bool>::from_data([true, false], &device);
    assert_eq!(Probe(&&flags).statistics().unwrap().density, 0.5);
    assert_eq!(Probe(&Tensor::<1, Int>::from_data([1, 2, 3], &device)).facts().numel, 3);
    let leaf = Tensor::<1>::zeros([2], &device.autodiff()).require_grad();
    assert_eq!(Probe(&leaf).facts().requires_grad, Some(true));
    assert_eq!(Probe(&leaf).facts().device, "cpu");
    assert!(!Probe(&leaf).is_asynchronous());
}

#[test]
fn a_tensor_argument_never_leaves_its_data() {
    #[telemetry_task(tensors = runlore_burn)]
    fn with_facts(x: &Tensor<1>, scale: f64) -> Tensor<1> {
        x.clone() * scale
    }
    #[telemetry_task(tensors = runlore_burn)]
    fn pair(x: &[Tensor<1>]) -> (Tensor<1>, Option<Tensor<2>>) {
        (x[0].clone(), Some(x[1].clone().unsqueeze()))
    }
    #[telemetry_task]
    fn without(x: Tensor<1>, more: Vec<Tensor<1>>) {
        drop((x, more));
    }
    let x = Tensor::<1>::from_data([123.5, 124.5], &Device::flex());
    let store = recorded(|_| {
        with_facts(&x, 2.0);
        pair(&[x.clone(), x.clone()]);
        without(x.clone(), vec![x.clone()]);
    });
    for task in store.tasks() {
        // Elsewhere numbers of the machine are, which may be any.
        let text = serde_json::to_string(&(&task.used, &task.generated)).unwrap();
        assert!(!text.contains("123.5") && !text.contains("247"), "{text}");
    }
    let task = store.tasks().into_iter().find(|task| is(task, "with_facts")).unwrap();
    assert_eq!(task.used.as_ref().unwrap()["scale"], 2.0);
    assert_eq!(task.generated.as_ref().unwrap()["value"]["shape"], json!([2]));
    let task = store.tasks().into_iter().find(|task| is(task, "pair")).unwrap();
    let shapes = |value: &serde_json::Value| {
        value.as_array().unwrap().iter().map(|facts| facts["shape"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(shapes(&task.used.as_ref().unwrap()["x"]), [json!([2]), json!([2])]);
    assert_eq!(shapes(&task.generated.as_ref().unwrap()["value"]), [json!([2]), json!([1, 2])]);
}
