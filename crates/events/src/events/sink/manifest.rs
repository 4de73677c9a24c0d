//! The manifest, which lists the sessions and segments of a sink.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use super::MANIFEST;
use crate::events::SessionSummary;
use runlore_core::store::{create_private, open_plain};

/// Identifies the manifest of a sink.
pub(super) const FORMAT: &str = "stormlog.append_only_telemetry_sink";
/// The maximum size of a manifest.
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

/// The content of the manifest.
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

/// Replaces a file in a folder atomically: readers see either the old or the new content.
pub(super) fn replace(folder: &Path, name: &str, text: &[u8]) -> io::Result<()> {
    let part = folder.join(format!("{}.tmp", name.trim_end_matches(".json")));
    // The existing file may be a link that leads elsewhere, or a pipe that nobody reads.
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

/// Syncs the directory entries of a folder to disk. Errors are ignored: systems that cannot do this
/// do not need it.
pub(super) fn sync_folder(folder: &Path) {
    if let Ok(folder) = File::open(folder) {
        _ = folder.sync_all();
    }
}

/// Reads a JSON object from a regular file. `None` if there is no file.
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
