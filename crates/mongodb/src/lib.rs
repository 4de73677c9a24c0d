//! A store of records in MongoDB, for many programs and machines at once.

mod address;
mod ask;
mod collections;
mod condition;
mod connection;
mod decode;
mod document;
mod indexes;
mod missing;
mod problem;
mod processes;
mod read;
mod shrink;
mod upsert;
mod value;
mod write;

use runlore_core::store::StoreEntry;
use runlore_query::reading::SourceEntry;

pub use read::MongodbSource;
pub use write::{FOLDER, MongodbStore};

#[doc(hidden)]
pub use write::Documents;

inventory::submit! {
    StoreEntry::new("mongodb", |uri, run| Ok(Box::new(MongodbStore::open(uri, run)?))).enabled_by(
        |settings| {
            let mongodb = &settings.databases.mongodb;
            mongodb.enabled.then(|| address::uri_of(mongodb))
        },
    )
}

inventory::submit! {
    SourceEntry::new("mongodb", |uri| Ok(Box::new(MongodbSource::open(uri)?)))
}

#[cfg(feature = "srv")]
inventory::submit! {
    StoreEntry::new("mongodb+srv", |uri, run| Ok(Box::new(MongodbStore::open(uri, run)?)))
}

#[cfg(feature = "srv")]
inventory::submit! {
    SourceEntry::new("mongodb+srv", |uri| Ok(Box::new(MongodbSource::open(uri)?)))
}
