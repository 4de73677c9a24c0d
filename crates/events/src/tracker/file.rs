//! Writes all events of a tracker to one file as they occur.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::outgoing::Outlet;
use crate::events::{Format, Target, TelemetryEvent, Writer};
use runlore_core::store::create_private;
use runlore_core::{Error, ErrorKind, Result};

/// The maximum time until an event is in the file.
const FLUSH: Duration = Duration::from_secs(2);

/// A requested output file.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) path: PathBuf,
    pub(super) format: Option<Format>,
    pub(super) target: Target,
}

/// An output file that was opened successfully. Its content stays until [`begin`](Self::begin). If
/// that is never called, a newly created file is deleted.
pub(super) struct Opened {
    wanted: Wanted,
    format: Format,
    file: Option<File>,
    is_new: bool,
}

/// An output file that is being written. `writer` is `None` after a write error.
pub(super) struct Output {
    writer: Option<Writer<BufWriter<File>>>,
    /// The time of the first event that is not flushed yet.
    unflushed: Option<Instant>,
    /// The last error, and the number of missing events.
    problem: Option<(Error, u64)>,
}

impl Wanted {
    pub(super) fn open(self) -> Result<Opened> {
        let format = match self.format {
            Some(format) => format,
            None => Format::to_write(&self.path)?,
        };
        let made = create_private(&self.path);
        let is_new = made.is_ok();
        let file = match made {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // The path may be a link whose target does not exist yet.
                OpenOptions::new().write(true).create(true).truncate(false).open(&self.path)
            }
            made => made,
        };
        let file = file.map_err(|error| cannot_write(&self.path, &error))?;
        Ok(Opened { wanted: self, format, file: Some(file), is_new })
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if self.is_new && self.file.is_some() {
            _ = fs::remove_file(&self.wanted.path);
        }
    }
}

impl Opened {
    pub(super) fn begin(mut self) -> Result<Output> {
        let path = &self.wanted.path;
        let failed = |error: io::Error| cannot_write(path, &error);
        let file = self.file.take().ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        // Terminals and pipes have no length.
        if file.metadata().map_err(failed)?.is_file() {
            file.set_len(0).map_err(failed)?;
        }
        let file = BufWriter::with_capacity(256 * 1024, file);
        let writer = Writer::new(file, self.format, self.wanted.target)?;
        Ok(Output { writer: Some(writer), unflushed: None, problem: None })
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> Error {
    Error::new(ErrorKind::Store, format!("cannot write {}: {error}", path.display()))
}

impl Output {
    fn note(&mut self, error: Error) {
        if error.kind() == ErrorKind::Store {
            self.writer = None;
        }
        let count = self.problem.as_ref().map_or(0, |(_, count)| *count);
        self.problem = Some((error, count + 1));
    }
}

impl Outlet for Output {
    fn take(&mut self, event: &TelemetryEvent) {
        let Some(writer) = &mut self.writer else {
            if let Some((_, count)) = &mut self.problem {
                *count += 1;
            }
            return;
        };
        match writer.write(event) {
            Ok(()) => _ = self.unflushed.get_or_insert_with(Instant::now),
            Err(error) => self.note(error),
        }
    }

    fn due_in(&self) -> Option<Duration> {
        self.unflushed.map(|since| FLUSH.saturating_sub(since.elapsed()))
    }

    fn tick(&mut self) {
        if self.due_in().is_some_and(|due| due.is_zero()) {
            self.unflushed = None;
            if let Some(Err(error)) = self.writer.as_mut().map(Writer::flush) {
                self.note(error);
            }
        }
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        if let Some(Err(error)) = self.writer.take().map(Writer::finish) {
            self.note(error);
        }
        match self.problem {
            Some((error, count)) => {
                let what = format!("{count} events are missing from the file: {error}");
                Err(Error::new(ErrorKind::Store, what))
            }
            None => Ok(()),
        }
    }
}
