//! Reads the input of all `events` commands: a file or a sink. Shows a progress bar if it takes
//! long.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use runlore::events::{Format, Problem, ReadOptions, Reader, Schema, TelemetryEvent, read_with};

use crate::failure::{Failure, say};
use crate::progress::Progress;
use crate::units::counted;

/// Maximum number of problems printed one by one.
const TOLD: u64 = 10;

#[derive(Debug, Default, clap::Args)]
pub(super) struct Reading {
    /// Format of the input [default: by the extension of the file]
    #[arg(long, value_name = "FORMAT")]
    format: Option<Named>,

    /// The key of a JSON object that contains the events [default: events, telemetry_events]
    #[arg(long, value_name = "KEY")]
    events_key: Option<String>,

    /// Treat records without a version as errors, instead of converting them
    #[arg(long)]
    no_legacy: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Named {
    Json,
    Jsonl,
    Csv,
}

impl From<Named> for Format {
    fn from(named: Named) -> Self {
        match named {
            Named::Json => Format::Json,
            Named::Jsonl => Format::JsonLines,
            Named::Csv => Format::Csv,
        }
    }
}

impl Reading {
    fn options(&self) -> ReadOptions {
        let mut options = ReadOptions::default();
        options.records.legacy = !self.no_legacy;
        options.events_key.clone_from(&self.events_key);
        options.format = self.format.map(Format::from);
        options
    }

    /// Returns the newest schema among a file's records.
    pub(super) fn newest_schema(&self, path: &Path) -> Result<Schema, Failure> {
        let mut reader = read_with(path, &self.options())?;
        while reader.schema() != Some(Schema::V4) && reader.next().is_some() {}
        Ok(reader.schema().unwrap_or_default())
    }

    /// Calls `take` with each event and problem of a file, until it returns an error. Returns the
    /// reader, which then has the sessions.
    pub(super) fn each(
        &self,
        path: &Path,
        mut take: impl FnMut(Result<TelemetryEvent, Problem>, &Reader) -> Result<(), Failure>,
    ) -> Result<Reader, Failure> {
        let mut reader = read_with(path, &self.options())?;
        let size = reader.progress().1;
        let progress = Progress::new("bytes", || Some(size));
        let mut count = 0_u32;
        while let Some(event) = reader.next() {
            take(event, &reader)?;
            count = count.wrapping_add(1);
            if count.is_multiple_of(1024) {
                progress.set(reader.progress().0);
            }
        }
        drop(progress);
        if reader.rewritten() > 0 {
            let values = counted(reader.rewritten(), "value", "values");
            say(&format!(
                "{}: {values} were changed while reading: NaN and infinities became null, integers of more than \
                 64 bits became text, and unpaired surrogates were replaced",
                path.display()
            ));
        }
        Ok(reader)
    }
}

/// Replaces folders by the files in them, unless the folder is a sink or a bundle.
pub(super) fn expand(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut all = Vec::new();
    for path in paths {
        if !path.is_dir() || is_recorded(path) {
            all.push(path.clone());
            continue;
        }
        let failed = |error: std::io::Error| {
            Failure::new(format!("cannot read {}: {error}", path.display()))
        };
        let mut inside = Vec::new();
        for entry in std::fs::read_dir(path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // Hidden files are incomplete, or belong to another program.
            if entry.file_name().to_string_lossy().starts_with('.') {
                continue;
            }
            let entry = entry.path();
            let is_one = if entry.is_dir() {
                is_recorded(&entry)
            } else {
                Format::of_name(&entry).is_some()
            };
            if is_one {
                inside.push(entry);
            }
        }
        if inside.is_empty() {
            return Err(Failure::new(format!(
                "{} has no event files: no *.json, *.jsonl or *.csv, no sink and no bundle",
                path.display()
            )));
        }
        inside.sort();
        all.extend(inside);
    }
    Ok(all)
}

/// Whether a folder is a sink or a bundle, which is read as a whole.
fn is_recorded(folder: &Path) -> bool {
    let has = |name: &str| folder.join(name).exists();
    let is_segment = |name: std::ffi::OsString| name.to_string_lossy().starts_with("segment-");
    has("manifest.json")
        || has("telemetry_timeline.json")
        || std::fs::read_dir(folder)
            .is_ok_and(|mut all| all.any(|one| one.is_ok_and(|one| is_segment(one.file_name()))))
}

/// Counts the problems and prints the first few.
#[derive(Default)]
pub(super) struct ProblemPrinter {
    count: u64,
}

/// The problems of one file. They are printed only if something in the file could be read.
/// Otherwise the first one becomes the error message.
#[derive(Default)]
pub(super) struct FileProblems {
    first: Vec<Problem>,
    count: u64,
    is_cut: bool,
}

/// How much of a file could be read.
pub(super) enum Outcome {
    /// All of it, except for records that were reported.
    Whole,
    /// Only a part, not up to the end.
    Cut,
    /// Nothing, for this reason.
    Nothing(String),
}

impl FileProblems {
    pub(super) fn add(&mut self, problem: Problem) {
        self.count += 1;
        self.is_cut |= problem.is_cut();
        if self.first.len() < TOLD as usize {
            self.first.push(problem);
        }
    }

    /// Prints the problems of a file with `events` events, and returns how much of it could be
    /// read.
    pub(super) fn finish(self, events: u64, told: &mut ProblemPrinter) -> Outcome {
        if let (0, Some(first)) = (events, self.first.first()) {
            let more = match self.count {
                1 => String::new(),
                count => format!(", and {}", counted(count - 1, "more problem", "more problems")),
            };
            return Outcome::Nothing(format!("{first}{more}"));
        }
        for problem in &self.first {
            told.say(&problem.to_string());
        }
        told.count += self.count - self.first.len() as u64;
        if self.is_cut { Outcome::Cut } else { Outcome::Whole }
    }

    /// Prints the problems of the only file, in which `found` items were found. Returns whether it
    /// was read to its end.
    pub(super) fn tell(self, file: &Path, found: u64) -> Result<bool, Failure> {
        let mut told = ProblemPrinter::default();
        let is_whole = match self.finish(found, &mut told) {
            Outcome::Whole if found == 0 => {
                return Err(Failure::new(format!("no events in {}", file.display())));
            }
            Outcome::Whole => true,
            Outcome::Cut => false,
            Outcome::Nothing(why) => return Err(Failure::new(why)),
        };
        told.finish();
        Ok(is_whole)
    }
}

impl ProblemPrinter {
    /// Prints a problem. Returns whether it makes the command fail.
    pub(super) fn add(&mut self, problem: &Problem) -> bool {
        self.say(&problem.to_string());
        !problem.is_torn()
    }

    pub(super) fn say(&mut self, what: &str) {
        self.count += 1;
        if self.count <= TOLD {
            say(what);
        }
    }

    pub(super) fn finish(&self) {
        if let Some(more @ 1..) = self.count.checked_sub(TOLD) {
            say(&format!(
                "and {} more; `runlore events validate` lists all",
                counted(more, "problem", "problems")
            ));
        }
    }
}
