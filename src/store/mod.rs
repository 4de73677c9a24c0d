//! Where records are kept.
//!
//! ```
//! use runlore::store::jsonl;
//!
//! let folder = std::env::temp_dir().join(format!("runlore-doc-store-{}", std::process::id()));
//! std::fs::create_dir_all(&folder)?;
//! std::fs::write(folder.join("a.jsonl"), r#"{"type":"task","task_id":"t1","activity_id":"load"}"#)?;
//!
//! let tasks = jsonl::load(&folder)?.tasks;
//! assert_eq!(tasks[0].name(), "load");
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod jsonl;
