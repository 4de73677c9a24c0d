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
//!     // By default, that is without `.store(…)` or settings, records go to the folder `./runlore`.
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
//! Each call is recorded as one [task](record::TaskObject). The record contains the arguments by
//! name, the returned value, the status with the whole error chain, the duration, the source
//! location, and the calling task. [`#[telemetry_task]`](macro@telemetry_task) documents how to
//! select what is recorded. A block, a closure or a future can also be a task: see [`task()`].
//!
//! Each task also carries [`telemetry`]: captures of the machine and the process, taken when the
//! task begins and when it ends. Its `resources` are what it used in between: CPU time, page
//! faults, context switches, memory, and bytes read from and written to disks. The [`settings`]
//! choose the sensors; a task can select more, fewer or none. If a sensor cannot be read, the
//! record contains the reason.
//!
//! Tasks belong to a [`workflow()`], which has its own record. Outside a workflow nothing is
//! recorded, and an annotated function costs one extra check.
//!
//! On one thread and across `.await`, tasks are linked to their caller automatically. Propagate the
//! context explicitly to another thread, a pool, a spawned future or a process: see [`carry()`],
//! [`current()`], [`FutureExt::in_current`] and [`Context::to_env`].
//!
//! Records go to a [`store`]: JSON lines in a folder, an SQLite file, MongoDB, memory, or a store
//! of your own. A [`Provenance`] queries stored records in the language of [`query`], and so does
//! the program `runlore`. After the run, [`analyze`] reports where its time went and what went
//! wrong.
//!
//! # What it does to your program
//!
//! Recording does not change what your program does. An annotated function returns its own result
//! and never an error of this crate. If tasks produce records faster than a store accepts them, the
//! records wait in memory and then in files, up to 1 GiB by default. Only when these are full does
//! a task wait: at most 100 ms without progress, or a second while a store is writing. An
//! asynchronous task does not wait. Tasks that are not recorded are [counted](Stats::dropped).
//! Problems with a store are reported once, on standard error.
//!
//! # Features
//!
//! * `capture` (default): annotated functions record tasks. Without it, the attribute checks its
//!   arguments and leaves the bare function. [`task()`] and [`workflow()`] record in either case.
//! * `blake3`: allows `instrumentation.hash: blake3` in the settings, for hashes that cannot be
//!   forged.
//! * `query`: queries on records, in the modules `query`, `provenance` and `analyze`. `sqlite`,
//!   `mongodb`, `events`, `push` and `report` include it.
//! * `sqlite`: stores records in an SQLite file, in the module `store::sqlite`. SQLite is compiled
//!   in.
//! * `mongodb`, `mongodb-srv`: stores records in MongoDB, in the module `store::mongodb`. The
//!   latter adds DNS seed lists.
//! * `gpu`, or `nvidia` and `amd`: adds GPUs to [`telemetry`]. The vendors' libraries are loaded
//!   when the program runs.
//! * `events`: `runlore::events` reads and writes files of telemetry events in Stormlog's format,
//!   and [`analyze`] analyses them. `runlore::tracker` samples memory into such files,
//!   `runlore::profile` measures the memory of parts of a program, and `runlore::emit` records
//!   metrics by hand.
//! * `push`: `runlore::push` sends events to a monitoring endpoint over HTTP.
//! * `report`: `runlore::report` draws timelines as PNG, SVG and HTML, and writes reports of runs.
//! * `progress`: `ml::Iterations::progress` shows progress bars for loops.
//! * `portable`: allows `telemetry_capture.backend: portable` in the settings on Linux. On other
//!   systems this backend is always available.
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

// Stores register themselves. Without these imports the linker would drop the unused crates.
#[cfg(feature = "mongodb")]
use runlore_mongodb as _;
#[cfg(feature = "sqlite")]
use runlore_sqlite as _;

#[doc(hidden)]
pub mod __private;
#[doc(hidden)]
pub use runlore_core::__tensors;
