//! The same perceptron as in `mlp`, trained by burn's own `SupervisedTraining`, whose loops nobody sees: the loaders tell where epochs and
//! batches begin, and a logger what the metrics were.
//!
//! ```sh
//! cargo run --example supervised --features train
//! ```

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use burn::data::dataloader::batcher::Batcher;
use burn::data::dataloader::{DataLoader, DataLoaderBuilder};
use burn::data::dataset::InMemDataset;
use burn::module::Module;
use burn::nn::loss::{MseLoss, Reduction};
use burn::nn::{Gelu, Linear, LinearConfig};
use burn::optim::AdamConfig;
use burn::tensor::{Device, Tensor, TensorData};
use burn::train::metric::LossMetric;
use burn::train::renderer::CliMetricsRenderer;
use burn::train::{
    InferenceStep, Learner, RegressionOutput, SupervisedTraining, TrainOutput, TrainStep,
};
use runlore::ml::Summary;
use runlore::store::jsonl;
use runlore::{WorkflowRun, telemetry_forward};
use runlore_burn::Training;

#[derive(Module, Debug)]
pub(crate) struct Mlp {
    fc1: Linear,
    act: Gelu,
    fc2: Linear,
}

impl Mlp {
    pub(crate) fn new(device: &Device) -> Self {
        Self {
            fc1: LinearConfig::new(2, 32).init(device),
            act: Gelu::new(),
            fc2: LinearConfig::new(32, 1).init(device),
        }
    }

    #[telemetry_forward(tensors = runlore_burn)]
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        self.fc2.forward(self.act.forward(self.fc1.forward(x)))
    }

    fn regress(&self, (x, targets): Pairs) -> RegressionOutput {
        let output = self.forward(x);
        let loss = MseLoss::new().forward(output.clone(), targets.clone(), Reduction::Mean);
        RegressionOutput { loss, output, targets }
    }
}

impl TrainStep for Mlp {
    type Input = Pairs;
    type Output = RegressionOutput;

    fn step(&self, batch: Pairs) -> TrainOutput<RegressionOutput> {
        let item = self.regress(batch);
        TrainOutput::new(self, item.loss.backward(), item)
    }
}

impl InferenceStep for Mlp {
    type Input = Pairs;
    type Output = RegressionOutput;

    fn step(&self, batch: Pairs) -> RegressionOutput {
        self.regress(batch)
    }
}

/// What goes in, and what should come out.
pub(crate) type Pairs = (Tensor<2>, Tensor<2>);

struct Columns;

impl Batcher<[f32; 3], Pairs> for Columns {
    fn batch(&self, rows: Vec<[f32; 3]>, device: &Device) -> Pairs {
        let x: Vec<f32> = rows.iter().flat_map(|[a, b, _]| [*a, *b]).collect();
        let y: Vec<f32> = rows.iter().map(|[_, _, y]| *y).collect();
        let tensor = |values, columns| {
            Tensor::from_data(TensorData::new(values, [rows.len(), columns]), device)
        };
        (tensor(x, 2), tensor(y, 1))
    }
}

pub(crate) fn loader(range: std::ops::Range<u32>, device: &Device) -> Arc<dyn DataLoader<Pairs>> {
    let row = |row: u32| {
        let (a, b) = ((row as f32 * 0.618_034).fract(), (row as f32 * 0.754_877_7).fract());
        let (a, b) = (a * 4.0 - 2.0, b * 2.0 - 1.0);
        [a, b, a.sin() + b * b]
    };
    let loader = DataLoaderBuilder::new(Columns).batch_size(64).set_device(device.clone());
    loader.build(InMemDataset::new(range.map(row).collect()))
}

/// Trains for so many epochs; burn keeps its own files in `directory`.
pub(crate) fn train(run: &WorkflowRun, directory: &Path, epochs: usize) -> Result<()> {
    let device = Device::flex().autodiff();
    device.seed(7);
    let model = Mlp::new(&device);
    run.register_model(&runlore_burn::profile(&model))?;

    let training = Training::new(run);
    SupervisedTraining::new(
        directory,
        training.loader("train", loader(0..896, &device)),
        training.loader("valid", loader(896..1024, &Device::flex())),
    )
    .metrics((LossMetric::new(),))
    .with_metric_logger(training.logger())
    .with_progress_logger(training.logger())
    .renderer(Box::new(CliMetricsRenderer::new()))
    .num_epochs(epochs)
    .launch(Learner::new(model, AdamConfig::new().init(), 0.01));
    training.finish();
    Ok(())
}

#[allow(dead_code, reason = "the tests train without it")]
fn main() -> Result<()> {
    let run = runlore::workflow("burn-supervised").start()?;
    train(&run, Path::new("burn-files"), 5)?;
    let id = run.id().to_owned();
    run.finish()?;

    let recorded = jsonl::load("runlore")?;
    let own = recorded.tasks.iter().filter(|task| task.workflow_id.as_ref() == Some(&id));
    print!("{}", Summary::of(own));
    Ok(())
}
