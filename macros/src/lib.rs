//! The [`#[telemetry_task]`](macro@telemetry_task) attribute of the crate `runlore`, which exports it again. Use it
//! from there: what it expands to calls that crate.

mod args;
mod body;
mod check;
mod errors;
mod expand;
mod function;
mod nearest;
mod source;

use args::Args;
use errors::Errors;
use expand::Location;
use function::Function;
use proc_macro2::{Ident, TokenStream};

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
/// | `summarise = "full"` | large values are summarised over all their items instead of within the limits |
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

/// The recording function; or, with a mistake in the attribute or a body that does not parse yet, the item as it
/// was, so that rustc's own errors and an editor's completion stay what they would be without the attribute.
fn task(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let args = Args::parse(args, &mut errors);
    let function = Function::parse(item.clone())
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

fn location(name: &Ident) -> Location {
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
