//! Tasks without the macro: blocks, closures and futures.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::pin::pin;

use serde::Serialize;

use super::budget::Measuring;
use super::failure::Failure;
use super::future::{AsyncTask, Tasked};
use super::inputs::{Outputs, Scratch, push_value};
use super::meter::Meter;
use super::panics::Since;
use super::{Begun, context_of_new_task, error};
use crate::pipeline::event::{Ending, ItemKind, Key, Marks, push_item, push_text};
use crate::pipeline::overhead::CallerStep;
use crate::pipeline::push_add;
use runlore_core::clock;
use runlore_core::contain::contain;
use runlore_core::context;
use runlore_core::context::Context;
use runlore_core::context::remote_usage;
use runlore_core::context::remote_usage::Sums;
use runlore_core::record::redact::hide_secrets;
use runlore_core::record::{Budget, Encoder, Hashing, Id, Limits, Secrecy};
use runlore_telemetry::TelemetryChoice;
use runlore_telemetry::usage::ChildUsage;

/// Creates a task for a part of a function.
///
/// ```
/// # let run = runlore::workflow("doc").store(runlore::store::MemoryStore::new()).start()?;
/// use runlore::task;
///
/// // a closure
/// let rows = task("load").used("path", "data.csv").run(|| 42);
///
/// // a closure that may fail
/// let port: Result<u16, _> = task("parse").try_run(|| "80".parse());
///
/// // a block
/// let mut block = task("clean").tag("etl").start();
/// block.generated("rows", rows);
/// block.finish();
/// # run.finish()?;
/// # Ok::<(), runlore::Error>(())
/// ```
#[track_caller]
pub fn task(name: &str) -> TaskBuilder {
    let code = Location::caller();
    let measuring = Measuring::at(TelemetryChoice::Default, None, code);
    let mut builder = TaskBuilder { items: None, measuring };
    if context::enabled() {
        let mut items = Vec::with_capacity(128);
        push_text(&mut items, ItemKind::Activity, &hide_secrets(name, false));
        push_code(&mut items, code);
        builder.items = Some(items);
    }
    builder
}

pub(crate) fn push_code(items: &mut Vec<u8>, place: &Location<'_>) {
    push_item(items, ItemKind::Code, Key::Index(0), |items| {
        items.extend_from_slice(&place.line().to_le_bytes());
        items.extend_from_slice(&place.column().to_le_bytes());
        items.extend_from_slice(place.file().as_bytes());
        Marks::default()
    });
}

/// Adds an output to the current task. Does nothing after the task has ended, for instance on a
/// thread that outlives the task whose context it has.
///
/// ```
/// # use runlore::store::MemoryStore;
/// # let store = MemoryStore::new();
/// # let run = runlore::workflow("doc").store(store.clone()).start()?;
/// runlore::task("count").run(|| runlore::generated("rows", 3));
/// # run.finish()?;
/// # assert_eq!(store.tasks()[0].generated.as_ref().unwrap()["rows"], 3);
/// # Ok::<(), runlore::Error>(())
/// ```
pub fn generated(name: &str, value: impl Serialize) {
    add_to_current(|items| {
        push_named(items, ItemKind::Generated, name, |to| to.serialize(&value));
    });
}

/// Marks the current task as failed, with an error and all its sources. See [`Failure`] for the
/// accepted types. Does nothing after the task has ended.
///
/// ```
/// # use runlore::store::MemoryStore;
/// # let store = MemoryStore::new();
/// # let run = runlore::workflow("doc").store(store.clone()).start()?;
/// runlore::task("parse").run(|| runlore::fail("line 3 has no number"));
/// # run.finish()?;
/// # assert_eq!(store.tasks()[0].stderr.as_deref(), Some("line 3 has no number"));
/// # Ok::<(), runlore::Error>(())
/// ```
pub fn fail<K>(error: impl Failure<K>) {
    add_to_current(|items| push_failure(items, error));
}

fn add_to_current(push: impl FnOnce(&mut Vec<u8>)) {
    if let Some((task, context)) = context::current_task() {
        let mut scratch = Scratch::take();
        push(&mut scratch);
        push_add(context.workflow(), task, &scratch, !context.is_async());
    }
}

pub(crate) fn push_named(
    items: &mut Vec<u8>,
    kind: ItemKind,
    name: &str,
    encode: impl FnOnce(&mut Encoder<'_>),
) {
    let hashing = if kind == ItemKind::Metadata { Hashing::Off } else { Hashing::InTime };
    let (secrecy, budget) = (Secrecy::Named(name), &mut Budget::default());
    push_value(items, kind, Key::Name(name), secrecy, hashing, budget, encode);
}

/// Appends an error. See [`push_failure_of`].
#[expect(clippy::needless_pass_by_value, reason = "public functions pass on what they were given")]
pub(crate) fn push_failure<K>(items: &mut Vec<u8>, error: impl Failure<K>) {
    push_failure_of(items, &error);
}

/// Appends an error's type and messages, or a fixed text if its own `Display` panics.
pub(crate) fn push_failure_of<E: Failure<K>, K>(items: &mut Vec<u8>, error: &E) {
    let type_name = std::any::type_name::<E>().trim_start_matches('&');
    if !type_name.starts_with("dyn ") {
        push_text(items, ItemKind::ErrorType, type_name);
    }
    let start = items.len();
    if contain(|| error.describe(items)).is_none() {
        items.truncate(start);
        push_text(items, ItemKind::ErrorMessage, "an error whose own Display panicked");
    }
}

/// A task that has not begun. Created by [`task`].
#[derive(Debug)]
#[must_use = "a task begins with `start`, `run`, `try_run` or `track`"]
pub struct TaskBuilder {
    /// `None` if nothing is recorded.
    items: Option<Vec<u8>>,
    measuring: Measuring,
}

impl TaskBuilder {
    fn with(mut self, add: impl FnOnce(&mut Vec<u8>)) -> Self {
        if let Some(items) = &mut self.items {
            add(items);
        }
        self
    }

    /// Adds an input, recorded by its `Serialize`.
    pub fn used(self, name: &str, value: impl Serialize) -> Self {
        self.with(|items| push_named(items, ItemKind::Used, name, |to| to.serialize(&value)))
    }

    /// Adds an input, recorded by its `Debug`.
    pub fn used_debug(self, name: &str, value: &dyn Debug) -> Self {
        self.with(|items| push_named(items, ItemKind::Used, name, |to| to.debug(value)))
    }

    /// Adds a field to `custom_metadata`.
    pub fn metadata(self, name: &str, value: impl Serialize) -> Self {
        self.with(|items| push_named(items, ItemKind::Metadata, name, |to| to.serialize(&value)))
    }

    /// Adds a tag.
    pub fn tag(self, tag: &str) -> Self {
        self.with(|items| push_text(items, ItemKind::Tag, &hide_secrets(tag, false)))
    }

    /// Sets the kind of task.
    pub fn subtype(self, subtype: &str) -> Self {
        self.with(|items| push_text(items, ItemKind::Subtype, &hide_secrets(subtype, false)))
    }

    /// Sets a group that the task shares with others, such as the iterations of one loop.
    pub fn group(self, group: &str) -> Self {
        self.with(|items| push_text(items, ItemKind::Group, &hide_secrets(group, false)))
    }

    /// Chooses what is measured around the task, instead of the types in the settings.
    ///
    /// ```
    /// use runlore::telemetry::{TelemetryChoice, TelemetryType};
    ///
    /// runlore::task("step").telemetry(TelemetryChoice::Light).run(|| { /* a tight loop's body */ });
    /// runlore::task("dump").telemetry([TelemetryType::Disk]).run(|| { /* … */ });
    /// ```
    pub fn telemetry(mut self, choice: impl Into<TelemetryChoice>) -> Self {
        self.measuring.choice = choice.into();
        self
    }

    /// Begins the task. It ends with the guard.
    ///
    /// Call [`finish`](TaskGuard::finish) at the end. A guard dropped without it was left by
    /// `break`, `?` or `return`, and its record has `ended_early`.
    pub fn start(self) -> TaskGuard {
        let mut meter = None;
        let begun = self.items.and_then(|items| {
            let context = context_of_new_task()?;
            let _step = CallerStep::begin();
            let mut items = Scratch::holding(items);
            meter = Meter::begin(&self.measuring, context, &mut items);
            let begun = Begun::start(context, 0, &items, &mut meter, true)?;
            Some((begun, begun.inside().replace()))
        });
        TaskGuard { begun, meter, items: Vec::new(), since: Since::now(), _not_send: PhantomData }
    }

    /// Runs a closure as the task.
    pub fn run<R>(self, work: impl FnOnce() -> R) -> R {
        self.run_with(work, |_, _| {})
    }

    /// Runs a fallible closure as the task and records an `Err`. See [`Failure`] for the accepted
    /// error types.
    pub fn try_run<T, E: Failure<K>, K>(self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.run_with(work, |result, guard| {
            if let Err(error) = result {
                push_failure_of(&mut guard.items, error);
            }
        })
    }

    fn run_with<R>(self, work: impl FnOnce() -> R, look: impl FnOnce(&R, &mut TaskGuard)) -> R {
        let mut guard = self.start();
        if guard.begun.is_none() {
            return work();
        }
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(result) => {
                let ended = clock::monotonic_ns();
                look(&result, &mut guard);
                guard.end(ended, Ending::Finished);
                result
            }
            Err(panic) => {
                let ended = clock::monotonic_ns();
                error::push_panic(&mut guard.items, &*panic);
                guard.end(ended, Ending::Panicked);
                resume_unwind(panic)
            }
        }
    }

    /// Runs a future as the task. The task begins when the future is first polled.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let rows = runlore::task("fetch").used("url", "…").track(async { 42 }).await;
    /// # }
    /// ```
    pub async fn track<F: Future>(self, future: F) -> F::Output {
        self.track_with(future, |_, _| {}).await
    }

    /// Runs a fallible future as the task and records an `Err`. See [`Failure`] for the accepted
    /// error types.
    pub async fn try_track<F, T, E, K>(self, future: F) -> Result<T, E>
    where
        F: Future<Output = Result<T, E>>,
        E: Failure<K>,
    {
        let look = |result: &Result<T, E>, outputs: &mut Outputs<'_>| {
            if let Err(error) = result {
                outputs.fail(|items| push_failure_of(items, error));
            }
        };
        self.track_with(future, look).await
    }

    async fn track_with<F: Future>(
        self,
        future: F,
        look: impl FnOnce(&F::Output, &mut Outputs<'_>) + Unpin,
    ) -> F::Output {
        let mut task = AsyncTask::new();
        if let Some(items) = self.items {
            task.begin_with(items, &self.measuring);
        }
        let body = pin!(future);
        Tasked::new(&mut task, body, look).await
    }
}

/// A running task. Created by [`TaskBuilder::start`].
#[derive(Debug)]
#[must_use = "the task ends when its guard is dropped"]
pub struct TaskGuard {
    /// The task, and the context to restore.
    begun: Option<(Begun, Context)>,
    meter: Option<Box<Meter>>,
    items: Vec<u8>,
    since: Since,
    _not_send: PhantomData<*const ()>,
}

impl TaskGuard {
    /// Returns the task's id. `None` if the task is not recorded.
    pub fn id(&self) -> Option<Id> {
        self.begun.as_ref().map(|(begun, _)| begun.id)
    }

    fn push(&mut self, kind: ItemKind, name: &str, encode: impl FnOnce(&mut Encoder<'_>)) {
        if self.begun.is_some() {
            push_named(&mut self.items, kind, name, encode);
        }
    }

    /// Adds an input, recorded by its `Serialize`.
    pub fn used(&mut self, name: &str, value: impl Serialize) {
        self.push(ItemKind::Used, name, |to| to.serialize(&value));
    }

    /// Adds an output, recorded by its `Serialize`.
    pub fn generated(&mut self, name: &str, value: impl Serialize) {
        self.push(ItemKind::Generated, name, |to| to.serialize(&value));
    }

    /// Adds an output, recorded by its `Debug`.
    pub fn generated_debug(&mut self, name: &str, value: &dyn Debug) {
        self.push(ItemKind::Generated, name, |to| to.debug(value));
    }

    /// Adds a field to `custom_metadata`.
    pub fn metadata(&mut self, name: &str, value: impl Serialize) {
        self.push(ItemKind::Metadata, name, |to| to.serialize(&value));
    }

    /// Adds the usage of a process that the task ran and waited for. It becomes `resources.child`,
    /// and counts as usage of the task's children. Call this once per task.
    ///
    /// ```
    /// # let store = runlore::store::MemoryStore::new();
    /// # let run = runlore::workflow("doc").store(store.clone()).start()?;
    /// let mut task = runlore::task("compress").start();
    /// let mut used = runlore::telemetry::usage::ChildUsage::default();
    /// used.user_ns = 40_000_000; // for instance from `wait4`
    /// task.child_used(&used);
    /// task.finish();
    /// # run.finish()?;
    /// # let resources = store.tasks()[0].resources.clone().unwrap();
    /// # assert_eq!(resources["child"]["user_ns"], 40_000_000);
    /// # assert!(resources["cpu_ns"]["inclusive"].as_u64() >= Some(40_000_000));
    /// # Ok::<(), runlore::Error>(())
    /// ```
    pub fn child_used(&mut self, used: &ChildUsage) {
        let Some((begun, _)) = &self.begun else { return };
        if self.meter.is_some() {
            remote_usage::expect(begun.id);
            remote_usage::add(begun.id, Sums { used: used.as_threads(), ..Sums::default() });
        }
        push_item(&mut self.items, ItemKind::ChildUsage, Key::Index(0), |items| {
            Encoder::new(items, Limits::DEFAULT, Secrecy::NONE).serialize(used);
            Marks::default()
        });
    }

    /// Marks the task as failed, with an error and all its sources. See [`Failure`] for the
    /// accepted types.
    pub fn fail<K>(&mut self, error: impl Failure<K>) {
        if self.begun.is_some() {
            push_failure(&mut self.items, error);
        }
    }

    /// Ends the task.
    pub fn finish(mut self) {
        self.end(clock::monotonic_ns(), Ending::Finished);
    }

    fn end(&mut self, monotonic_ns: u64, ending: Ending) {
        let Some((begun, before)) = self.begun.take() else { return };
        let _step = CallerStep::since(monotonic_ns);
        before.restore_after(begun.id);
        let mut items = Scratch::holding(std::mem::take(&mut self.items));
        begun.measure(&mut self.meter, &mut items);
        begun.end(monotonic_ns, ending, &items);
    }
}

impl Drop for TaskGuard {
    fn drop(&mut self) {
        if self.begun.is_none() {
            return;
        }
        let ended = clock::monotonic_ns();
        let panicked = self.since.is_panicking();
        if panicked && let Some(message) = self.since.message() {
            error::push_panic_text(&mut self.items, &message);
        }
        self.end(ended, if panicked { Ending::Panicked } else { Ending::Dropped });
    }
}
