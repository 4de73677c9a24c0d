//! The foundation of Runlore: records and their values, settings, stores, and the current task.
//!
//! Programs use the crate [`runlore`](https://docs.rs/runlore), which re-exports what they need.
//! This crate is for authors of stores and for Runlore's other crates.
#![warn(clippy::print_stdout)]

pub mod alloc;
#[doc(hidden)]
pub mod clock;
#[doc(hidden)]
pub mod config;
#[doc(hidden)]
pub mod contain;
pub mod context;
pub mod error;
#[doc(hidden)]
pub mod file_size;
#[doc(hidden)]
pub mod file_system;
#[doc(hidden)]
pub mod fork;
#[doc(hidden)]
pub mod host;
#[doc(hidden)]
pub mod identity;
#[doc(hidden)]
pub mod json;
#[doc(hidden)]
pub mod notice;
pub mod record;
#[doc(hidden)]
pub mod resident;
#[doc(hidden)]
pub mod runs;
pub mod settings;
pub mod store;
#[doc(hidden)]
pub mod text;
#[doc(hidden)]
pub mod thread;
pub mod tree;
#[doc(hidden)]
pub mod usage;

pub use error::{Error, ErrorKind, Result};
