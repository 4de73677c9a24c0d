//! A store of records in an SQLite file, which any SQLite client can read.

mod ask;
mod condition;
mod connections;
mod descriptors;
mod matching;
mod needed;
mod problem;
mod read;
mod schema;
mod turn;
mod upsert;
mod write;

use runlore_query::reading::SourceEntry;

inventory::submit! {
    SourceEntry::new("sqlite", |uri| Ok(Box::new(SqliteSource::open(write::path_of(uri)?)?)))
}

pub use connections::inside;
pub use read::{SqliteSource, check_file};
pub use write::SqliteStore;
