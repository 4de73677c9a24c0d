//! Questions about records: which of them, how many and how long; what called what, and how to show it.
//!
//! A [`Filter`] is MongoDB's, and so are a [`Find`] and a [`Pipeline`]; they work on documents as JSON.
//!
//! ```
//! use runlore::query::{Filter, field};
//! use serde_json::json;
//!
//! let slow = Filter::parse(r#"{"status": "ERROR", "duration_ns": {"$gt": 1000000000}}"#)?;
//! assert_eq!(slow, field("status").eq("ERROR").and(field("duration_ns").gt(1_000_000_000)));
//! assert!(slow.matches(&json!({"status": "ERROR", "duration_ns": 3_000_000_000_u64})));
//! # Ok::<(), runlore::Error>(())
//! ```
//!
//! A [`Tree`] shows which task called which.
//!
//! ```
//! use runlore::query::Tree;
//! use runlore::record::{Status, TaskObject};
//!
//! let task = |id: &str, parent: Option<&str>, ns| TaskObject {
//!     task_id: id.into(),
//!     parent_task_id: parent.map(Into::into),
//!     status: Some(Status::Finished),
//!     duration_ns: Some(ns),
//!     ..TaskObject::default()
//! };
//! let tree = Tree::new([], [
//!     task("train", None, 1_200_000_000),
//!     task("load", Some("train"), 30_000_000),
//! ]);
//! assert_eq!(tree.to_string(), "\
//! train  FINISHED  1.2 s
//! └─ load  FINISHED  30 ms
//! ");
//! ```

pub(crate) mod compare;
pub(crate) mod filter;
pub(crate) mod find;
mod operators;
pub(crate) mod order;
pub(crate) mod path;
pub(crate) mod pipeline;
pub(crate) mod regex;
mod render;
mod runs;
pub(crate) mod scan;
pub(crate) mod source;
mod summary;
mod syntax;
pub mod text;
mod trace;
mod tree;
pub(crate) mod wanted;

#[cfg(feature = "events")]
pub(crate) use compare::Allowed;
pub use compare::{Change, Compared, Comparison, Figure, Limit, Measured};
pub use filter::{Field, Filter, Test, field};
pub use find::Find;
pub use pipeline::{Gather, Pipeline};
pub use render::{Part, Render, Style};
pub(crate) use runs::CountedRuns;
#[cfg(feature = "report")]
pub(crate) use runs::failed_children;
pub use runs::{RunSummary, Runs};
pub use source::{Collection, Documents, Records, Source};
pub(crate) use summary::SUMMARISED;
pub use summary::{Distribution, Group, Summary};
pub use syntax::SyntaxError;
pub use trace::Trace;
pub use tree::{Detached, Item, Node, Tree};

/// The guide's examples run too.
#[cfg(doctest)]
#[doc = include_str!("../../docs/query.md")]
struct Guide;
