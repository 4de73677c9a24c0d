//! A stream of records out of files, in constant memory.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use super::files::{Files, cannot_read};
use super::lines::{LIMIT, Line, Lines};
use crate::record::Record;
use crate::store::before_reading;
use crate::{Error, ErrorKind, Result};

/// Streams the records of a file or of a folder of `*.jsonl` files.
///
/// Open tasks of sidecars come last, and only where no other line tells of the task.
///
/// # Errors
///
/// Where the path itself cannot be read. What is wrong inside comes out of the [`Reader`].
pub fn read(path: impl AsRef<Path>) -> Result<Reader> {
    let path = path.as_ref();
    let folder = if path.is_dir() { Some(path) } else { path.parent() };
    if let Some(folder) = folder {
        before_reading(folder);
    }
    Ok(Reader::new(Files::find(path)?))
}

/// An iterator over the records of files; made by [`read()`].
#[derive(Debug)]
pub struct Reader {
    files: std::vec::IntoIter<PathBuf>,
    current: Option<Current>,
    problems: VecDeque<Error>,
    open: Open,
}

#[derive(Debug)]
struct Current {
    path: PathBuf,
    lines: Lines<BufReader<File>>,
    /// The file could not be read on; nothing more comes out of it.
    failed: bool,
}

/// The tasks of the sidecars that no other line has told of yet: as many as are open at once.
#[derive(Debug, Default)]
struct Open {
    records: VecDeque<Option<Record>>,
    by_id: HashMap<String, usize>,
}

impl Reader {
    fn new(files: Files) -> Self {
        let mut reader = Reader {
            files: Vec::new().into_iter(),
            current: None,
            problems: files.problems.into(),
            open: Open::default(),
        };
        // Sidecars first, and held: a run that ends meanwhile removes its sidecar after its last line, so
        // that a task is found in one of them whichever way that goes.
        for path in files.open {
            if !path.exists() {
                continue; // Its run has just ended.
            }
            let mut sidecar = match Current::open(path) {
                Ok(sidecar) => sidecar,
                Err(problem) => {
                    reader.problems.push_back(problem);
                    continue;
                }
            };
            while let Some(record) = sidecar.next() {
                match record {
                    Ok(record) => reader.open.add(record),
                    Err(problem) => reader.problems.push_back(problem),
                }
            }
        }
        reader.files = files.main.into_iter();
        reader
    }
}

impl Iterator for Reader {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(problem) = self.problems.pop_front() {
            return Some(Err(problem));
        }
        loop {
            let Some(current) = &mut self.current else {
                let Some(path) = self.files.next() else {
                    return self.open.next().map(Ok);
                };
                match Current::open(path) {
                    Ok(current) => self.current = Some(current),
                    Err(problem) => return Some(Err(problem)),
                }
                continue;
            };
            match current.next() {
                Some(Ok(record)) => {
                    self.open.forget(&record);
                    return Some(Ok(record));
                }
                Some(Err(problem)) => return Some(Err(problem)),
                None => self.current = None,
            }
        }
    }
}

impl Current {
    fn open(path: PathBuf) -> Result<Self> {
        let file = File::open(&path).map_err(|error| cannot_read(&path, error))?;
        let lines = Lines::new(BufReader::with_capacity(128 * 1024, file), LIMIT);
        Ok(Self { path, lines, failed: false })
    }

    fn next(&mut self) -> Option<Result<Record>> {
        if self.failed {
            return None;
        }
        let (line, parsed) = match self.lines.next() {
            Ok(None) => return None,
            Ok(Some((line, found))) => (line, parse(&found, line)),
            Err(error) => {
                self.failed = true;
                return Some(Err(cannot_read(&self.path, error)));
            }
        };
        Some(parsed.map_err(|problem| {
            let place = format!("{}, line {line}", self.path.display());
            Error::new(ErrorKind::Record, format!("{place}: {problem}; the line is left out"))
        }))
    }
}

fn parse(line: &Line<'_>, number: u64) -> Result<Record, String> {
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
    let json = serde_json::from_str(text).map_err(|error| torn(not_json(&error)))?;
    Record::from_json_at(json, number).map_err(|error| error.to_string())
}

fn not_json(error: &serde_json::Error) -> String {
    // The parser counts lines of its own, and it only ever sees one.
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

    fn forget(&mut self, record: &Record) {
        if let Record::Task(task) = record
            && let Some(at) = self.by_id.remove(&task.task_id)
        {
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
