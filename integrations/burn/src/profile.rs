//! What a model is made of.

use std::fmt::Display;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Bool, Int, Tensor};
use runlore::ml::{ModelProfile, Parameter};

/// What a model is made of. Parameters that are not initialised yet stay so. On a device without `autodiff` burn does not tell which
/// parameters are trained; all that hold floats count as such there.
///
/// ```
/// use burn::nn::LinearConfig;
/// use burn::tensor::Device;
///
/// let model = runlore_burn::profile(&LinearConfig::new(4, 8).init(&Device::flex()));
/// assert_eq!((model.params(), model.max_width()), (40, 8));
/// ```
pub fn profile<M: Module + Display>(model: &M) -> ModelProfile {
    let name = std::any::type_name::<M>().split('<').next().unwrap_or_default();
    let mut walk = Walk {
        model: ModelProfile::new(name.rsplit("::").next().unwrap_or(name)),
        path: Vec::new(),
        is_leaf: false,
    };
    model.visit(&mut walk);
    walk.model.printed(model.to_string());
    walk.model
}

/// A walk through a model. Burn tells a module's type only where it enters a part of it.
struct Walk {
    model: ModelProfile,
    path: Vec<String>,
    /// Whether nothing was found yet in the module that was entered last.
    is_leaf: bool,
}

impl Walk {
    fn add(&mut self, shape: &[usize], dtype: (&str, usize), is_trained: bool) {
        self.is_leaf = false;
        let parameter = Parameter::new(shape, dtype.0, dtype.1);
        let parameter = if is_trained { parameter } else { parameter.frozen() };
        self.model.parameter(&self.path.join("."), parameter);
    }
}

/// What a parameter's elements are; of one that is not initialised what burn makes unless told otherwise.
macro_rules! dtype {
    ($param:ident, $otherwise:expr) => {
        if $param.is_initialized() {
            let dtype = $param.val().dtype();
            (dtype.name(), dtype.size())
        } else {
            $otherwise
        }
    };
}

impl ModuleVisitor for Walk {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let is_told = param.is_initialized() && param.lazy_device().is_autodiff();
        let is_trained = !is_told || param.val().is_require_grad();
        self.model.training(param.lazy_device().is_autodiff());
        self.add(&param.lazy_shape().to_vec(), dtype!(param, ("f32", 4)), is_trained);
    }

    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
        self.add(&param.lazy_shape().to_vec(), dtype!(param, ("i64", 8)), false);
    }

    fn visit_bool<const D: usize>(&mut self, param: &Param<Tensor<D, Bool>>) {
        self.add(&param.lazy_shape().to_vec(), dtype!(param, ("bool", 1)), false);
    }

    fn enter_module(&mut self, name: &str, container: &str) {
        let path = self.path.join(".");
        let container = container.rsplit(':').next().unwrap_or(container);
        if !path.is_empty() {
            self.model.module(&path, container);
        }
        self.path.push(name.to_owned());
        self.is_leaf = true;
    }

    fn exit_module(&mut self, name: &str, _: &str) {
        // Without parameters, and so without a type. A bias that a layer does without looks the same.
        if std::mem::take(&mut self.is_leaf) && name != "bias" {
            self.model.module(&self.path.join("."), "");
        }
        self.path.pop();
    }
}
