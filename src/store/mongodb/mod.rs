//! Records in MongoDB, for many programs and machines at once.
//!
//! ```no_run
//! use runlore::Provenance;
//! use runlore::query::field;
//!
//! let run = runlore::workflow("train").store("mongodb://localhost:27017/runlore").start()?;
//! runlore::task("load").run(|| ());
//! run.finish()?;
//!
//! let records = Provenance::open("mongodb://localhost:27017/runlore")?;
//! let loads = records.tasks().filter(field("activity_id").eq("load")).to_vec()?;
//! # Ok::<(), runlore::Error>(())
//! ```
//!
//! A document is the record, with what clients of MongoDB expect beside it: times are dates, `registered_at` says when it was
//! stored, a field named after the status is true. What the record itself has in such a field is in `_runlore.own`,
//! exactly as it was; whatever is asked by that name is asked there. The guide `docs/mongodb.md` tells the rest.

mod ask;
mod collections;
mod condition;
mod connection;
mod decode;
mod document;
mod indexes;
mod missing;
mod place;
mod problem;
mod processes;
mod put;
mod read;
mod shrink;
mod value;
mod write;

use super::{SourceEntry, StoreEntry};

pub(super) use place::uri_of;
pub use read::MongodbSource;
pub use write::{FOLDER, MongodbStore};

#[doc(hidden)]
pub use write::Documents;

inventory::submit! {
    StoreEntry::new("mongodb", |uri, run| Ok(Box::new(MongodbStore::open(uri, run)?)))
}

inventory::submit! {
    SourceEntry::new("mongodb", |uri| Ok(Box::new(MongodbSource::open(uri)?)))
}

#[cfg(feature = "mongodb-srv")]
inventory::submit! {
    StoreEntry::new("mongodb+srv", |uri, run| Ok(Box::new(MongodbStore::open(uri, run)?)))
}

#[cfg(feature = "mongodb-srv")]
inventory::submit! {
    SourceEntry::new("mongodb+srv", |uri| Ok(Box::new(MongodbSource::open(uri)?)))
}

/// The guide's examples run too.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/mongodb.md")]
struct Guide;
