//! Stores records as JSON lines, one file per workflow and process.
//!
//! A folder contains files `<name>_<workflow id>_<process>.jsonl`. During a run, a sidecar
//! `….open.jsonl` contains the tasks that are still open. Readers of the folder join all of them.
//!
//! * [`read()`] streams the records one at a time, in constant memory;
//! * [`joined()`] also streams them, but returns each task and each workflow once;
//! * [`load()`] loads all of them into memory, joined;
//! * [`summaries()`] returns the workflows with counts of their tasks.
//!
//! A line that cannot be parsed yields an error with its file and line; all other lines load.
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
