//! Settings: `settings.yaml`, where it is found, what can be set, and what is wrong with it.
//!
//! The documented file is [`DEFAULT_YAML`]; it is also where the defaults come from. Keys follow Flowcept's, so that
//! an existing file of Flowcept's loads: what means nothing here is left aside with one notice.
//!
//! ```
//! use runlore::settings::Search;
//!
//! let text = "
//! telemetry_capture:
//!   per_cpu: yes
//!   disk: maybe
//! ";
//! let loaded = Search::nowhere().text("settings.yaml", text).load();
//!
//! // What is right is used, what is wrong is told.
//! assert!(loaded.settings.telemetry_capture.per_cpu);
//! assert_eq!(
//!     loaded.problems()[0].to_string(),
//!     "settings.yaml:4:9: telemetry_capture.disk must be yes or no, not `maybe`",
//! );
//! ```
//!
//! Loading never fails and never panics: a program must run whatever its settings say.

mod alias;
mod checks;
mod file_mode;
mod foreign;
mod gpu_metrics;
mod layer;
mod load;
pub(crate) mod nearest;
mod node;
mod problem;
mod reader;
mod schema;
mod search;
mod section;
mod setting;
mod types;
mod units;

pub use file_mode::FileMode;
pub use gpu_metrics::GpuMetric;
pub use load::{DEFAULT_YAML, Key, Loaded, Origin};
pub use problem::{Problem, Severity};
pub use schema::schema;
pub use search::Search;
pub use types::{
    Backend, ChildrenMode, DatabaseSettings, Durability, ExperimentSettings, GpuVendor, HashKind,
    InstrumentationSettings, JsonlSettings, LimitSettings, LoopMode, MlSettings, ModelScope,
    MongodbSettings, ParentMode, RecorderSettings, RedactSettings, Settings, SqliteSettings,
    SystemSettings, TelemetrySettings, WhenFull,
};
pub use units::Bytes;

/// The guide's examples run too.
#[cfg(doctest)]
#[doc = include_str!("../../docs/settings.md")]
struct Guide;

#[cfg(test)]
mod tests;
