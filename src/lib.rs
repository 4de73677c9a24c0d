//! Provenance and telemetry for Rust programs: annotate a function, and every call leaves a record.
//!
//! ```toml
//! [dependencies]
//! runlore = "0.1"
//! ```
//!
//! ```
//! use runlore::store::MemoryStore;
//! use runlore::telemetry_task;
//!
//! #[telemetry_task(output = "mean")]
//! fn mean(values: &[f64]) -> Result<f64, String> {
//!     if values.is_empty() {
//!         return Err("no values".to_owned());
//!     }
//!     Ok(values.iter().sum::<f64>() / values.len() as f64)
//! }
//!
//! fn main() -> runlore::Result<()> {
//!     // Without `.store(…)` and settings the records go to the folder `./runlore`.
//!     let store = MemoryStore::new();
//!     let run = runlore::workflow("statistics").store(store.clone()).start()?;
//!     _ = mean(&[1.0, 2.0, 6.0]);
//!     _ = mean(&[]);
//!     let totals = run.finish()?;
//!     assert_eq!((totals.finished, totals.errors), (1, 1));
//!
//!     let task = &store.tasks()[0];
//!     assert_eq!(task.activity_id.as_deref(), Some("mean"));
//!     assert_eq!(task.used.as_ref().unwrap()["values"][2], 6.0);
//!     assert_eq!(task.generated.as_ref().unwrap()["mean"], 3.0);
//!     Ok(())
//! }
//! ```
//!
//! # What is recorded
//!
//! One [task](record::TaskObject) a call: its arguments by name, what it returned, how it ended with the whole chain of
//! its error, how long it took, where its code is, and which task called it. [`#[telemetry_task]`](macro@telemetry_task)
//! tells how to choose. A task can also be a block, a closure or a future: [`task()`].
//!
//! Each task also carries [`telemetry`], what the machine and the process were doing when it began and when it ended, and
//! `resources`, what it used in between: processor time, page faults, switches, memory, bytes from and to disks. The
//! [`settings`] say what is read; a task may ask for more, for less or for nothing. What could not be read has a reason in
//! the record.
//!
//! Tasks belong to a [`workflow()`], which has a record of its own. Outside a workflow nothing is recorded, and an
//! annotated function does one check more than it would without the attribute.
//!
//! Links to the calling task need nothing on one thread and across `.await`. To another thread, pool, spawned future
//! or process, hand them over: [`carry()`], [`current()`], [`FutureExt::in_current`], [`Context::to_env`].
//!
//! Records go to a [`store`]: JSON lines in a folder, an SQLite file, MongoDB, memory, or one of your own. A [`Provenance`] answers
//! questions about what is there, in the language of [`query`], and so does the program `runlore`. After the run, [`analyze`]
//! tells where its time went and what went wrong.
//!
//! # What it does to your program
//!
//! Nothing that you could see. An annotated function returns its own result and never an error of this crate; a task
//! waits where records cannot be written as fast as they come, but at most 100 ms while nothing moves on, and a second while a store is writing; what is not
//! recorded is [counted](Stats::dropped). Trouble with a store is told on standard error, once.
//!
//! # Features
//!
//! * `capture` (default): annotated functions record. Without it, the attribute checks its arguments and leaves the bare
//!   function; [`task()`] and [`workflow()`] stay as they are.
//! * `blake3`: `instrumentation.hash: blake3` in the settings, for hashes that nobody can forge.
//! * `query`: questions about records, in the modules `query`, `provenance` and `analyze`. The features below include it.
//! * `sqlite`: records in an SQLite file, in the module `store::sqlite`. SQLite is compiled in.
//! * `mongodb`, `mongodb-srv`: records in MongoDB, in the module `store::mongodb`; with DNS seed lists.
//! * `gpu`, or `nvidia` and `amd`: graphics processors in [`telemetry`]. The vendors' libraries are looked for when the
//!   program runs.
//! * `events`: `runlore::events`, files of telemetry events in Stormlog's format, and what [`analyze`] finds in them;
//!   `runlore::tracker`, which samples memory into them; `runlore::profile`, what parts of a program do to memory; and
//!   `runlore::emit`, metrics by hand.
//! * `push`: `runlore::push`, events to a monitoring endpoint over HTTP.
//! * `report`: `runlore::report`, timelines as PNG, SVG and HTML, and reports of runs.
//! * `progress`: `ml::Iterations::progress`, bars for loops.
//! * `portable`: on Linux `telemetry_capture.backend: portable` in the settings too. Elsewhere it is always there.
//!
//! # Supported Rust versions
//!
//! Rust 1.95 and newer.
#![warn(clippy::print_stdout)]

pub mod alloc;
#[cfg(feature = "query")]
pub mod analyze;
#[cfg(feature = "events")]
pub mod emit;
#[cfg(feature = "events")]
pub mod events;
mod instrument;
pub mod ml;
mod pipeline;
#[cfg(feature = "events")]
pub mod profile;
#[cfg(feature = "query")]
pub mod provenance;
#[cfg(feature = "push")]
pub mod push;
#[cfg(feature = "query")]
pub mod query;
pub mod record;
#[cfg(feature = "report")]
pub mod report;
pub mod settings;
pub mod store;
pub mod telemetry;
#[cfg(feature = "events")]
pub mod tracker;

pub use instrument::{
    Failure, TaskBuilder, TaskGuard, WorkflowBuilder, WorkflowRun, fail, generated, task, workflow,
};
pub use pipeline::{
    Annotated, Recovered, Replayed, Spooled, Stats, Totals, catalogue, flush, recover,
    recover_killed, replay, replay_from, spooled, stats,
};
pub use record::{Id, TryLock, try_lock};
pub use runlore_core::config::configure;
pub use runlore_core::context::{
    Context, Entered, FutureExt, InContext, carry, current, current_task_id,
};
pub use runlore_core::{Error, ErrorKind, Result};
pub use runlore_macros::{telemetry_forward, telemetry_task};
#[cfg(feature = "query")]
pub use runlore_query::{AsyncProvenance, Provenance};

// A store registers itself, and the linker drops a crate that nothing names.
#[cfg(feature = "mongodb")]
use runlore_mongodb as _;
#[cfg(feature = "sqlite")]
use runlore_sqlite as _;

#[doc(hidden)]
pub mod __private;
