//! How filters, find options and pipelines are parsed and evaluated.
//!
//! Public types are re-exported by [`query`](crate::query). The rest is for stores that translate a question into one of
//! their own, as `runlore-sqlite` and `runlore-mongodb` do.

pub mod filter;
pub mod find;
pub mod mask;
mod operators;
pub mod order;
pub mod path;
pub mod pipeline;
pub mod regex;
pub mod syntax;
