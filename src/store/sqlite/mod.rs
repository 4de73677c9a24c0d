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

use super::SourceEntry;

inventory::submit! {
    SourceEntry::new("sqlite", |uri| Ok(Box::new(SqliteSource::open(write::path_of(uri)?)?)))
}

#[cfg(unix)]
pub(crate) use connections::{Held, hold};
pub use read::SqliteSource;
pub use write::SqliteStore;
