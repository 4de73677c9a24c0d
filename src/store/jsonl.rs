//! Records as lines of JSON, in one file per workflow and process.
//!
//! A folder holds `<name>_<workflow id>_<process>.jsonl`, and while a run lasts a sidecar
//! `….open.jsonl` with the tasks that are still open. Reading a folder joins them all.
//!
//! * [`read()`] streams the records, one at a time, in constant memory;
//! * [`joined()`] streams them too, each task and each workflow once;
//! * [`load()`] holds them all, joined;
//! * [`summaries()`] keeps the workflows and counts the tasks.
//!
//! A line that cannot be read is an error that names its file and line; all others load.
//!
//! ```
//! use runlore::store::jsonl;
//!
//! let file = std::env::temp_dir().join(format!("runlore-doc-jsonl-{}.jsonl", std::process::id()));
//! std::fs::write(&file, "{\"task_id\": \"t1\"}\nnot JSON\n{\"task_id\": \"t2\"}\n")?;
//!
//! let (records, problems): (Vec<_>, Vec<_>) = jsonl::read(&file)?.partition(Result::is_ok);
//! assert_eq!((records.len(), problems.len()), (2, 1));
//! # std::fs::remove_file(&file)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use runlore_core::store::jsonl::{
    Joined, JsonlStore, Loaded, Reader, joined, load, load_with, read, summaries,
};
