//! Analysis after a run: what went wrong in its tasks, where, with what confidence, and what to
//! try.
//!
//! Every analysis returns [`Finding`]s, which are plain data.

#[doc(hidden)]
pub mod fail_on;
#[doc(hidden)]
pub mod finding;
#[doc(hidden)]
pub mod kind;
#[doc(hidden)]
pub mod math;
#[doc(hidden)]
pub mod tasks;
#[doc(hidden)]
pub mod text;
#[doc(hidden)]
pub mod thresholds;

pub use fail_on::FailOn;
pub use finding::{Finding, Place, Severity, Window};
pub use kind::Kind;
pub use tasks::{
    ActivityTime, CriticalPath, Parallelism, PathStep, RunAnalysis, RunAnalysisBuilder, run,
};
pub use thresholds::Thresholds;
