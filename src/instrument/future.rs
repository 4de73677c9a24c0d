//! Asynchronous tasks. They begin at the first poll, are current during each poll, and end when the
//! future completes, panics or is dropped.

use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::task::{Context as Waker, Poll};

use super::budget::Measuring;
use super::inputs::{Inputs, Outputs, Scratch};
use super::meter::Meter;
use super::{Begun, Metered, context_of_new_task, error};
use crate::pipeline::Site;
use crate::pipeline::event::Ending;
use crate::pipeline::overhead::CallerStep;
use runlore_core::clock;
use runlore_core::context::Context;

/// A task in a future. If it is dropped before its body has ended, the task is recorded as
/// cancelled.
#[derive(Debug)]
pub struct AsyncTask {
    begun: Option<Begun>,
    meter: Metered,
    /// `None` for a task made by a `TaskBuilder`.
    site: Option<&'static Site>,
    /// Set while a cancelled body is being dropped: the time at which that began, and the context
    /// to restore.
    dropping: Option<(u64, Context)>,
}

/// A future's inputs, copied when the future was created.
#[derive(Debug)]
pub struct Captured {
    site: &'static Site,
    items: Vec<u8>,
}

impl Captured {
    /// Copies the task's inputs.
    pub fn of(site: &'static Site, capture: impl FnOnce(&mut Inputs<'_>)) -> Self {
        let mut scratch = Scratch::empty();
        capture(&mut Inputs::new(&mut scratch, site));
        Self { site, items: scratch.into_bytes() }
    }
}

impl AsyncTask {
    /// Creates a task that has not begun.
    #[inline(always)]
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Self { begun: None, meter: ManuallyDrop::new(None), site: None, dropping: None }
    }

    /// Begins the task, unless there is no workflow to record it for.
    #[inline(never)]
    pub fn begin(&mut self, site: &'static Site, capture: impl FnOnce(&mut Inputs<'_>)) {
        let Some(context) = context_of_new_task() else { return };
        let _step = CallerStep::begin();
        let mut scratch = Scratch::empty();
        capture(&mut Inputs::new(&mut scratch, site));
        self.site = Some(site);
        let number = site.number();
        *self.meter = Meter::begin(&Measuring::of(site), context, &mut scratch);
        self.begun = Begun::start(context, number, &scratch, &mut self.meter, false);
    }

    /// Begins the task with the inputs that were copied when the future was created.
    #[inline(never)]
    pub fn begin_captured(&mut self, captured: Option<Captured>) {
        let Some(captured) = captured else { return };
        let Some(context) = context_of_new_task() else { return };
        let _step = CallerStep::begin();
        self.site = Some(captured.site);
        let mut items = Scratch::holding(captured.items);
        let site = captured.site.number();
        *self.meter = Meter::begin(&Measuring::of(captured.site), context, &mut items);
        self.begun = Begun::start(context, site, &items, &mut self.meter, false);
    }

    /// Begins a task made by a `TaskBuilder`.
    pub(super) fn begin_with(&mut self, items: Vec<u8>, measuring: &Measuring) {
        if let Some(context) = context_of_new_task() {
            let _step = CallerStep::begin();
            let mut items = Scratch::holding(items);
            *self.meter = Meter::begin(measuring, context, &mut items);
            self.begun = Begun::start(context, 0, &items, &mut self.meter, false);
        }
    }
}

impl Drop for AsyncTask {
    #[inline]
    fn drop(&mut self) {
        if self.begun.is_some() {
            self.cancel();
        }
    }
}

impl AsyncTask {
    #[cold]
    fn cancel(&mut self) {
        let Some(begun) = self.begun.take() else { return };
        let ended = match self.dropping.take() {
            Some((ended, before)) => {
                before.restore();
                ended
            }
            None => clock::monotonic_ns(),
        };
        let mut scratch = Scratch::empty();
        begun.measure(&mut self.meter, &mut scratch);
        begun.end(ended, Ending::Cancelled, &scratch);
    }
}

/// A future that polls the body of an asynchronous task.
///
/// It borrows the task and the body, so that an unrecorded task moves nothing.
#[derive(Debug)]
#[must_use = "a future does nothing until it is polled"]
pub struct Tasked<'a, B, O> {
    task: &'a mut AsyncTask,
    body: Pin<&'a mut B>,
    outcome: Option<O>,
}

impl<'a, B: Future, O: FnOnce(&B::Output, &mut Outputs<'_>)> Tasked<'a, B, O> {
    /// Runs `body` as the body of `task`.
    #[inline(always)]
    pub fn new(task: &'a mut AsyncTask, body: Pin<&'a mut B>, outcome: O) -> Self {
        Self { task, body, outcome: Some(outcome) }
    }

    #[inline(never)]
    fn poll_begun(&mut self, waker: &mut Waker<'_>) -> Poll<B::Output> {
        let Some(begun) = self.task.begun else { return Poll::Pending };
        let before = begun.inside().replace();
        if let Some(meter) = &mut *self.task.meter {
            meter.resume();
        }
        let polled = catch_unwind(AssertUnwindSafe(|| self.body.as_mut().poll(waker)));
        if matches!(polled, Ok(Poll::Pending)) {
            if let Some(meter) = &mut *self.task.meter {
                meter.pause();
            }
            before.restore();
            return Poll::Pending;
        }
        let ended = clock::monotonic_ns();
        let _step = CallerStep::since(ended);
        before.restore();
        self.task.begun = None;
        let mut scratch = Scratch::empty();
        begun.measure(&mut self.task.meter, &mut scratch);
        match polled {
            Ok(Poll::Ready(value)) => {
                let mut ending = Ending::Finished;
                if let Some(outcome) = self.outcome.take() {
                    let mut outputs = Outputs::new(&mut scratch, self.task.site);
                    ending = outputs.contained(|outputs| outcome(&value, outputs));
                }
                begun.end(ended, ending, &scratch);
                Poll::Ready(value)
            }
            Ok(Poll::Pending) => Poll::Pending,
            Err(panic) => {
                error::push_panic(&mut scratch, &*panic);
                begun.end(ended, Ending::Panicked, &scratch);
                resume_unwind(panic)
            }
        }
    }
}

impl<B: Future, O: FnOnce(&B::Output, &mut Outputs<'_>) + Unpin> Future for Tasked<'_, B, O> {
    type Output = B::Output;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, waker: &mut Waker<'_>) -> Poll<B::Output> {
        // Check only `begun` here. Without a task the other fields were never written, and reading
        // unwritten memory is slow.
        if self.task.begun.is_none() {
            return self.body.as_mut().poll(waker);
        }
        self.poll_begun(waker)
    }
}

impl<B, O> Drop for Tasked<'_, B, O> {
    #[inline]
    fn drop(&mut self) {
        // The body is dropped next. Its destructors run as part of the task.
        if let Some(begun) = self.task.begun {
            self.task.dropping = Some((clock::monotonic_ns(), begun.inside().replace()));
        }
    }
}
