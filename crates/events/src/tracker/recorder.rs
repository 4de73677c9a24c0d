//! The flight recorder, which dumps the most recent events when memory runs out.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::statistics::TrackerStatistics;
use crate::events::{SessionStatus, SessionSummary, SinkOptions, SinkWriter, TelemetryEvent};
use runlore_core::settings::Settings;
use runlore_core::store::{create_file, create_folders};
use runlore_core::{Error, ErrorKind, Result};
use runlore_telemetry::MachineInfo;

/// Dumps the most recent events when an allocation fails, when an alert is critical, or when the
/// program reports a failure. Each dump is a new folder in the format of a sink, so that every
/// command can open it.
///
/// ```
/// use runlore::tracker::FlightRecorder;
///
/// let recorder = FlightRecorder::new("dumps").keep(3);
/// ```
#[derive(Debug, Clone)]
pub struct FlightRecorder {
    pub(super) folder: PathBuf,
    keep: usize,
    keep_bytes: u64,
    number: u64,
}

/// The file that identifies a dump.
const MARK: &str = "flight.json";

/// Why a dump is made.
#[derive(Debug)]
pub(super) struct Occasion<'a> {
    pub(super) reason: &'a str,
    pub(super) details: Value,
}

impl FlightRecorder {
    /// Writes dumps to folders inside this one, which is created if needed.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), keep: 5, keep_bytes: 256 << 20, number: 0 }
    }

    /// Sets how many dumps to keep [default: 5]. The oldest are deleted first.
    #[must_use]
    pub fn keep(mut self, dumps: usize) -> Self {
        self.keep = dumps.max(1);
        self
    }

    /// Sets how many bytes of dumps to keep [default: 256 MiB]. The newest dump always stays.
    #[must_use]
    pub fn keep_bytes(mut self, bytes: u64) -> Self {
        self.keep_bytes = bytes;
        self
    }

    /// Checks that dumps can be written. When one is needed, it is too late to find out.
    pub(super) fn check(&self) -> Result<()> {
        // A dump is a folder, so probe with one.
        let probe = self.folder.join(format!(".probe-{}", std::process::id()));
        let made = create_folders(&self.folder).and_then(|()| fs::create_dir(&probe));
        _ = fs::remove_dir(&probe);
        made.map_err(|error| {
            let folder = self.folder.display();
            Error::new(ErrorKind::Store, format!("cannot write dumps to {folder}: {error}"))
        })
    }

    /// Writes a dump without the description of the machine. Returns its folder.
    pub(super) fn dump(
        &mut self,
        occasion: &Occasion<'_>,
        events: &[TelemetryEvent],
        session: SessionSummary,
        statistics: &TrackerStatistics,
    ) -> Result<PathBuf> {
        let now = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
        self.number += 1;
        let pid = std::process::id();
        let folder = self.folder.join(format!("dump-{now}-{pid}-{}", self.number));
        let options = SinkOptions {
            // Write everything at once: the process may not have long.
            flush_events: usize::MAX,
            buffer_bytes: usize::MAX,
            segment_events: u64::MAX,
            segment_bytes: u64::MAX,
            keep_bytes: u64::MAX,
            rollups: false,
            ..SinkOptions::default()
        };
        let mut sink = SinkWriter::open(&folder, options, session)?;
        // An invalid event must not prevent the others from being written.
        let refused = events.iter().filter(|event| sink.append(event).is_err()).count();
        let ended =
            events.last().map_or(0, |event| i64::try_from(event.timestamp_ns).unwrap_or(i64::MAX));
        sink.close(SessionStatus::Incomplete, ended)?;
        let failed = |error: io::Error| {
            Error::new(ErrorKind::Store, format!("cannot write {}: {error}", folder.display()))
        };
        let flight = json!({
            "reason": occasion.reason,
            "details": occasion.details,
            "captured_event_count": events.len() - refused,
            "refused_event_count": refused,
            "statistics": statistics,
        });
        write(&folder.join(MARK), &flight).map_err(failed)?;
        Ok(folder)
    }

    /// Adds the description of the machine, which takes longest and matters least, and deletes the
    /// oldest dumps.
    pub(super) fn finish(&self, folder: &Path) -> io::Result<()> {
        let machine = MachineInfo::capture(&Settings::default().telemetry_capture);
        let written = write(&folder.join("environment.json"), &json!(machine));
        self.prune(folder);
        written
    }

    /// Deletes the oldest dumps. Folders without a dump are not touched.
    fn prune(&self, newest: &Path) {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut dumps: Vec<(std::time::SystemTime, PathBuf, u64)> = entries
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("dump-"))
            .filter_map(|entry| {
                let path = entry.path();
                let made = fs::metadata(path.join(MARK)).ok()?.modified().ok()?;
                let is_folder = fs::symlink_metadata(&path).ok()?.is_dir();
                (is_folder && path != newest).then(|| (made, path.clone(), size_of(&path)))
            })
            .collect();
        dumps.sort();
        let mut bytes = size_of(newest) + dumps.iter().map(|(.., size)| size).sum::<u64>();
        let mut count = dumps.len() + 1;
        for (_, path, size) in dumps {
            if count <= self.keep && bytes <= self.keep_bytes {
                break;
            }
            remove(&path);
            count -= 1;
            bytes -= size;
        }
    }
}

/// Returns the paths of the files of a dump.
fn files(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let names = ["manifest.json", "segment-000001.jsonl", "writer.lock", "environment.json", MARK];
    names.map(|name| folder.join(name)).into_iter()
}

fn size_of(folder: &Path) -> u64 {
    files(folder).filter_map(|path| fs::metadata(path).ok()).map(|facts| facts.len()).sum()
}

/// Deletes a dump. If the folder contains other files, they and the folder stay.
fn remove(folder: &Path) {
    for path in files(folder) {
        _ = fs::remove_file(path);
    }
    _ = fs::remove_dir(folder);
}

fn write(path: &Path, value: &Value) -> io::Result<()> {
    create_file(path)?.write_all(&serde_json::to_vec_pretty(value)?)
}

/// Returns the phrase of an error message that indicates that memory ran out. `None` if there is
/// none.
pub(super) fn classify(message: &str) -> Option<&'static str> {
    const SIGNS: [&str; 9] = [
        "out of memory",
        "memory allocation of",
        "allocation failed",
        "cannot allocate memory",
        "failed to allocate",
        "memory exhausted",
        "resource exhausted",
        "not enough memory",
        "oom",
    ];
    let message = message.to_lowercase();
    SIGNS.into_iter().find(|sign| match *sign {
        // Only as a whole word: it is part of many other words.
        "oom" => message.split(|letter: char| !letter.is_alphanumeric()).any(|word| word == "oom"),
        sign => message.contains(sign),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_for_want_of_memory_are_known_by_their_words() {
        for (message, sign) in [
            ("CUDA error: Out of Memory", Some("out of memory")),
            ("memory allocation of 16 bytes failed", Some("memory allocation of")),
            ("killed by OOM", Some("oom")),
            ("no room in the classroom", None),
            ("file not found", None),
        ] {
            assert_eq!(classify(message), sign, "{message}");
        }
    }
}
