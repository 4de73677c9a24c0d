//! Epochs, and the batches in them.

use std::fmt::{self, Display};
use std::ops::Deref;
use std::panic::Location;

use serde::Serialize;

use super::loops::Iterations;
use super::mode::Kind;
use super::step::{Attached, Detached, Place, Step};
use crate::instrument::push_named;
use crate::pipeline::event::ItemKind;
use runlore_core::context::Context;
use runlore_core::settings::LoopMode;

/// A loop over epochs. Created by [`WorkflowRun::epochs`](crate::WorkflowRun::epochs) and
/// [`epochs`](super::epochs).
///
/// `instrumentation.ml` in the settings controls how it is recorded: `epoch_loop` and
/// `capture_epochs_at_every`. An epoch skipped by the latter leaves no record, and neither do its
/// loops and models; its other tasks do.
#[derive(Debug)]
#[must_use = "a loop does nothing until somebody goes round it"]
pub struct Epochs<I, P: Place = Attached>(Iterations<I, P>);

impl<I: Iterator, P: Place> Epochs<I, P> {
    pub(super) fn new(items: I, base: Context, code: &Location<'_>) -> Self {
        Self(Iterations::new(Kind::Epochs, "epochs_loop", items, base, code))
    }

    /// Sets how the epochs are recorded, overriding the settings. A loop that the settings disable
    /// stays disabled.
    pub fn mode(self, mode: LoopMode) -> Self {
        Self(self.0.mode(mode))
    }

    /// Shows a progress bar on standard error, if that is a terminal.
    #[cfg(feature = "progress")]
    pub fn progress(self, title: &str) -> Self {
        Self(self.0.progress(title))
    }
}

impl<I> Epochs<I> {
    /// Allows the epochs and their batches to move to other threads: see [`Iterations::detached`].
    pub fn detached(self) -> Epochs<I, Detached> {
        Epochs(self.0.detached())
    }
}

impl<I: Iterator<Item: Serialize>, P: Place> Iterator for Epochs<I, P> {
    type Item = Epoch<I::Item, P>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (step, item) = self.0.go_round(|item, items| {
            push_named(items, ItemKind::Used, "epoch", |to| to.serialize(item));
        })?;
        Some(Epoch { step, item })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

/// A running epoch: a [`Step`] that has batches. It displays as its item.
#[derive(Debug)]
#[must_use = "the epoch ends when this is dropped"]
pub struct Epoch<T, P: Place = Attached> {
    step: Step<P>,
    item: T,
}

impl<T, P: Place> Epoch<T, P> {
    /// Returns the loop's item. For `0..10` it is the epoch's number.
    pub fn item(&self) -> &T {
        &self.item
    }

    /// Creates a loop over batches. Call it for training, for validation, as often as needed;
    /// `name` tells the loops apart.
    ///
    /// ```
    /// # let store = runlore::store::MemoryStore::new();
    /// # let run = runlore::workflow("doc").store(store.clone()).start()?;
    /// # let (train, validation) = ([1.0, 2.0], [3.0]);
    /// for epoch in run.epochs(0..2) {
    ///     for (step, batch) in epoch.batches("train", &train) {
    ///         step.generated("loss", batch / 2.0);
    ///     }
    ///     for (step, batch) in epoch.batches("validation", &validation) {
    ///         step.generated("loss", batch);
    ///     }
    /// }
    /// # run.finish()?;
    /// # assert_eq!(store.tasks().len(), 2 * (1 + 2 + 1));
    /// # Ok::<(), runlore::Error>(())
    /// ```
    #[track_caller]
    pub fn batches<B: IntoIterator>(&self, name: &str, batches: B) -> Iterations<B::IntoIter, P> {
        let (items, base) = (batches.into_iter(), self.step.inside());
        if self.step.is_left_out() {
            return Iterations::left_out(items, base);
        }
        Iterations::new(Kind::Batches, name, items, base, Location::caller())
    }

    /// Ends the epoch as finished, whatever the loop does next.
    pub fn finish(self) {
        self.step.finish();
    }
}

impl<T, P: Place> Deref for Epoch<T, P> {
    type Target = Step<P>;

    fn deref(&self) -> &Step<P> {
        &self.step
    }
}

impl<T: Display, P: Place> Display for Epoch<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.item.fmt(f)
    }
}
