//! Loads and validates settings from `settings.yaml`.
//!
//! The documented file is [`DEFAULT_YAML`]; it is also the source of the defaults. Keys follow
//! Flowcept's, so an existing Flowcept file loads. Keys that have no meaning here are ignored with
//! one notice.
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
//! // Valid values are used; invalid ones are reported.
//! assert!(loaded.settings.telemetry_capture.per_cpu);
//! assert_eq!(
//!     loaded.problems()[0].to_string(),
//!     "settings.yaml:4:9: telemetry_capture.disk must be yes or no, not `maybe`",
//! );
//! ```
//!
//! Loading never fails and never panics: the program must run whatever its settings contain.

pub use runlore_core::settings::{
    Backend, Bytes, ChildrenMode, DEFAULT_YAML, DatabaseSettings, Durability, ExperimentSettings,
    FileMode, GpuMetric, GpuVendor, HashKind, InstrumentationSettings, JsonlSettings, Key,
    LimitSettings, Loaded, LoopMode, MlSettings, ModelScope, MongodbSettings, Origin, ParentMode,
    Problem, RecorderSettings, RedactSettings, Search, Settings, Severity, SqliteSettings,
    SystemSettings, TelemetrySettings, WhenFull, schema,
};
