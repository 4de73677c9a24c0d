//! A multilayer perceptron learns y = sin a + b² on the CPU, and tells at the end how that went.
//!
//! ```sh
//! cargo run --example mlp
//! ```

use std::sync::Arc;

use anyhow::Result;
use burn::data::dataloader::batcher::Batcher;
use burn::data::dataloader::{DataLoader, DataLoaderBuilder};
use burn::data::dataset::InMemDataset;
use burn::module::Module;
use burn::nn::loss::{MseLoss, Reduction};
use burn::nn::{Gelu, Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::{Device, Tensor, TensorData};
use runlore::ml::Summary;
use runlore::store::jsonl;
use runlore::{WorkflowRun, telemetry_forward};

const BATCH: usize = 64;

#[derive(Module, Debug)]
struct Mlp {
    fc1: Linear,
    act: Gelu,
    fc2: Linear,
}

impl Mlp {
    fn new(device: &Device) -> Self {
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
}

/// A row: a, b and y.
type Row = [f32; 3];

/// Rows from a low-discrepancy sequence.
fn rows(range: std::ops::Range<u32>) -> Vec<Row> {
    let row = |row: u32| {
        let (a, b) = ((row as f32 * 0.618_034).fract(), (row as f32 * 0.754_877_7).fract());
        let (a, b) = (a * 4.0 - 2.0, b * 2.0 - 1.0);
        [a, b, a.sin() + b * b]
    };
    range.map(row).collect()
}

struct Columns;

impl Batcher<Row, (Tensor<2>, Tensor<2>)> for Columns {
    fn batch(&self, rows: Vec<Row>, device: &Device) -> (Tensor<2>, Tensor<2>) {
        let x: Vec<f32> = rows.iter().flat_map(|[a, b, _]| [*a, *b]).collect();
        let y: Vec<f32> = rows.iter().map(|[_, _, y]| *y).collect();
        let tensor = |values, columns| {
            Tensor::from_data(TensorData::new(values, [rows.len(), columns]), device)
        };
        (tensor(x, 2), tensor(y, 1))
    }
}

fn loader(rows: Vec<Row>, device: &Device) -> Arc<dyn DataLoader<(Tensor<2>, Tensor<2>)>> {
    let loader = DataLoaderBuilder::new(Columns).batch_size(BATCH).set_device(device.clone());
    loader.build(InMemDataset::new(rows))
}

/// Trains for so many epochs, and returns the last loss.
pub(crate) fn train(run: &WorkflowRun, epochs: u32) -> Result<f32> {
    let device = Device::flex().autodiff();
    device.seed(7);
    let mut model = Mlp::new(&device);
    let mut optimizer = AdamConfig::new().init();
    let (training, validation) = (loader(rows(0..896), &device), loader(rows(896..1024), &device));
    run.register_model(&runlore_burn::profile(&model))?;

    let mut last = f32::NAN;
    for epoch in run.epochs(0..epochs) {
        for (step, batch) in epoch.batches("train", training.iter()) {
            let (x, y) = batch?;
            step.items(x.dims()[0]);
            let loss = MseLoss::new().forward(model.forward(x), y, Reduction::Mean);
            step.generated("loss", loss.clone().into_scalar::<f32>());
            let gradients = GradientsParams::from_grads(loss.backward(), &model);
            model = optimizer.step(0.01, model, gradients);
        }
        for (step, batch) in epoch.batches("validation", validation.iter()) {
            let (x, y) = batch?;
            last = MseLoss::new().forward(model.forward(x), y, Reduction::Mean).into_scalar();
            step.generated("loss", last);
        }
        epoch.generated("val_loss", last);
    }
    Ok(last)
}

#[allow(dead_code, reason = "the tests train without it")]
fn main() -> Result<()> {
    let run = runlore::workflow("burn-mlp").start()?;
    train(&run, 10)?;
    let id = run.id().to_owned();
    run.finish()?;

    let recorded = jsonl::load("runlore")?;
    let own = recorded.tasks.iter().filter(|task| task.workflow_id.as_ref() == Some(&id));
    print!("{}", Summary::of(own));
    Ok(())
}
