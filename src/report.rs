//! Charts and reports that open anywhere: timelines as PNG, SVG and self-contained HTML, and a
//! whole run in one file.
//!
//! A [`Picture`] is plain data, independent of its source and of its output format.
//!
//! ```
//! use runlore::report::{Line, Panel, Picture, Point, Unit};
//!
//! let loss = Line {
//!     name: "loss".to_owned(),
//!     points: (0..100).map(|at| Point { at_ns: at * 1_000_000, value: 1.0 / (at + 1) as f64 }).collect(),
//!     ..Line::default()
//! };
//! let picture = Picture {
//!     title: "Training".to_owned(),
//!     length_ns: 99_000_000,
//!     panels: vec![Panel { title: "Loss".to_owned(), unit: Unit::Count, lines: vec![loss], limit: None }],
//!     ..Picture::default()
//! };
//! assert!(picture.to_svg().contains("Training"));
//! ```

pub use runlore_report::{
    Activity, Bar, Call, Cost, Counts, Crate, Failed, Flow, FlowGraph, Level, Line, Mark, Panel,
    Picture, Point, RunFacts, RunReport, RunReportBuilder, State, TaskFacts, Unavailable, Unit,
    diagnosis_page, events_page,
};
