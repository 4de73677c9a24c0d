//! Stores records in an SQLite file that any SQLite client can read.
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
//! The guide `docs/sqlite.md` describes the tables.

pub use runlore_sqlite::{SqliteSource, SqliteStore, check_file};
