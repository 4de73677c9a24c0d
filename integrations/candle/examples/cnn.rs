//! A small convolutional network learns to tell horizontal stripes from vertical ones, on the CPU, and tells at the end how that went.
//!
//! ```sh
//! cargo run --example cnn
//! ```

use anyhow::Result;
use candle_core::{D, DType, Device, Module, Tensor};
use candle_nn::{
    Activation, AdamW, Conv2d, Conv2dConfig, Linear, Optimizer, VarBuilder, VarMap, conv2d, linear,
    loss,
};
use runlore::ml::Summary;
use runlore::store::jsonl;
use runlore::{WorkflowRun, telemetry_forward, telemetry_task};

const SIDE: usize = 12;
const BATCH: usize = 32;
const BATCHES: usize = 10;

struct Cnn {
    conv1: Conv2d,
    conv2: Conv2d,
    act: Activation,
    head: Linear,
}

impl Cnn {
    #[allow(clippy::needless_pass_by_value, reason = "as all modules of candle are made")]
    fn new(vb: VarBuilder<'_>) -> candle_core::Result<Self> {
        let config = Conv2dConfig { padding: 1, stride: 2, ..Conv2dConfig::default() };
        Ok(Self {
            conv1: conv2d(1, 8, 3, config, vb.pp("conv1"))?,
            conv2: conv2d(8, 8, 3, config, vb.pp("conv2"))?,
            act: Activation::Relu,
            head: linear(8 * SIDE / 4 * SIDE / 4, 2, vb.pp("head"))?,
        })
    }
}

impl Module for Cnn {
    #[telemetry_forward(tensors = runlore_candle)]
    fn forward(&self, images: &Tensor) -> candle_core::Result<Tensor> {
        let maps = self.act.forward(&self.conv1.forward(images)?)?;
        let maps = self.act.forward(&self.conv2.forward(&maps)?)?;
        self.head.forward(&maps.flatten_from(1)?)
    }
}

/// Images of stripes with some noise, and which way the stripes go.
fn load(batch: usize) -> candle_core::Result<(Tensor, Tensor)> {
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
        labels.push(u32::from(is_vertical));
    }
    let images = Tensor::from_vec(images, (BATCH, 1, SIDE, SIDE), &Device::Cpu)?;
    Ok((images, Tensor::from_vec(labels, BATCH, &Device::Cpu)?))
}

/// The share of the images that the model gets right.
#[telemetry_task(skip(model), tensors = runlore_candle)]
fn accuracy(model: &Cnn, images: &Tensor, labels: &Tensor) -> candle_core::Result<f32> {
    let guesses = model.forward(images)?.argmax(D::Minus1)?;
    guesses.eq(labels)?.to_dtype(DType::F32)?.mean_all()?.to_scalar()
}

/// Trains for so many epochs, and returns the accuracy at the end.
pub(crate) fn train(run: &WorkflowRun, epochs: u32) -> Result<f32> {
    let variables = VarMap::new();
    let model = Cnn::new(VarBuilder::from_varmap(&variables, DType::F32, &Device::Cpu))?;
    let mut optimizer = AdamW::new_lr(variables.all_vars(), 0.01)?;
    run.register_model(&runlore_candle::profile("Cnn", &variables))?;

    let mut right = 0.0;
    for epoch in run.epochs(0..epochs) {
        for (step, batch) in epoch.batches("train", (0..BATCHES).map(load)) {
            let (images, labels) = batch?;
            let loss = loss::cross_entropy(&model.forward(&images)?, &labels)?;
            optimizer.backward_step(&loss)?;
            step.items(BATCH);
            step.generated("loss", loss.to_scalar::<f32>()?);
        }
        let (images, labels) = load(BATCHES)?;
        right = accuracy(&model, &images, &labels)?;
        epoch.generated("accuracy", right);
    }
    Ok(right)
}

#[allow(dead_code, reason = "the tests train without it")]
fn main() -> Result<()> {
    let run = runlore::workflow("candle-cnn").start()?;
    train(&run, 5)?;
    let id = run.id().to_owned();
    run.finish()?;

    let recorded = jsonl::load("runlore")?;
    let own = recorded.tasks.iter().filter(|task| task.workflow_id.as_ref() == Some(&id));
    print!("{}", Summary::of(own));
    Ok(())
}
