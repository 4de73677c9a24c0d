//! Reads parts of JSON texts and skips the rest.

pub mod mask;
pub mod scan;
