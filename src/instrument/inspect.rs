//! Records tensors, and tracks asynchronous devices.

use std::cell::Cell;

use crate::pipeline::event::{ItemKind, Key, Marks, push_item};
use runlore_core::config::settings;
use runlore_core::contain::contain;
use runlore_core::record::{Encoder, Inspect, TensorFacts};

/// The note in the record of a task that did not wait for its device.
const OUTSTANDING: &str =
    "the device may have been at work still: `sync` waits for it, and times all of it";

pub(crate) fn push_outstanding(items: &mut Vec<u8>) {
    push_item(items, ItemKind::Unavailable, Key::Name("duration_ns"), |items| {
        items.extend_from_slice(OUTSTANDING.as_bytes());
        Marks::default()
    });
}

thread_local! {
    /// The number of tensors on asynchronous devices that the thread has seen.
    static ASYNCHRONOUS: Cell<u64> = const { Cell::new(0) };
}

/// Returns the number of tensors on asynchronous devices that the calling thread has seen so far.
#[inline]
pub(crate) fn asynchronous_so_far() -> u64 {
    ASYNCHRONOUS.get()
}

/// Returns whether the device may still be computing the tensor, and counts it if so.
pub(crate) fn is_asynchronous(tensor: &(impl Inspect + ?Sized)) -> bool {
    let is_asynchronous = contain(|| tensor.is_asynchronous()).unwrap_or(false);
    if is_asynchronous {
        ASYNCHRONOUS.set(ASYNCHRONOUS.get() + 1);
    }
    is_asynchronous
}

/// Returns the facts to record about a tensor. `None` if the tensor's own code panics.
pub(crate) fn inspect(tensor: &(impl Inspect + ?Sized)) -> Option<TensorFacts> {
    contain(|| {
        let mut facts = tensor.facts();
        if settings().instrumentation.ml.tensor_statistics {
            facts.statistics = tensor.statistics();
        }
        facts
    })
}

/// Encodes the tensors that `look` visits: the facts of a single tensor, or a list for several.
/// Returns whether there was any.
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

/// Waits for a device before a task ends: the device of the outputs, or that of the inputs if no
/// output is a tensor.
#[derive(Default)]
pub struct Wait {
    later: Option<Box<dyn FnOnce() + Send>>,
}

impl Wait {
    /// Registers an input tensor, which may be gone when the task waits.
    pub fn input(&mut self, tensor: &dyn Inspect) {
        if self.later.is_none() {
            self.later = contain(|| tensor.wait_later()).flatten();
        }
    }

    /// Waits for the output tensors, or for the inputs if there are none.
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
