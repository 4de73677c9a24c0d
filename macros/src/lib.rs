//! The attributes [`#[telemetry_task]`](macro@telemetry_task) and [`#[telemetry_forward]`](macro@telemetry_forward) of the crate
//! `runlore`, which exports them again. Use them from there: what they expand to calls that crate.

mod args;
mod body;
mod check;
mod errors;
mod expand;
mod forward;
mod function;
mod layers;
mod nearest;
mod site;
mod source;

use args::Args;
use errors::Errors;
use function::Function;
use proc_macro2::{Ident, TokenStream};
use site::Location;

/// Records every call of a function as a task: its arguments, what it returned, how it ended, how long it took.
///
/// ```ignore
/// use runlore::telemetry_task;
///
/// #[telemetry_task]
/// fn add(a: i32, b: i32) -> i32 {
///     a + b
/// }
/// // add(1, 2) leaves: activity_id "add", used {"a": 1, "b": 2}, generated {"value": 3}
/// ```
///
/// The function keeps its signature, attributes, documentation and visibility, and behaves as before: an error is
/// returned, a panic goes on unwinding. No bound is put on any type: a value is recorded by `Serialize`, else by
/// `Debug`, else by the name of its type. While nothing records, a call costs one check.
///
/// # Where it may stand
///
/// On functions with a body: free ones, methods with any receiver, associated functions, trait methods with a
/// default body; generic, `unsafe`, `extern` and `async` ones. It stays off `const fn`, which may run at compile time.
///
/// The task of an `async fn` begins at the future's first poll and ends when the future is ready or dropped; a future
/// that is never polled leaves no record. The same holds for a function whose last expression is `async {…}` or
/// `Box::pin(async {…})`, which includes the methods under `#[async_trait]`: put `#[telemetry_task]` on the method,
/// inside. Their arguments are recorded as they were when the function was called. For other functions that return a
/// future see `future` below.
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
/// ## What the task is
///
/// | argument | meaning |
/// |---|---|
/// | `name = "train"` | the task's `activity_id`, instead of the function's name |
/// | `tags("slow", "gpu")` | its tags |
/// | `subtype = "learning"` | its subtype |
/// | `metadata(seed = config.seed, stage = "warm-up")` | entries of `custom_metadata`; expressions as in `used` |
///
/// ## What it used
///
/// Every parameter is recorded under its name: the names in a pattern such as `(a, b): (i32, i32)` each by itself,
/// `r#type` as `type`, `_` not at all. A receiver is recorded only when named.
///
/// | argument | meaning |
/// |---|---|
/// | `skip(data, key)` | leaves these parameters out |
/// | `skip_all` | leaves out all of them |
/// | `used(rows = df.len())` | records the expression, evaluated before the body with the arguments in scope. A parameter's own name replaces what is recorded of it |
/// | `used(self)` | short for `used(self = self)`; so with any variable or constant |
///
/// ## What it generated
///
/// | argument | meaning |
/// |---|---|
/// | (none) | the returned value, or the value in `Ok`, as `value`; nothing for `()` |
/// | `output = "model"` | the same under another name |
/// | `outputs("train", "test")` | the parts of a returned tuple, each under its name |
/// | `spread` | the fields of a returned struct, or the entries of a map, each under its own name |
/// | `generated(loss = ret.loss)` | only these expressions, in which `ret` is a reference to the returned value or to the value in `Ok`; together with one of the above, these as well. An argument that was moved into the body is gone by then |
///
/// ```ignore
/// #[telemetry_task(skip(data), used(rows = data.len()), generated(loss = ret.loss))]
/// fn train(data: &Table, epochs: u32) -> Result<Model, Error> { /* … */ }
/// // used {"epochs": 3, "rows": 1000}, generated {"loss": 0.12}
/// ```
///
/// ## What counts as failure
///
/// An `Err`, a panic and a future dropped before its end always do.
///
/// | argument | meaning |
/// |---|---|
/// | `fail_if = ret.is_none()` | fails the task when the condition holds; `ret` as in `generated`, not asked after an `Err` |
///
/// ## What is measured
///
/// | argument | meaning |
/// |---|---|
/// | `telemetry = "none"` | nothing about the machine; `"light"` the cheapest, `"default"` what the settings say |
/// | `telemetry(cpu, mem)`, `telemetry = (cpu, mem)` | only these types, out of `cpu`, `per_cpu`, `process_info`, `mem`, `disk`, `network`, `gpu`, `energy` |
/// | `tensors = runlore_burn` | the crate that knows a framework's tensors: they are recorded by their facts, such as shape and device, and so are tuples, lists and options of them. Types that implement `runlore::ml::Inspect` are so without it. A struct with tensors in it is recorded as any other, by its `Serialize` or `Debug`, which may show data: `skip` it, and name what matters, `used(x = batch.x)` |
/// | `sync = "task"` | waits for the device of the tensors that the function returns, else of those it gets, before the task ends. Without it the record of an asynchronous device says that work may be outstanding. Not for futures |
/// | `summarise = "full"` | large values are summarised and hashed over all their items, however long that takes |
///
/// ## Others
///
/// | argument | meaning |
/// |---|---|
/// | `future` | the function returns a future made elsewhere: records that future's run. It is boxed anew, unless the return type is `impl Future` |
/// | `crate = path::to::runlore` | where to find the crate `runlore`, when it was renamed or is exported by another |
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
/// * Arguments and results are recorded by their own `Serialize` or `Debug`, on the calling thread. One that takes a lock
///   waits for it, and for ever if the caller holds it. A `Mutex`, `RwLock` or `RefCell` that is itself the argument is
///   looked into without waiting; for a field of your own type, use `#[serde(serialize_with = "runlore::try_lock")]`.
/// * The body runs in a closure or an `async` block: inside a `#[track_caller]` function, `Location::caller()` is the
///   attribute's line.
/// * Arguments are dropped when and in the order they would be without the attribute, with three exceptions, which go last, after the
///   task has ended: what a pattern leaves unbound or binds by `ref` (`_: Guard`, the second of `(a, _): (A, Guard)`); what
///   `generated(…)` and `fail_if` look at, for they do so after the body; what is skipped and not used.
/// * `#[async_trait]` gives parameters written as patterns names of its own (`__arg1`); these are recorded.
/// * Without the feature `capture` of `runlore` the arguments are checked and the function is left as it is.
#[proc_macro_attribute]
pub fn telemetry_task(
    args: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    task(args.into(), item.into()).into()
}

/// Records the forward passes of a model: one task for the pass, and one for each layer that is called in it.
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
/// // leaves: Net (parent_forward), and in it fc1, act and fc2 (child_forward), each with facts about what went in and came out
/// ```
///
/// Calls of `forward` and `forward_t` become tasks that are named after their receiver, and so do candle's `x.apply(&self.fc1)` and
/// `x.apply_t(&self.dropout, train)`, after the layer. The framework need not know of it. `instrumentation.ml` in the settings says what is
/// recorded: with `what: parent_only` no layers, with `~` nothing; `children_mode` whether passes are measured, and whether tensors are inspected.
/// An `Err` or a panic is recorded as such, and goes on.
///
/// A layer that is a model with this attribute itself is recorded once, as the layer, with its own layers inside.
///
/// # Arguments
///
/// | argument | meaning |
/// |---|---|
/// | `tensors = runlore_candle` | the crate that knows the framework's tensors: `runlore_burn`, `runlore_candle`, or one of yours. Without it only types that implement `runlore::ml::Inspect` are tensors |
/// | `name = "encoder"` | the name of the pass, instead of the type of `self` or the function's name |
/// | `training = self.training` | whether the model learns from the pass, as a `bool` |
/// | `sync = "task"` | waits for the device before a pass or a layer ends: by the tensors that come out, else by those that go in. Without it the record of an asynchronous device says that work may be outstanding |
/// | `crate = path::to::runlore` | where to find the crate `runlore` |
///
/// # What it cannot see
///
/// * Calls inside macros (`vec![self.a.forward(x)]`), in nested functions and in `async` blocks, calls by path (`Module::forward(&self.fc1, x)`), calls of
///   `self.forward(…)` itself or of what a method of `self` returns (`self.head().forward(x)`), and layers under other names: put the attribute on those functions, or use `runlore::ml::Forward`.
/// * `x.apply(layer)` without a `&` before the layer, for other things have an `apply`, too: write `layer.forward(x)`.
/// * Activations that are functions (`x.relu()`), which have no layer.
/// * Tensors in structs. Those in tuples, lists, `Option` and `Result` are seen, and of a tuple with other things in it the first, if it is one.
/// * A layer and its arguments are evaluated before the call. Where only the call would tell a type, as in `forward(x.into())` or for the parameters of a
///   closure that is not the last argument, name it.
/// * An `async fn` is not a forward pass: `#[telemetry_task]` records it.
#[proc_macro_attribute]
pub fn telemetry_forward(
    args: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    pass(args.into(), item.into()).into()
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

/// The recording function; or, with a mistake in the attribute or a body that does not parse yet, the item as it
/// was, so that rustc's own errors and an editor's completion stay what they would be without the attribute.
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
    // Only a compiler knows where tokens stand.
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
