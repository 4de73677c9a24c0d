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

pub use runlore_core::settings::{
    Backend, Bytes, ChildrenMode, DEFAULT_YAML, DatabaseSettings, Durability, ExperimentSettings,
    FileMode, GpuMetric, GpuVendor, HashKind, InstrumentationSettings, JsonlSettings, Key,
    LimitSettings, Loaded, LoopMode, MlSettings, ModelScope, MongodbSettings, Origin, ParentMode,
    Problem, RecorderSettings, RedactSettings, Search, Settings, Severity, SqliteSettings,
    SystemSettings, TelemetrySettings, WhenFull, schema,
};
