//! Telemetry events: what happened between the edges of a task, in the format of Stormlog / GPU Memory Profiler, so that
//! files pass between the two unchanged.
//!
//! ```
//! use runlore::events::{Options, Schema, TelemetryEvent};
//! use serde_json::json;
//!
//! let record = json!({"timestamp_ns": 1, "memory_allocated": 512, "device": "cuda:0", "message": "warm-up"});
//! let event = TelemetryEvent::from_record(&record, &Options::default().session("run-7"))?;
//! let record = event.to_record(Schema::V3)?;
//! assert_eq!(record["collector"], "stormlog.cuda_tracker");
//! assert_eq!(record["allocator_reserved_bytes"], 512);
//! assert_eq!(record["context"], "warm-up");
//! # Ok::<(), runlore::events::Invalid>(())
//! ```

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
mod mend;
mod problem;
mod projection;
pub(crate) mod python;
mod reader;
mod record;
mod scan;
mod session;
mod session_id;
mod shared;
mod sink;
mod source;
mod statistics;
pub(crate) mod text;
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
pub(crate) use sink::Facts;
pub use sink::{SinkOptions, SinkTotals, SinkWriter};
pub use statistics::{Peak, Statistics};
pub(crate) use write::escape_line_ends;
pub use write::{Writer, save};

/// The guide's examples run.
#[cfg(doctest)]
#[doc = include_str!("../../docs/events.md")]
struct Guide;
