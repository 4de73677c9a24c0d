//! After the run: what went wrong, where, how sure that is, and what to try.
//!
//! A [`Finding`] is plain data, whatever it was found in: samples of memory between the edges of tasks, the ranks of a job
//! beside each other, or the tasks of a run.
#![cfg_attr(
    feature = "events",
    doc = r#"
```
use runlore::analyze::{Kind, Severity, Thresholds, Timelines};
use runlore::events::TelemetryEvent;

// Twenty samples of a device: the allocator holds 4 GiB, and something else takes 120 MiB more each time.
let samples = (0..20).map(|at: u64| TelemetryEvent {
    timestamp_ns: at * 100_000_000,
    device_id: 0,
    allocator_reserved_bytes: Some(4 << 30),
    device_used_bytes: Some((4 << 30) + at * (120 << 20)),
    device_total_bytes: Some(16 << 30),
    ..TelemetryEvent::default()
});
let timelines: Timelines = samples.collect();

let report = timelines.analyze(&Thresholds::default());
let drift = &report.findings[0];
assert_eq!((drift.kind, drift.severity), (Kind::PersistentDrift, Severity::Critical));
assert_eq!(drift.what, "memory outside of the allocator grows by 1.17 GiB a second, from 0 B to 2.23 GiB; \
    the device is full 8.3 s after the last sample if that goes on");
println!("{}: {}", drift.place, drift.to_try[0]);
```
"#
)]

#[cfg(feature = "events")]
mod collective;
#[cfg(feature = "events")]
mod diagnose;
#[cfg(feature = "events")]
mod diagnosis;
mod fail_on;
mod finding;
#[cfg(feature = "events")]
mod gap;
#[cfg(feature = "events")]
mod gauge;
#[cfg(feature = "events")]
mod host;
mod kind;
#[cfg(feature = "events")]
mod marks;
mod math;
#[cfg(feature = "events")]
mod memory;
#[cfg(feature = "events")]
mod ranks;
#[cfg(feature = "events")]
mod reference;
#[cfg(feature = "events")]
mod report;
#[cfg(feature = "events")]
mod series;
mod tasks;
mod text;
mod thresholds;

#[cfg(feature = "events")]
pub use diagnose::{Diagnose, Diagnosed};
#[cfg(feature = "events")]
pub use diagnosis::{DiagnosticSummary, HostMemory, RiskFlags};
pub use fail_on::FailOn;
pub use finding::{Finding, Place, Severity, Window};
#[cfg(feature = "events")]
pub use gauge::{Gauge, GaugeSeries};
pub use kind::Kind;
#[cfg(feature = "events")]
pub use ranks::{Confidence, CrossRank, Suspect};
#[cfg(feature = "events")]
pub use reference::{Reference, ReferenceChange, ReferenceFigure, ReferenceLimit};
#[cfg(feature = "events")]
pub use report::{EventReport, SeriesSummary};
#[cfg(feature = "events")]
pub use series::{Collector, Mark, MarkKind, Sample, Series, Timelines};
pub use tasks::{ActivityTime, CriticalPath, Parallelism, PathStep, RunReport, run, run_among};
#[cfg(feature = "report")]
pub(crate) use tasks::{Earlier, TaskRows, tasks_of, with_started};
pub use thresholds::Thresholds;

/// The guide's examples run.
#[cfg(all(doctest, feature = "events"))]
#[doc = include_str!("../../docs/analyze.md")]
struct Guide;
