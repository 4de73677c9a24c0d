//! Records in an SQLite file, for any SQLite client to look at.

mod ask;
mod condition;
mod connections;
mod problem;
mod put;
mod read;
mod schema;
mod skim;
mod write;

#[cfg(unix)]
pub(crate) use connections::{Held, hold};
pub use read::SqliteSource;
pub use write::SqliteStore;
