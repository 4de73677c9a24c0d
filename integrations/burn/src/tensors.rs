//! What is told of burn's tensors and modules, and how the attributes find it out.

use burn::nn::conv::{Conv1d, Conv2d};
use burn::nn::{Dropout, Embedding, Linear};
use burn::tensor::{Bool, Device, Float, Int, Tensor};
use runlore::ml::tensors::Tensors;
use runlore::ml::{Attributes, Inspect, TensorFacts, TensorStatistics};
use serde_json::Value;

/// A tensor or module of burn, for [`Inspect`] and [`Attributes`].
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use runlore::ml::Inspect;
/// use runlore_burn::Probe;
///
/// let tensor = Tensor::<2>::zeros([2, 3], &Device::flex());
/// assert_eq!(Probe(&tensor).facts().shape, [2, 3]);
/// ```
#[derive(Debug)]
pub struct Probe<'a, T: ?Sized>(pub &'a T);

/// The device's name; those that compute on the processor are all `cpu`.
fn name(device: &Device) -> String {
    let text = format!("{device:?}");
    if ["Flex", "NdArray", "Cpu"].iter().any(|cpu| text.contains(cpu)) {
        return "cpu".to_owned();
    }
    text.trim_start_matches("Device<").trim_end_matches('>').to_lowercase()
}

macro_rules! kinds {
    ($($kind:ty: |$tensor:ident| $requires_grad:expr;)*) => {
        $(impl<const D: usize> Inspect for Probe<'_, Tensor<D, $kind>> {
            fn facts(&self) -> TensorFacts {
                let $tensor = self.0;
                let dtype = $tensor.dtype();
                let facts = TensorFacts::new(&$tensor.dims(), dtype.name(), dtype.size());
                let mut facts = facts.on(name(&$tensor.device()));
                facts.requires_grad = $requires_grad;
                facts
            }

            fn statistics(&self) -> Option<TensorStatistics> {
                Some(TensorStatistics::of(self.0.to_data().iter::<f64>()))
            }

            fn is_asynchronous(&self) -> bool {
                name(&self.0.device()) != "cpu"
            }

            fn wait(&self) {
                // A device that fails tells so at the next operation.
                _ = self.0.device().sync();
            }

            fn wait_later(&self) -> Option<Box<dyn FnOnce() + Send>> {
                let device = self.0.device();
                Some(Box::new(move || _ = device.sync()))
            }
        }

        impl<const D: usize> Inspect for Probe<'_, &Tensor<D, $kind>> {
            fn facts(&self) -> TensorFacts {
                Probe(*self.0).facts()
            }

            fn statistics(&self) -> Option<TensorStatistics> {
                Probe(*self.0).statistics()
            }

            fn is_asynchronous(&self) -> bool {
                Probe(*self.0).is_asynchronous()
            }

            fn wait(&self) {
                Probe(*self.0).wait();
            }

            fn wait_later(&self) -> Option<Box<dyn FnOnce() + Send>> {
                Probe(*self.0).wait_later()
            }
        })*
    };
}

kinds! {
    Float: |tensor| Some(tensor.is_require_grad());
    Int: |tensor| Some(false);
    Bool: |tensor| Some(false);
}

macro_rules! attributes {
    ($($type:ty: |$module:ident| $attributes:expr;)*) => {
        $(impl Attributes for Probe<'_, $type> {
            fn attributes(&self) -> Vec<(&'static str, Value)> {
                let $module = self.0;
                $attributes
            }
        }

        impl Attributes for Probe<'_, &$type> {
            fn attributes(&self) -> Vec<(&'static str, Value)> {
                Probe(*self.0).attributes()
            }
        })*
    };
}

attributes! {
    Linear: |layer| {
        let [inputs, outputs] = layer.weight.lazy_shape().dims::<2>();
        vec![
            ("in_features", inputs.into()),
            ("out_features", outputs.into()),
            ("bias", layer.bias.is_some().into()),
        ]
    };
    Conv1d: |layer| {
        let [outputs, inputs, kernel] = layer.weight.lazy_shape().dims::<3>();
        vec![
            ("in_channels", inputs.into()),
            ("out_channels", outputs.into()),
            ("kernel_size", kernel.into()),
            ("stride", layer.stride.into()),
        ]
    };
    Conv2d: |layer| {
        let [outputs, inputs, ..] = layer.weight.lazy_shape().dims::<4>();
        vec![
            ("in_channels", inputs.into()),
            ("out_channels", outputs.into()),
            ("kernel_size", layer.kernel_size.to_vec().into()),
            ("stride", layer.stride.to_vec().into()),
        ]
    };
    Embedding: |layer| {
        let [entries, width] = layer.weight.lazy_shape().dims::<2>();
        vec![("num_embeddings", entries.into()), ("embedding_dim", width.into())]
    };
    Dropout: |layer| vec![("p", layer.prob.into())];
}

runlore::__tensors!(Probe, Tensors, Inspect);
runlore::__probe_levels!(Probe, Tensors, Inspect, Attributes);
