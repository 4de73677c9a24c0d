//! What is told of candle's tensors and modules, and how the attributes find it out.

use candle_core::{DType, DeviceLocation, Tensor, Var};
use candle_nn::{Conv1d, Conv2d, Embedding, Linear};
use runlore::ml::tensors::Tensors;
use runlore::ml::{Attributes, Inspect, TensorFacts, TensorStatistics};
use serde_json::Value;

/// A tensor or module of candle, for [`Inspect`] and [`Attributes`].
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use runlore::ml::Inspect;
/// use runlore_candle::Probe;
///
/// let tensor = Tensor::zeros((2, 3), DType::F32, &Device::Cpu)?;
/// assert_eq!(Probe(&tensor).facts().shape, [2, 3]);
/// # Ok::<(), candle_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Probe<'a, T: ?Sized>(pub &'a T);

impl Inspect for Probe<'_, Tensor> {
    fn facts(&self) -> TensorFacts {
        let dtype = self.0.dtype();
        let device = match self.0.device().location() {
            DeviceLocation::Cpu => "cpu".to_owned(),
            DeviceLocation::Cuda { gpu_id } => format!("cuda:{gpu_id}"),
            DeviceLocation::Metal { gpu_id } => format!("metal:{gpu_id}"),
        };
        let mut facts =
            TensorFacts::new(self.0.dims(), dtype.as_str(), dtype.size_in_bytes()).on(device);
        facts.requires_grad = Some(self.0.track_op());
        facts
    }

    fn statistics(&self) -> Option<TensorStatistics> {
        let values = self.0.flatten_all().and_then(|flat| flat.to_dtype(DType::F64));
        let values = values.and_then(|flat| flat.to_vec1::<f64>()).ok()?;
        Some(TensorStatistics::of(values))
    }

    fn is_asynchronous(&self) -> bool {
        !self.0.device().is_cpu()
    }

    fn wait(&self) {
        // A device that fails tells so at the next operation.
        _ = self.0.device().synchronize();
    }

    fn wait_later(&self) -> Option<Box<dyn FnOnce() + Send>> {
        let device = self.0.device().clone();
        Some(Box::new(move || _ = device.synchronize()))
    }
}

macro_rules! behind {
    ($($type:ty: |$it:ident| $tensor:expr;)*) => {
        $(impl Inspect for Probe<'_, $type> {
            fn facts(&self) -> TensorFacts {
                let $it = self.0;
                Probe::<Tensor>($tensor).facts()
            }

            fn statistics(&self) -> Option<TensorStatistics> {
                let $it = self.0;
                Probe::<Tensor>($tensor).statistics()
            }

            fn is_asynchronous(&self) -> bool {
                let $it = self.0;
                Probe::<Tensor>($tensor).is_asynchronous()
            }

            fn wait(&self) {
                let $it = self.0;
                Probe::<Tensor>($tensor).wait();
            }

            fn wait_later(&self) -> Option<Box<dyn FnOnce() + Send>> {
                let $it = self.0;
                Probe::<Tensor>($tensor).wait_later()
            }
        })*
    };
}

behind! {
    &Tensor: |it| it;
    Var: |it| it.as_tensor();
    &Var: |it| it.as_tensor();
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

/// A dimension of a weight; none where it has no such.
fn dimension(weight: &Tensor, at: usize) -> Value {
    weight.dims().get(at).copied().into()
}

attributes! {
    Linear: |layer| vec![
        ("in_features", dimension(layer.weight(), 1)),
        ("out_features", dimension(layer.weight(), 0)),
        ("bias", layer.bias().is_some().into()),
    ];
    Conv1d: |layer| vec![
        ("in_channels", dimension(layer.weight(), 1)),
        ("out_channels", dimension(layer.weight(), 0)),
        ("kernel_size", dimension(layer.weight(), 2)),
        ("stride", layer.config().stride.into()),
        ("padding", layer.config().padding.into()),
    ];
    Conv2d: |layer| vec![
        ("in_channels", dimension(layer.weight(), 1)),
        ("out_channels", dimension(layer.weight(), 0)),
        ("kernel_size", dimension(layer.weight(), 2)),
        ("stride", layer.config().stride.into()),
        ("padding", layer.config().padding.into()),
    ];
    Embedding: |layer| vec![
        ("num_embeddings", dimension(layer.embeddings(), 0)),
        ("embedding_dim", dimension(layer.embeddings(), 1)),
    ];
}

runlore::__tensors!(Probe, Tensors, Inspect);
runlore::__probe_levels!(Probe, Tensors, Inspect, Attributes);
