//! A module that records its own forward passes.

use std::ops::Deref;

use candle_core::{Module, Result, Tensor};
use runlore::ml::Forward;

use crate::tensors::Probe;

/// A module whose forward passes are recorded: the pass of a model, or inside one that of a layer. It is a module itself.
///
/// For what `#[telemetry_forward]` cannot reach: the parts of a `Sequential`, closures, models of other crates.
///
/// ```
/// use candle_core::{DType, Device, Module, Result, Tensor};
/// use candle_nn::{Activation, VarBuilder, VarMap, linear, seq};
/// use runlore_candle::Instrumented;
///
/// # fn main() -> Result<()> {
/// let variables = VarMap::new();
/// let vb = VarBuilder::from_varmap(&variables, DType::F32, &Device::Cpu);
/// let model = seq()
///     .add(Instrumented::new("fc1", linear(2, 16, vb.pp("fc1"))?))
///     .add(Activation::Relu)
///     .add(Instrumented::new("fc2", linear(16, 1, vb.pp("fc2"))?));
/// let model = Instrumented::new("Mlp", model);
/// # let store = runlore::store::MemoryStore::new();
/// # let run = runlore::workflow("doc").store(store.clone()).start().unwrap();
/// model.forward(&Tensor::zeros((8, 2), DType::F32, &Device::Cpu)?)?;
/// # run.finish().unwrap();
/// # assert_eq!(store.tasks().len(), 3);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Instrumented<M> {
    name: String,
    module: M,
    waits: bool,
}

impl<M> Instrumented<M> {
    /// A module that is recorded under this name.
    pub fn new(name: impl Into<String>, module: M) -> Self {
        Self { name: name.into(), module, waits: false }
    }

    /// Waits for the device before a pass ends, so that its duration is all of it.
    #[must_use]
    pub fn sync(mut self) -> Self {
        self.waits = true;
        self
    }

    /// The module inside.
    pub fn into_inner(self) -> M {
        self.module
    }
}

impl<M> Deref for Instrumented<M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.module
    }
}

impl<M: Module> Module for Instrumented<M> {
    fn forward(&self, xs: &Tensor) -> Result<Tensor> {
        let pass = Forward::model(&self.name).module(std::any::type_name::<M>(), true, |_| {});
        let pass = if self.waits { pass.sync() } else { pass };
        let mut pass = pass.input("tensor", &Probe(xs)).start();
        let ys = self.module.forward(xs);
        match &ys {
            Ok(ys) => pass.output(&Probe(ys)),
            Err(error) => pass.fail(error),
        }
        pass.finish();
        ys
    }
}
