//! Tensors in records.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::pipeline::settings;
use crate::record::{Encoder, Inspect, TensorFacts};

/// What is recorded of a tensor; none where its own code panics.
pub(crate) fn inspect(tensor: &(impl Inspect + ?Sized)) -> Option<TensorFacts> {
    catch_unwind(AssertUnwindSafe(|| {
        let mut facts = tensor.facts();
        if settings().instrumentation.ml.tensor_statistics {
            facts.statistics = tensor.statistics();
        }
        facts
    }))
    .ok()
}

/// Writes what is recorded of a tensor.
pub fn encode_tensor(tensor: &(impl Inspect + ?Sized), to: &mut Encoder<'_>) {
    match inspect(tensor) {
        Some(facts) => to.serialize(&facts),
        None => to.type_name("a tensor whose facts panicked"),
    }
}
