//! Questions about records: what called what, and how to show it.
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

pub(crate) mod filter;
pub(crate) mod find;
mod operators;
pub(crate) mod order;
pub(crate) mod path;
pub(crate) mod pipeline;
mod regex;
mod render;
pub(crate) mod source;
mod syntax;
pub mod text;
mod tree;

pub use filter::{Field, Filter, field};
pub use find::Find;
pub use pipeline::Pipeline;
pub use render::{Part, Render, Style};
pub use source::{Collection, Documents, Records, Source};
pub use syntax::SyntaxError;
pub use tree::{Detached, Item, Node, Tree};
