//! The records that a run's files already contain, so that nothing is written twice.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::Path;

use twox_hash::XxHash3_128;

use super::lines::{LIMIT, Line, Lines, read_head};
use crate::record::Status;
use crate::store::{RecordHead, RecordKind, open_plain};

/// The records in the files of a run, as hashes, so that a long run need not fit into memory.
#[derive(Debug, Default)]
pub(super) struct KnownRecords {
    records: HashSet<u128>,
}

impl KnownRecords {
    /// Reads the files of a run: those whose names begin with its stem. A partial line at the end
    /// of a file that nobody writes to any more is removed.
    pub(super) fn of_run(folder: &Path, stem: &str) -> io::Result<Self> {
        let mut known = Self::default();
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(known),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_str().unwrap_or_default();
            let is_ours = name.strip_prefix(stem).is_some_and(|rest| {
                let number = rest.strip_suffix(".jsonl");
                number.is_some_and(|number| match number.strip_prefix('-') {
                    Some(number) => number.bytes().all(|byte| byte.is_ascii_digit()),
                    None => number.is_empty(),
                })
            });
            if is_ours && entry.file_type()?.is_file() {
                known.add_file(&entry.path())?;
            }
        }
        Ok(known)
    }

    fn add_file(&mut self, path: &Path) -> io::Result<()> {
        let file = open_plain(path, true).or_else(|_| open_plain(path, false))?;
        let mut lines = Lines::new(BufReader::new(&file), LIMIT);
        let mut is_torn = false;
        while let Some((_, line)) = lines.next_line()? {
            let (text, is_ended) = match line {
                Line::Text(text) => (text, true),
                Line::Unended(text) => (text, false),
                Line::TooLong => continue,
            };
            match read_head(text) {
                Some(head) => self.records.extend(keys(&head, text).0),
                None if is_ended => _ = self.records.insert(XxHash3_128::oneshot(text)),
                None => is_torn = true,
            }
        }
        if is_torn {
            let whole = lines.start();
            cut_off(&file, whole);
        }
        Ok(())
    }

    /// Returns whether the files have this record, in the same or a later state.
    pub(super) fn has(&self, head: &RecordHead<'_>, line: &[u8]) -> bool {
        let (own, later) = keys(head, line);
        own.into_iter().chain(later).any(|key| self.records.contains(&key))
    }
}

/// Truncates the file, unless somebody writes to it.
fn cut_off(file: &File, whole: u64) {
    if file.try_lock().is_ok() {
        _ = file.set_len(whole);
        _ = file.unlock();
    }
}

/// Returns the key of a record, and the key of the same record in its ended state.
fn keys(head: &RecordHead<'_>, line: &[u8]) -> (Option<u128>, Option<u128>) {
    let of = |parts: &[&str]| Some(XxHash3_128::oneshot(parts.join("\0").as_bytes()));
    let ended = head.status.is_some_and(Status::is_final);
    let stage = |ended: bool| if ended { "ended" } else { "open" };
    match (head.kind, head.task_id.as_deref()) {
        (RecordKind::Task, Some(task)) => {
            (of(&["task", task, stage(ended)]), of(&["task", task, stage(true)]))
        }
        // A workflow has one record when it starts and another when it ends. Both are kept.
        (RecordKind::Workflow, _) => {
            let workflow = head.workflow_id.as_deref().unwrap_or_default();
            let pid = head.pid.map(|pid| pid.to_string()).unwrap_or_default();
            let word = head.status.map_or("", Status::as_str);
            let stage = if ended { stage(true) } else { word };
            (of(&["workflow", workflow, &pid, stage]), None)
        }
        _ => (Some(XxHash3_128::oneshot(line)), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_known_by_what_they_are_about_and_how_far_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let task = |id: &str, status: &str| {
            format!("{{\"type\":\"task\",\"task_id\":\"{id}\",\"status\":\"{status}\"}}")
        };
        let begun =
            "{\"type\":\"workflow\",\"workflow_id\":\"w\",\"pid\":7,\"status\":\"RUNNING\"}";
        let first = format!("{begun}\n{}\n", task("a", "FINISHED"));
        fs::write(folder.path().join("x_w_7.jsonl"), first).unwrap();
        let second = format!("{}\n{{\"type\":\"task\",\"task", task("b", "RUNNING"));
        fs::write(folder.path().join("x_w_7-2.jsonl"), &second).unwrap();
        fs::write(folder.path().join("x_w_71.jsonl"), task("c", "FINISHED")).unwrap();
        let known = KnownRecords::of_run(folder.path(), "x_w_7").unwrap();
        let has = |line: &str| known.has(&RecordHead::read(line).unwrap(), line.as_bytes());
        assert!(has(&task("a", "FINISHED")) && has(&task("a", "RUNNING")));
        assert!(has(&task("b", "RUNNING")) && !has(&task("b", "FINISHED")));
        assert!(!has(&task("c", "FINISHED")), "a file of another run");
        assert!(has(begun) && !has(&begun.replace("RUNNING", "FINISHED")));
        let repaired = fs::read_to_string(folder.path().join("x_w_7-2.jsonl")).unwrap();
        assert_eq!(repaired, format!("{}\n", task("b", "RUNNING")));
    }
}
