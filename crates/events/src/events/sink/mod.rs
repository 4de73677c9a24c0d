//! Sinks: folders into which a collector writes its events as a series of segments, with a manifest
//! that lists them.
//!
//! Only regular files directly in the folder are read, whatever the manifest lists. A session that
//! is marked as running counts as interrupted if its writer no longer holds the lock.

mod lock;
mod manifest;
mod options;
mod recover;
mod rollups;
mod writer;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::problem::{Problem, What};
use super::session::{SessionStatus, SessionSummary};
pub(super) use manifest::read;
pub use options::SinkOptions;
pub use writer::{SinkTotals, SinkWriter};

pub(super) const MANIFEST: &str = "manifest.json";

/// The content of a sink's folder.
#[derive(Debug, Default)]
pub(super) struct Sink {
    /// The segments in order, each with the session that the manifest assigns to it.
    pub(super) segments: Vec<(PathBuf, Option<String>)>,
    pub(super) summaries: Vec<SessionSummary>,
    pub(super) problems: Vec<Problem>,
    has_manifest: bool,
}

/// Returns the folder of a sink if the path is a folder, or a manifest in one.
pub(super) fn folder_of(path: &Path) -> Option<&Path> {
    if path.is_dir() {
        return Some(path);
    }
    let is_manifest = path.file_name().is_some_and(|name| name == MANIFEST);
    is_manifest
        .then(|| path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new(".")))
}

impl Sink {
    /// Reads the manifest of a folder and finds its segments.
    pub(super) fn open(folder: &Path) -> io::Result<Result<Self, String>> {
        let mut sink = Self::default();
        let mut names: BTreeSet<String> = BTreeSet::new();
        for entry in fs::read_dir(folder)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if is_segment(&name) {
                names.insert(name);
            }
        }
        let listed = sink.read_manifest(folder);
        names.extend(listed.keys().cloned());
        for name in names {
            let path = folder.join(&name);
            let is_plain = fs::symlink_metadata(&path).is_ok_and(|facts| facts.is_file());
            if is_plain {
                sink.segments.push((path, listed.get(&name).cloned().flatten()));
            } else if path.symlink_metadata().is_ok() {
                let what = "not a plain file of its folder; it is not read";
                sink.problems.push(Problem::of_file(&path, what));
            }
            // A segment that is listed but missing was deleted by the retention limits.
        }
        if sink.segments.is_empty() {
            let folder = folder.display();
            return Ok(Err(match sink.has_manifest {
                true => format!("Telemetry sink {folder} retained no segments"),
                false => format!(
                    "{folder} is a folder without telemetry: no manifest.json, no segment-*.jsonl"
                ),
            }));
        }
        Ok(Ok(sink))
    }

    /// Reads the manifest and returns its segments with their sessions. A manifest that cannot be
    /// read is reported as a problem and otherwise ignored.
    fn read_manifest(&mut self, folder: &Path) -> BTreeMap<String, Option<String>> {
        let path = folder.join(MANIFEST);
        let mut listed = BTreeMap::new();
        let manifest = match manifest::read(&path) {
            Ok(None) => return listed,
            Ok(Some(manifest)) => manifest,
            Err(what) => {
                let what = format!("{what}; the segments are read without it");
                self.problems.push(Problem::of_file(&path, what));
                return listed;
            }
        };
        self.has_manifest = true;
        let items = |key: &str| manifest[key].as_array().cloned().unwrap_or_default();
        for session in items("sessions") {
            match SessionSummary::from_value(&session) {
                Ok(summary) => self.take(summary, folder, &path),
                Err(error) => {
                    let what = format!("a session is left out: {error}");
                    self.problems.push(Problem::of_file(&path, what));
                }
            }
        }
        for segment in items("segments") {
            let Some(name) = segment["filename"].as_str() else { continue };
            let session = segment["session_id"].as_str().filter(|id| !id.trim().is_empty());
            if is_file_name(name) {
                listed.insert(name.to_owned(), session.map(str::to_owned));
            } else {
                let what = format!("the segment `{name}` is not in the folder; it is not read");
                self.problems.push(Problem::of_file(&path, what));
            }
        }
        listed
    }

    /// Adds a session of the manifest. A running session whose writer is gone becomes interrupted.
    fn take(&mut self, mut summary: SessionSummary, folder: &Path, path: &Path) {
        if summary.status == SessionStatus::Running && lock::is_abandoned(folder) {
            summary.status = SessionStatus::Interrupted;
            let id = &summary.session_id;
            let what = format!(
                "the session {id} was interrupted: events that were not flushed then are missing"
            );
            self.problems.push(Problem::new(path, None, None, What::Interrupted(what)));
        }
        self.summaries.push(summary);
    }
}

/// Whether a name is that of a segment.
fn is_segment(name: &str) -> bool {
    name.starts_with("segment-") && name.ends_with(".jsonl") && is_file_name(name)
}

/// Whether a name is that of a file directly in the folder.
fn is_file_name(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    let is_one = matches!(parts.next(), Some(std::path::Component::Normal(part)) if part == name);
    is_one && parts.next().is_none() && !name.contains(['/', '\\', '\0'])
}
