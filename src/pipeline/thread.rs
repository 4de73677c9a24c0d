//! The threads that tasks run on.

use std::sync::OnceLock;

use serde::ser::{Serialize, SerializeMap, Serializer};

/// A thread that tasks ran on.
#[derive(Debug, Default)]
pub(crate) struct Thread {
    pub(crate) id: u64,
    pub(crate) name: Option<String>,
    /// Cached JSON of the thread for records.
    pub(super) json: OnceLock<String>,
}

impl Thread {
    /// Creates a thread. The name ends at the first zero byte, and may be cut inside a character.
    pub(crate) fn new(id: u64, name: &[u8]) -> Self {
        let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
        let name = String::from_utf8_lossy(&name[..end]);
        let name = name.trim_end_matches('\u{fffd}');
        Self { id, name: (!name.is_empty()).then(|| name.to_owned()), json: OnceLock::new() }
    }
}

impl Serialize for Thread {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &self.id)?;
        if let Some(name) = &self.name {
            map.serialize_entry("name", name)?;
        }
        map.end()
    }
}
