//! Facts about tensors of any framework. Tensor data is never recorded.

use serde::Serialize;

/// A tensor that can describe itself.
///
/// If you implement this trait for a type, arguments of that type are recorded as [`TensorFacts`].
/// The crates `runlore-burn` and `runlore-candle` implement it for the tensors of burn and candle.
///
/// ```
/// use runlore::ml::{Inspect, TensorFacts};
///
/// struct Matrix { rows: usize, columns: usize, data: Vec<f32> }
///
/// impl Inspect for Matrix {
///     fn facts(&self) -> TensorFacts {
///         TensorFacts::new(&[self.rows, self.columns], "f32", 4).on("cpu")
///     }
/// }
///
/// let facts = Matrix { rows: 2, columns: 3, data: vec![0.0; 6] }.facts();
/// assert_eq!((facts.numel, facts.nbytes), (6, 24));
/// ```
pub trait Inspect {
    /// Returns the facts that are known without reading the elements.
    fn facts(&self) -> TensorFacts;

    /// Returns statistics of the elements, and may wait for the device. Called only if the setting
    /// `tensor_statistics` is on.
    fn statistics(&self) -> Option<TensorStatistics> {
        None
    }

    /// Whether the device may still be computing the tensor.
    fn is_asynchronous(&self) -> bool {
        false
    }

    /// Waits until the device has computed the tensor.
    fn wait(&self) {}

    /// Returns a closure that waits for the tensor's device after the tensor itself is gone. `None`
    /// if there is no device to wait for.
    ///
    /// It is used for a tensor that moves into a function which returns no tensor.
    fn wait_later(&self) -> Option<Box<dyn FnOnce() + Send>> {
        None
    }
}

impl<T: Inspect + ?Sized> Inspect for &T {
    fn facts(&self) -> TensorFacts {
        (**self).facts()
    }

    fn statistics(&self) -> Option<TensorStatistics> {
        (**self).statistics()
    }

    fn is_asynchronous(&self) -> bool {
        (**self).is_asynchronous()
    }

    fn wait(&self) {
        (**self).wait();
    }

    fn wait_later(&self) -> Option<Box<dyn FnOnce() + Send>> {
        (**self).wait_later()
    }
}

/// Facts about a tensor.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[non_exhaustive]
pub struct TensorFacts {
    /// Its size along each dimension.
    pub shape: Vec<usize>,
    /// The type of its elements, such as `f32`.
    pub dtype: String,
    /// The device that has the tensor, such as `cpu` or `cuda:0`.
    pub device: String,
    /// Size of all elements in bytes.
    pub nbytes: u64,
    /// The number of elements.
    pub numel: u64,
    /// Whether only some of the elements are stored.
    pub is_sparse: bool,
    /// Whether gradients are computed for it. `None` if that is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requires_grad: Option<bool>,
    /// Statistics of the elements. `None` if they were not requested.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub statistics: Option<TensorStatistics>,
}

impl TensorFacts {
    /// Creates the facts of a dense tensor whose elements have `element_bytes` bytes each.
    pub fn new(shape: &[usize], dtype: impl Into<String>, element_bytes: usize) -> Self {
        let numel: u64 = shape.iter().map(|size| *size as u64).product();
        Self {
            shape: shape.to_vec(),
            dtype: dtype.into(),
            nbytes: numel * element_bytes as u64,
            numel,
            ..Self::default()
        }
    }

    /// Sets the device.
    #[must_use]
    pub fn on(mut self, device: impl Into<String>) -> Self {
        self.device = device.into();
        self
    }
}

/// Statistics of a tensor's elements.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[non_exhaustive]
pub struct TensorStatistics {
    /// The share of elements that are not zero.
    pub density: f64,
    /// The smallest element, ignoring NaN.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// The largest element, ignoring NaN.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    /// The mean of the elements, ignoring NaN.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// The number of elements that are NaN.
    pub nan_count: u64,
}

impl TensorStatistics {
    /// Computes the statistics of these values.
    ///
    /// ```
    /// use runlore::ml::TensorStatistics;
    ///
    /// let told = TensorStatistics::of([0.0, 1.0, f64::NAN, 3.0]);
    /// assert_eq!((told.density, told.nan_count), (0.75, 1));
    /// assert_eq!((told.min, told.max, told.mean), (Some(0.0), Some(3.0), Some(4.0 / 3.0)));
    /// ```
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let (mut all, mut zeros, mut nan_count, mut sum) = (0_u64, 0_u64, 0_u64, 0.0);
        let (mut min, mut max) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values {
            all += 1;
            if value.is_nan() {
                nan_count += 1;
                continue;
            }
            zeros += u64::from(value == 0.0);
            sum += value;
            min = min.min(value);
            max = max.max(value);
        }
        let numbers = all - nan_count;
        let known = |value: f64| (numbers > 0).then_some(value);
        Self {
            density: (all - zeros) as f64 / all.max(1) as f64,
            min: known(min),
            max: known(max),
            mean: known(sum / numbers as f64),
            nan_count,
        }
    }
}
