//! Parts of JSON texts, read without the rest.

pub mod mask;
pub mod scan;
