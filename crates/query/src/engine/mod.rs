//! Parses and evaluates filters, find options and pipelines.
//!
//! [`query`](crate::query) re-exports the public types. The rest is for stores that translate a
//! query into their own language, as `runlore-sqlite` and `runlore-mongodb` do.

pub mod filter;
pub mod find;
pub mod mask;
mod operators;
pub mod order;
pub mod path;
pub mod pipeline;
pub mod regex;
pub mod syntax;
