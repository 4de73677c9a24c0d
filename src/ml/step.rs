//! A running iteration.

use std::fmt;
use std::marker::PhantomData;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use super::bar::Bar;
use super::mode::LeftOut;
use super::shared::Shared;
use crate::instrument::{
    Failure, LeftTask, OpenTask, Scratch, Wait, asynchronous_so_far, push_failure, push_named,
    push_outstanding,
};
use crate::pipeline::event::{Ending, ItemKind, Marks, push_item};
use runlore_core::context;
use runlore_core::context::{Context, FutureExt as _, Number};
use runlore_core::record::{Encoder, Id, Inspect, Limits, Secrecy};

/// Where the work of a loop is done: [`Attached`] or [`Detached`].
pub trait Place: sealed::Place + fmt::Debug {}

pub(super) mod sealed {
    pub trait Place {
        const IS_ATTACHED: bool;
    }
}

/// The work runs on the loop's thread: everything that the thread does while an iteration is alive
/// belongs to that iteration.
#[derive(Debug)]
pub struct Attached(PhantomData<*const ()>);

/// The work runs anywhere: an iteration may cross threads and `.await`s. [`Step::run`] and
/// [`Step::track`] mark the work that belongs to it.
#[derive(Debug)]
pub struct Detached(());

impl sealed::Place for Attached {
    const IS_ATTACHED: bool = true;
}

impl sealed::Place for Detached {
    const IS_ATTACHED: bool = false;
}

impl Place for Attached {}
impl Place for Detached {}

/// A running iteration. It ends when it is dropped.
///
/// When the loop requests its next item, the iteration counts as finished. If the loop is left by
/// `break`, `?` or `return`, the record has `ended_early`. A panic marks the iteration as an error,
/// and so does [`fail`](Self::fail).
#[must_use = "the iteration ends when this is dropped"]
pub struct Step<P: Place = Attached> {
    /// `None` if there is nothing to track: a disabled loop must cost next to nothing.
    inner: Option<Box<Inner>>,
    index: u64,
    workflow: Number,
    _place: PhantomData<P>,
}

/// The state of an iteration.
#[derive(Debug)]
pub(super) struct Inner {
    running: Option<Running>,
    /// The context inside it, or around it if it is not recorded.
    inside: Context,
    is_left_out: bool,
    _left_out: Option<LeftOut>,
    bar: Option<Arc<Bar>>,
}

/// A recorded iteration.
#[derive(Debug)]
struct Running {
    task: Mutex<OpenTask>,
    items: Mutex<Scratch>,
    shared: Arc<Shared>,
    /// Set from when it was left until it has ended.
    left: Option<LeftTask>,
    /// The thread's count of tensors on asynchronous devices when the iteration began, or when it
    /// last waited for the device.
    asynchronous: AtomicU64,
}

impl Inner {
    fn around(inside: Context) -> Box<Self> {
        Box::new(Self { running: None, inside, is_left_out: false, _left_out: None, bar: None })
    }

    /// The state of an unrecorded iteration. `None` if it is attached, because it finds its context
    /// by itself.
    #[inline]
    pub(super) fn unrecorded<P: Place>(around: Context) -> Option<Box<Self>> {
        if P::IS_ATTACHED { None } else { Some(Self::around(around)) }
    }

    /// The state of a skipped iteration: it is not recorded, nor are loops and models inside it.
    pub(super) fn left_out<P: Place>(around: Context) -> Box<Self> {
        let mut inner = Self::around(around);
        inner.is_left_out = true;
        inner._left_out = P::IS_ATTACHED.then(LeftOut::enter);
        inner
    }

    /// The state of a recorded iteration. `items` is the buffer for its items.
    pub(super) fn recorded(task: OpenTask, items: Scratch, shared: &Arc<Shared>) -> Box<Self> {
        let mut inner = Self::around(task.inside());
        inner.running = Some(Running {
            task: Mutex::new(task),
            items: Mutex::new(items),
            shared: Arc::clone(shared),
            left: None,
            asynchronous: AtomicU64::new(asynchronous_so_far()),
        });
        inner
    }

    /// Reuses the state of an ended iteration of the same loop.
    pub(super) fn reuse(mut self: Box<Self>, task: OpenTask, items: Scratch) -> Box<Self> {
        self.inside = task.inside();
        if let Some(running) = &mut self.running {
            *unlocked(&mut running.task) = task;
            *unlocked(&mut running.items) = items;
            *running.asynchronous.get_mut() = asynchronous_so_far();
        }
        self
    }

    /// Takes the buffer of an ended iteration.
    pub(super) fn take_items(&mut self) -> Scratch {
        let items = self.running.as_mut().map(|running| unlocked(&mut running.items));
        items.map_or_else(Scratch::take, |items| std::mem::replace(items, Scratch::empty()))
    }

    pub(super) fn with_bar(inner: Option<Box<Self>>, bar: &Arc<Bar>, base: Context) -> Box<Self> {
        let mut inner = inner.unwrap_or_else(|| Self::around(inside_unrecorded(base.workflow())));
        inner.bar = Some(Arc::clone(bar));
        inner
    }

    #[inline(never)]
    fn leave<P: Place>(mut self: Box<Self>, index: u64) {
        self.bar = None;
        if let Some(running) = &mut self.running {
            running.leave(P::IS_ATTACHED);
            let shared = Arc::clone(&running.shared);
            shared.leave(index, self);
        }
    }

    /// Returns whether a panic left the iteration.
    pub(super) fn has_panicked(&self) -> bool {
        let left = self.running.as_ref().and_then(|running| running.left);
        left.is_some_and(|left| left.has_panicked())
    }

    /// Ends an iteration that was left.
    pub(super) fn end(&mut self, ending: Ending) {
        if let Some(running) = &mut self.running
            && let Some(left) = running.left.take()
        {
            let items = unlocked(&mut running.items);
            left.end(ending, items);
            items.clear();
        }
    }
}

impl Running {
    fn leave(&mut self, is_attached: bool) {
        let items = unlocked(&mut self.items);
        // A detached iteration meets its tensors on other threads.
        if is_attached && asynchronous_so_far() != *self.asynchronous.get_mut() {
            push_outstanding(items);
        }
        self.left = Some(unlocked(&mut self.task).leave(items));
    }
}

/// The context inside an attached iteration without state.
fn inside_unrecorded(workflow: Number) -> Context {
    Context::new(None, workflow)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unlocked<T>(mutex: &mut Mutex<T>) -> &mut T {
    mutex.get_mut().unwrap_or_else(PoisonError::into_inner)
}

impl<P: Place> Step<P> {
    /// Creates a step. Without `inner`, only its index and the loop's workflow are known.
    #[inline]
    pub(super) fn new(inner: Option<Box<Inner>>, index: u64, workflow: Number) -> Self {
        Self { inner, index, workflow, _place: PhantomData }
    }

    fn running(&self) -> Option<&Running> {
        self.inner.as_ref()?.running.as_ref()
    }

    pub(super) fn is_left_out(&self) -> bool {
        self.inner.as_ref().is_some_and(|inner| inner.is_left_out)
    }

    pub(super) fn inside(&self) -> Context {
        let unrecorded = || inside_unrecorded(self.workflow);
        self.inner.as_ref().map_or_else(unrecorded, |inner| inner.inside)
    }

    /// Returns the iteration's index in the loop, from 0.
    pub fn index(&self) -> u64 {
        self.index
    }

    /// Returns the id of its record. `None` if it is not recorded.
    pub fn id(&self) -> Option<Id> {
        self.running().map(|running| lock(&running.task).id())
    }

    /// Returns the iteration's context, to propagate explicitly. Work in it belongs to the
    /// iteration.
    pub fn context(&self) -> Context {
        match self.running() {
            None if P::IS_ATTACHED => context::current(),
            _ => self.inside().handed_over(),
        }
    }

    fn push(&self, kind: ItemKind, name: &str, value: &impl Serialize) {
        if let Some(running) = self.running() {
            push_named(&mut lock(&running.items), kind, name, |to| to.serialize(value));
        }
    }

    /// Adds an input.
    pub fn used(&self, name: &str, value: impl Serialize) {
        self.push(ItemKind::Used, name, &value);
    }

    /// Adds an output, such as a loss.
    pub fn generated(&self, name: &str, value: impl Serialize) {
        self.push(ItemKind::Generated, name, &value);
    }

    /// Adds a field to `custom_metadata`.
    pub fn metadata(&self, name: &str, value: impl Serialize) {
        self.push(ItemKind::Metadata, name, &value);
    }

    /// Sets the number of items that the iteration works on, such as the rows of a batch: `items`
    /// in `custom_metadata`, and items per second in a progress bar.
    pub fn items(&self, count: usize) {
        if let Some(running) = self.running() {
            let key = running.shared.items_key;
            push_item(&mut lock(&running.items), ItemKind::Metadata, key, |items| {
                Encoder::new(items, Limits::DEFAULT, Secrecy::NONE).u64(count as u64);
                Marks::default()
            });
        }
        if let Some(bar) = self.inner.as_ref().and_then(|inner| inner.bar.as_ref()) {
            bar.add_items(count as u64);
        }
    }

    /// Marks the iteration as failed, with an error and all its sources. See [`Failure`] for the
    /// accepted types.
    pub fn fail<K>(&self, error: impl Failure<K>) {
        if let Some(running) = self.running() {
            push_failure(&mut lock(&running.items), error);
        }
    }

    /// Waits for the device of a tensor, such as the loss, so that the iteration's duration
    /// includes all of the device's work. Without this call, the record of an iteration with
    /// tensors on an asynchronous device notes that work may be outstanding.
    pub fn sync(&self, tensor: &impl Inspect) {
        if let Some(running) = self.running() {
            Wait::default().until(|see| see(tensor));
            running.asynchronous.store(asynchronous_so_far(), Ordering::Relaxed);
        }
    }

    /// Ends the iteration as finished, whatever the loop does next.
    pub fn finish(mut self) {
        if let Some(mut inner) = self.inner.take() {
            if let Some(running) = &mut inner.running {
                running.leave(P::IS_ATTACHED);
            }
            inner.end(Ending::Finished);
        }
    }
}

impl Step<Detached> {
    /// Runs a part of the iteration on the calling thread.
    ///
    /// ```
    /// # let run = runlore::workflow("doc").store(runlore::store::MemoryStore::new()).start()?;
    /// std::thread::scope(|scope| {
    ///     for (step, fold) in run.iterate("fold", 0..4).detached() {
    ///         scope.spawn(move || step.run(|| { /* tasks here belong to the fold */ }));
    ///     }
    /// });
    /// # run.finish()?;
    /// # Ok::<(), runlore::Error>(())
    /// ```
    pub fn run<R>(&self, work: impl FnOnce() -> R) -> R {
        let _going = Going::on(self);
        self.context().run(work)
    }

    /// Runs a future as a part of the iteration.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> runlore::Result<()> {
    /// # let run = runlore::workflow("doc").store(runlore::store::MemoryStore::new()).start()?;
    /// # async fn train(batch: u32) -> f64 { f64::from(batch) }
    /// for (step, batch) in run.iterate("batch", 0..3).detached() {
    ///     let loss = step.track(train(batch)).await;
    ///     step.generated("loss", loss);
    /// }
    /// # run.finish()?;
    /// # Ok(()) }
    /// ```
    pub async fn track<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future.in_context(self.context()));
        std::future::poll_fn(|waker| {
            let _going = Going::on(self);
            future.as_mut().poll(waker)
        })
        .await
    }
}

/// A guard for a thread that works in a detached iteration.
struct Going<'a> {
    step: &'a Step<Detached>,
    _left_out: Option<LeftOut>,
}

impl<'a> Going<'a> {
    fn on(step: &'a Step<Detached>) -> Self {
        if let Some(running) = step.running() {
            lock(&running.task).resume();
        }
        Self { step, _left_out: step.is_left_out().then(LeftOut::enter) }
    }
}

impl Drop for Going<'_> {
    fn drop(&mut self) {
        if let Some(running) = self.step.running() {
            lock(&running.task).pause();
        }
    }
}

impl<P: Place> Drop for Step<P> {
    #[inline]
    fn drop(&mut self) {
        // Check first, so that nothing is written if there is no state.
        if self.inner.is_some()
            && let Some(inner) = self.inner.take()
        {
            inner.leave::<P>(self.index);
        }
    }
}

impl<P: Place> fmt::Debug for Step<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Step").field("index", &self.index).field("id", &self.id()).finish()
    }
}
