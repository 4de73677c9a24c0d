//! Questions about records: filters and pipelines in MongoDB's language, lineage, comparison, analysis of tasks.
//!
//! Programs use the crate [`runlore`](https://docs.rs/runlore) with its feature `query`. This crate is for those who write
//! a source of records, and for the other crates of Runlore.
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
