//! All events of a tracker in one file, as they come.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use super::thread::Outlet;
use crate::events::{Format, Target, TelemetryEvent, Writer};
use crate::{Error, ErrorKind, Result};

/// A file that is written; none once that has failed.
pub(super) struct Output {
    writer: Option<Writer<BufWriter<File>>>,
    /// Why events are missing, and how many.
    problem: Option<(Error, u64)>,
}

impl Output {
    pub(super) fn create(path: &Path, format: Option<Format>, target: Target) -> Result<Self> {
        let writer = match format {
            Some(format) => {
                let file = File::create(path).map_err(|error| {
                    Error::new(
                        ErrorKind::Store,
                        format!("cannot write {}: {error}", path.display()),
                    )
                })?;
                Writer::new(BufWriter::new(file), format, target)?
            }
            None => Writer::create(path, target)?,
        };
        Ok(Self { writer: Some(writer), problem: None })
    }

    fn note(&mut self, error: Error) {
        let count = self.problem.as_ref().map_or(0, |(_, count)| *count);
        self.problem = Some((error, count + 1));
    }
}

impl Outlet for Output {
    fn take(&mut self, event: &TelemetryEvent) {
        if let Some(writer) = &mut self.writer
            && let Err(error) = writer.write(event)
        {
            if error.kind() == ErrorKind::Store {
                self.writer = None;
            }
            self.note(error);
        } else if self.writer.is_none()
            && let Some((_, count)) = &mut self.problem
        {
            *count += 1;
        }
    }

    fn tick(&mut self) {}

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
