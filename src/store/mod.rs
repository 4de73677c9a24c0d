//! The [`Store`] trait, and the stores that come with the library.
//!
//! Each workflow chooses its store in code, or by a path or URI. Another crate can add a store by
//! submitting a [`StoreEntry`]; its scheme then works wherever a URI is accepted.
//!
//! ```
//! use runlore::store::MemoryStore;
//!
//! let store = MemoryStore::new();
//! let run = runlore::workflow("train").store(store.clone()).start()?;
//! runlore::task("load").run(|| ());
//! run.finish()?;
//! assert_eq!(store.tasks()[0].activity_id.as_deref(), Some("load"));
//! # Ok::<(), runlore::Error>(())
//! ```

pub mod jsonl;
#[cfg(feature = "mongodb")]
pub mod mongodb;
#[cfg(feature = "sqlite")]
pub mod sqlite;

pub use runlore_core::store::{
    Batch, DEFAULT_FOLDER, Known, MemoryStore, RecordHead, RecordKind, RecordLines, Refused,
    RunInfo, Sink, Store, StoreChoice, StoreEntry, StoredTasks, ValueHash, create_file,
    create_folders, default_uri, default_uris, names_database, write_file,
};
#[cfg(feature = "query")]
pub use runlore_query::reading::SourceEntry;
