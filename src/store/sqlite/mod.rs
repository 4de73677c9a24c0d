//! Records in an SQLite file, for any SQLite client to look at.
//!
//! ```
//! use runlore::query::{Collection, Find, Source, field};
//! use runlore::store::sqlite::SqliteSource;
//!
//! # let folder = std::env::temp_dir().join(format!("runlore-doc-sqlite-mod-{}", std::process::id()));
//! # let path = folder.join("runs.db");
//! let run = runlore::workflow("train").store(format!("sqlite://{}", path.display())).start()?;
//! runlore::task("load").run(|| ());
//! run.finish()?;
//!
//! let runs = SqliteSource::open(&path)?;
//! let find = Find::new().filter(field("activity_id").eq("load"));
//! assert_eq!(runs.find(Collection::Tasks, &find)?.count(), 1);
//! # drop(runs);
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The guide `docs/sqlite.md` tells what is in the file.

mod ask;
mod condition;
mod connections;
mod descriptors;
mod matching;
mod needed;
mod problem;
mod put;
mod read;
mod schema;
mod skim;
mod turn;
mod write;

use super::SourceEntry;

inventory::submit! {
    SourceEntry::new("sqlite", |uri| Ok(Box::new(SqliteSource::open(write::path_of(uri)?)?)))
}

#[cfg(feature = "events")]
pub(crate) use connections::inside;
#[cfg(unix)]
pub(crate) use connections::{Held, hold};
pub use read::{SqliteSource, check_file};
pub use write::SqliteStore;

/// The guide's examples run too.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/sqlite.md")]
struct Guide;
