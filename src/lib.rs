//! Provenance and telemetry for Rust programs.

mod error;

pub use error::{Error, ErrorKind, Result};
