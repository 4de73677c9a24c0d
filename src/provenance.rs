//! Queries records in any store.
//!
//! ```
//! use runlore::query::field;
//! use runlore::{Provenance, telemetry_task};
//!
//! #[telemetry_task]
//! fn divide(a: f64, b: f64) -> Result<f64, String> {
//!     if b == 0.0 { Err("division by zero".to_owned()) } else { Ok(a / b) }
//! }
//!
//! # let folder = std::env::temp_dir().join(format!("runlore-doc-provenance-{}", std::process::id()));
//! let run = runlore::workflow("numbers").store(&*folder).start()?;
//! let id = run.id().to_string();
//! _ = divide(1.0, 2.0);
//! _ = divide(1.0, 0.0);
//! run.finish()?;
//!
//! let records = Provenance::open(&folder)?;
//! let failed = records.tasks().filter(field("status").eq("ERROR")).to_vec()?;
//! assert_eq!(failed[0].error_message().unwrap(), "division by zero");
//!
//! let tree = records.tree(&id)?;
//! assert_eq!(tree.walk().count(), 3);
//!
//! let summary = records.summary(field("workflow_id").eq(id))?;
//! assert_eq!(summary.groups()[0].name(), "divide");
//! # std::fs::remove_dir_all(&folder).ok();
//! # Ok::<(), runlore::Error>(())
//! ```

pub use runlore_query::provenance::{
    AsyncProvenance, Copied, FromDocument, Lineage, Point, Provenance, QueryIter, QueryStream,
    Subject, TaskQuery, TimeSeries, ValueLineage,
};
