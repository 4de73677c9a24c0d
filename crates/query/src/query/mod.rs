//! Queries over records: filters, sorting, pipelines, summaries, comparisons, and trees of tasks.

#[doc(hidden)]
pub mod compare;
#[doc(hidden)]
pub mod source;
mod summary;
#[doc(hidden)]
pub mod trace;

pub use crate::engine::filter::{Field, Filter, Test, field};
pub use crate::engine::find::Find;
pub use crate::engine::pipeline::{Gather, Pipeline};
pub use crate::engine::syntax::SyntaxError;
pub use compare::{Allowed, Change, Compared, Comparison, Figure, Limit, Measured};
pub use runlore_core::runs::{RunSummary, Runs};
pub use runlore_core::tree::{Detached, Item, Node, Part, Render, Style, Tree};
pub use source::{Collection, Documents, Records, Source};
pub use summary::{Distribution, Group, Summary};
pub use trace::Trace;
