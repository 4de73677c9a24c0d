//! Keys of Flowcept's settings that mean nothing here.

/// Whole sections, and single keys, by their paths.
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

/// Whether the path is one of Flowcept's that is left aside.
pub(super) fn is_flowcepts(path: &str) -> bool {
    FLOWCEPTS.contains(&path)
}

/// For editors: the keys below `path` that are accepted and left aside.
pub(super) fn below(path: &str) -> impl Iterator<Item = &'static str> {
    FLOWCEPTS.iter().filter_map(move |key| match key.rsplit_once('.') {
        Some((parent, key)) => (parent == path).then_some(key),
        None => path.is_empty().then_some(*key),
    })
}
