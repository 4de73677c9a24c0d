//! Describes a model: its modules, its parameters, and an id that identifies the same model again.

use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::instrument::WorkflowRun;
use crate::pipeline::{Site, note_workflow};
use runlore_core::config::settings;
use runlore_core::contain::contain;
use runlore_core::context;
use runlore_core::context::Number;
use runlore_core::fork::PerProcess;
use runlore_core::notice::notice;
use runlore_core::record::{Id, Inspect, Status, WorkflowObject, hash_of};
use runlore_core::{Result, clock};

/// A module with attributes, such as `in_features`. They are recorded with the forward passes of a
/// layer whose tensors are inspected, and in a profile after [`ModelProfile::attributes`].
///
/// ```
/// use runlore::ml::Attributes;
/// use serde_json::Value;
///
/// struct Linear { weight: [[f32; 4]; 8] }
///
/// impl Attributes for Linear {
///     fn attributes(&self) -> Vec<(&'static str, Value)> {
///         vec![("in_features", 4.into()), ("out_features", 8.into())]
///     }
/// }
/// ```
pub trait Attributes {
    /// Returns the names and values.
    fn attributes(&self) -> Vec<(&'static str, Value)>;
}

/// A model, or a module of one, that can describe itself. Derive it with
/// [`#[derive(ModelProfile)]`](macro@crate::ml::ModelProfile).
///
/// A model with a profile registers itself at its first pass through a method with
/// [`#[telemetry_forward]`](macro@crate::telemetry_forward). Each type of model is registered once
/// in a workflow.
///
/// ```
/// use runlore::ml::{Inspect, ModelProfile, Profiled, TensorFacts};
///
/// struct Matrix([usize; 2]);
///
/// impl Inspect for Matrix {
///     fn facts(&self) -> TensorFacts {
///         TensorFacts::new(&self.0, "f32", 4)
///     }
/// }
///
/// #[derive(ModelProfile)]
/// struct Linear { weight: Matrix }
///
/// #[derive(ModelProfile)]
/// struct Net { fc1: Linear, hidden: Vec<Linear> }
///
/// let linear = |rows, columns| Linear { weight: Matrix([rows, columns]) };
/// let model = Net { fc1: linear(8, 4), hidden: vec![linear(8, 8)] }.profile();
/// assert_eq!(model.params(), 32 + 64);
/// assert_eq!(model.to_json()["modules"]["hidden.0"]["type"], "Linear");
/// ```
pub trait Profiled {
    /// Adds this module to the model's profile, at this path. The path of the model itself is
    /// empty.
    fn describe(&self, path: &str, model: &mut ModelProfile);

    /// Returns the profile of a model. Its name is that of the type.
    fn profile(&self) -> ModelProfile {
        let mut model = ModelProfile::new(short_type_name::<Self>());
        self.describe("", &mut model);
        model
    }
}

impl<T: Profiled + ?Sized> Profiled for Box<T> {
    fn describe(&self, path: &str, model: &mut ModelProfile) {
        (**self).describe(path, model);
    }
}

impl<T: Profiled> Profiled for Option<T> {
    fn describe(&self, path: &str, model: &mut ModelProfile) {
        self.iter().for_each(|module| module.describe(path, model));
    }
}

impl<T: Profiled> Profiled for [T] {
    fn describe(&self, path: &str, model: &mut ModelProfile) {
        for (index, module) in self.iter().enumerate() {
            module.describe(&member_path(path, &index.to_string()), model);
        }
    }
}

impl<T: Profiled> Profiled for Vec<T> {
    fn describe(&self, path: &str, model: &mut ModelProfile) {
        self.as_slice().describe(path, model);
    }
}

impl<T: Profiled, const N: usize> Profiled for [T; N] {
    fn describe(&self, path: &str, model: &mut ModelProfile) {
        self.as_slice().describe(path, model);
    }
}

/// Returns the path of a member of the module at `path`.
pub fn member_path(path: &str, member: &str) -> String {
    if path.is_empty() { member.to_owned() } else { format!("{path}.{member}") }
}

/// Returns the name of a type without its path and parameters.
pub fn short_type_name<T: ?Sized>() -> &'static str {
    short(std::any::type_name::<T>())
}

/// Returns the last word of a type's name.
pub(super) fn short(type_name: &str) -> &str {
    let bare = type_name.split('<').next().unwrap_or(type_name);
    bare.rsplit("::").next().unwrap_or(bare).trim_start_matches(['&', ' '])
}

/// Lets generated code use a value's [`Profiled`], if its type has it, without bounds on the type.
pub mod levels {
    use super::{ModelProfile, Profiled};

    /// A model, or a field of one.
    #[derive(Debug)]
    pub struct Part<'a, T: ?Sized>(pub &'a T);

    /// A value that can describe itself.
    pub trait ByProfile {
        /// Adds the value to the profile of its model.
        fn runlore_describe(&self, path: &str, model: &mut ModelProfile);
        /// Passes on the value's own profile.
        fn runlore_profile(&self, add: &mut dyn FnMut(ModelProfile));
    }

    impl<T: Profiled + ?Sized> ByProfile for Part<'_, T> {
        fn runlore_describe(&self, path: &str, model: &mut ModelProfile) {
            self.0.describe(path, model);
        }

        fn runlore_profile(&self, add: &mut dyn FnMut(ModelProfile)) {
            add(self.0.profile());
        }
    }

    /// All other values.
    pub trait NoProfile {
        /// Does nothing.
        fn runlore_describe(&self, _: &str, _: &mut ModelProfile) {}
        /// Does nothing.
        fn runlore_profile(&self, _: &mut dyn FnMut(ModelProfile)) {}
    }

    impl<T: ?Sized> NoProfile for &Part<'_, T> {}
}

/// Describes a model. Built by hand, by the crate for its framework, or from a model that is
/// [`Profiled`]. [`WorkflowRun::register_model`] records it.
///
/// ```
/// use runlore::ml::{ModelProfile, Parameter};
///
/// let mut model = ModelProfile::new("Net");
/// model.module("fc1", "Linear");
/// model.parameter("fc1.weight", Parameter::new(&[8, 4], "f32", 4));
/// model.parameter("fc1.bias", Parameter::new(&[8], "f32", 4).frozen());
/// assert_eq!((model.params(), model.trainable_params(), model.nbytes()), (40, 32, 160));
/// assert_eq!(model.to_string(), "Net (\n  fc1: Linear (weight: [8, 4], bias: [8])\n)");
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelProfile {
    name: String,
    repr: Option<String>,
    is_training: Option<bool>,
    metadata: Map<String, Value>,
    modules: Vec<Module>,
}

/// A module with its path in the model. The path of the model itself is empty.
#[derive(Debug, Clone, PartialEq, Default)]
struct Module {
    path: String,
    type_name: Option<String>,
    attributes: Map<String, Value>,
    parameters: Vec<(String, Parameter)>,
}

/// A parameter of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    shape: Vec<usize>,
    dtype: String,
    element_bytes: usize,
    is_trainable: bool,
}

impl Parameter {
    /// Creates a trainable parameter.
    pub fn new(shape: &[usize], dtype: impl Into<String>, element_bytes: usize) -> Self {
        Self { shape: shape.to_vec(), dtype: dtype.into(), element_bytes, is_trainable: true }
    }

    /// Marks the parameter as not trainable.
    #[must_use]
    pub fn frozen(mut self) -> Self {
        self.is_trainable = false;
        self
    }

    fn numel(&self) -> u64 {
        self.shape.iter().map(|size| *size as u64).product()
    }
}

impl ModelProfile {
    /// Creates a model with this name, for instance the name of its type.
    pub fn new(name: impl Into<String>) -> Self {
        let name = name.into();
        let root = Module { type_name: Some(name.clone()), ..Module::default() };
        Self { name, modules: vec![root], ..Self::default() }
    }

    /// Adds a module by its path, such as `encoder.fc1`. Missing parent modules are added too.
    pub fn module(&mut self, path: &str, type_name: &str) {
        let type_name = Some(type_name.to_owned()).filter(|name| !name.is_empty());
        let module = self.module_at(path);
        module.type_name = type_name.or(module.type_name.take());
    }

    /// Adds the attributes of a module.
    pub fn attributes(&mut self, path: &str, attributes: &dyn Attributes) {
        let told = attributes.attributes().into_iter();
        let module = self.module_at(path);
        module.attributes.extend(told.map(|(name, value)| (name.to_owned(), value)));
    }

    /// Adds a parameter by its path, such as `encoder.fc1.weight`.
    pub fn parameter(&mut self, path: &str, parameter: Parameter) {
        let (module, name) = path.rsplit_once('.').unwrap_or(("", path));
        self.module_at(module).parameters.push((name.to_owned(), parameter));
    }

    /// Adds a tensor as a parameter. It is frozen if it says that it requires no gradients.
    pub fn tensor(&mut self, path: &str, tensor: &dyn Inspect) {
        let facts = tensor.facts();
        let element_bytes = facts.nbytes.checked_div(facts.numel).unwrap_or(0) as usize;
        let parameter = Parameter::new(&facts.shape, facts.dtype, element_bytes);
        let is_frozen = facts.requires_grad == Some(false);
        self.parameter(path, if is_frozen { parameter.frozen() } else { parameter });
    }

    /// For the derive: adds a module that has attributes.
    #[doc(hidden)]
    pub fn layer(&mut self, path: &str, type_name: &str, attributes: &dyn Attributes) {
        self.module(path, short(type_name));
        self.attributes(path, attributes);
    }

    /// Sets the model's own printed form, which replaces the tree of its modules.
    pub fn printed(&mut self, text: impl Into<String>) {
        self.repr = Some(text.into());
    }

    /// Sets whether the model is in training mode.
    pub fn training(&mut self, is_training: bool) {
        self.is_training = Some(is_training);
    }

    /// Adds a field to the `custom_metadata` of its record. A value that cannot be converted to
    /// JSON is left out.
    pub fn metadata(&mut self, name: &str, value: impl Serialize) {
        self.metadata.extend(serde_json::to_value(value).map(|value| (name.to_owned(), value)));
    }

    fn module_at(&mut self, path: &str) -> &mut Module {
        if let Some((above, _)) = path.rsplit_once('.') {
            self.module_at(above);
        }
        let at = self.modules.iter().position(|module| module.path == path);
        let at = at.unwrap_or_else(|| {
            self.modules.push(Module { path: path.to_owned(), ..Module::default() });
            self.modules.len() - 1
        });
        &mut self.modules[at]
    }

    fn parameters(&self) -> impl Iterator<Item = &Parameter> {
        self.modules.iter().flat_map(|module| module.parameters.iter().map(|(_, it)| it))
    }

    /// Returns the number of elements in all parameters.
    pub fn params(&self) -> u64 {
        self.parameters().map(Parameter::numel).sum()
    }

    /// Returns the number of elements in the trainable parameters.
    pub fn trainable_params(&self) -> u64 {
        self.parameters().filter(|it| it.is_trainable).map(Parameter::numel).sum()
    }

    /// Returns the size of the parameters in bytes.
    pub fn nbytes(&self) -> u64 {
        self.parameters().map(|it| it.numel() * it.element_bytes as u64).sum()
    }

    /// Returns the largest dimension of any parameter.
    pub fn max_width(&self) -> usize {
        self.parameters().flat_map(|it| it.shape.iter().copied()).max().unwrap_or(0)
    }

    /// Returns an id that depends on the modules, their types, and the shapes and types of their
    /// parameters. It does not depend on which parameters are trainable: a model keeps its id in
    /// training and in use.
    pub fn id(&self) -> String {
        let modules: Vec<Value> = self.modules.iter().map(Module::identity).collect();
        hash_of(&json!({"name": self.name, "modules": modules}))
    }

    /// Returns the profile as it is recorded.
    pub fn to_json(&self) -> Value {
        let modules: Map<String, Value> = self
            .modules
            .iter()
            .map(|module| {
                let key = if module.path.is_empty() { &self.name } else { &module.path };
                (key.clone(), module.to_json(self.is_training))
            })
            .collect();
        json!({
            "params": self.params(),
            "trainable_params": self.trainable_params(),
            "nbytes": self.nbytes(),
            "max_width": self.max_width(),
            "n_modules": self.modules.len(),
            "modules": modules,
            "model_repr": self.to_string(),
        })
    }
}

impl Module {
    fn name(&self) -> &str {
        self.path.rsplit('.').next().unwrap_or(&self.path)
    }

    fn depth(&self) -> usize {
        if self.path.is_empty() { 0 } else { 1 + self.path.matches('.').count() }
    }

    fn identity(&self) -> Value {
        let parameters: Vec<Value> =
            self.parameters.iter().map(|(name, it)| json!([name, it.shape, it.dtype])).collect();
        json!([self.path, self.type_name, parameters])
    }

    fn to_json(&self, is_training: Option<bool>) -> Value {
        let mut fields = self.attributes.clone();
        fields.extend(is_training.map(|is_training| ("training".to_owned(), is_training.into())));
        if let Some(type_name) = &self.type_name {
            fields.insert("type".to_owned(), type_name.as_str().into());
        }
        if !self.path.is_empty() {
            fields.insert("in_named".to_owned(), self.name().into());
            fields.insert("first_level_child".to_owned(), (self.depth() == 1).into());
        }
        if !self.parameters.is_empty() {
            let parameters: Map<String, Value> = self
                .parameters
                .iter()
                .map(|(name, it)| {
                    let (shape, dtype, trainable) = (&it.shape, &it.dtype, it.is_trainable);
                    (name.clone(), json!({"shape": shape, "dtype": dtype, "trainable": trainable}))
                })
                .collect();
            fields.insert("parameters".to_owned(), parameters.into());
        }
        Value::Object(fields)
    }
}

/// Shows the model's own printed form, or else the tree of its modules with the shapes of their
/// parameters.
impl std::fmt::Display for ModelProfile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.repr {
            Some(text) => f.write_str(text),
            None => f.write_str(&self.tree("", 0)),
        }
    }
}

impl ModelProfile {
    /// Formats the module at this path and all modules below it.
    fn tree(&self, path: &str, depth: usize) -> String {
        let Some(module) = self.modules.iter().find(|module| module.path == path) else {
            return String::new();
        };
        let mut text = module.type_name.clone().unwrap_or_else(|| "?".to_owned());
        let parameters: Vec<String> =
            module.parameters.iter().map(|(name, it)| format!("{name}: {:?}", it.shape)).collect();
        let below = self.modules.iter().filter(|it| {
            it.depth() == depth + 1 && (path.is_empty() || it.path.starts_with(&format!("{path}.")))
        });
        let below: Vec<String> =
            below.map(|it| format!("{}: {}", it.name(), self.tree(&it.path, depth + 1))).collect();
        if below.is_empty() {
            if !parameters.is_empty() {
                _ = write!(text, " ({})", parameters.join(", "));
            }
            return text;
        }
        let indent = "  ".repeat(depth + 1);
        text.push_str(" (");
        for line in parameters.iter().chain(&below) {
            _ = write!(text, "\n{indent}{line}");
        }
        _ = write!(text, "\n{})", "  ".repeat(depth));
        text
    }
}

impl WorkflowRun {
    /// Records a model as a sub-workflow of this one, if `register_workflow` is on in the settings.
    /// Its `custom_metadata` contains `model_id`, which is the same for the same model in every
    /// run.
    ///
    /// ```
    /// # let store = runlore::store::MemoryStore::new();
    /// use runlore::ml::ModelProfile;
    ///
    /// let run = runlore::workflow("train").store(store.clone()).start()?;
    /// run.register_model(&ModelProfile::new("Net"))?;
    /// # let id = run.id().to_owned();
    /// run.finish()?;
    /// # let model = store.workflows().into_iter().find(|it| it.name.as_deref() == Some("Net")).unwrap();
    /// # assert_eq!(model.parent_workflow_id, Some(id));
    /// # Ok::<(), runlore::Error>(())
    /// ```
    pub fn register_model(&self, model: &ModelProfile) -> Result<()> {
        register(self.context().workflow(), model)
    }
}

/// Records a model as a sub-workflow of a running workflow.
fn register(number: Number, model: &ModelProfile) -> Result<()> {
    let settings = &settings().instrumentation.ml;
    let Some(run) = context::active(number).filter(|_| settings.register_workflow) else {
        return Ok(());
    };
    let now = clock::wall_ns(clock::monotonic_ns());
    let mut metadata = model.metadata.clone();
    metadata.insert("workflow_type".to_owned(), "Model".into());
    metadata.insert("model_id".to_owned(), model.id().into());
    metadata.insert("model_profile".to_owned(), model.to_json());
    let record = WorkflowObject {
        workflow_id: Id::at(now).to_string(),
        parent_workflow_id: Some(run.id),
        parent_task_id: context::current_task_id().map(|task| task.to_string()),
        campaign_id: Some(run.campaign),
        name: Some(model.name.clone()),
        subtype: Some("model".to_owned()),
        started_at: Some(clock::seconds(now)),
        utc_timestamp: Some(clock::seconds(now)),
        status: Some(Status::Finished),
        used: json!({"capture_at_every": settings.capture_epochs_at_every}).as_object().cloned(),
        custom_metadata: Some(metadata),
        ..WorkflowObject::default()
    };
    note_workflow(number, Box::new(record))
}

/// Registers the model of an annotated pass, unless this workflow has had a pass at this site.
/// Errors and panics of the model's own code do not reach its pass.
pub(super) fn register_at_first_pass(
    number: Number,
    site: &'static Site,
    look: impl FnOnce(&mut dyn FnMut(ModelProfile)),
) {
    static PASSED: PerProcess<Mutex<Vec<(Number, usize)>>> = PerProcess::new();
    let key = (number, std::ptr::from_ref(site) as usize);
    let mut passed = PASSED.lock().unwrap_or_else(PoisonError::into_inner);
    let is_first = !passed.contains(&key);
    if is_first {
        passed.retain(|(number, _)| context::active(*number).is_some());
        passed.push(key);
    }
    drop(passed);
    if is_first {
        contain(|| {
            look(&mut |model| {
                if let Err(error) = register(number, &model) {
                    notice(&format!("the model {} is not registered: {error}", model.name));
                }
            });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net() -> ModelProfile {
        let mut model = ModelProfile::new("Net");
        model.module("body.fc1", "Linear");
        model.parameter("body.fc1.weight", Parameter::new(&[8, 4], "f32", 4));
        model.module("act", "Relu");
        model.parameter("scale", Parameter::new(&[1], "f64", 8).frozen());
        model
    }

    #[test]
    fn types_go_by_their_last_name() {
        assert_eq!(short("burn_nn::modules::linear::Linear"), "Linear");
        assert_eq!(short("my::Net<other::Backend, 3>"), "Net");
        assert_eq!(short("Relu"), "Relu");
        assert_eq!(short("&my::Relu"), "Relu");
    }

    #[test]
    fn a_model_is_known_again_by_what_it_is() {
        assert_eq!(net().id(), net().id());
        let mut wider = net();
        wider.parameter("body.fc1.bias", Parameter::new(&[8], "f32", 4));
        assert_ne!(wider.id(), net().id());
        let mut frozen = ModelProfile::new("Net");
        frozen.parameter("scale", Parameter::new(&[1], "f64", 8).frozen());
        let mut trained = ModelProfile::new("Net");
        trained.parameter("scale", Parameter::new(&[1], "f64", 8));
        assert_eq!(frozen.id(), trained.id(), "which parameters are trained does not matter");
        let mut printed = net();
        printed.printed("otherwise");
        assert_eq!(printed.id(), net().id(), "how it is shown does not matter");
    }

    #[test]
    fn sums_are_over_all_parameters() {
        let model = net();
        assert_eq!((model.params(), model.trainable_params()), (33, 32));
        assert_eq!((model.nbytes(), model.max_width()), (136, 8));
        let json = model.to_json();
        assert_eq!(json["n_modules"], 4, "the model, body, fc1 and act");
        assert_eq!(json["modules"]["body.fc1"]["in_named"], "fc1");
        assert_eq!(json["modules"]["body.fc1"]["first_level_child"], false);
    }

    #[test]
    fn modules_print_as_a_tree() {
        let tree = "Net (
  scale: [1]
  body: ? (
    fc1: Linear (weight: [8, 4])
  )
  act: Relu
)";
        assert_eq!(net().to_string().trim_end(), tree);
    }
}
