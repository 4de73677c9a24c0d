//! Records tasks: the code that `#[telemetry_task]` expands to, and the same API by hand.
//!
//! ```
//! use runlore::{store::MemoryStore, task, telemetry_task};
//!
//! #[telemetry_task]
//! fn square(n: u64) -> u64 { n * n }
//!
//! let store = MemoryStore::new();
//! let run = runlore::workflow("numbers").store(store.clone()).start()?;
//! task("outer").run(|| square(12));
//! run.finish()?;
//! assert_eq!(store.tasks().len(), 2);
//! # Ok::<(), runlore::Error>(())
//! ```

mod backtrace;
mod budget;
mod dispatch;
mod error;
mod failure;
mod future;
mod inputs;
mod inspect;
mod machine;
mod meter;
mod open;
mod outcome;
mod panics;
mod scope;
mod slot;
mod workflow;

pub(crate) use budget::Measuring;
pub use dispatch::levels as value_levels;
#[cfg(feature = "events")]
pub(crate) use error::panic_message;
pub use failure::Failure;
pub use future::{AsyncTask, Captured, Tasked};
pub(crate) use inputs::Scratch;
pub use inputs::{Inputs, Outputs};
pub use inspect::{Wait, encode_tensors};
pub(crate) use inspect::{asynchronous_so_far, inspect, is_asynchronous, push_outstanding};
pub(crate) use open::{LeftTask, OpenTask, Waited};
pub use outcome::levels as outcome_levels;
pub use scope::{TaskBuilder, TaskGuard, fail, generated, task};
pub(crate) use scope::{push_code, push_failure, push_failure_of, push_named};
pub use slot::TaskSlot;
pub use workflow::{WorkflowBuilder, WorkflowRun, workflow};

use std::mem::ManuallyDrop;

use meter::Meter;

use crate::pipeline::event::{End, Ending, Start};
use crate::pipeline::{
    Manners, Origin, Queue, Started, count_dropped, push_end, push_start, queue,
};
use runlore_core::clock;
use runlore_core::context::Context;
use runlore_core::fork::generation;
use runlore_core::notice::notice;
use runlore_core::record::Id;

/// A task whose START was recorded.
///
/// Its meter is kept outside. As one more word in here, it would be copied together with a word
/// that was written just before it, which stalls the processor at every task.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begun {
    id: Id,
    /// The workflow's number in the lower half. The upper half holds the process's generation, so
    /// that a forked child does not end its parent's tasks. The highest bits are the flags below.
    /// All in one word, see [`Context`].
    place: u64,
}

/// Set for a measured task.
const MEASURED: u64 = 1 << 63;
/// Set for an asynchronous task, or one inside it.
const ASYNC: u64 = 1 << 62;
/// Set for a task whose queue has reserved room for its END.
const RESERVED: u64 = 1 << 61;
const FLAGS: u64 = MEASURED | ASYNC | RESERVED;
/// The bits of a place that hold the process's generation.
const GENERATION: u64 = u64::MAX << 32 & !FLAGS;

/// The meter of a task, `None` if the task is not measured. Only the task's end takes it out, and
/// nothing else drops it: an unrecorded task must not pay for a check whether there is something to
/// drop.
type Metered = ManuallyDrop<Option<Box<Meter>>>;

impl Begun {
    /// Begins a task of a site with its inputs. The clock starts last.
    ///
    /// One function for all sites, with everything up to the ring inlined, lets the compiler build
    /// the event's head in registers.
    #[inline(never)]
    pub(crate) fn start(
        context: Context,
        site: u32,
        items: &[u8],
        meter: &mut Option<Box<Meter>>,
        reserve: bool,
    ) -> Option<Self> {
        // A thread's first task creates its queue, which must not count towards its duration.
        let queue = queue(context.workflow());
        let origin = Origin { site, is_brief: false };
        Self::start_at(clock::monotonic_ns(), queue, context, origin, items, meter, reserve)
    }

    /// Begins a task at a clock reading that the caller also uses for something else.
    #[inline]
    fn start_at(
        monotonic_ns: u64,
        queue: Queue,
        context: Context,
        origin: Origin,
        items: &[u8],
        meter: &mut Option<Box<Meter>>,
        reserve: bool,
    ) -> Option<Self> {
        let wall_ns = clock::wall_ns(monotonic_ns);
        let id = Id::at(wall_ns);
        let start = Start {
            id,
            parent: context.task,
            site: origin.site,
            workflow: context.workflow(),
            monotonic_ns,
            wall_ns,
            lost_items: false,
            is_brief: origin.is_brief,
        };
        let mut place = u64::from(context.workflow()) | u64::from(generation()) << 32 & GENERATION;
        let is_async = !reserve || context.is_async();
        if is_async {
            place |= ASYNC;
        }
        match push_start(queue, start, items, Manners { reserve, may_wait: !is_async }) {
            Started::Nowhere => return None,
            Started::Recorded => {}
            Started::Reserved => place |= RESERVED,
        }
        let Some(meter) = meter else { return Some(Self { id, place }) };
        meter.enter(id);
        Some(Self { id, place: place | MEASURED })
    }

    /// Returns the context inside the task.
    #[inline]
    pub(crate) fn inside(&self) -> Context {
        let inside = Context::new(Some(self.id), self.place as u32);
        let inside = if self.place & ASYNC != 0 { inside.asynchronous() } else { inside };
        if self.place & MEASURED != 0 { inside.measured() } else { inside }
    }

    /// Reads the sensors again. Call this right after the clock was read.
    #[inline]
    pub(crate) fn measure(self, meter: &mut Option<Box<Meter>>, items: &mut Scratch) {
        if self.place & MEASURED != 0
            && let Some(mut meter) = meter.take()
            && self.is_of_this_process()
        {
            meter.end(items);
        }
    }

    fn is_of_this_process(self) -> bool {
        self.place & GENERATION == u64::from(generation()) << 32 & GENERATION
    }

    /// Ends the task at a clock reading that was taken before any other work.
    #[inline(never)]
    pub(crate) fn end(self, monotonic_ns: u64, ending: Ending, items: &[u8]) {
        if self.is_of_this_process() {
            let end = End { id: self.id, monotonic_ns, ending, lost_items: false };
            let reserve = self.place & RESERVED != 0;
            let may_wait = self.place & ASYNC == 0;
            push_end(self.place as u32, end, items, Manners { reserve, may_wait });
        }
    }
}

/// Returns the context for a task that begins here. `None` if it is not to be recorded.
#[inline]
pub(crate) fn context_of_new_task() -> Option<Context> {
    match Context::of_new_task() {
        None => context_elsewhere(),
        found => found,
    }
}

/// Handles a task outside any running workflow. Joins the parent process's workflow if there is one
/// to join and this is the first try.
#[cold]
fn context_elsewhere() -> Option<Context> {
    if let Some(ended) = Context::ended_workflow() {
        count_dropped(ended);
        notice("a task began after its workflow had ended: it is counted as lost");
    }
    workflow::join_inherited_once().then(Context::of_new_task).flatten()
}
