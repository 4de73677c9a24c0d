//! [Runlore](runlore) for [burn]: which epoch was slow and why, how long each batch waited for its data, and what each layer
//! did.
//!
//! ```
//! use burn::module::Module;
//! use burn::nn::{Linear, LinearConfig, Relu};
//! use burn::tensor::{Device, Tensor};
//! use runlore::telemetry_forward;
//!
//! #[derive(Module, Debug)]
//! struct Mlp { fc1: Linear, act: Relu, fc2: Linear }
//!
//! impl Mlp {
//!     #[telemetry_forward(tensors = runlore_burn)]
//!     fn forward(&self, x: Tensor<2>) -> Tensor<2> {
//!         self.fc2.forward(self.act.forward(self.fc1.forward(x)))
//!     }
//! }
//!
//! let device = Device::flex();
//! let model = Mlp {
//!     fc1: LinearConfig::new(2, 16).init(&device),
//!     act: Relu::new(),
//!     fc2: LinearConfig::new(16, 1).init(&device),
//! };
//! # let store = runlore::store::MemoryStore::new();
//! let run = runlore::workflow("train").store(store.clone()).start()?;
//! run.register_model(&runlore_burn::profile(&model))?;
//! model.forward(Tensor::zeros([8, 2], &device));
//! run.finish()?;
//!
//! assert_eq!(store.tasks().len(), 4); // the pass, and three layers
//! # Ok::<(), runlore::Error>(())
//! ```
//!
//! * `tensors = runlore_burn` in `#[telemetry_forward]` and `#[telemetry_task]`: tensors are recorded by their facts, never by
//!   their data.
//! * [`profile`]: what a model is made of.
//! * [`Training`]: for `SupervisedTraining`, which has the loops inside: loaders that record epochs and batches where they
//!   happen, and with the feature `train` a logger for metrics.
//!
//! Loops of your own are those of [`runlore::ml`]. This crate follows burn 0.22.

mod loader;
mod profile;
#[doc(hidden)]
pub mod tensors;
#[cfg(feature = "train")]
mod train;

pub use loader::Training;
pub use profile::profile;
pub use tensors::Probe;
#[cfg(feature = "train")]
pub use train::TrainingLogger;

#[doc(hidden)]
pub mod __private {
    pub use crate::tensors;
}

/// The guide's examples run too.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/training-burn.md")]
struct Guide;
