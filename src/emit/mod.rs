//! Metrics and milestones written by hand, in the record and the table of cloudmesh-ai-common, whose aggregator reads them.
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
//! A record is written when the emission goes out of scope, at the latest. Trouble with a backend is told on standard error
//! once, and never reaches the program; [`Emission::send`] returns it to whoever wants to know. `RUNLORE_EMIT_DISABLED=1`
//! turns it all off, and so does cloudmesh's own `CLOUDMESH_AI_TELEMETRY_DISABLED`.
//!
//! Inside a task, what is emitted is also part of what the task gives. Secrets, by their names or in URLs, are hidden as they are there.

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
pub use emission::{Emission, Metric};
pub use import::{Imported, import};
pub use read::{Reader, read};
pub use record::{Emitted, System};
pub use summary::{MetricSummary, Summary};
pub use telemetry::Telemetry;
pub use track::Track;
