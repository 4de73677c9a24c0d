//! Pictures and reports that people can open anywhere: timelines as PNG, SVG and self-contained HTML, and all of a run in
//! one file.
//!
//! A [`Picture`] is plain data; where it comes from and what it is drawn as have nothing to do with each other.
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

pub use picture::{Bar, Level, Line, Mark, Panel, Picture, Point, State, Unit};
pub use run::{
    Activity, Call, Cost, Counts, Crate, Failed, Flow, FlowGraph, RunFacts, RunReport, TaskFacts,
    Unavailable,
};

/// The guide's snippets compile and hold.
#[cfg(doctest)]
#[doc = include_str!("../../docs/report.md")]
pub struct Guide;
