//! Analyses a finished run: what went wrong, where, with what confidence, and what to try.
//!
//! A [`Finding`] is plain data, whatever it was derived from: memory samples taken while tasks ran,
//! a comparison of a job's ranks, or a run's tasks.
//!
//! ```
//! use runlore::analyze::{Kind, Severity, Thresholds, Timelines};
//! use runlore::events::TelemetryEvent;
//!
//! // Twenty samples of a device: the allocator holds 4 GiB, and other memory grows by 120 MiB each time.
//! let samples = (0..20).map(|at: u64| TelemetryEvent {
//!     timestamp_ns: at * 100_000_000,
//!     device_id: 0,
//!     allocator_reserved_bytes: Some(4 << 30),
//!     device_used_bytes: Some((4 << 30) + at * (120 << 20)),
//!     device_total_bytes: Some(16 << 30),
//!     ..TelemetryEvent::default()
//! });
//! let timelines: Timelines = samples.collect();
//!
//! let report = timelines.analyze(&Thresholds::default());
//! let drift = &report.findings[0];
//! assert_eq!((drift.kind, drift.severity), (Kind::PersistentDrift, Severity::Critical));
//! assert_eq!(drift.what, "memory outside of the allocator grows by 1.17 GiB a second, from 0 B to 2.23 GiB; \
//!     the device is full 8.3 s after the last sample if that goes on");
//! println!("{}: {}", drift.place, drift.to_try[0]);
//! ```

#[cfg(feature = "events")]
pub use runlore_events::analyze::{
    Collector, Confidence, CrossRank, Diagnose, Diagnosed, DiagnosticSummary, EventReport, Gauge,
    GaugeSeries, HostMemory, Mark, MarkKind, Reference, ReferenceChange, ReferenceFigure,
    ReferenceLimit, RiskFlags, Sample, Series, SeriesSummary, Suspect, Timelines,
};
pub use runlore_query::analyze::{
    ActivityTime, CriticalPath, FailOn, Finding, Kind, Parallelism, PathStep, Place, RunAnalysis,
    RunAnalysisBuilder, Severity, Thresholds, Window, run,
};
