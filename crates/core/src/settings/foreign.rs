//! Flowcept's settings that have no meaning here.

/// Paths of whole sections and of single keys.
const FLOWCEPTS: &[&str] = &[
    "adapters",
    "agent",
    "analytics",
    "databases.lmdb",
    "databases.mongodb.bin",
    "databases.mongodb.db_path",
    "databases.mongodb.lock_file_path",
    "databases.mongodb.log_path",
    "db_buffer",
    "flowcept_version",
    "kv_db",
    "log",
    "mq",
    "project",
    "web_server",
];

/// Returns whether the path is one of Flowcept's that is ignored.
pub(super) fn is_flowcepts(path: &str) -> bool {
    FLOWCEPTS.contains(&path)
}

/// Returns the ignored keys directly below `path`, for the JSON Schema.
pub(super) fn below(path: &str) -> impl Iterator<Item = &'static str> {
    FLOWCEPTS.iter().filter_map(move |key| match key.rsplit_once('.') {
        Some((parent, key)) => (parent == path).then_some(key),
        None => path.is_empty().then_some(*key),
    })
}
