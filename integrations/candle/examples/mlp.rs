//! A multilayer perceptron learns y = sin a + b² on the CPU, and tells at the end how that went.
//!
//! ```sh
//! cargo run --example mlp
//! ```

use anyhow::Result;
use candle_core::{DType, Device, Module, Tensor};
use candle_nn::{Activation, AdamW, Linear, Optimizer, VarBuilder, VarMap, linear, loss};
use runlore::ml::Summary;
use runlore::store::jsonl;
use runlore::{WorkflowRun, telemetry_forward};

const ROWS: u32 = 1024;
const BATCH: u32 = 64;

struct Mlp {
    fc1: Linear,
    act: Activation,
    fc2: Linear,
}

impl Mlp {
    #[allow(clippy::needless_pass_by_value, reason = "as all modules of candle are made")]
    fn new(vb: VarBuilder<'_>) -> candle_core::Result<Self> {
        let (fc1, fc2) = (linear(2, 32, vb.pp("fc1"))?, linear(32, 1, vb.pp("fc2"))?);
        Ok(Self { fc1, act: Activation::Gelu, fc2 })
    }
}

impl Module for Mlp {
    #[telemetry_forward(tensors = runlore_candle)]
    fn forward(&self, xs: &Tensor) -> candle_core::Result<Tensor> {
        xs.apply(&self.fc1)?.apply(&self.act)?.apply(&self.fc2)
    }
}

/// The rows of one batch: a and b from a low-discrepancy sequence, and y.
fn load(batch: u32) -> candle_core::Result<(Tensor, Tensor)> {
    let rows = batch * BATCH..(batch + 1) * BATCH;
    let row = |row: u32| {
        let (a, b) = ((row as f32 * 0.618_034).fract(), (row as f32 * 0.754_877_7).fract());
        (a * 4.0 - 2.0, b * 2.0 - 1.0)
    };
    let x: Vec<f32> = rows.clone().map(row).flat_map(|(a, b)| [a, b]).collect();
    let y: Vec<f32> = rows.map(row).map(|(a, b)| a.sin() + b * b).collect();
    let x = Tensor::from_vec(x, (BATCH as usize, 2), &Device::Cpu)?;
    Ok((x, Tensor::from_vec(y, (BATCH as usize, 1), &Device::Cpu)?))
}

/// Trains for so many epochs, and returns the last loss.
pub(crate) fn train(run: &WorkflowRun, epochs: u32) -> Result<f32> {
    let variables = VarMap::new();
    let model = Mlp::new(VarBuilder::from_varmap(&variables, DType::F32, &Device::Cpu))?;
    let mut optimizer = AdamW::new_lr(variables.all_vars(), 0.01)?;
    run.register_model(&runlore_candle::profile("Mlp", &variables))?;

    let (training, validation) = (0..ROWS / BATCH - 2, ROWS / BATCH - 2..ROWS / BATCH);
    let mut last = f32::NAN;
    for epoch in run.epochs(0..epochs) {
        for (step, batch) in epoch.batches("train", training.clone().map(load)) {
            let (x, y) = batch?;
            let loss = loss::mse(&model.forward(&x)?, &y)?;
            optimizer.backward_step(&loss)?;
            step.items(x.dim(0)?);
            step.generated("loss", loss.to_scalar::<f32>()?);
        }
        for (step, batch) in epoch.batches("validation", validation.clone().map(load)) {
            let (x, y) = batch?;
            last = loss::mse(&model.forward(&x)?, &y)?.to_scalar()?;
            step.generated("loss", last);
        }
        epoch.generated("val_loss", last);
    }
    Ok(last)
}

#[allow(dead_code, reason = "the tests train without it")]
fn main() -> Result<()> {
    let run = runlore::workflow("candle-mlp").start()?;
    train(&run, 10)?;
    let id = run.id().to_owned();
    run.finish()?;

    let recorded = jsonl::load("runlore")?;
    let own = recorded.tasks.iter().filter(|task| task.workflow_id.as_ref() == Some(&id));
    print!("{}", Summary::of(own));
    Ok(())
}
