//! Analyses a run afterwards: what went wrong and where, how certain that is, and what to try.

mod collective;
mod diagnose;
mod diagnosis;
mod gap;
mod gauge;
mod host;
mod marks;
mod memory;
mod ranks;
mod reference;
mod report;
mod series;

pub use runlore_query::analyze::{
    ActivityTime, CriticalPath, FailOn, Finding, Kind, Parallelism, PathStep, Place, RunAnalysis,
    RunAnalysisBuilder, Severity, Thresholds, Window, run,
};
use runlore_query::analyze::{finding, kind, math, text, thresholds};

pub use diagnose::{Diagnose, Diagnosed};
pub use diagnosis::{DiagnosticSummary, HostMemory, RiskFlags};
pub use gauge::{Gauge, GaugeSeries};
pub use ranks::{Confidence, CrossRank, Suspect};
pub use reference::{Reference, ReferenceChange, ReferenceFigure, ReferenceLimit};
pub use report::{EventReport, SeriesSummary};
pub use series::{Collector, Mark, MarkKind, Sample, Series, Timelines};
