//! Stores records in MongoDB, for many programs and machines at once.
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
//! A document is the record plus what MongoDB clients expect: times are dates, `registered_at` is
//! the time of storing, and a field named after the status is true. If the record itself has a
//! field of such a name, its original value is in `_runlore.own`, and queries for that name use
//! that value. See the guide `docs/mongodb.md`.

#[doc(hidden)]
pub use runlore_mongodb::Documents;
pub use runlore_mongodb::{FOLDER, MongodbSource, MongodbStore};
