//! Settings: where `settings.yaml` is found, which keys it may have, and how problems are reported.

mod alias;
mod checks;
mod file_mode;
mod foreign;
mod gpu_metrics;
mod layer;
mod load;
pub mod nearest;
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

#[cfg(test)]
mod tests;
