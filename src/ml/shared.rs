//! What a loop and its iterations tell each other: how an iteration ended is known when the loop goes on, or does not.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::step::Inner;
use crate::instrument::LeftTask;
use crate::pipeline::event::Ending;

#[derive(Debug, Default)]
pub(super) struct Shared {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// How many times the loop has gone round.
    rounds: u64,
    /// The last iteration, once it was left.
    last: Option<LeftTask>,
    /// Room for the next, which one before has left: memory that comes and goes with each would move that of the program about.
    room: Option<Box<Inner>>,
    end: Option<LoopEnd>,
}

/// How a loop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoopEnd {
    /// There was nothing more to go round for.
    Exhausted,
    /// It was left before that.
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
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The loop goes round once more: the last iteration has finished.
    pub(super) fn go_round(&self) {
        let mut state = self.state();
        state.rounds += 1;
        let last = state.last.take();
        drop(state);
        if let Some(last) = last {
            last.end(Ending::Finished);
        }
    }

    /// The loop does not go on. Only the first word counts.
    pub(super) fn end(&self, end: LoopEnd) {
        let mut state = self.state();
        let end = *state.end.get_or_insert(end);
        let last = state.last.take();
        drop(state);
        if let Some(last) = last {
            last.end(end.of_last());
        }
    }

    /// Room that an iteration has left.
    pub(super) fn take_room(&self) -> Option<Box<Inner>> {
        self.state().room.take()
    }

    /// The iteration of this number was left, and with it its room.
    pub(super) fn leave(&self, index: u64, left: LeftTask, room: Box<Inner>) {
        let mut state = self.state();
        state.room = Some(room);
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
