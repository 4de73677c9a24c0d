//! The path from a task to a store: rings on the callers' side, one writer thread, batches.
//!
//! A task pushes a START and an END into its thread's ring and continues. The writer thread polls
//! the rings, pairs the two events, turns them into records and passes the records to the stores of
//! their workflows. The caller's side takes no lock, formats nothing and wakes no thread, unless a
//! ring is more than half full.

mod cursor;
mod ending;
pub(crate) mod event;
mod exit;
mod finish;
mod json;
mod memory;
mod overflow;
pub(crate) mod overhead;
mod owner;
mod pairing;
mod progress;
mod push;
mod recorder;
mod recover;
mod refused;
mod resources;
mod retry;
mod ring;
mod rings;
mod run;
mod session;
pub(crate) mod shrink;
mod signal;
mod signals;
mod sink;
mod site;
mod spool;
mod stats;
mod store_queue;
mod task;
mod thread;
mod threads;
mod view;
mod writer;

pub(crate) use ending::Ending;
pub(crate) use exit::end_by_panic;
pub(crate) use push::{
    Manners, Queue, Started, count_dropped, push_add, push_end, push_start, queue,
};
pub use recorder::flush;
pub(crate) use recorder::{close_run, note_workflow, open_run};
pub(crate) use recover::recover_quietly;
pub use recover::{Recovered, recover, recover_killed};
pub(crate) use run::{KnownLater, RunEnd, RunSpec, RunValues};
pub use site::{Annotated, Site, SiteEntry, SiteSpec, catalogue};
pub(crate) use site::{CodePlace, Origin, annotated_crates};
#[cfg(feature = "push")]
pub(crate) use spool::frame;
pub(crate) use spool::replay_left;
pub use spool::{Replayed, Spooled, replay, replay_from, spooled};
pub use stats::{Stats, Totals, stats};
