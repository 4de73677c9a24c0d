//! Telemetry events: samples and changes between the start and the end of a task, in the format of
//! Stormlog / GPU Memory Profiler. Files pass between the two programs unchanged.

mod bundle;
mod capabilities;
mod csv;
mod event;
mod fast;
mod fields;
mod identity;
mod invalid;
mod json;
mod legacy;
mod literal;
mod load;
mod problem;
mod projection;
pub mod python;
mod reader;
mod record;
mod repair;
mod scan;
mod session;
mod session_id;
mod shared;
mod sink;
mod source;
mod statistics;
pub mod text;
mod write;

pub use event::{Schema, Target, TelemetryEvent};
pub use identity::Identity;
pub use invalid::{Invalid, Reason};
pub use load::{Loaded, LoadedSession, Sessions, load, load_with};
pub use problem::Problem;
pub use projection::{Correlation, ProjectedRecord, Resource};
pub use reader::{Format, ReadOptions, Reader, read, read_with};
pub use record::{Options, validate};
pub use session::{SessionStatus, SessionSummary};
pub use shared::{Metadata, Text};
pub use sink::{SinkOptions, SinkTotals, SinkWriter};
pub use statistics::{Peak, Statistics};
pub use write::{Writer, save};
