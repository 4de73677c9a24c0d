//! Tasks that ended while another inside them was current: a guard that was dropped early, or handed to a function.
//!
//! The context of such a task must not come back when the inner one ends; the one around it does.

use std::cell::{Cell, RefCell};

use super::Context;
use crate::record::Id;

/// How many are remembered: a program that returns guards out of functions leaves some behind for ever.
const MOST: usize = 64;

thread_local! {
    static ANY: Cell<bool> = const { Cell::new(false) };
    /// Each task, and the context around it.
    static ENDED: RefCell<Vec<(Id, Context)>> = const { RefCell::new(Vec::new()) };
}

/// Notes that a task has ended out of its turn.
pub(super) fn remember(task: Id, around: Context) {
    _ = ENDED.try_with(|ended| {
        let mut ended = ended.borrow_mut();
        if ended.len() == MOST {
            ended.remove(0);
        }
        ended.push((task, around));
        ANY.set(true);
    });
}

/// The context, or the one around its task where that has ended already.
#[inline]
pub(super) fn skip(context: Context) -> Context {
    if ANY.get() { skip_ended(context) } else { context }
}

#[cold]
fn skip_ended(mut context: Context) -> Context {
    _ = ENDED.try_with(|ended| {
        let mut ended = ended.borrow_mut();
        while let Some(at) = ended.iter().position(|(id, _)| context.task == Some(*id)) {
            context = ended.swap_remove(at).1;
        }
        ANY.set(!ended.is_empty());
    });
    context
}
