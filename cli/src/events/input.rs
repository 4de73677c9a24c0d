//! What all commands read: a file or a sink, with a bar where it takes long.

use std::path::Path;

use clap::ValueEnum;
use runlore::events::{Format, Problem, ReadOptions, Reader, TelemetryEvent, read_with};

use crate::failure::{Failure, say};
use crate::progress::Progress;
use crate::units::counted;

/// How many problems are told one by one where they are not what was asked for.
const TOLD: u64 = 10;

#[derive(Debug, clap::Args)]
pub(super) struct Reading {
    /// The format, where the file's name does not tell it
    #[arg(long, value_name = "FORMAT")]
    format: Option<Named>,

    /// The key under which a JSON object has its events [default: events, telemetry_events]
    #[arg(long, value_name = "KEY")]
    events_key: Option<String>,

    /// Take records without a version for errors, instead of converting them
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

    /// Hands over all events and problems of a file, until one of them is refused; returns the reader, which then knows
    /// of the sessions.
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
                "{}: {values} could not be read as written: NaN and infinities became null, whole numbers of more than \
                 64 bits became text, and half characters were replaced",
                path.display()
            ));
        }
        Ok(reader)
    }
}

/// Problems that are told on the side: the first few one by one.
#[derive(Default)]
pub(super) struct Told {
    count: u64,
}

impl Told {
    /// Tells a problem; whether it is one that makes the command fail.
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
                "and {} more; `runlore events validate` tells them all",
                counted(more, "problem", "problems")
            ));
        }
    }
}
