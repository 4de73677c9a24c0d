//! Where `#[telemetry_forward]` may stand, and bodies that it leaves as they are.
#![deny(warnings, missing_docs, rust_2018_idioms, unreachable_pub, unused_qualifications)]
#![deny(clippy::all, clippy::pedantic)]
#![forbid(unsafe_code)]

use runlore::telemetry_forward;

/// A tensor.
#[derive(Debug, Clone)]
pub struct Tensor(f32);

impl Tensor {
    fn apply<L: Layer>(&self, layer: &L) -> Result<Self, String> {
        layer.forward(self)
    }
}

/// A layer.
pub trait Layer {
    /// A pass.
    ///
    /// # Errors
    /// When it fails.
    fn forward(&self, x: &Tensor) -> Result<Tensor, String>;

    /// Two passes.
    ///
    /// # Errors
    /// When one fails.
    #[telemetry_forward]
    fn twice(&self, x: &Tensor) -> Result<Tensor, String> {
        self.forward(&self.forward(x)?)
    }
}

/// Doubles.
#[derive(Debug)]
pub struct Double;

impl Layer for Double {
    fn forward(&self, x: &Tensor) -> Result<Tensor, String> {
        Ok(Tensor(2.0 * x.0))
    }
}

/// Counts its passes.
#[derive(Debug, Default)]
pub struct Counter(u32);

impl Counter {
    fn forward_t(&mut self, x: Tensor, train: bool) -> Tensor {
        self.0 += u32::from(train);
        x
    }
}

/// A model.
#[derive(Debug)]
pub struct Model<const N: usize> {
    layers: [Double; N],
    first: Option<Double>,
    counter: Counter,
}

impl<const N: usize> Model<N> {
    /// By reference, in a loop, by an index, through an option.
    ///
    /// # Errors
    /// When a layer fails.
    #[telemetry_forward(training = false)]
    pub fn forward(&self, x: &Tensor) -> Result<Tensor, String> {
        if x.0 > 1000.0 {
            return Ok(x.clone());
        }
        let mut y = self.first.as_ref().ok_or("no first layer")?.forward(x)?;
        for layer in &self.layers {
            y = layer.forward(&y)?;
        }
        let y = self.layers.iter().try_fold(y, |y, layer| layer.forward(&y))?;
        y.apply(&self.layers[0])?.apply(&Double)
    }

    /// With a receiver and an argument that change.
    #[telemetry_forward(name = "counted", sync = "task")]
    pub fn forward_mut(&mut self, mut x: Tensor, train: bool) -> Tensor {
        x.0 += 1.0;
        self.counter.forward_t(Tensor(x.0), train)
    }

    /// By value.
    #[must_use]
    #[telemetry_forward]
    pub fn forward_once(self, x: Tensor) -> impl Sized {
        (self.counter.0, x)
    }
}

/// Without a model.
///
/// # Errors
/// Never.
#[telemetry_forward]
pub fn functional(x: &Tensor, layers: &[Double]) -> Result<Tensor, String> {
    match layers {
        [] => Ok(x.clone()),
        [only] => only.forward(x),
        [first, .., last] => last.forward(&first.forward(x)?),
    }
}

#[test]
fn runs() -> Result<(), String> {
    let mut model = Model { layers: [Double, Double], first: Some(Double), counter: Counter(0) };
    assert!((model.forward(&Tensor(1.0))?.0 - 128.0).abs() < f32::EPSILON);
    assert!((model.forward_mut(Tensor(1.0), true).0 - 2.0).abs() < f32::EPSILON);
    assert_eq!(model.counter.0, 1);
    functional(&Tensor(1.0), &[Double, Double])?;
    Double.twice(&Tensor(1.0))?;
    _ = model.forward_once(Tensor(0.0));
    Ok(())
}
