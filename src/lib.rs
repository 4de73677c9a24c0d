//! Provenance and telemetry for Rust programs.

mod error;
pub mod query;
pub mod record;
pub mod store;

pub use error::{Error, ErrorKind, Result};
