//! Forward passes of models, and of the layers in them.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;

use serde::Serialize;

use super::mode;
use super::profile::{Attributes, ModelProfile, register_at_first_pass, short};
use crate::instrument::{
    Failure, Measuring, OpenTask, Outputs, Scratch, Wait, context_of_new_task, inspect,
    is_asynchronous, push_code, push_failure, push_named, push_outstanding,
};
use crate::pipeline::event::{Ending, ItemKind, push_text};
use crate::pipeline::{Origin, Site};
use runlore_core::config::settings;
use runlore_core::contain::contain;
use runlore_core::context;
use runlore_core::record::redact::hide_secrets;
use runlore_core::record::{Inspect, TensorFacts};
use runlore_core::settings::{ChildrenMode, ModelScope};
use runlore_telemetry::TelemetryChoice;

/// What the calling thread is currently inside of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    Nothing,
    Model,
    /// Inside a layer. If that layer is a model itself, it is already recorded.
    Layer,
}

#[derive(Debug, Clone, Copy)]
struct State {
    inside: Inside,
    models: u32,
    training: Option<bool>,
}

thread_local! {
    static STATE: Cell<State> =
        const { Cell::new(State { inside: Inside::Nothing, models: 0, training: None }) };
}

/// The subject of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    Model,
    Layer,
}

/// A forward pass recorded by hand, where [`#[telemetry_forward]`](macro@crate::telemetry_forward)
/// cannot be used: of a model, or of a layer in one. `instrumentation.ml` in the settings controls
/// whether and how it is recorded: `what` and `children_mode`.
///
/// ```
/// # use runlore::ml::{Inspect, TensorFacts};
/// # struct Tensor(Vec<f32>);
/// # impl Inspect for Tensor { fn facts(&self) -> TensorFacts { TensorFacts::new(&[self.0.len()], "f32", 4) } }
/// # let store = runlore::store::MemoryStore::new();
/// # let run = runlore::workflow("doc").store(store.clone()).start()?;
/// use runlore::ml::Forward;
///
/// fn double(x: &Tensor) -> Tensor {
///     let mut pass = Forward::model("Double").input("x", x).start();
///     let y = Tensor(x.0.iter().map(|x| 2.0 * x).collect());
///     pass.output(&y);
///     pass.finish();
///     y
/// }
/// double(&Tensor(vec![1.0, 2.0]));
/// # run.finish()?;
/// # assert_eq!(store.tasks()[0].subtype.as_deref(), Some("parent_forward"));
/// # assert_eq!(store.tasks()[0].used.as_ref().unwrap()["tensor"]["numel"], 2);
/// # Ok::<(), runlore::Error>(())
/// ```
#[must_use = "a pass begins with `start`"]
pub struct Forward {
    of: Of,
    before: State,
    training: Option<bool>,
    wanted: Option<Box<Wanted>>,
}

/// A pass that is going to be recorded.
#[derive(Debug)]
struct Wanted {
    site: Option<&'static Site>,
    items: Vec<u8>,
    inputs: Vec<(String, TensorFacts)>,
    how: ChildrenMode,
    measuring: Measuring,
    device: Device,
}

/// The state of the device that a pass runs on.
#[derive(Debug, Default)]
struct Device {
    /// `None` if the pass does not wait for the device.
    wait: Option<Wait>,
    /// Whether an input may still be computing.
    is_input_asynchronous: bool,
    /// Whether an output may still be computing. `None` if no output is a tensor.
    is_output_asynchronous: Option<bool>,
}

impl Device {
    fn input(&mut self, tensor: &dyn Inspect) {
        self.is_input_asynchronous |= is_asynchronous(tensor);
        if let Some(wait) = &mut self.wait {
            wait.input(tensor);
        }
    }

    fn output(&mut self, tensor: &dyn Inspect) {
        let is_asynchronous = is_asynchronous(tensor);
        *self.is_output_asynchronous.get_or_insert_default() |= is_asynchronous;
    }

    /// Returns whether the device may still be computing. If the pass has no output tensor, its
    /// inputs decide.
    fn is_asynchronous(&self) -> bool {
        self.is_output_asynchronous.unwrap_or(self.is_input_asynchronous)
    }
}

fn inspects(mode: ChildrenMode) -> bool {
    matches!(mode, ChildrenMode::TensorInspection | ChildrenMode::TelemetryAndTensorInspection)
}

fn telemetry_of(mode: ChildrenMode) -> TelemetryChoice {
    match mode {
        ChildrenMode::Telemetry | ChildrenMode::TelemetryAndTensorInspection => {
            TelemetryChoice::Default
        }
        ChildrenMode::TensorInspection | ChildrenMode::Lightweight => TelemetryChoice::None,
    }
}

impl Forward {
    /// Creates a pass through a model. Inside the pass of another model, it is recorded as a layer.
    #[track_caller]
    pub fn model(name: &str) -> Self {
        Self::new(Of::Model, || name, None, Location::caller())
    }

    /// Creates a pass through a layer.
    #[track_caller]
    pub fn layer(name: &str) -> Self {
        Self::new(Of::Layer, || name, None, Location::caller())
    }

    /// For the macro: the pass of an annotated function.
    #[doc(hidden)]
    #[inline]
    #[track_caller]
    pub fn model_at(site: &'static Site, name: &'static str) -> Self {
        Self::new(Of::Model, || short(name), Some(site), Location::caller())
    }

    /// For the macro: the pass of a layer called in an annotated function.
    #[doc(hidden)]
    #[inline]
    #[track_caller]
    pub fn layer_at(site: &'static Site) -> Self {
        Self::new(Of::Layer, || site.spec.name, Some(site), Location::caller())
    }

    #[inline]
    fn new<'n>(
        of: Of,
        name: impl FnOnce() -> &'n str,
        site: Option<&'static Site>,
        code: &Location<'_>,
    ) -> Self {
        let before = STATE.get();
        let wanted = if context::enabled() { wanted(of, before, name, site, code) } else { None };
        Self { of, before, training: before.training, wanted }
    }

    /// Waits for the device before the pass ends, so that the duration includes all of the device's
    /// work. The pass waits for the tensor given to [`output`](ForwardPass::output), otherwise for
    /// the inputs. Call this before [`input`](Self::input).
    #[inline]
    pub fn sync(mut self) -> Self {
        if let Some(wanted) = &mut self.wanted {
            wanted.device.wait.get_or_insert_default();
        }
        self
    }

    /// Adds an input tensor. If there is only one, it is recorded as `tensor`.
    pub fn input(self, name: &str, tensor: &impl Inspect) -> Self {
        self.input_with(name, |see| see(tensor))
    }

    /// For the macro: adds the tensors of an argument, if it has any.
    #[doc(hidden)]
    #[inline]
    pub fn input_with(
        mut self,
        name: &str,
        look: impl FnOnce(&mut dyn FnMut(&dyn Inspect)),
    ) -> Self {
        if let Some(wanted) = &mut self.wanted {
            look(&mut |tensor| {
                wanted.device.input(tensor);
                if inspects(wanted.how) {
                    wanted.inputs.extend(inspect(tensor).map(|facts| (name.to_owned(), facts)));
                }
            });
        }
        self
    }

    /// Adds an input.
    pub fn used(mut self, name: &str, value: impl Serialize) -> Self {
        if let Some(wanted) = &mut self.wanted {
            push_named(&mut wanted.items, ItemKind::Used, name, |to| to.serialize(&value));
        }
        self
    }

    /// Sets whether the model is training in this pass: `is_training` in the pass's
    /// `custom_metadata`, and `training` in the `used` of its layers.
    #[inline]
    pub fn training(mut self, is_training: bool) -> Self {
        if let Some(wanted) = &mut self.wanted {
            let items = &mut wanted.items;
            push_named(items, ItemKind::Metadata, "is_training", |to| to.bool(is_training));
            self.training = Some(is_training);
        }
        self
    }

    /// For the macro: registers the model, if it has a profile and this is a pass through the whole
    /// of it.
    #[doc(hidden)]
    #[inline]
    pub fn registered(self, look: impl FnOnce(&mut dyn FnMut(ModelProfile))) -> Self {
        if let Some(wanted) = &self.wanted
            && let Some(site) = wanted.site
            && self.before.inside == Inside::Nothing
            && let Some(context) = context_of_new_task()
        {
            register_at_first_pass(context.workflow(), site, look);
        }
        self
    }

    /// For the macro: adds the layer's type and attributes, and whether it is a field of the model.
    #[doc(hidden)]
    #[inline]
    pub fn module(
        mut self,
        type_name: &str,
        is_field: bool,
        look: impl FnOnce(&mut dyn FnMut(&dyn Attributes)),
    ) -> Self {
        if let Some(wanted) = &mut self.wanted {
            let items = &mut wanted.items;
            let module = short(type_name);
            push_named(items, ItemKind::Metadata, "module", |to| to.str(module));
            if inspects(wanted.how) {
                push_attributes(items, look);
                let is_first_level = is_field && self.before.models == 1;
                let level = "first_level_child";
                push_named(items, ItemKind::Used, level, |to| to.bool(is_first_level));
            }
        }
        self
    }

    /// Begins the pass.
    #[inline]
    pub fn start(self) -> ForwardPass {
        if self.wanted.is_none() && !context::enabled() {
            return ForwardPass { running: None, before: None, _not_send: PhantomData };
        }
        ForwardPass::start(self)
    }
}

/// Returns the pass to record. `None` if the settings, the epoch or the enclosing pass exclude it.
fn wanted<'n>(
    of: Of,
    state: State,
    name: impl FnOnce() -> &'n str,
    site: Option<&'static Site>,
    code: &Location<'_>,
) -> Option<Box<Wanted>> {
    let instrumentation = &settings().instrumentation;
    let scope = instrumentation.ml.what.filter(|_| instrumentation.enabled)?;
    let is_child = match (of, state.inside) {
        // It is already recorded as a layer.
        (Of::Model, Inside::Layer) => return None,
        (Of::Model, Inside::Nothing) => false,
        (Of::Model, Inside::Model) | (Of::Layer, _) => true,
    };
    if is_child && scope == ModelScope::ParentOnly || mode::is_left_out() {
        return None;
    }
    let mut items = Vec::with_capacity(128);
    push_text(&mut items, ItemKind::Activity, &hide_secrets(name(), false));
    let subtype = if is_child { "child_forward" } else { "parent_forward" };
    push_text(&mut items, ItemKind::Subtype, subtype);
    if site.is_none() {
        push_code(&mut items, code);
    }
    if let Some(training) = state.training.filter(|_| is_child) {
        push_named(&mut items, ItemKind::Used, "training", |to| to.bool(training));
    }
    let how = instrumentation.ml.children_mode;
    let is_measured_parent = !is_child && mode::parents_are_measured();
    let choice = if is_measured_parent { TelemetryChoice::Default } else { telemetry_of(how) };
    let measuring = Measuring::at(choice, site, code);
    let (inputs, device) = (Vec::new(), Device::default());
    Some(Box::new(Wanted { site, items, inputs, how, measuring, device }))
}

/// Appends a layer's attributes, or none if its code panics.
fn push_attributes(items: &mut Vec<u8>, look: impl FnOnce(&mut dyn FnMut(&dyn Attributes))) {
    let mut attributes = Vec::new();
    let told = contain(|| look(&mut |module| attributes.extend(module.attributes())));
    for (name, value) in attributes.into_iter().filter(|_| told.is_some()) {
        push_named(items, ItemKind::Used, name, |to| to.serialize(&value));
    }
}

impl fmt::Debug for Forward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_recorded = self.wanted.is_some();
        f.debug_struct("Forward").field("of", &self.of).field("is_recorded", &is_recorded).finish()
    }
}

/// A running forward pass. Created by [`Forward::start`].
#[derive(Debug)]
#[must_use = "the pass ends when this is dropped"]
pub struct ForwardPass {
    running: Option<Box<Running>>,
    /// The state to restore. `None` if it did not change.
    before: Option<State>,
    _not_send: PhantomData<*const ()>,
}

#[derive(Debug)]
struct Running {
    task: OpenTask,
    items: Scratch,
    inspects: bool,
    outputs: Vec<TensorFacts>,
    device: Device,
}

impl ForwardPass {
    fn start(pass: Forward) -> Self {
        let Forward { of, before, training, wanted } = pass;
        let running = wanted.and_then(|wanted| {
            let context = context_of_new_task()?;
            let Wanted { site, mut items, inputs, how, measuring, device } = *wanted;
            push_inputs(&mut items, &inputs);
            let mut items = Scratch::holding(items);
            let origin = Origin::of(site);
            let task = OpenTask::begin(context, origin, &measuring, &mut items, None, true)?;
            items.clear();
            let (inspects, outputs) = (inspects(how), Vec::new());
            Some(Box::new(Running { task, items, inspects, outputs, device }))
        });
        let (inside, models) = match of {
            Of::Model => (Inside::Model, before.models + 1),
            Of::Layer if running.is_some() => (Inside::Layer, before.models),
            // An unrecorded layer must not hide a model inside it.
            Of::Layer => (before.inside, before.models),
        };
        STATE.set(State { inside, models, training });
        Self { running, before: Some(before), _not_send: PhantomData }
    }

    /// Returns whether the pass is recorded.
    #[inline]
    pub fn is_recorded(&self) -> bool {
        self.running.is_some()
    }

    /// Adds an output tensor. With [`sync`](Forward::sync), waits for it.
    pub fn output(&mut self, tensor: &impl Inspect) {
        if let Some(running) = &mut self.running {
            if let Some(wait) = &mut running.device.wait {
                std::mem::take(wait).until(|see| see(tensor));
            }
            running.output(tensor);
        }
    }

    /// Adds an output.
    pub fn generated(&mut self, name: &str, value: impl Serialize) {
        if let Some(running) = &mut self.running {
            push_named(&mut running.items, ItemKind::Generated, name, |to| to.serialize(&value));
        }
    }

    /// Marks the pass as failed. See [`Failure`] for the accepted types.
    pub fn fail<K>(&mut self, error: impl Failure<K>) {
        if let Some(running) = &mut self.running {
            push_failure(&mut running.items, error);
        }
    }

    /// Ends the pass.
    pub fn finish(mut self) {
        if let Some(mut running) = self.running.take() {
            // Tensors given to `output` were already waited for.
            if let Some(wait) = &mut running.device.wait {
                std::mem::take(wait).until(|_| ());
            }
            running.end(|_| Ending::Finished);
        }
    }

    /// For the macro: ends the pass with the returned value.
    #[doc(hidden)]
    #[inline]
    pub fn end<R>(
        self,
        returned: &R,
        look: impl Fn(&R, &mut dyn FnMut(&dyn Inspect)),
        judge: impl FnOnce(&R, &mut Outputs<'_>),
    ) {
        if self.running.is_some() {
            self.end_recorded(returned, look, judge);
        }
    }

    fn end_recorded<R>(
        mut self,
        returned: &R,
        look: impl Fn(&R, &mut dyn FnMut(&dyn Inspect)),
        judge: impl FnOnce(&R, &mut Outputs<'_>),
    ) {
        let Some(mut running) = self.running.take() else { return };
        if let Some(wait) = &mut running.device.wait {
            std::mem::take(wait).until(|see| look(returned, see));
        }
        running.end(|running| {
            let mut outputs = Outputs::new(&mut running.items, None);
            let ending = outputs.contained(|outputs| judge(returned, outputs));
            look(returned, &mut |tensor| running.output(tensor));
            ending
        });
    }
}

impl Running {
    fn output(&mut self, tensor: &dyn Inspect) {
        self.device.output(tensor);
        self.outputs.extend(self.inspects.then(|| inspect(tensor)).flatten());
    }

    /// Ends the pass. `look` runs after the clock has stopped, inspects the outputs and returns the
    /// ending.
    fn end(mut self: Box<Self>, look: impl FnOnce(&mut Self) -> Ending) {
        let left = self.task.leave(&mut self.items);
        let ending = look(&mut self);
        push_facts(&mut self.items, ItemKind::Generated, "tensor", &self.outputs);
        if self.device.wait.is_none() && self.device.is_asynchronous() {
            push_outstanding(&mut self.items);
        }
        left.end(ending, &self.items);
    }
}

/// Appends input tensors, several of one name as a list. If there is only one input, its name is
/// `tensor`.
fn push_inputs(items: &mut Vec<u8>, inputs: &[(String, TensorFacts)]) {
    for same in inputs.chunk_by(|(one, _), (other, _)| one == other) {
        let name = if inputs.len() == 1 { "tensor" } else { &same[0].0 };
        let facts: Vec<&TensorFacts> = same.iter().map(|(_, facts)| facts).collect();
        push_facts(items, ItemKind::Used, name, &facts);
    }
}

/// Appends the facts of a single tensor, or a list for several.
fn push_facts(items: &mut Vec<u8>, kind: ItemKind, name: &str, facts: &[impl Serialize]) {
    match facts {
        [] => {}
        [one] => push_named(items, kind, name, |to| to.serialize(one)),
        several => push_named(items, kind, name, |to| to.serialize(several)),
    }
}

impl Drop for ForwardPass {
    #[inline]
    fn drop(&mut self) {
        if let Some(before) = self.before {
            STATE.set(before);
        }
        if let Some(running) = &mut self.running {
            running.task.leave(&mut running.items).end(Ending::Dropped, &running.items);
        }
    }
}
