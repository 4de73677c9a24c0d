//! The attribute with every argument, on every kind of function.
#![allow(unsafe_code, reason = "unsafe functions are among them")]
#![allow(
    unused,
    reason = "what only arguments name is not used while the attribute leaves them out"
)]

use std::collections::BTreeMap;
use std::pin::Pin;

use runlore as renamed;
use runlore::telemetry_task;

const RATE: f64 = 0.5;

/// Has no `Debug`, no `Serialize` and no `Clone`.
#[allow(missing_debug_implementations)]
pub struct Model {
    /// How bad it is.
    pub loss: f64,
}

/// A free function without arguments.
#[telemetry_task]
pub fn add(a: i32, b: i32) -> i32 {
    a + b
}

/// Every argument that goes with a `Result`.
#[telemetry_task(
    name = "train the model",
    output = "model",
    skip(data),
    used(rows = data.len(), rate = RATE, epochs = f64::from(epochs)),
    generated(loss = ret.loss),
    tags("training", "small"),
    subtype = "learning",
    metadata(seed = 3 + 4, stage = "warm-up"),
    telemetry = "light",
    summarise = "full",
    fail_if = ret.loss.is_nan(),
    crate = renamed,
)]
pub fn train(data: &[f64], epochs: u32) -> Result<Model, String> {
    if data.is_empty() {
        return Err("no data".to_owned());
    }
    Ok(Model { loss: data.iter().sum::<f64>() / f64::from(epochs) })
}

/// Names for the parts of a tuple.
#[telemetry_task(outputs("quotient", "remainder"), telemetry(cpu, mem))]
pub fn divide(a: u32, b: u32) -> (u32, u32) {
    (a / b, a % b)
}

/// Spreads a map.
#[telemetry_task(spread, telemetry = "none")]
pub fn letters(text: &str) -> BTreeMap<char, usize> {
    let mut counts = BTreeMap::new();
    for letter in text.chars() {
        *counts.entry(letter).or_default() += 1;
    }
    counts
}

/// Fails without an `Err`.
#[telemetry_task(skip_all, fail_if = ret.is_none(), telemetry = "default")]
pub fn find(values: &[i32], wanted: i32) -> Option<usize> {
    values.iter().position(|value| *value == wanted)
}

/// Every telemetry type.
#[telemetry_task(telemetry = (cpu, per_cpu, process_info, mem, disk, network, gpu, energy))]
pub fn measured() {}

/// Generics, lifetimes, const generics and `impl Trait`.
#[telemetry_task]
pub fn first<'a, T, const N: usize>(
    items: &'a [T; N],
    other: &'a T,
    _more: impl Into<String>,
) -> &'a T
where
    T: PartialOrd,
{
    items.first().unwrap_or(other)
}

/// Returns `impl Trait`, and takes patterns.
#[telemetry_task]
pub fn between((from, to): (u32, u32)) -> impl Iterator<Item = u32> {
    from..to
}

/// # Safety
/// `at` must point to a readable number.
#[telemetry_task]
pub unsafe fn read(at: *const u32) -> u32 {
    // SAFETY: the caller vouches for it.
    unsafe { *at }
}

/// A function that C may call.
#[telemetry_task]
pub extern "C" fn called_from_c(n: u32) -> u32 {
    n + 1
}

/// Panics.
#[telemetry_task]
pub fn panics() {
    panic!("as it should")
}

/// Methods with every receiver.
#[derive(Debug, Default)]
pub struct Counter(u32);

impl Counter {
    /// An associated function.
    #[telemetry_task]
    pub fn starting_at(n: u32) -> Self {
        Self(n)
    }

    /// By reference, the receiver recorded.
    #[telemetry_task(used(self))]
    pub fn get(&self) -> u32 {
        self.0
    }

    /// By mutable reference.
    #[telemetry_task(used(before = self.0))]
    pub fn increase(&mut self, by: u32) {
        self.0 += by;
    }

    /// By value.
    #[telemetry_task]
    pub fn into_inner(self) -> u32 {
        self.0
    }
}

/// Trait methods with a body.
pub trait Greet {
    /// The name.
    fn name(&self) -> String;

    /// A method with a body.
    #[telemetry_task]
    fn greet(&self) -> String {
        format!("hello {}", self.name())
    }
}

impl Greet for str {
    #[telemetry_task]
    fn name(&self) -> String {
        self.to_owned()
    }
}

/// An async function.
#[telemetry_task(skip(text))]
pub async fn length(text: &str) -> Result<usize, std::fmt::Error> {
    std::future::ready(()).await;
    if text.is_empty() { Err(std::fmt::Error) } else { Ok(text.len()) }
}

/// A function that ends in an async block.
#[allow(clippy::manual_async_fn)]
#[telemetry_task]
pub fn ends_in_a_block(n: u32) -> impl Future<Output = u32> {
    async move { n + 1 }
}

/// A function that ends in a boxed async block.
#[telemetry_task]
pub fn boxed(n: u32) -> Pin<Box<dyn Future<Output = u32> + Send>> {
    Box::pin(async move { n + 2 })
}

/// A function that returns a future made elsewhere.
#[telemetry_task(future)]
pub fn made_elsewhere(n: u32) -> Pin<Box<dyn Future<Output = u32> + Send>> {
    boxed(n)
}
