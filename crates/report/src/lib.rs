//! Pictures and reports that open anywhere: timelines as PNG, SVG and self-contained HTML, and a
//! whole run in one file.

mod alike;
mod analysis;
mod axis;
mod buckets;
mod data;
mod diagnosed;
mod draw;
mod findings;
mod gauges;
mod html;
mod join;
mod memory;
mod picture;
mod png;
mod run;
mod svg;
mod timeline;

pub use analysis::events_page;
pub use diagnosed::diagnosis_page;
pub use picture::{Bar, Level, Line, Mark, Panel, Picture, Point, State, Unit};
pub use run::{
    Activity, Call, Cost, Counts, Crate, Failed, Flow, FlowGraph, RunFacts, RunReport,
    RunReportBuilder, TaskFacts, Unavailable,
};
