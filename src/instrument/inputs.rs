//! Copies a task's inputs and outputs into its events.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};

use super::inspect::push_outstanding;
use crate::pipeline::event::{Ending, ItemKind, Key, Marks, push_item, push_text};
use crate::pipeline::{Site, shrink};
use runlore_core::contain::contain;
use runlore_core::record::redact::hide_secrets;
use runlore_core::record::{Absent, Budget, Encoder, Hashing, Limits, Secrecy};

/// The maximum size of all values of an event together, in bytes. Further values are not recorded.
const MAX_ITEMS: usize = 48 << 10;

/// The thread's scratch buffer, returned to the thread on drop.
///
/// Values are encoded here and not in the ring, because a value's `Debug` may call an annotated
/// function. That function finds the buffer taken and uses another one.
#[derive(Debug)]
pub(crate) struct Scratch(Vec<u8>);

thread_local! {
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl Scratch {
    /// Takes the thread's buffer.
    #[inline]
    pub(crate) fn take() -> Self {
        let mut scratch = Self::empty();
        scratch.fetch();
        scratch
    }

    /// Creates an instance without a buffer. Many tasks copy nothing, and taking the thread's
    /// buffer costs as much as copying a value.
    #[inline]
    pub(crate) const fn empty() -> Self {
        Self(Vec::new())
    }

    /// Takes the thread's buffer if there is none yet. Call this before copying.
    #[inline]
    pub(crate) fn fetch(&mut self) {
        if self.0.capacity() == 0 {
            // The thread-local is gone while the thread's destructors run.
            self.0 = SCRATCH.try_with(Cell::take).unwrap_or_default();
        }
    }

    /// Wraps existing bytes.
    pub(crate) const fn holding(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Returns the bytes.
    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }
}

impl Drop for Scratch {
    #[inline]
    fn drop(&mut self) {
        if self.0.capacity() > 0 {
            self.0.clear();
            let buffer = std::mem::take(&mut self.0);
            _ = SCRATCH.try_with(|scratch| scratch.set(buffer));
        }
    }
}

impl Deref for Scratch {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.0
    }
}

impl DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}

/// Appends a value. A panic while it is encoded loses that value only.
#[inline]
pub(crate) fn push_value(
    items: &mut Vec<u8>,
    kind: ItemKind,
    key: Key<'_>,
    secrecy: Secrecy<'_>,
    hashing: Hashing,
    budget: &mut Budget,
    encode: impl FnOnce(&mut Encoder<'_>),
) {
    if items.len() > MAX_ITEMS && kind == ItemKind::Generated && matches!(key, Key::Name(_)) {
        // Outputs added by name arrive while the task runs, possibly without end.
        shrink::forget_old(items, MAX_ITEMS / 2);
    }
    let too_much = items.len() > MAX_ITEMS;
    let mut is_outstanding = false;
    push_item(items, kind, key, |items| {
        let start = items.len();
        if too_much {
            Encoder::new(items, Limits::DEFAULT, Secrecy::NONE).absent(Absent::RecordFull);
            return Marks { cut: true, ..Marks::default() };
        }
        let mut encoder = Encoder::new(items, Limits::current(), secrecy).hashing(hashing, *budget);
        let is_copied = contain(|| encode(&mut encoder)).is_some();
        if hashing != Hashing::Full {
            *budget = encoder.left();
        }
        if is_copied {
            is_outstanding = encoder.is_outstanding();
            return Marks {
                cut: encoder.was_cut(),
                redacted: encoder.has_redacted(),
                no_hash: encoder.no_hash(),
            };
        }
        items.truncate(start);
        Encoder::new(items, Limits::DEFAULT, Secrecy::NONE).absent(Absent::Panicked);
        Marks::default()
    });
    if is_outstanding {
        push_outstanding(items);
    }
}

/// Records a task's inputs.
#[derive(Debug)]
pub struct Inputs<'b> {
    items: &'b mut Scratch,
    site: &'static Site,
    /// The hashing time for all inputs together.
    budget: Budget,
}

impl<'b> Inputs<'b> {
    pub(crate) fn new(items: &'b mut Scratch, site: &'static Site) -> Self {
        Self { items, site, budget: Budget::default() }
    }

    /// Copies the argument with this index.
    #[inline]
    pub fn used(&mut self, index: u16, encode: impl FnOnce(&mut Encoder<'_>)) {
        self.items.fetch();
        let secrecy = secrecy(self.site.spec.used, index);
        push_value(
            self.items,
            ItemKind::Used,
            Key::Index(index),
            secrecy,
            hashing(self.site),
            &mut self.budget,
            encode,
        );
    }

    /// Copies the metadata field with this index.
    #[inline]
    pub fn metadata(&mut self, index: u16, encode: impl FnOnce(&mut Encoder<'_>)) {
        self.items.fetch();
        let secrecy = secrecy(self.site.spec.metadata, index);
        push_value(
            self.items,
            ItemKind::Metadata,
            Key::Index(index),
            secrecy,
            Hashing::Off,
            &mut self.budget,
            encode,
        );
    }
}

#[inline]
fn hashing(site: &Site) -> Hashing {
    if site.spec.summarise_full { Hashing::Full } else { Hashing::InTime }
}

#[inline]
fn secrecy(names: &'static [&'static str], index: u16) -> Secrecy<'static> {
    names.get(usize::from(index)).map_or(Secrecy::NONE, |name| Secrecy::Named(name))
}

/// Records a task's outputs, and whether the task failed.
#[derive(Debug)]
pub struct Outputs<'b> {
    items: &'b mut Scratch,
    /// `None` for a task without the macro.
    site: Option<&'static Site>,
    failed: bool,
    /// The hashing time for all outputs together.
    budget: Budget,
}

impl<'b> Outputs<'b> {
    pub(crate) fn new(items: &'b mut Scratch, site: Option<&'static Site>) -> Self {
        Self { items, site, failed: false, budget: Budget::default() }
    }

    /// Copies the output with this index.
    #[inline]
    pub fn generated(&mut self, index: u16, encode: impl FnOnce(&mut Encoder<'_>)) {
        self.items.fetch();
        let (names, hashing) = self
            .site
            .map_or((&[][..], Hashing::InTime), |site| (site.spec.generated, hashing(site)));
        let secrecy = secrecy(names, index);
        let (items, budget) = (&mut *self.items, &mut self.budget);
        push_value(items, ItemKind::Generated, Key::Index(index), secrecy, hashing, budget, encode);
    }

    /// Marks the task as failed if the author's condition is true.
    pub fn fail_if(&mut self, condition: bool, text: &'static str) {
        if condition {
            self.failed = true;
            push_text(self.items, ItemKind::ErrorMessage, &hide_secrets(text, false));
        }
    }

    /// Marks the task as failed. `describe` appends the error.
    pub(crate) fn fail(&mut self, describe: impl FnOnce(&mut Vec<u8>)) {
        self.failed = true;
        let start = self.items.len();
        if contain(|| describe(self.items)).is_none() {
            self.items.truncate(start);
            push_text(
                self.items,
                ItemKind::ErrorMessage,
                "an error whose own Display or Debug panicked",
            );
        }
    }

    /// Runs the macro's code on the returned value. A panic there loses the outputs but does not
    /// reach the program.
    pub(crate) fn contained(&mut self, outcome: impl FnOnce(&mut Self)) -> Ending {
        if contain(|| outcome(self)).is_none() {
            push_item(self.items, ItemKind::Unavailable, Key::Name("generated"), |items| {
                items.extend_from_slice(b"an expression of the attribute panicked");
                Marks::default()
            });
        }
        self.ending()
    }

    fn ending(&self) -> Ending {
        if self.failed { Ending::Failed } else { Ending::Finished }
    }
}
