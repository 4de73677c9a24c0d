//! Queries over records: filters and pipelines in MongoDB's language, lineage, comparison of runs
//! and analysis of tasks.
//!
//! Programs use the crate [`runlore`](https://docs.rs/runlore) with its feature `query`. Use this
//! crate directly to implement a [`Source`](query::Source) of records; Runlore's other crates also
//! depend on it.
#![warn(clippy::print_stdout)]

pub mod analyze;
#[doc(hidden)]
pub mod engine;
#[doc(hidden)]
pub mod jsonl;
mod memory;
pub mod provenance;
pub mod query;
pub mod reading;

pub use provenance::{AsyncProvenance, Provenance};
