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

#[doc(hidden)]
pub use runlore_mongodb::Documents;
pub use runlore_mongodb::{FOLDER, MongodbSource, MongodbStore};
