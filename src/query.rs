//! Queries on records: filters, aggregation, call trees and their display.
//!
//! A [`Filter`], a [`Find`] and a [`Pipeline`] follow MongoDB's query language. They work on JSON
//! documents.
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

pub use runlore_core::runs::{RunSummary, Runs};
pub use runlore_core::tree::{Detached, Item, Node, Part, Render, Style, Tree};
pub use runlore_query::query::{
    Change, Collection, Compared, Comparison, Distribution, Documents, Field, Figure, Filter, Find,
    Gather, Group, Limit, Measured, Pipeline, Records, Source, Summary, SyntaxError, Test, Trace,
    field,
};
