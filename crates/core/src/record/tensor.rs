//! What is told of a tensor, whichever framework it is from: facts about it, never its data.

use serde::Serialize;

/// A tensor that can be told about. Implement it for a type of your own, and an argument of that type is recorded by its facts;
/// for those of burn and candle the crates `runlore-burn` and `runlore-candle` have it.
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
    /// What is known without looking at the values.
    fn facts(&self) -> TensorFacts;

    /// What only the values tell. It is asked for where the settings say `tensor_statistics`, and may wait for the device.
    fn statistics(&self) -> Option<TensorStatistics> {
        None
    }

    /// Whether the device may still be computing it.
    fn is_asynchronous(&self) -> bool {
        false
    }

    /// Waits until the device has computed it.
    fn wait(&self) {}

    /// What waits for its device once the tensor itself is gone, into a function that returns none; nothing where there is no
    /// device to wait for.
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
    /// Where it is, such as `cpu` or `cuda:0`.
    pub device: String,
    /// Bytes of its elements.
    pub nbytes: u64,
    /// How many elements it has.
    pub numel: u64,
    /// Whether only some of its elements are stored.
    pub is_sparse: bool,
    /// Whether gradients are computed for it, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requires_grad: Option<bool>,
    /// What its values tell, where that was asked for.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub statistics: Option<TensorStatistics>,
}

impl TensorFacts {
    /// A dense tensor whose elements have `element_bytes` each.
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

    /// The same, on this device.
    #[must_use]
    pub fn on(mut self, device: impl Into<String>) -> Self {
        self.device = device.into();
        self
    }
}

/// What only the values of a tensor tell.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[non_exhaustive]
pub struct TensorStatistics {
    /// The share of its elements that are not zero.
    pub density: f64,
    /// The least element that is a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// The largest element that is a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    /// The mean of the elements that are numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// How many elements are not a number.
    pub nan_count: u64,
}

impl TensorStatistics {
    /// What these values tell.
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
