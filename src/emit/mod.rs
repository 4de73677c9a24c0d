//! Emits metrics and milestones by hand, in the record and table format of cloudmesh-ai-common, so
//! that its aggregator can read them.
//!
//! ```
//! use runlore::emit::{self, Telemetry};
//!
//! # let folder = std::env::temp_dir().join(format!("runlore-doc-emit-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! # let path = folder.join("telemetry.jsonl");
//! let telemetry = Telemetry::new().path(&path);
//! telemetry.emit().metric("inference_latency", 0.125).status("completed");
//! telemetry.emit().metrics([("tokens_per_sec", 45.2), ("gpu_util", 88.0)]);
//! telemetry.emit().event("model_load_start").status("started");
//! let answer = telemetry.track().message("think").run(|| 42);
//!
//! let summary = emit::Summary::of(emit::read(&path)?.filter_map(Result::ok));
//! assert_eq!(summary.total_records, 5);
//! assert_eq!(summary.metrics["inference_latency"].avg, 0.125);
//! # assert_eq!(answer, 42);
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A record is written at the latest when its emission is dropped. Problems with a backend are
//! reported once on standard error and never reach the program; [`Emission::send`] returns them.
//! `RUNLORE_EMIT_DISABLED=1` disables all emissions, and so does cloudmesh's own
//! `CLOUDMESH_AI_TELEMETRY_DISABLED`.
//!
//! Inside a task, emitted metrics also become outputs of the task. Secrets, by name or in URLs, are
//! redacted as they are in tasks.

mod asynchronous;
mod backend;
mod emission;
mod import;
mod queue;
mod read;
mod record;
mod summary;
mod system;
#[cfg(feature = "sqlite")]
mod table;
mod telemetry;
mod track;

pub use asynchronous::{AsyncEmission, AsyncTelemetry, Sent};
pub use backend::Backend;
pub use emission::{Destination, Emission, Metric};
pub use import::{Imported, import};
pub use read::{Reader, read};
pub use record::{Emitted, System};
pub use summary::{MetricSummary, Summary};
pub use telemetry::Telemetry;
pub use track::Track;
