//! Loops whose iterations are tasks.

use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;

use super::bar::Bar;
use super::mode::{self, Kind};
use super::shared::{LoopEnd, Shared};
use super::step::{Attached, Detached, Inner, Place, Step};
use crate::instrument::{Measuring, OpenTask, Scratch, Waited, context_of_new_task, push_code};
use crate::pipeline::event::{ItemKind, Key, Marks, push_id, push_item, push_text};
use crate::pipeline::{CodePlace, Origin, Site, queue};
use runlore_core::clock;
use runlore_core::context::Context;
use runlore_core::record::redact::hide_secrets;
use runlore_core::record::{Encoder, Id, Limits, Secrecy, Slot};
use runlore_core::settings::LoopMode;
use runlore_telemetry::TelemetryChoice;

/// A loop whose iterations are recorded. Yields each item with its [`Step`]. Created by
/// [`WorkflowRun::iterate`](crate::WorkflowRun::iterate), [`Epoch::batches`](super::Epoch::batches)
/// and [`iterate`](super::iterate).
///
/// It iterates exactly as the inner iterator does, and never ahead of it. The time that the inner
/// iterator took to return an item is `wait_ns` in `custom_metadata`.
#[must_use = "a loop does nothing until somebody goes round it"]
pub struct Iterations<I, P: Place = Attached> {
    items: I,
    index: u64,
    /// The context of its tasks, unless the thread is inside a task of the same workflow.
    base: Context,
    /// `None` if the loop is disabled. This is separate from the other fields, so that only it is
    /// passed by reference: the compiler can then keep a disabled loop in registers, as it does
    /// with a bare one.
    live: Option<Box<Live>>,
    _place: PhantomData<P>,
}

/// The recorder and the progress bar of a loop.
#[derive(Default)]
struct Live {
    recorder: Option<Recorder>,
    bar: Option<Arc<Bar>>,
}

impl Live {
    /// Called when the loop requests an item. Returns the current time.
    #[inline(never)]
    fn go_round(&mut self, index: u64) -> u64 {
        if let Some(recorder) = &mut self.recorder {
            recorder.go_round();
        }
        if let Some(bar) = self.bar.as_ref().filter(|_| index > 0) {
            bar.advance();
        }
        clock::monotonic_ns()
    }

    /// Called when there was no further item.
    #[inline(never)]
    fn exhausted(&self) {
        if let Some(recorder) = &self.recorder {
            recorder.shared.0.end(LoopEnd::Exhausted);
        }
    }

    /// Begins an iteration with an item that was requested at `asked_ns`.
    #[inline(never)]
    fn begin<P: Place>(
        &mut self,
        base: Context,
        index: u64,
        asked_ns: u64,
        name: impl FnOnce(&mut Vec<u8>),
    ) -> Option<Box<Inner>> {
        let inner = match &mut self.recorder {
            None => Inner::unrecorded::<P>(base),
            Some(recorder) => recorder.begin::<P>(base, index, asked_ns, name),
        };
        match &self.bar {
            Some(bar) => Some(Inner::with_bar(inner, bar, base)),
            None => inner,
        }
    }
}

/// The subtype of iterations, and the names of the fields that all of them have.
const SUBTYPE: &str = "iteration";
const USED: &[&str] = &["i", "batch"];
const METADATA: &[&str] = &["wait_ns", "items"];

/// How a loop is recorded.
struct Recorder {
    kind: Kind,
    measuring: Measuring,
    /// The site that this loop shares with loops of the same name and location. Absent if there are
    /// too many sites.
    site: Option<&'static Site>,
    /// The items that all its records begin with. The numbers in it are filled in per iteration.
    prefix: Vec<u8>,
    numbers: Numbers,
    shared: EndsWithLoop,
    /// An ended iteration, kept for reuse. Allocating one per iteration would change the memory
    /// layout of the program.
    room: Option<Box<Inner>>,
}

/// The positions in the prefix of the numbers that differ between iterations.
struct Numbers {
    index: Slot,
    /// The index again, under the name `batch`.
    batch: Option<Slot>,
    /// The time that the loop waited for its item.
    wait_ns: Option<Slot>,
}

/// Ends the loop on drop. A loop that is dropped before it was exhausted was left early.
struct EndsWithLoop(Arc<Shared>);

impl Drop for EndsWithLoop {
    fn drop(&mut self) {
        self.0.end(LoopEnd::Left);
    }
}

impl Recorder {
    /// Returns `None` if the loop is not recorded.
    fn new(kind: Kind, name: &str, base: Context, code: &Location<'_>) -> Option<Self> {
        let telemetry = kind.telemetry().filter(|_| !mode::is_left_out())?;
        let name = &[name, kind.suffix()].concat();
        let (subtype, used, metadata) = (SUBTYPE, USED, METADATA);
        let site = Site::of_place(&CodePlace { name, subtype, code, used, metadata });
        let mut prefix = Vec::with_capacity(256);
        if site.is_none() {
            push_text(&mut prefix, ItemKind::Activity, &hide_secrets(name, false));
            push_text(&mut prefix, ItemKind::Subtype, SUBTYPE);
            push_code(&mut prefix, code);
        }
        push_id(&mut prefix, ItemKind::GroupId, Id::new());
        let key = |names: &[&'static str], at: u16| match site {
            Some(_) => Key::Index(at),
            None => Key::Name(names[usize::from(at)]),
        };
        let mut number = |kind, key| push_number(&mut prefix, kind, key);
        let index = number(ItemKind::Used, key(USED, 0));
        let batch = (kind == Kind::Batches).then(|| number(ItemKind::Used, key(USED, 1)));
        let waits = kind != Kind::Epochs;
        let wait_ns = waits.then(|| number(ItemKind::Metadata, key(METADATA, 0)));
        if wait_ns.is_some() && base.workflow() != 0 {
            // Create the thread's queue now if it has none, so that this does not count as waiting
            // for the first item.
            queue(base.workflow());
        }
        let numbers = Numbers { index, batch, wait_ns };
        let shared = EndsWithLoop(Arc::new(Shared::new(key(METADATA, 1))));
        let measuring = Measuring::at(telemetry, site, code);
        Some(Self { kind, measuring, site, prefix, numbers, shared, room: None })
    }

    /// Called when the loop requests an item.
    fn go_round(&mut self) {
        if let Some(ended) = self.shared.0.go_round() {
            self.room = Some(ended);
        }
    }

    /// Returns the origin of an iteration. In a lightweight loop only the first one records its
    /// location.
    fn origin(&self, index: u64) -> Origin {
        let is_brief = index > 0 && matches!(self.measuring.choice, TelemetryChoice::None);
        Origin { is_brief, ..Origin::of(self.site) }
    }

    /// Begins an iteration; `name` appends its identifying item. `None` if there is nothing to
    /// track.
    fn begin<P: Place>(
        &mut self,
        base: Context,
        index: u64,
        asked_ns: u64,
        name: impl FnOnce(&mut Vec<u8>),
    ) -> Option<Box<Inner>> {
        if !index.is_multiple_of(self.kind.every()) {
            return Some(Inner::left_out::<P>(base));
        }
        let around = if P::IS_ATTACHED { around(base) } else { Some(base) };
        let Some(around) = around else { return Inner::unrecorded::<P>(base) };
        let mut room = self.room.take();
        let mut items = room.as_mut().map_or_else(Scratch::take, |room| room.take_items());
        items.extend_from_slice(&self.prefix);
        self.numbers.index.fill(&mut items, index);
        if let Some(batch) = self.numbers.batch {
            batch.fill(&mut items, index);
        }
        name(&mut items);
        let waited = self.numbers.wait_ns.map(|at| Waited { at, since_ns: asked_ns });
        let (origin, measuring) = (self.origin(index), &self.measuring);
        let begun = OpenTask::begin(around, origin, measuring, &mut items, waited, P::IS_ATTACHED);
        let Some(task) = begun else { return Inner::unrecorded::<P>(around) };
        items.clear();
        Some(match room {
            Some(room) => room.reuse(task, items),
            None => Inner::recorded(task, items, &self.shared.0),
        })
    }
}

/// Returns the calling thread's context if it belongs to the same workflow, otherwise `base`.
/// `None` if nothing is recorded.
fn around(base: Context) -> Option<Context> {
    if base.workflow() == 0 {
        return context_of_new_task();
    }
    let here = Context::of_new_task().filter(|here| here.workflow() == base.workflow());
    Some(here.unwrap_or(base))
}

/// Appends a number that is filled in later.
fn push_number(items: &mut Vec<u8>, kind: ItemKind, key: Key<'_>) -> Slot {
    let mut slot = None;
    push_item(items, kind, key, |items| {
        slot = Some(Encoder::new(items, Limits::DEFAULT, Secrecy::NONE).slot());
        Marks::default()
    });
    slot.expect("the number was pushed")
}

impl<I: Iterator, P: Place> Iterations<I, P> {
    pub(super) fn new(
        kind: Kind,
        name: &str,
        items: I,
        base: Context,
        code: &Location<'_>,
    ) -> Self {
        let recorder = Recorder::new(kind, name, base, code);
        let live = recorder.map(|it| Box::new(Live { recorder: Some(it), bar: None }));
        Self { items, index: 0, base, live, _place: PhantomData }
    }

    /// Creates a loop that is not recorded.
    pub(super) fn left_out(items: I, base: Context) -> Self {
        Self { items, index: 0, base, live: None, _place: PhantomData }
    }

    /// Sets how the iterations are recorded, overriding the settings. A loop that the settings
    /// disable stays disabled.
    pub fn mode(mut self, mode: LoopMode) -> Self {
        if let Some(recorder) = self.live.as_mut().and_then(|live| live.recorder.as_mut()) {
            recorder.measuring.choice = mode::telemetry_of(mode);
        }
        self
    }

    /// Shows a progress bar on standard error, if that is a terminal: steps and items per second,
    /// and the remaining time if the number of items is known.
    #[cfg(feature = "progress")]
    pub fn progress(mut self, title: &str) -> Self {
        if let Some(bar) = Bar::show(title, self.items.size_hint()) {
            self.live.get_or_insert_default().bar = Some(bar);
        }
        self
    }

    /// Runs one iteration of the loop; `name` appends what identifies the iteration beside its
    /// number.
    #[inline]
    pub(super) fn go_round(
        &mut self,
        name: impl FnOnce(&I::Item, &mut Vec<u8>),
    ) -> Option<(Step<P>, I::Item)> {
        let index = self.index;
        self.index += 1;
        let asked_ns = self.live.as_mut().map_or(0, |live| live.go_round(index));
        let Some(item) = self.items.next() else {
            if let Some(live) = &self.live {
                live.exhausted();
            }
            return None;
        };
        let inner = match &mut self.live {
            None => Inner::unrecorded::<P>(self.base),
            Some(live) => live.begin::<P>(self.base, index, asked_ns, |items| name(&item, items)),
        };
        Some((Step::new(inner, index, self.base.workflow()), item))
    }
}

impl<I> Iterations<I> {
    /// Allows the iterations to move to other threads or across an `.await`. See [`Step::run`] and
    /// [`Step::track`].
    ///
    /// They become children of the task that makes this call.
    pub fn detached(self) -> Iterations<I, Detached> {
        let Self { items, index, base, live, .. } = self;
        let base = around(base).unwrap_or(base).handed_over();
        Iterations { items, index, base, live, _place: PhantomData }
    }
}

impl<I> Iterations<I, Detached> {
    /// Keeps the iterations on the thread that runs the loop. Reverts
    /// [`detached`](Iterations::detached).
    pub fn attached(self) -> Iterations<I> {
        let Self { items, index, base, live, .. } = self;
        Iterations { items, index, base, live, _place: PhantomData }
    }
}

impl<I: Iterator, P: Place> Iterator for Iterations<I, P> {
    type Item = (Step<P>, I::Item);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.go_round(|_, _| ())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.items.size_hint()
    }
}

impl<I, P: Place> fmt::Debug for Iterations<I, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_recorded = self.live.as_ref().is_some_and(|live| live.recorder.is_some());
        f.debug_struct("Iterations")
            .field("index", &self.index)
            .field("is_recorded", &is_recorded)
            .finish_non_exhaustive()
    }
}
