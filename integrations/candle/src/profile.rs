//! What a model is made of.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use candle_nn::VarMap;
use runlore::ml::{ModelProfile, Parameter};

/// What a model is made of, by its variables: their dotted names are the paths of its modules. Candle does not know the types
/// of modules; [`ModelProfile::module`] adds them.
///
/// ```
/// use candle_core::{DType, Device};
/// use candle_nn::{VarBuilder, VarMap, linear};
///
/// let variables = VarMap::new();
/// linear(4, 8, VarBuilder::from_varmap(&variables, DType::F32, &Device::Cpu).pp("fc1"))?;
/// let mut model = runlore_candle::profile("Net", &variables);
/// model.module("fc1", "Linear");
/// assert_eq!(model.params(), 40);
/// assert_eq!(model.to_string(), "Net (\n  fc1: Linear (bias: [8], weight: [8, 4])\n)");
/// # Ok::<(), candle_core::Error>(())
/// ```
pub fn profile(name: &str, variables: &VarMap) -> ModelProfile {
    let mut model = ModelProfile::new(name);
    let variables = variables.data().lock().unwrap_or_else(PoisonError::into_inner);
    for (path, variable) in variables.iter().collect::<BTreeMap<_, _>>() {
        let dtype = variable.dtype();
        let parameter = Parameter::new(variable.dims(), dtype.as_str(), dtype.size_in_bytes());
        model.parameter(path, parameter);
    }
    model
}
