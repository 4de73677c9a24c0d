//! State shared between a loop and its iterations. How an iteration ended is known only when the
//! loop continues or ends.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::step::Inner;
use crate::pipeline::event::{Ending, Key};

#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    /// The key for the number of items that an iteration works on.
    pub(super) items_key: Key<'static>,
}

#[derive(Debug, Default)]
struct State {
    /// How many times the loop has requested an item.
    rounds: u64,
    /// The last iteration, after it was left.
    last: Option<Box<Inner>>,
    end: Option<LoopEnd>,
}

/// How a loop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoopEnd {
    /// There were no more items.
    Exhausted,
    /// The loop was left before that.
    Left,
}

impl LoopEnd {
    fn of_last(self) -> Ending {
        match self {
            Self::Exhausted => Ending::Finished,
            Self::Left => Ending::Dropped,
        }
    }
}

impl Shared {
    pub(super) fn new(items_key: Key<'static>) -> Self {
        Self { state: Mutex::default(), items_key }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Called when the loop requests an item, which means that the last iteration has finished.
    /// Ends it and returns it for reuse.
    pub(super) fn go_round(&self) -> Option<Box<Inner>> {
        let mut state = self.state();
        state.rounds += 1;
        let mut last = state.last.take();
        drop(state);
        last.iter_mut().for_each(|last| last.end(Ending::Finished));
        last
    }

    /// Called when the loop ends. Only the first call sets how.
    pub(super) fn end(&self, end: LoopEnd) {
        let mut state = self.state();
        let end = *state.end.get_or_insert(end);
        let last = state.last.take();
        drop(state);
        if let Some(mut last) = last {
            last.end(end.of_last());
        }
    }

    /// Called when the iteration with this index was left.
    pub(super) fn leave(&self, index: u64, mut left: Box<Inner>) {
        let mut state = self.state();
        let ending = if left.has_panicked() || state.rounds > index + 1 {
            Ending::Finished
        } else if let Some(end) = state.end {
            end.of_last()
        } else {
            state.last = Some(left);
            return;
        };
        drop(state);
        left.end(ending);
    }
}
