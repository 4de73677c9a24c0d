//! The list of a sink's sessions and segments.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use super::MANIFEST;
use crate::events::SessionSummary;
use runlore_core::store::{create_private, open_plain};

/// What tells a sink's manifest from others.
pub(super) const FORMAT: &str = "stormlog.append_only_telemetry_sink";
/// The longest manifest that is read.
const LIMIT: u64 = 64 * 1024 * 1024;

/// A file of events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Segment {
    pub(super) filename: String,
    pub(super) event_count: u64,
    pub(super) size_bytes: u64,
    pub(super) closed: bool,
    pub(super) session_id: Option<String>,
}

/// What the manifest holds.
#[derive(Debug, Serialize)]
pub(super) struct Manifest<'a> {
    schema_version: u8,
    format: &'static str,
    sessions: &'a [SessionSummary],
    segments: &'a [Segment],
}

impl<'a> Manifest<'a> {
    pub(super) fn of(sessions: &'a [SessionSummary], segments: &'a [Segment]) -> Self {
        Self { schema_version: 2, format: FORMAT, sessions, segments }
    }

    pub(super) fn write(&self, folder: &Path) -> io::Result<()> {
        replace(folder, MANIFEST, &serde_json::to_vec_pretty(self)?)
    }
}

/// Puts a file into a folder as a whole: whoever reads sees the one before or this one.
pub(super) fn replace(folder: &Path, name: &str, text: &[u8]) -> io::Result<()> {
    let part = folder.join(format!("{}.tmp", name.trim_end_matches(".json")));
    // What is there may be a link that leads elsewhere, or a pipe that nobody reads.
    match fs::remove_file(&part) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = create_private(&part)?;
    file.write_all(text)?;
    file.sync_all()?;
    fs::rename(&part, folder.join(name))?;
    sync_folder(folder);
    Ok(())
}

/// Lets the disk have the names in a folder; where a system cannot do that, it does so by itself.
pub(super) fn sync_folder(folder: &Path) {
    if let Ok(folder) = File::open(folder) {
        _ = folder.sync_all();
    }
}

/// A JSON object out of a plain file; none where there is no file.
pub(crate) fn read(path: &Path) -> Result<Option<Value>, String> {
    let file = match open_plain(path, false) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let mut text = Vec::new();
    file.take(LIMIT).read_to_end(&mut text).map_err(|error| error.to_string())?;
    let object: Value = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    match object.is_object() {
        true => Ok(Some(object)),
        false => Err("it must be a JSON object".to_owned()),
    }
}
