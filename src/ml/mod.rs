//! Records machine learning in any framework: epochs, batches, forward passes and layers as tasks.
//!
//! ```
//! # use runlore::store::MemoryStore;
//! # fn train_step(model: &mut f64, batch: Result<f64, std::fmt::Error>) -> Result<f64, std::fmt::Error> { Ok(*model - batch?) }
//! # fn validate(model: &f64) -> Result<f64, std::fmt::Error> { Ok(*model) }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (store, mut model) = (MemoryStore::new(), 1.0);
//! # let loader = [Ok(0.5), Ok(0.25)];
//! let run = runlore::workflow("train").store(store.clone()).start()?;
//! for epoch in run.epochs(0..10) {
//!     for (step, batch) in epoch.batches("train", loader) {
//!         let loss = train_step(&mut model, batch)?;
//!         step.generated("loss", loss);
//!     }
//!     epoch.generated("val_loss", validate(&model)?);
//! }
//! run.finish()?;
//!
//! let tasks = store.tasks();
//! assert_eq!(tasks.len(), 10 + 20);
//! let batch = tasks.iter().find(|task| task.activity_id.as_deref() == Some("train_batch_iteration")).unwrap();
//! assert_eq!(batch.used.as_ref().unwrap()["batch"], 0);
//! assert!(batch.custom_metadata.as_ref().unwrap()["wait_ns"].is_u64());
//! # Ok(())
//! # }
//! ```
//!
//! Any iterator works, with or without a known size, and iterates exactly as the bare iterator
//! would. Each iteration is a task that ends exactly once, however the loop is left.
//! `instrumentation.ml` in the [settings](runlore_core::settings) controls how much of it is
//! recorded; with `~` the loop runs as if it were bare.
//!
//! [`#[telemetry_forward]`](macro@crate::telemetry_forward) or [`Forward`] records a model's
//! forward passes and the layers in them. Tensors are recorded by their facts, see [`Inspect`].
//! [`ModelProfile`](struct@ModelProfile) describes a model's structure, and [`Summary`] a training in a few lines. The
//! crates `runlore-burn` and `runlore-candle` integrate those frameworks.
//!
//! The loops of [`WorkflowRun`] are also available as functions, for code without access to the
//! run.

mod bar;
mod epoch;
mod forward;
mod loops;
mod mode;
#[doc(hidden)]
pub mod probe;
mod profile;
mod shared;
mod step;
mod summary;

use std::panic::Location;

pub use epoch::{Epoch, Epochs};
pub use forward::{Forward, ForwardPass};
pub use loops::Iterations;
#[doc(hidden)]
pub use probe as tensors;
pub use profile::{Attributes, ModelProfile, Parameter, Profiled};
#[doc(hidden)]
pub use profile::{levels as profile_levels, member_path, short_type_name};
pub use step::{Attached, Detached, Place, Step};
pub use summary::Summary;

pub use runlore_core::record::{Inspect, TensorFacts, TensorStatistics};
pub use runlore_macros::ModelProfile;

use crate::instrument::WorkflowRun;
use mode::Kind;
use runlore_core::context::Context;

/// Creates a loop over epochs in the current workflow.
///
/// ```
/// for epoch in runlore::ml::epochs(0..3) {
///     for (step, batch) in epoch.batches("train", [0.1, 0.2]) {
///         step.generated("loss", batch);
///     }
/// }
/// ```
#[track_caller]
pub fn epochs<I: IntoIterator>(epochs: I) -> Epochs<I::IntoIter> {
    Epochs::new(epochs.into_iter(), Context::NONE, Location::caller())
}

/// Creates a loop of any kind in the current workflow. Its iterations are recorded like any task,
/// unless [`mode`](Iterations::mode) sets another way.
///
/// ```
/// for (step, fold) in runlore::ml::iterate("fold", ["a", "b"]) {
///     step.used("fold", fold);
/// }
/// ```
#[track_caller]
pub fn iterate<I: IntoIterator>(name: &str, items: I) -> Iterations<I::IntoIter> {
    Iterations::new(Kind::Other, name, items.into_iter(), Context::NONE, Location::caller())
}

impl WorkflowRun {
    /// Creates a loop over epochs. See [`runlore::ml`](crate::ml).
    #[track_caller]
    pub fn epochs<I: IntoIterator>(&self, epochs: I) -> Epochs<I::IntoIter> {
        Epochs::new(epochs.into_iter(), self.context(), Location::caller())
    }

    /// Creates a loop of any kind, such as one over folds. See [`runlore::ml`](crate::ml). Its
    /// iterations are recorded like any task, unless [`mode`](Iterations::mode) sets another way.
    ///
    /// ```
    /// # let store = runlore::store::MemoryStore::new();
    /// # let run = runlore::workflow("doc").store(store.clone()).start()?;
    /// for (step, fold) in run.iterate("fold", ["a", "b"]) {
    ///     step.used("fold", fold);
    /// }
    /// # run.finish()?;
    /// # assert_eq!(store.tasks()[1].activity_id.as_deref(), Some("fold_iteration"));
    /// # Ok::<(), runlore::Error>(())
    /// ```
    #[track_caller]
    pub fn iterate<I: IntoIterator>(&self, name: &str, items: I) -> Iterations<I::IntoIter> {
        Iterations::new(Kind::Other, name, items.into_iter(), self.context(), Location::caller())
    }
}
