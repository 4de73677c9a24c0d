//! The part of the API of the crate `tch` that the guide uses, without libtorch: tensors have a
//! shape and no data.

use std::fmt;

/// An error of libtorch.
#[derive(Debug)]
pub struct TchError;

impl fmt::Display for TchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a number")
    }
}

impl std::error::Error for TchError {}

/// A tensor.
#[derive(Debug, Clone)]
pub struct Tensor {
    size: Vec<i64>,
    requires_grad: bool,
}

/// The type of a tensor's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// 32-bit floats.
    Float,
}

/// Where a tensor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Device {
    /// The processor.
    Cpu,
    /// A graphics processor, by its index.
    Cuda(usize),
}

/// Functions of CUDA.
#[derive(Debug, Clone, Copy)]
pub enum Cuda {}

impl Cuda {
    /// Waits for a device.
    pub fn synchronize(_device_index: i64) {}
}

impl Kind {
    /// The size of an element.
    pub fn elt_size_in_bytes(self) -> usize {
        4
    }
}

impl Device {
    /// Whether it is a graphics processor.
    pub fn is_cuda(self) -> bool {
        matches!(self, Self::Cuda(_))
    }
}

impl Tensor {
    fn new(size: &[i64]) -> Self {
        Self { size: size.to_vec(), requires_grad: false }
    }

    /// The size along each dimension.
    pub fn size(&self) -> Vec<i64> {
        self.size.clone()
    }

    /// The type of the elements.
    pub fn kind(&self) -> Kind {
        Kind::Float
    }

    /// Where it is.
    pub fn device(&self) -> Device {
        Device::Cpu
    }

    /// Whether only some elements are stored.
    pub fn is_sparse(&self) -> bool {
        false
    }

    /// Whether gradients are computed for it.
    pub fn requires_grad(&self) -> bool {
        self.requires_grad
    }

    /// The rectified tensor.
    #[must_use]
    pub fn relu(&self) -> Self {
        self.clone()
    }

    /// The loss.
    #[must_use]
    pub fn cross_entropy_for_logits(&self, _targets: &Tensor) -> Self {
        Self { size: Vec::new(), requires_grad: true }
    }
}

impl TryFrom<&Tensor> for f64 {
    type Error = TchError;

    fn try_from(tensor: &Tensor) -> Result<Self, Self::Error> {
        if tensor.size.is_empty() { Ok(0.5) } else { Err(TchError) }
    }
}

/// Layers and optimizers.
pub mod nn {
    use std::borrow::Borrow;

    use std::fmt;
    use std::marker::PhantomData;
    use std::ops::Div;

    use super::{Device, TchError, Tensor};

    /// A part of a model.
    pub trait Module: fmt::Debug + Send {
        /// Computes the output.
        fn forward(&self, xs: &Tensor) -> Tensor;
    }

    /// The variables of a model.
    #[derive(Debug)]
    pub struct VarStore(());

    /// A name in a store.
    #[derive(Debug)]
    pub struct Path<'a>(PhantomData<&'a VarStore>);

    impl VarStore {
        /// Creates a store.
        pub fn new(_device: Device) -> Self {
            Self(())
        }

        /// The root of all names.
        pub fn root(&self) -> Path<'_> {
            Path(PhantomData)
        }
    }

    impl<'a, T: ToString> Div<T> for Path<'a> {
        type Output = Path<'a>;

        fn div(self, _: T) -> Path<'a> {
            self
        }
    }

    /// Options of a linear layer.
    #[derive(Debug, Clone, Copy, Default)]
    pub struct LinearConfig(());

    /// A linear layer.
    #[derive(Debug)]
    pub struct Linear(i64);

    /// Creates a linear layer.
    pub fn linear<'a, T: Borrow<Path<'a>>>(_: T, _: i64, out_dim: i64, _: LinearConfig) -> Linear {
        Linear(out_dim)
    }

    impl Module for Linear {
        fn forward(&self, xs: &Tensor) -> Tensor {
            Tensor { size: vec![xs.size[0], self.0], requires_grad: true }
        }
    }

    /// Layers one after another.
    #[derive(Debug)]
    pub struct Sequential(Vec<Box<dyn Module>>);

    /// Creates an empty sequence.
    pub fn seq() -> Sequential {
        Sequential(Vec::new())
    }

    struct Function<F>(F);

    impl<F> fmt::Debug for Function<F> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Function")
        }
    }

    impl<F: Fn(&Tensor) -> Tensor + Send> Module for Function<F> {
        fn forward(&self, xs: &Tensor) -> Tensor {
            self.0(xs)
        }
    }

    impl Sequential {
        /// Appends a layer.
        #[must_use]
        #[allow(clippy::should_implement_trait)]
        pub fn add<M: Module + 'static>(mut self, layer: M) -> Self {
            self.0.push(Box::new(layer));
            self
        }

        /// Appends a function.
        #[must_use]
        pub fn add_fn<F: Fn(&Tensor) -> Tensor + Send + 'static>(self, function: F) -> Self {
            self.add(Function(function))
        }
    }

    impl Module for Sequential {
        fn forward(&self, xs: &Tensor) -> Tensor {
            self.0.iter().fold(xs.clone(), |xs, layer| layer.forward(&xs))
        }
    }

    /// The optimizer Adam.
    #[derive(Debug, Clone, Copy, Default)]
    pub struct Adam(());

    /// A running optimizer.
    #[derive(Debug)]
    pub struct Optimizer(());

    /// Options of an optimizer.
    pub trait OptimizerConfig: Sized {
        /// Creates the optimizer.
        ///
        /// # Errors
        ///
        /// Never.
        fn build(self, _: &VarStore, _lr: f64) -> Result<Optimizer, TchError> {
            Ok(Optimizer(()))
        }
    }

    impl OptimizerConfig for Adam {}

    impl Optimizer {
        /// Takes a step.
        pub fn backward_step(&mut self, _loss: &Tensor) {}
    }
}

/// Data of images.
pub mod vision {
    /// Images and their labels.
    pub mod dataset {
        use crate::Tensor;

        /// Images and their labels.
        #[derive(Debug)]
        pub struct Dataset(pub(crate) ());

        /// Batches of images and labels.
        #[derive(Debug)]
        pub struct Iter2(Vec<i64>);

        impl Dataset {
            /// The batches to train on.
            pub fn train_iter(&self, batch_size: i64) -> Iter2 {
                Iter2(vec![batch_size; 2])
            }
        }

        impl Iter2 {
            /// Mixes the images.
            pub fn shuffle(&mut self) -> &mut Self {
                self
            }
        }

        impl Iterator for Iter2 {
            type Item = (Tensor, Tensor);

            fn next(&mut self) -> Option<Self::Item> {
                self.0.pop().map(|rows| (Tensor::new(&[rows, 784]), Tensor::new(&[rows])))
            }
        }
    }

    /// Handwritten digits.
    pub mod mnist {
        use std::path::Path;

        use super::super::TchError;
        use super::dataset::Dataset;

        /// Reads the images.
        ///
        /// # Errors
        ///
        /// Never.
        pub fn load_dir<T: AsRef<Path>>(_: T) -> Result<Dataset, TchError> {
            Ok(Dataset(()))
        }
    }
}
