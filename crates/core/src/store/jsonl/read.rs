//! Streams records from files, in constant memory.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::files::{Files, left_out};
use super::joined::head_key;
use super::lines::{LIMIT, Line, Lines, read_head};
use crate::json::mask::FieldMask;
use crate::record::Record;
use crate::store::{RecordKind, before_reading, open_plain};
use crate::{Error, ErrorKind, Result};

/// Streams the records of a file or of a folder of `*.jsonl` files.
///
/// Open tasks from sidecar files come last, and only if no other line is about the same task.
///
/// # Errors
///
/// If the path itself cannot be read. Problems inside it are returned by the [`Reader`].
pub fn read(path: impl AsRef<Path>) -> Result<Reader> {
    read_parts(path.as_ref(), None)
}

/// Like [`read()`], but keeps of each task only the wanted fields and those that identify it.
pub fn read_parts(path: &Path, wanted: Option<FieldMask>) -> Result<Reader> {
    let folder = if path.is_dir() { Some(path) } else { path.parent() };
    if let Some(folder) = folder {
        before_reading(folder);
    }
    Ok(Reader::new(Files::find(path)?, wanted))
}

/// An iterator over the records of files. Made by [`read()`].
#[derive(Debug)]
pub struct Reader {
    /// The files. `next` has those of `main` that are still to be read.
    files: Files,
    next: std::vec::IntoIter<PathBuf>,
    current: Option<Current>,
    problems: VecDeque<Error>,
    open: Open,
    /// The fields to keep of tasks. `None` keeps all.
    wanted: Option<FieldMask>,
}

#[derive(Debug)]
struct Current {
    path: PathBuf,
    lines: Lines<BufReader<File>>,
    /// Reading the file failed: no more lines are read from it.
    failed: bool,
}

/// The tasks in sidecar files that no other line has been about yet. There are as many as were open
/// at the same time.
#[derive(Debug, Default)]
struct Open {
    records: VecDeque<Option<Record>>,
    by_id: HashMap<String, usize>,
}

impl Reader {
    fn new(mut files: Files, wanted: Option<FieldMask>) -> Self {
        let sidecars = std::mem::take(&mut files.open);
        let mut reader = Reader {
            next: std::mem::take(&mut files.main).into_iter(),
            current: None,
            problems: std::mem::take(&mut files.problems).into(),
            open: Open::default(),
            wanted,
            files,
        };
        // Read and keep the sidecars first. A run that ends meanwhile removes its sidecar only
        // after it has written its last line, so each task is found in the sidecar or in the main
        // file.
        for path in sidecars {
            let mut sidecar = match open_plain(&path, false) {
                Ok(file) => Current::new(path, file),
                // Its run has just ended.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    reader.problems.push_back(left_out(&path, error));
                    continue;
                }
            };
            while let Some(record) = sidecar.next(reader.wanted.as_ref()) {
                match record {
                    Ok(record) => reader.open.add(record),
                    Err(problem) => reader.problems.push_back(problem),
                }
            }
        }
        reader
    }
}

impl Iterator for Reader {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        let Some(found) = self.next_line(Current::next) else {
            return self.open.next().map(Ok);
        };
        if let Ok(Record::Task(task)) = &found {
            self.open.forget(&task.task_id);
        }
        Some(found)
    }
}

impl Reader {
    /// Applies `make` to the next line of the files. Returns `None` after the last line, and an
    /// error for a line that cannot be read.
    fn next_line<T>(
        &mut self,
        make: impl Fn(&mut Current, Option<&FieldMask>) -> Option<Result<T>>,
    ) -> Option<Result<T>> {
        if let Some(problem) = self.problems.pop_front() {
            return Some(Err(problem));
        }
        loop {
            let Some(current) = &mut self.current else {
                let path = self.next.next()?;
                match self.files.open_main(&path) {
                    Ok(file) => self.current = Some(Current::new(path, file)),
                    Err(error) => return Some(Err(left_out(&path, error))),
                }
                continue;
            };
            match make(current, self.wanted.as_ref()) {
                None => self.current = None,
                found => return found,
            }
        }
    }

    /// Returns the next record. A task in Runlore's own format is returned as its JSON document,
    /// which needs no more work.
    pub(super) fn next_document(&mut self) -> Option<Result<ParsedLine>> {
        let Some(found) = self.next_line(Current::next_document) else {
            return self.open.next().map(|record| Ok(ParsedLine::Record(record)));
        };
        match &found {
            Ok(ParsedLine::Task(task)) => self.open.forget(text(task, "task_id")),
            Ok(ParsedLine::Record(Record::Task(task))) => self.open.forget(&task.task_id),
            _ => {}
        }
        Some(found)
    }

    /// Returns the next record. Of a task in Runlore's own format, returns only its workflow, start
    /// time and key.
    pub(super) fn next_listed(&mut self) -> Option<Result<Listed>> {
        let Some(found) = self.next_line(Current::next_listed) else {
            return self.open.next().map(|record| Ok(Listed::Record(record)));
        };
        Some(found)
    }
}

/// The content of a line.
#[derive(Debug)]
pub(super) enum ParsedLine {
    /// A task as JSON that parsing it into a record and writing it again would not change.
    Task(Value),
    Record(Record),
}

/// What a list of runs needs of a line.
#[derive(Debug)]
pub(super) enum Listed {
    /// A task: its workflow, its start time, and its key.
    Task(String, Option<f64>, Option<u64>),
    Record(Record),
}

/// Returns the text of a field. Empty if there is none.
pub fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

impl Current {
    fn new(path: PathBuf, file: File) -> Self {
        let lines = Lines::new(BufReader::with_capacity(128 * 1024, file), LIMIT);
        Self { path, lines, failed: false }
    }

    fn next(&mut self, wanted: Option<&FieldMask>) -> Option<Result<Record>> {
        self.next_with(|line, number| record(parse(line, wanted)?, number))
    }

    fn next_document(&mut self, wanted: Option<&FieldMask>) -> Option<Result<ParsedLine>> {
        self.next_with(|line, number| {
            let mut json = parse(line, wanted)?;
            let is_plain = json.get("type").is_some_and(|kind| kind == "task")
                && json.get("task_id").is_some_and(Value::is_string);
            match json.as_object_mut().filter(|_| is_plain) {
                Some(task) => {
                    // A null field counts as absent. Nulls are rare, so checking first is cheaper
                    // than filtering.
                    if task.values().any(Value::is_null) {
                        task.retain(|_, value| !value.is_null());
                    }
                    Ok(ParsedLine::Task(json))
                }
                None => record(json, number).map(ParsedLine::Record),
            }
        })
    }

    fn next_listed(&mut self, wanted: Option<&FieldMask>) -> Option<Result<Listed>> {
        self.next_with(|line, number| {
            if let Line::Text(bytes) = line
                && let Some(head) = read_head(bytes)
                && head.is_exact
                && head.kind == RecordKind::Task
            {
                let key = head_key(&head);
                let workflow = head.workflow_id.unwrap_or_default().into_owned();
                return Ok(Listed::Task(workflow, head.started_at, key));
            }
            record(parse(line, wanted)?, number).map(Listed::Record)
        })
    }

    fn next_with<T>(
        &mut self,
        make: impl FnOnce(&Line<'_>, u64) -> Result<T, String>,
    ) -> Option<Result<T>> {
        if self.failed {
            return None;
        }
        let (line, parsed) = match self.lines.next_line() {
            Ok(None) => return None,
            Ok(Some((line, found))) => (line, make(&found, line)),
            Err(error) => {
                self.failed = true;
                return Some(Err(left_out(&self.path, error)));
            }
        };
        Some(parsed.map_err(|problem| {
            let place = format!("{}, line {line}", self.path.display());
            Error::new(ErrorKind::Record, format!("{place}: {problem}; the line is left out"))
        }))
    }
}

fn record(json: Value, line: u64) -> Result<Record, String> {
    Record::from_json_at(json, line).map_err(|error| error.to_string())
}

fn parse(line: &Line<'_>, wanted: Option<&FieldMask>) -> Result<Value, String> {
    let (bytes, ended) = match line {
        Line::Text(bytes) => (*bytes, true),
        Line::Unended(bytes) => (*bytes, false),
        Line::TooLong => return Err(format!("longer than {} MiB", LIMIT >> 20)),
    };
    let torn = |what: String| {
        if ended { what } else { "torn: the file ends in the middle of it".to_owned() }
    };
    let text = std::str::from_utf8(bytes)
        .map_err(|error| torn(format!("not UTF-8 from byte {}", error.valid_up_to() + 1)))?;
    let json = match wanted {
        Some(wanted) => wanted.read_record(text),
        None => serde_json::from_str(text),
    };
    json.map_err(|error| torn(not_json(&error)))
}

fn not_json(error: &serde_json::Error) -> String {
    // The parser always sees one line, so its line number is of no use.
    let text = error.to_string();
    let what = text.rsplit_once(" at line ").map_or(&*text, |(what, _)| what);
    format!("not JSON at column {} ({what})", error.column())
}

impl Open {
    fn add(&mut self, record: Record) {
        let Record::Task(task) = &record else { return };
        match self.by_id.get(&task.task_id) {
            Some(&at) => self.records[at] = Some(record),
            None => {
                self.by_id.insert(task.task_id.clone(), self.records.len());
                self.records.push_back(Some(record));
            }
        }
    }

    fn forget(&mut self, task_id: &str) {
        if let Some(at) = self.by_id.remove(task_id) {
            self.records[at] = None;
        }
    }

    fn next(&mut self) -> Option<Record> {
        self.by_id.clear();
        while let Some(record) = self.records.pop_front() {
            if record.is_some() {
                return record;
            }
        }
        None
    }
}
