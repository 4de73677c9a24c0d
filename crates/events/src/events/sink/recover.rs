//! Recovers what an earlier writer left behind: sessions without an end and segments that were not
//! closed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use super::manifest::{self, Segment};
use super::{MANIFEST, is_segment};
use crate::events::{Options, SessionStatus, SessionSummary, TelemetryEvent};
use runlore_core::store::open_plain;

/// Segments with higher numbers do not count: no writer has got that far, and the next number must
/// not overflow.
const HIGHEST: u64 = u64::MAX / 2;

/// The sessions and segments that earlier writers left, in order.
#[derive(Debug, Default)]
pub(super) struct Left {
    pub(super) sessions: Vec<SessionSummary>,
    pub(super) segments: Vec<Segment>,
    /// The highest number of a segment.
    pub(super) last_number: u64,
}

/// Returns why a folder cannot be a sink: its manifest belongs to something else and would be
/// overwritten.
pub(super) fn stranger(folder: &Path) -> Option<String> {
    let is_another = match manifest::read(&folder.join(MANIFEST)) {
        Ok(None) => false,
        Ok(Some(manifest)) => manifest["format"] != manifest::FORMAT,
        // The manifest of a sink can be rebuilt from its segments.
        Err(_) => !has_segments(folder),
    };
    is_another.then(|| {
        let folder = folder.display();
        format!(
            "the {MANIFEST} in {folder} is not that of a sink: give the sink a folder of its own"
        )
    })
}

fn has_segments(folder: &Path) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| is_segment(&entry.file_name().to_string_lossy()))
}

/// Takes over a folder: cuts incomplete lines off the ends of segments and marks running sessions
/// as interrupted. The caller must hold the lock.
pub(super) fn take_over(folder: &Path) -> io::Result<Left> {
    let mut left = Left::default();
    // A manifest that cannot be read is ignored: it is rebuilt from the segments.
    let manifest = manifest::read(&folder.join(MANIFEST)).ok().flatten().unwrap_or_default();
    let items = |key: &str| manifest[key].as_array().cloned().unwrap_or_default();
    left.sessions = items("sessions")
        .iter()
        .filter_map(|session| SessionSummary::from_value(session).ok())
        .collect();
    let mut listed = BTreeMap::new();
    for segment in items("segments") {
        // Other listed files do not belong to the sink. They are neither cut nor deleted.
        let Some(name) = segment["filename"].as_str().filter(|name| is_segment(name)) else {
            continue;
        };
        let segment = Segment {
            filename: name.to_owned(),
            event_count: segment["event_count"].as_u64().unwrap_or(0),
            size_bytes: segment["size_bytes"].as_u64().unwrap_or(0),
            closed: segment["closed"].as_bool().unwrap_or(false),
            session_id: segment["session_id"].as_str().map(str::to_owned),
        };
        listed.insert(name.to_owned(), segment);
    }
    let mut names: Vec<String> = listed.keys().cloned().collect();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if is_segment(&name) && !listed.contains_key(&name) {
            names.push(name);
        }
    }
    names.sort_unstable();
    for name in names {
        let number = name.strip_prefix("segment-").and_then(|rest| rest.strip_suffix(".jsonl"));
        let number = number.and_then(|text| text.parse().ok()).filter(|it| *it <= HIGHEST);
        left.last_number = left.last_number.max(number.unwrap_or(0));
        let path = folder.join(&name);
        let Ok(facts) = fs::symlink_metadata(&path) else { continue };
        if !facts.is_file() {
            continue;
        }
        let known =
            listed.remove(&name).filter(|known| known.closed && known.size_bytes == facts.len());
        let segment = match known {
            Some(known) => known,
            None => {
                let (segment, last) = repair(&path, name)?;
                if let Some(last) = last {
                    left.interrupt(&last);
                }
                segment
            }
        };
        left.segments.push(segment);
    }
    for session in &mut left.sessions {
        if session.status == SessionStatus::Running {
            session.status = SessionStatus::Interrupted;
            session.ended_at_ns = session.ended_at_ns.or(Some(session.started_at_ns));
        }
    }
    Ok(left)
}

impl Left {
    /// Extends the end of a running session to its last event in a segment that was not closed.
    fn interrupt(&mut self, last: &TelemetryEvent) {
        let ended = i64::try_from(last.timestamp_ns).unwrap_or(i64::MAX);
        for session in &mut self.sessions {
            if session.session_id == last.session_id && session.status == SessionStatus::Running {
                session.ended_at_ns = session.ended_at_ns.max(Some(ended));
            }
        }
    }
}

/// Cuts an incomplete line off the end of a segment and counts the lines that remain. Also returns
/// the last event.
fn repair(path: &Path, name: String) -> io::Result<(Segment, Option<TelemetryEvent>)> {
    let mut file = open_plain(path, true)?;
    let (mut lines, mut whole, mut last_line, mut length) = (0_u64, 0_u64, 0_u64, 0_u64);
    let mut block = vec![0; 256 * 1024];
    loop {
        let read = match file.read(&mut block) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        for (at, _) in block[..read].iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
            last_line = whole;
            whole = length + at as u64 + 1;
            lines += 1;
        }
        length += read as u64;
    }
    if whole < length {
        file.set_len(whole)?;
        file.sync_all()?;
    }
    let mut text = Vec::new();
    file.seek(SeekFrom::Start(last_line))?;
    file.take(whole - last_line).read_to_end(&mut text)?;
    let last = TelemetryEvent::from_json(&text, &Options::default()).ok();
    let session_id = last.as_ref().map(|event| event.session_id.clone());
    let segment = Segment {
        filename: name,
        event_count: lines,
        size_bytes: whole,
        closed: true,
        session_id: session_id.map(String::from),
    };
    Ok((segment, last))
}
