//! Tensors in records, and the devices that compute them.

use std::cell::Cell;

use crate::pipeline::event::{ItemKind, Key, Marks, push_item};
use runlore_core::config::settings;
use runlore_core::contain::contain;
use runlore_core::record::{Encoder, Inspect, TensorFacts};

/// What the record says of a task on a device that nobody waited for.
const OUTSTANDING: &str =
    "the device may have been at work still: `sync` waits for it, and times all of it";

pub(crate) fn push_outstanding(items: &mut Vec<u8>) {
    push_item(items, ItemKind::Unavailable, Key::Name("duration_ns"), |items| {
        items.extend_from_slice(OUTSTANDING.as_bytes());
        Marks::default()
    });
}

thread_local! {
    /// How many tensors of asynchronous devices the thread has come upon.
    static ASYNCHRONOUS: Cell<u64> = const { Cell::new(0) };
}

/// How many tensors of asynchronous devices the calling thread has come upon so far.
#[inline]
pub(crate) fn asynchronous_so_far() -> u64 {
    ASYNCHRONOUS.get()
}

/// Whether the device may still be computing it.
pub(crate) fn is_asynchronous(tensor: &(impl Inspect + ?Sized)) -> bool {
    let is_asynchronous = contain(|| tensor.is_asynchronous()).unwrap_or(false);
    if is_asynchronous {
        ASYNCHRONOUS.set(ASYNCHRONOUS.get() + 1);
    }
    is_asynchronous
}

/// What is recorded of a tensor; none where its own code panics.
pub(crate) fn inspect(tensor: &(impl Inspect + ?Sized)) -> Option<TensorFacts> {
    contain(|| {
        let mut facts = tensor.facts();
        if settings().instrumentation.ml.tensor_statistics {
            facts.statistics = tensor.statistics();
        }
        facts
    })
}

/// Writes what is recorded of the tensors that `look` shows: of one its facts, of several a list; says whether there was any.
pub fn encode_tensors(
    to: &mut Encoder<'_>,
    look: impl FnOnce(&mut dyn FnMut(&dyn Inspect)),
) -> bool {
    let (mut all, mut is_outstanding) = (Vec::new(), false);
    look(&mut |tensor| {
        all.push(inspect(tensor));
        is_outstanding |= is_asynchronous(tensor);
    });
    to.set_outstanding(is_outstanding);
    match &*all {
        [] => return false,
        [Some(facts)] => to.serialize(facts),
        [None] => to.type_name("a tensor whose facts panicked"),
        several => to.serialize(several),
    }
    true
}

/// What is waited for before a task ends: the device of what came out, or else of what went in.
#[derive(Default)]
pub struct Wait {
    later: Option<Box<dyn FnOnce() + Send>>,
}

impl Wait {
    /// A tensor goes in, and may be gone when it is waited for.
    pub fn input(&mut self, tensor: &dyn Inspect) {
        if self.later.is_none() {
            self.later = contain(|| tensor.wait_later()).flatten();
        }
    }

    /// Waits for the tensors that came out.
    pub fn until(self, look: impl FnOnce(&mut dyn FnMut(&dyn Inspect))) {
        let mut is_any = false;
        look(&mut |tensor| {
            is_any = true;
            _ = contain(|| tensor.wait());
        });
        if let Some(later) = self.later.filter(|_| !is_any) {
            _ = contain(later);
        }
    }
}

impl std::fmt::Debug for Wait {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wait").finish_non_exhaustive()
    }
}
