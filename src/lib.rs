//! Provenance and telemetry for Rust programs.

mod error;
pub mod record;

pub use error::{Error, ErrorKind, Result};
