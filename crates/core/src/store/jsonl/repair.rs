//! Repairs a file that its process could not finish, so that more records can be appended.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

use super::in_use;
use super::lines::{LIMIT, Line, Lines, read_head};
use crate::record::{Status, WorkflowObject};
use crate::store::{RecordKind, StoredTasks, open_plain};

/// A file whose last line is complete, positioned at its end.
#[derive(Debug)]
pub struct RepairedFile {
    file: File,
    /// The requested tasks that have ended in the file.
    pub ended: HashSet<String>,
    /// The requested tasks that the file has as running only.
    pub running: HashSet<String>,
    /// The record of how the workflow ended.
    pub end: Option<Box<WorkflowObject>>,
    /// How many tasks the file has.
    pub tasks: StoredTasks,
    /// Whether its last line is complete except for the line end.
    lacks_end: bool,
}

impl RepairedFile {
    /// Opens a file, removes a partial last line, and finds which of `tasks` are in the file.
    /// `around` is the task that started the workflow: the tasks that it called are the workflow's
    /// roots.
    pub fn open(path: &Path, tasks: &HashSet<String>, around: Option<&str>) -> io::Result<Self> {
        let file = open_plain(path, true)?;
        if !in_use::hold(&file) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let mut repaired = Self {
            file,
            ended: HashSet::new(),
            running: HashSet::new(),
            end: None,
            tasks: StoredTasks::default(),
            lacks_end: false,
        };
        let mut lines = Lines::new(BufReader::new(&repaired.file), LIMIT);
        let mut torn = false;
        // A task that is first stored as running and later as ended is one task.
        let mut running = HashSet::new();
        while let Some((_, line)) = lines.next_line()? {
            let (text, is_last) = match line {
                Line::Text(text) => (text, false),
                Line::Unended(text) => (text, true),
                Line::TooLong => continue,
            };
            let Some(head) = read_head(text) else {
                torn = is_last;
                continue;
            };
            if head.kind == RecordKind::Workflow && head.status != Some(Status::Running) {
                repaired.end = serde_json::from_slice(text).ok();
            }
            let Some(id) = head.task_id else { continue };
            let has_ended = head.status.is_some_and(Status::is_final);
            let wanted = if has_ended { &mut repaired.ended } else { &mut repaired.running };
            if tasks.contains(&*id) {
                wanted.insert(id.clone().into_owned());
            }
            repaired.tasks.capture_ns += head.capture_ns;
            match head.status {
                Some(Status::Finished) => repaired.tasks.finished += 1,
                Some(Status::Error) => {
                    let parent = head.parent_task_id.as_deref();
                    repaired.tasks.errors += 1;
                    repaired.tasks.failed_roots +=
                        u64::from(parent.is_none_or(|it| Some(it) == around));
                }
                _ => _ = running.insert(id.clone().into_owned()),
            }
            if has_ended {
                running.remove(&*id);
            }
        }
        repaired.tasks.running = running.len() as u64;
        if torn {
            let whole = lines.start();
            repaired.file.set_len(whole)?;
        }
        // A complete record stays, even without a line end.
        repaired.lacks_end = !ends_with_a_line(&mut repaired.file)?;
        Ok(repaired)
    }

    /// Appends complete lines.
    pub fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        if std::mem::take(&mut self.lacks_end) {
            self.file.write_all(b"\n")?;
        }
        self.file.write_all(lines)
    }
}

/// Seeks to the end of a file. Returns whether the last line has its line end.
fn ends_with_a_line(file: &mut File) -> io::Result<bool> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(true);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_line_is_cut_off_and_what_is_there_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.jsonl");
        let whole = "{\"type\":\"workflow\",\"status\":\"RUNNING\"}\n\
            {\"type\":\"task\",\"task_id\":\"a\",\"status\":\"FINISHED\"}\n\
            {\"type\":\"task\",\"task_id\":\"b\",\"status\":\"RUNNING\"}\n";
        std::fs::write(&path, format!("{whole}{{\"type\":\"task\",\"task_id\":\"c\",\"sta"))
            .unwrap();
        let wanted = ["a", "b", "c"].map(str::to_owned).into();
        let mut repaired = RepairedFile::open(&path, &wanted, None).unwrap();
        assert_eq!(repaired.ended, ["a".to_owned()].into());
        assert_eq!(repaired.running, ["b".to_owned()].into());
        assert!(repaired.end.is_none());
        assert_eq!((repaired.tasks.finished, repaired.tasks.running), (1, 1));
        repaired.append(b"{}\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{whole}{{}}\n"));
    }

    #[test]
    fn a_whole_record_without_a_line_end_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.jsonl");
        std::fs::write(&path, "{\"task_id\":\"a\",\"status\":\"FINISHED\"}").unwrap();
        let mut repaired = RepairedFile::open(&path, &["a".to_owned()].into(), None).unwrap();
        assert_eq!(repaired.ended, ["a".to_owned()].into());
        repaired.append(b"{}\n").unwrap();
        repaired.append(b"{}\n").unwrap();
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            "{\"task_id\":\"a\",\"status\":\"FINISHED\"}\n{}\n{}\n"
        );
    }
}
