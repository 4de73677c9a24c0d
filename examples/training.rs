//! Training without a framework: two words in the loops, an attribute on the forward pass, and a summary at the end.
//!
//! ```sh
//! cargo run --example training
//! ```

use runlore::ml::{Attributes, Inspect, ModelProfile, Parameter, Summary, TensorFacts};
use runlore::store::jsonl;
use runlore::{WorkflowRun, telemetry_forward};
use serde_json::Value;

const BATCH: usize = 64;
const BATCHES: usize = 16;

/// Rows of numbers.
pub(crate) struct Matrix {
    columns: usize,
    data: Vec<f32>,
}

impl Matrix {
    fn rows(&self) -> usize {
        self.data.len() / self.columns
    }
}

/// Wherever a matrix goes in or comes out, its facts are recorded.
impl Inspect for Matrix {
    fn facts(&self) -> TensorFacts {
        TensorFacts::new(&[self.rows(), self.columns], "f32", 4).on("cpu")
    }
}

struct Linear {
    inputs: usize,
    outputs: usize,
    /// A row of weights for each output, its bias last.
    weights: Vec<f32>,
}

impl Linear {
    fn new(inputs: usize, outputs: usize) -> Self {
        let spread = |at: usize| ((at as f32 * 0.618_034).fract() - 0.5) * 1.2;
        Self { inputs, outputs, weights: (0..outputs * (inputs + 1)).map(spread).collect() }
    }

    fn forward(&self, x: &Matrix) -> Matrix {
        let mut data = Vec::with_capacity(x.rows() * self.outputs);
        for row in x.data.chunks(self.inputs) {
            for weights in self.weights.chunks(self.inputs + 1) {
                let (bias, weights) = weights.split_last().expect("a bias");
                data.push(bias + row.iter().zip(weights).map(|(x, w)| x * w).sum::<f32>());
            }
        }
        Matrix { columns: self.outputs, data }
    }

    /// Learns from the slope of the loss at each output, and returns it at each input.
    fn backward(&mut self, x: &Matrix, slopes: &Matrix, rate: f32) -> Matrix {
        let mut back = vec![0.0; x.data.len()];
        let mut steps = vec![0.0; self.weights.len()];
        let rows = x.data.chunks(self.inputs).zip(slopes.data.chunks(self.outputs));
        for ((x, slopes), back) in rows.zip(back.chunks_mut(self.inputs)) {
            let outputs = slopes.iter().zip(self.weights.chunks(self.inputs + 1));
            for ((slope, weights), steps) in outputs.zip(steps.chunks_mut(self.inputs + 1)) {
                for at in 0..self.inputs {
                    steps[at] += slope * x[at];
                    back[at] += slope * weights[at];
                }
                steps[self.inputs] += slope;
            }
        }
        let rate = rate / x.rows() as f32;
        self.weights.iter_mut().zip(&steps).for_each(|(weight, step)| *weight -= rate * step);
        Matrix { columns: self.inputs, data: back }
    }
}

impl Attributes for Linear {
    fn attributes(&self) -> Vec<(&'static str, Value)> {
        vec![("in_features", self.inputs.into()), ("out_features", self.outputs.into())]
    }
}

struct Tanh;

impl Tanh {
    fn forward(&self, x: &Matrix) -> Matrix {
        Matrix { columns: x.columns, data: x.data.iter().map(|x| x.tanh()).collect() }
    }
}

struct Mlp {
    fc1: Linear,
    act: Tanh,
    fc2: Linear,
}

impl Mlp {
    fn profile(&self) -> ModelProfile {
        let mut model = ModelProfile::new("Mlp");
        model.module("act", "Tanh");
        for (name, layer) in [("fc1", &self.fc1), ("fc2", &self.fc2)] {
            let shape = [layer.outputs, layer.inputs + 1];
            model.module(name, "Linear");
            model.attributes(name, layer);
            model.parameter(&format!("{name}.weights"), Parameter::new(&shape, "f32", 4));
        }
        model
    }

    /// What comes out, and what was in between.
    #[telemetry_forward]
    fn forward(&self, x: &Matrix) -> (Matrix, Matrix) {
        let hidden = self.act.forward(&self.fc1.forward(x));
        let y = self.fc2.forward(&hidden);
        (y, hidden)
    }

    fn train(&mut self, x: &Matrix, targets: &[f32], rate: f32) -> f32 {
        let (y, hidden) = self.forward(x);
        let misses: Vec<f32> = y.data.iter().zip(targets).map(|(y, target)| y - target).collect();
        let loss = misses.iter().map(|miss| miss * miss).sum::<f32>() / misses.len() as f32;
        let slopes = Matrix { columns: 1, data: misses.iter().map(|miss| 2.0 * miss).collect() };
        let mut back = self.fc2.backward(&hidden, &slopes, rate);
        let bends = hidden.data.iter().map(|y| 1.0 - y * y);
        back.data.iter_mut().zip(bends).for_each(|(slope, bend)| *slope *= bend);
        self.fc1.backward(x, &back, rate);
        loss
    }
}

/// Points a, b, and y = sin a + b² for each.
fn load(batch: usize) -> (Matrix, Vec<f32>) {
    let points = (batch * BATCH..(batch + 1) * BATCH).map(|row| {
        let (a, b) = ((row as f32 * 0.618_034).fract(), (row as f32 * 0.754_877_7).fract());
        (a * 4.0 - 2.0, b * 2.0 - 1.0)
    });
    let targets = points.clone().map(|(a, b)| a.sin() + b * b).collect();
    (Matrix { columns: 2, data: points.flat_map(|(a, b)| [a, b]).collect() }, targets)
}

/// Trains for so many epochs, and returns the last loss.
pub(crate) fn train(run: &WorkflowRun, epochs: u32) -> runlore::Result<f32> {
    let mut model = Mlp { fc1: Linear::new(2, 32), act: Tanh, fc2: Linear::new(32, 1) };
    run.register_model(&model.profile())?;
    let mut last = f32::NAN;
    for epoch in run.epochs(0..epochs) {
        for (step, (x, targets)) in epoch.batches("train", (0..BATCHES).map(load)) {
            last = model.train(&x, &targets, 0.05);
            step.items(x.rows());
            step.generated("loss", last);
        }
        epoch.generated("last_loss", last);
    }
    Ok(last)
}

#[allow(dead_code, reason = "whoever only measures it does without")]
fn main() -> runlore::Result<()> {
    let run = runlore::workflow("training").start()?;
    train(&run, 20)?;
    let id = run.id().to_owned();
    run.finish()?;

    let recorded = jsonl::load("runlore")?;
    let own = recorded.tasks.iter().filter(|task| task.workflow_id.as_ref() == Some(&id));
    print!("{}", Summary::of(own));
    Ok(())
}
