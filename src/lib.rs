//! Provenance and telemetry for Rust programs.
#![deny(missing_docs)]
#![warn(clippy::print_stdout)]

mod clock;
mod context;
mod error;
mod host;
mod instrument;
mod pipeline;
pub mod query;
pub mod record;
pub mod store;
mod telemetry;

pub use context::{Context, Entered, FutureExt, InContext, carry, current, current_task_id};
pub use error::{Error, ErrorKind, Result};
pub use instrument::{
    TaskBuilder, TaskGuard, WorkflowBuilder, WorkflowRun, fail, generated, task, workflow,
};
pub use pipeline::{Annotated, Stats, Totals, catalogue, flush, stats};
pub use record::Id;
pub use runlore_macros::telemetry_task;

#[doc(hidden)]
pub mod __private;
