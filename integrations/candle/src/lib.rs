//! [Runlore](runlore) for [candle](candle_core): which epoch was slow and why, how long each batch waited for its data, and what
//! each layer did.
//!
//! ```
//! use candle_core::{DType, Device, Module, Result, Tensor};
//! use candle_nn::{Activation, Linear, VarBuilder, VarMap, linear};
//! use runlore::telemetry_forward;
//!
//! struct Mlp { fc1: Linear, act: Activation, fc2: Linear }
//!
//! impl Module for Mlp {
//!     #[telemetry_forward(tensors = runlore_candle)]
//!     fn forward(&self, xs: &Tensor) -> Result<Tensor> {
//!         xs.apply(&self.fc1)?.apply(&self.act)?.apply(&self.fc2)
//!     }
//! }
//!
//! # fn main() -> Result<()> {
//! let variables = VarMap::new();
//! let vb = VarBuilder::from_varmap(&variables, DType::F32, &Device::Cpu);
//! let model = Mlp { fc1: linear(2, 16, vb.pp("fc1"))?, act: Activation::Relu, fc2: linear(16, 1, vb.pp("fc2"))? };
//!
//! # let store = runlore::store::MemoryStore::new();
//! let run = runlore::workflow("train").store(store.clone()).start().unwrap();
//! run.register_model(&runlore_candle::profile("Mlp", &variables)).unwrap();
//! model.forward(&Tensor::zeros((8, 2), DType::F32, &Device::Cpu)?)?;
//! run.finish().unwrap();
//!
//! assert_eq!(store.tasks().len(), 4); // the pass, and three layers
//! # Ok(())
//! # }
//! ```
//!
//! * `tensors = runlore_candle` in `#[telemetry_forward]` and `#[telemetry_task]`: tensors are recorded by their facts, never by
//!   their data.
//! * [`Instrumented`]: a module that records its own passes, where no attribute can stand.
//! * [`profile`]: what a model is made of, by its `VarMap`.
//!
//! Loops are those of [`runlore::ml`]. This crate follows candle 0.11.

mod instrumented;
mod profile;
#[doc(hidden)]
pub mod tensors;

pub use instrumented::Instrumented;
pub use profile::profile;
pub use tensors::Probe;

#[doc(hidden)]
pub mod __private {
    pub use crate::tensors;
}

/// The guide's examples run too.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/training-candle.md")]
struct Guide;
