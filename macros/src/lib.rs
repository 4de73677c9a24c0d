//! The attributes [`#[telemetry_task]`](macro@telemetry_task) and
//! [`#[telemetry_forward]`](macro@telemetry_forward) of the crate `runlore`.
//! Import them from `runlore`, which re-exports them: the generated code calls that crate.

mod args;
mod body;
mod check;
mod errors;
mod expand;
mod forward;
mod function;
mod layers;
mod nearest;
mod profile;
mod site;
mod source;

use args::Args;
use errors::Errors;
use function::Function;
use proc_macro2::{Ident, TokenStream};
use site::Location;
use syn::Error;

/// Records every call of a function as a task: arguments, result, status and duration.
///
/// ```ignore
/// use runlore::telemetry_task;
///
/// #[telemetry_task]
/// fn add(a: i32, b: i32) -> i32 {
///     a + b
/// }
/// // add(1, 2) records: activity_id "add", used {"a": 1, "b": 2}, generated {"value": 3}
/// ```
///
/// The function keeps its signature, attributes, documentation and visibility, and it behaves as
/// before: it still returns its errors, and its panics still unwind. The attribute adds no trait
/// bounds. A value is recorded with `Serialize` if its type implements it, else with `Debug`, else
/// as its type name. While no run is being recorded, a call costs one check.
///
/// # Where to put it
///
/// On any function with a body: free functions, methods with any receiver, associated functions and
/// trait methods with a default body. The function may be generic, `unsafe`, `extern` or `async`. A
/// `const fn` is rejected, because it may run at compile time.
///
/// The task of an `async fn` begins when the future is first polled, and ends when the future is
/// ready or dropped. A future that is never polled records nothing. The same holds for a function
/// whose last expression is `async {…}` or `Box::pin(async {…})`. Methods under `#[async_trait]`
/// are such functions: put `#[telemetry_task]` on the method, inside the `impl` block. Such a
/// function's arguments are recorded as they were when it was called. For other functions that
/// return a future, see `future` below.
///
/// ```ignore
/// #[async_trait]
/// impl Store for Memory {
///     #[telemetry_task(used(entries = self.len()))]
///     async fn get(&self, key: &str) -> Option<String> { /* … */ }
/// }
/// ```
///
/// # Arguments
///
/// All are optional, in any order: `#[telemetry_task(name = "train", tags("slow"), skip(data))]`.
///
/// ## Name and metadata
///
/// | argument | meaning |
/// |---|---|
/// | `name = "train"` | the task's `activity_id`; by default the function's name |
/// | `tags("slow", "gpu")` | the task's tags |
/// | `subtype = "learning"` | the task's subtype |
/// | `metadata(seed = config.seed, stage = "warm-up")` | entries of `custom_metadata`; expressions as in `used` |
///
/// ## Inputs
///
/// Every parameter is recorded under its name. In a pattern such as `(a, b): (i32, i32)`, each name
/// is recorded separately. `r#type` is recorded as `type`, and `_` is not recorded. A receiver is
/// recorded only with `used(self)`.
///
/// | argument | meaning |
/// |---|---|
/// | `skip(data, key)` | does not record these parameters |
/// | `skip_all` | records no parameter |
/// | `used(rows = df.len())` | records the value of the expression |
/// | `used(self)` | short for `used(self = self)`; works with any variable or constant |
///
/// Expressions in `used` are evaluated before the body, with the arguments in scope. If the name is
/// that of a parameter, the expression replaces the parameter's value in the record.
///
/// ## Outputs
///
/// | argument | meaning |
/// |---|---|
/// | (none) | records the returned value, or the value in `Ok`, as `value`; nothing for `()` |
/// | `output = "model"` | the same under another name |
/// | `outputs("train", "test")` | records the elements of a returned tuple, each under its name |
/// | `spread` | records the fields of a returned struct, or the entries of a map, under their own names |
/// | `generated(loss = ret.loss)` | records only these expressions |
///
/// In `generated`, `ret` is a reference to the returned value or to the value in `Ok`. An argument
/// that was moved into the body is no longer available there. Combined with `output`, `outputs` or
/// `spread`, the expressions are recorded in addition.
///
/// ```ignore
/// #[telemetry_task(skip(data), used(rows = data.len()), generated(loss = ret.loss))]
/// fn train(data: &Table, epochs: u32) -> Result<Model, Error> { /* … */ }
/// // used {"epochs": 3, "rows": 1000}, generated {"loss": 0.12}
/// ```
///
/// ## Failure
///
/// A task always fails on an `Err`, on a panic, and if its future is dropped before it is ready.
///
/// | argument | meaning |
/// |---|---|
/// | `fail_if = ret.is_none()` | also fails the task if the condition is true |
///
/// `ret` is the same as in `generated`. The condition is not evaluated after an `Err`.
///
/// ## Measurement
///
/// | argument | meaning |
/// |---|---|
/// | `telemetry = "none"` | nothing about the machine; `"light"`: only the cheapest; `"default"`: as in the settings |
/// | `telemetry(cpu, mem)` | measures only these types; `telemetry = (cpu, mem)` is the same |
/// | `tensors = runlore_burn` | the crate that supports the framework's tensors |
/// | `sync = "task"` | waits for the tensors' device before the task ends; not for futures |
/// | `summarise = "full"` | summarises and hashes large values over all their items, however long that takes |
///
/// The types are `cpu`, `per_cpu`, `process_info`, `mem`, `disk`, `network`, `gpu` and `energy`.
///
/// With `tensors`, a tensor is recorded by its properties, such as shape and device. So are tuples,
/// lists and options of tensors. Types that implement `runlore::ml::Inspect` are recorded this way
/// without `tensors`. A struct that contains tensors is recorded like any other struct, with its
/// `Serialize` or `Debug`, which may include the tensors' data. To avoid that, `skip` the struct
/// and name the parts that matter: `used(x = batch.x)`.
///
/// `sync` waits for the device of the returned tensors or, if there are none, of the tensors among
/// the arguments. Without `sync`, the record of a task on an asynchronous device notes that device
/// work may be outstanding.
///
/// ## Other arguments
///
/// | argument | meaning |
/// |---|---|
/// | `future` | records the future that the function returns, if the body does not end in an `async` block |
/// | `crate = path::to::runlore` | the path of the crate `runlore`, if renamed or re-exported by another crate |
///
/// With `future`, the returned future is boxed again, unless the return type is `impl Future`.
///
/// ```ignore
/// #[telemetry_task(future)]
/// fn fetch(id: u64) -> Pin<Box<dyn Future<Output = Page> + Send>> {
///     Box::pin(client().get(id))
/// }
/// ```
///
/// # Limits
///
/// * Arguments and results are recorded with their own `Serialize` or `Debug`, on the calling
///   thread. An implementation that takes a lock waits for it, and waits forever if the caller
///   holds that lock. If the argument itself is a `Mutex`, `RwLock` or `RefCell`, it is read
///   without waiting. For a field of your own type, use
///   `#[serde(serialize_with = "runlore::try_lock")]`.
/// * The body runs in a closure or an `async` block. Inside a `#[track_caller]` function,
///   `Location::caller()` therefore returns the attribute's line.
/// * Arguments are dropped at the same time and in the same order as without the attribute, with
///   three exceptions. These are dropped last, after the task has ended: parts that a pattern
///   leaves unbound or binds by `ref` (`_: Guard`, the second element of `(a, _): (A, Guard)`);
///   arguments that `generated(…)` or `fail_if` use, because these run after the body; arguments
///   that are skipped and not used.
/// * `#[async_trait]` renames parameters that are written as patterns (`__arg1`). They are recorded
///   under the new names.
/// * Without the feature `capture` of `runlore`, the attribute's arguments are checked and the
///   function stays unchanged.
#[proc_macro_attribute]
pub fn telemetry_task(
    args: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    task(args.into(), item.into()).into()
}

/// Records the forward passes of a model: one task for the pass, and one for each layer it calls.
///
/// ```ignore
/// use runlore::telemetry_forward;
///
/// impl Net {
///     #[telemetry_forward(tensors = runlore_burn)]
///     fn forward(&self, x: Tensor<2>) -> Tensor<2> {
///         self.fc2.forward(self.act.forward(self.fc1.forward(x)))
///     }
/// }
/// // records: Net (parent_forward) and its children fc1, act and fc2 (child_forward),
/// // each with the properties of its input and output tensors
/// ```
///
/// Calls of `forward` and `forward_t` become tasks that are named after their receiver. Candle's
/// `x.apply(&self.fc1)` and `x.apply_t(&self.dropout, train)` become tasks that are named after the
/// layer. This needs no support by the framework. An `Err` or a panic is recorded and then
/// propagates.
///
/// The section `instrumentation.ml` of the settings selects what is recorded. `what: parent_only`
/// records no layers, and `what: ~` records nothing. `children_mode` selects whether passes are
/// measured and whether tensors are inspected. With `parent_mode: telemetry`, passes of whole
/// models are measured in any case.
///
/// If a layer is itself a model with this attribute, it is recorded once, as the layer, with its
/// own layers as children.
///
/// # Arguments
///
/// | argument | meaning |
/// |---|---|
/// | `tensors = runlore_candle` | the crate that supports the framework's tensors |
/// | `name = "encoder"` | the name of the pass; by default the type of `self`, else the function's name |
/// | `training = self.training` | a `bool`: whether the model learns from the pass |
/// | `sync = "task"` | waits for the device before a pass or a layer ends |
/// | `crate = path::to::runlore` | the path of the crate `runlore` |
///
/// `tensors` is `runlore_burn`, `runlore_candle` or a crate of your own. Without it, only types
/// that implement `runlore::ml::Inspect` count as tensors.
///
/// `sync` waits for the device of the output tensors or, if there are none, of the input tensors.
/// Without `sync`, the record of a pass on an asynchronous device notes that device work may be
/// outstanding.
///
/// # What it does not record
///
/// * Calls inside macros (`vec![self.a.forward(x)]`), in nested functions and in `async` blocks;
///   calls by path (`Module::forward(&self.fc1, x)`); calls of `self.forward(…)` itself or on the
///   result of a method of `self` (`self.head().forward(x)`); and layers whose method has another
///   name. Put the attribute on those functions, or use `runlore::ml::Forward`.
/// * `x.apply(layer)` without a `&` before the layer, because other types have a method `apply`,
///   too. Write `layer.forward(x)` instead.
/// * Activations that are functions (`x.relu()`), because there is no layer to name.
/// * Tensors in structs. Tensors in tuples, lists, `Option` and `Result` are recorded. Of a tuple
///   that also contains other values, only the first element is recorded, if it is a tensor.
///
/// A layer and its arguments are evaluated before the call. Annotate a type that only the call
/// would let the compiler infer, as in `forward(x.into())` or for the parameters of a closure that
/// is not the last argument.
///
/// An `async fn` is not a forward pass: use `#[telemetry_task]` for it.
#[proc_macro_attribute]
pub fn telemetry_forward(
    args: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    pass(args.into(), item.into()).into()
}

/// Lets a model describe itself: its modules are the fields of its struct.
///
/// ```ignore
/// use runlore::ml::{ModelProfile, Profiled};
///
/// #[derive(ModelProfile)]
/// struct Linear { weight: Tensor, bias: Tensor }
///
/// #[derive(ModelProfile)]
/// struct Net { fc1: Linear, act: Relu, fc2: Linear }
///
/// run.register_model(&net.profile())?;
/// ```
///
/// It implements `runlore::ml::Profiled`. A field becomes a module if its type implements
/// `Profiled` or `runlore::ml::Attributes`, and a parameter if it is a tensor: a type that
/// implements `runlore::ml::Inspect`, or one that the crate in `#[profile(tensors = …)]` supports,
/// such as `runlore_candle`. A tensor that says that it requires no gradients is frozen. Other
/// fields are left out.
///
/// A model whose `forward` has `#[telemetry_forward]` registers itself at its first pass in a
/// workflow, if `register_workflow` is on in the settings.
///
/// `#[profile(crate = path::to::runlore)]` sets the path of the crate `runlore`.
#[proc_macro_derive(ModelProfile, attributes(profile))]
pub fn model_profile(item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let parsed = syn::parse(item).and_then(|input| profile::derive(&input));
    parsed.unwrap_or_else(Error::into_compile_error).into()
}

fn pass(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let args = forward::Args::parse(args, &mut errors);
    let function = Function::parse(item.clone(), "telemetry_forward")
        .inspect(|function| forward::check(function, &mut errors))
        .map_err(|error| errors.push(error));
    if !errors.is_empty() {
        return [item, errors.into_compile_errors()].into_iter().collect();
    }
    match &function {
        Ok(function @ Function { body: Some(body), .. }) if cfg!(feature = "capture") => {
            forward::expand(&args, function, body)
        }
        _ => item,
    }
}

/// Expands `#[telemetry_task]`. Returns the item unchanged if the attribute has a mistake or the
/// body does not parse yet, so that rustc's own errors and the editor's completion stay the same as
/// without the attribute.
fn task(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let args = Args::parse(args, &mut errors);
    let function = Function::parse(item.clone(), "telemetry_task")
        .inspect(|function| args.check(function, &mut errors))
        .map_err(|error| errors.push(error));
    if !errors.is_empty() {
        return [item, errors.into_compile_errors()].into_iter().collect();
    }
    match &function {
        Ok(function @ Function { body: Some(body), .. }) if cfg!(feature = "capture") => {
            expand::expand(&args, function, body, location(&function.sig.ident))
        }
        _ => item,
    }
}

pub(crate) fn location(name: &Ident) -> Location {
    // Spans have positions only inside the compiler.
    if !proc_macro::is_available() {
        return Location::default();
    }
    let span = name.span().unwrap();
    let number = |number: usize| u32::try_from(number).unwrap_or(0);
    Location { line: number(span.line()), column: number(span.column()) }
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::*;

    #[test]
    fn a_body_that_does_not_parse_is_left_alone() {
        let item = quote!(pub fn half_written(a: &str) -> usize { let b = a. });
        assert_eq!(task(quote!(), item.clone()).to_string(), item.to_string());
    }

    #[test]
    fn a_mistake_leaves_the_item_alone() {
        for (args, item) in [
            (
                quote!(tagz("a")),
                quote!(
                    fn f() {}
                ),
            ),
            (
                quote!(),
                quote!(
                    struct Unit;
                ),
            ),
            (
                quote!(),
                quote!(
                    fn without_body();
                ),
            ),
        ] {
            let expanded = task(args, item.clone()).to_string();
            assert!(expanded.starts_with(&item.to_string()), "{expanded}");
            assert!(expanded.contains("compile_error"), "{expanded}");
        }
    }

    #[test]
    fn nothing_at_all_is_an_error() {
        assert!(task(quote!(), quote!()).to_string().contains("compile_error"));
    }
}
