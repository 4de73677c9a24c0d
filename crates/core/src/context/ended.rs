//! Tasks that ended before a task inside them did, because a guard was dropped early or moved into
//! a function.
//!
//! When the inner task ends, the context of such an outer task must not be restored. The context
//! around it is restored instead.

use std::cell::{Cell, RefCell};

use super::Context;
use crate::record::Id;

/// The most tasks that are remembered. A program that returns guards from functions leaves some
/// entries behind for ever.
const MOST: usize = 64;

thread_local! {
    static ANY: Cell<bool> = const { Cell::new(false) };
    /// Each such task, with the context around it.
    static ENDED: RefCell<Vec<(Id, Context)>> = const { RefCell::new(Vec::new()) };
}

/// Notes that a task has ended out of order.
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

/// Returns the context, or the one around its task if that task has already ended.
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
