//! Telemetry events: what happens between a task's start and end. They use the format of Stormlog
//! (GPU Memory Profiler), so that both tools can read each other's files.
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

pub use runlore_events::events::{
    Correlation, Format, Identity, Invalid, Loaded, LoadedSession, Metadata, Options, Peak,
    Problem, ProjectedRecord, ReadOptions, Reader, Reason, Resource, Schema, SessionStatus,
    SessionSummary, Sessions, SinkOptions, SinkTotals, SinkWriter, Statistics, Target,
    TelemetryEvent, Text, Writer, load, load_with, read, read_with, save, validate,
};
