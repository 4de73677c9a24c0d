//! A small convolutional network learns to tell horizontal stripes from vertical ones, on the CPU, and tells at the end how that went.
//!
//! ```sh
//! cargo run --example cnn
//! ```

use anyhow::Result;
use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Linear, LinearConfig, PaddingConfig2d, Relu};
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::{Device, Int, Tensor, TensorData};
use runlore::ml::Summary;
use runlore::store::jsonl;
use runlore::{WorkflowRun, telemetry_forward, telemetry_task};

const SIDE: usize = 12;
const BATCH: usize = 32;
const BATCHES: usize = 10;

#[derive(Module, Debug)]
struct Cnn {
    conv1: Conv2d,
    conv2: Conv2d,
    act: Relu,
    head: Linear,
}

impl Cnn {
    fn new(device: &Device) -> Self {
        let conv = |channels| {
            let config = Conv2dConfig::new(channels, [3, 3]).with_stride([2, 2]);
            config.with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1)).init(device)
        };
        Self {
            conv1: conv([1, 8]),
            conv2: conv([8, 8]),
            act: Relu::new(),
            head: LinearConfig::new(8 * SIDE / 4 * SIDE / 4, 2).init(device),
        }
    }

    #[telemetry_forward(tensors = runlore_burn)]
    fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let maps = self.act.forward(self.conv1.forward(images));
        let maps = self.act.forward(self.conv2.forward(maps));
        self.head.forward(maps.flatten::<2>(1, 3))
    }
}

/// Images of stripes with some noise, and which way the stripes go.
fn load(batch: usize, device: &Device) -> (Tensor<4>, Tensor<1, Int>) {
    let mut seed = batch as u32 + 1;
    let mut noise = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) as f32 / (1 << 24) as f32 - 0.5
    };
    let (mut images, mut labels) = (Vec::new(), Vec::new());
    for image in 0..BATCH {
        let is_vertical = (image + batch).is_multiple_of(2);
        for row in 0..SIDE {
            for column in 0..SIDE {
                let along = if is_vertical { column } else { row };
                images.push(if (along + image).is_multiple_of(3) { 1.0 } else { 0.0 } + noise());
            }
        }
        labels.push(i64::from(is_vertical));
    }
    let images = TensorData::new(images, [BATCH, 1, SIDE, SIDE]);
    let labels = TensorData::new(labels, [BATCH]);
    (Tensor::from_data(images, device), Tensor::from_data(labels, device))
}

/// The share of the images that the model gets right.
#[telemetry_task(skip(model), tensors = runlore_burn)]
fn accuracy(model: &Cnn, images: Tensor<4>, labels: Tensor<1, Int>) -> f32 {
    let guesses = model.forward(images).argmax(1).flatten::<1>(0, 1);
    guesses.equal(labels).float().mean().into_scalar()
}

/// Trains for so many epochs, and returns the accuracy at the end.
pub(crate) fn train(run: &WorkflowRun, epochs: u32) -> Result<f32> {
    let device = Device::flex().autodiff();
    device.seed(7);
    let mut model = Cnn::new(&device);
    let mut optimizer = AdamConfig::new().init();
    let loss_of = CrossEntropyLossConfig::new().init(&device);
    run.register_model(&runlore_burn::profile(&model))?;

    let mut right = 0.0;
    for epoch in run.epochs(0..epochs) {
        let loader = (0..BATCHES).map(|batch| load(batch, &device));
        for (step, (images, labels)) in epoch.batches("train", loader) {
            let loss = loss_of.forward(model.forward(images), labels);
            step.items(BATCH);
            step.generated("loss", loss.clone().into_scalar::<f32>());
            let gradients = GradientsParams::from_grads(loss.backward(), &model);
            model = optimizer.step(0.01, model, gradients);
        }
        let (images, labels) = load(BATCHES, &device);
        right = accuracy(&model, images, labels);
        epoch.generated("accuracy", right);
    }
    Ok(right)
}

#[allow(dead_code, reason = "the tests train without it")]
fn main() -> Result<()> {
    let run = runlore::workflow("burn-cnn").start()?;
    train(&run, 5)?;
    let id = run.id().to_owned();
    run.finish()?;

    let recorded = jsonl::load("runlore")?;
    let own = recorded.tasks.iter().filter(|task| task.workflow_id.as_ref() == Some(&id));
    print!("{}", Summary::of(own));
    Ok(())
}
