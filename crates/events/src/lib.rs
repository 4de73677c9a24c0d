//! Telemetry events in Stormlog's format: event files and sinks, the tracker that samples events,
//! and their analysis.
//!
//! Programs use the crate [`runlore`](https://docs.rs/runlore) with its feature `events`.
#![warn(clippy::print_stdout)]

pub mod analyze;
pub mod events;
pub mod profile;
pub mod tracker;
