//! Writing a sink, so that whatever happens it can be read.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::manifest::{Manifest, Segment, sync_folder};
use super::options::SinkOptions;
use super::rollups::{self, Facts, Kept};
use super::{lock, recover};
use crate::events::write::put_line;
use crate::events::{Schema, SessionStatus, SessionSummary, TelemetryEvent};
use runlore_core::store::{OwnFile, create_folders, create_private_to_append};
use runlore_core::{Error, ErrorKind, Result, file_size};

/// How long a sink that cannot be written is left alone: the first time, and at the most.
const WAITS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// Sessions of which nothing is left are listed up to this many.
const MOST_EMPTY_SESSIONS: usize = 256;

/// Writes the events of one session into a folder: segments that follow each other, with a manifest that lists them.
///
/// There is one writer at a time. What one before left without an end is closed first. While the folder cannot be written,
/// events wait in memory up to a limit and are tried again later and later; what is dropped is counted. One that is dropped without
/// [`close`](Self::close) writes what waits, if it can; its session is then found interrupted.
///
/// ```
/// # use runlore::events::{self, SessionSummary, SinkOptions, SinkWriter, TelemetryEvent};
/// # let folder = std::env::temp_dir().join(format!("runlore-doc-sink-{}", std::process::id()));
/// let event = TelemetryEvent { session_id: "run-7".into(), timestamp_ns: 1, ..Default::default() };
/// let mut sink = SinkWriter::open(&folder, SinkOptions::default(), SessionSummary::of(&event))?;
/// sink.append(&event)?;
/// sink.close(events::SessionStatus::Completed, 2)?;
/// assert_eq!(events::load(&folder)?.sessions[0].events.len(), 1);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SinkWriter {
    folder: PathBuf,
    options: SinkOptions,
    /// Held as long as this lives.
    lock: OwnFile,
    session: SessionSummary,
    /// Those before.
    others: Vec<SessionSummary>,
    /// All segments; the last is the one that is written, while it is open.
    segments: Vec<Segment>,
    open: Option<OwnFile>,
    last_number: u64,
    /// Lines that wait to be written, and the length of each.
    buffer: Vec<u8>,
    lengths: VecDeque<usize>,
    last_flush: Instant,
    manifest_is_due: bool,
    retry: Option<(Instant, Duration)>,
    totals: SinkTotals,
    /// None where there are to be no rollups, or not all of an event is written.
    kept: Option<Kept>,
    /// The process that writes: what waits is written by it, not again by a forked child.
    pid: u32,
}

/// What a sink has written, and what it has not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SinkTotals {
    /// Events that were written.
    pub events: u64,
    /// Events that there was no room for while the sink could not be written.
    pub dropped_events: u64,
    /// Events that were written, and are gone because somebody removed the files.
    pub removed_events: u64,
    /// Segments that were followed by another.
    pub rollovers: u64,
    /// Segments that had to go.
    pub pruned_segments: u64,
    /// Their bytes.
    pub pruned_bytes: u64,
    /// Segments that are there.
    pub retained_files: u64,
    /// Their bytes.
    pub retained_bytes: u64,
    /// Why it cannot be written; or what happened to it last.
    pub last_error: Option<String>,
}

impl SinkWriter {
    /// Begins a session in a folder, which is made if need be.
    ///
    /// # Errors
    ///
    /// Where the options make no sense, the folder cannot be written, its manifest is not that of a sink, or somebody else
    /// writes to it.
    pub fn open(
        folder: impl AsRef<Path>,
        options: SinkOptions,
        session: SessionSummary,
    ) -> Result<Self> {
        options.check()?;
        let folder = folder.as_ref().to_owned();
        let failed = |error: io::Error| cannot_write(&folder, &error);
        create_folders(&folder).map_err(failed)?;
        if let Some(problem) = recover::stranger(&folder) {
            return Err(Error::new(ErrorKind::Store, problem));
        }
        let lock = locked(&folder)?;
        let left = recover::take_over(&folder).map_err(failed)?;
        let mut others = left.sessions;
        others.retain(|other| other.session_id != session.session_id);
        let mut writer = Self {
            options,
            lock,
            session,
            others,
            segments: left.segments,
            open: None,
            last_number: left.last_number,
            buffer: Vec::new(),
            lengths: VecDeque::new(),
            last_flush: Instant::now(),
            manifest_is_due: true,
            retry: None,
            totals: SinkTotals::default(),
            kept: None,
            pid: std::process::id(),
            folder,
        };
        if writer.options.rollups && writer.options.target.schema == Schema::V4 {
            writer.kept = Kept::new(&writer.session, writer.options.rollup_window);
        }
        // Runs that are too short to fill a segment leave one each.
        writer.prune();
        let begun = writer.next_segment().and_then(|()| writer.write_manifest());
        begun.map_err(|error| cannot_write(&writer.folder, &error))?;
        Ok(writer)
    }

    /// Takes an event. It is written with the next flush, which may be now; trouble with the disk is told by
    /// [`totals`](Self::totals).
    ///
    /// # Errors
    ///
    /// Where the event is of another session, or the schema cannot say what it says.
    pub fn append(&mut self, event: &TelemetryEvent) -> Result<()> {
        if self.session.session_id != event.session_id {
            let what = "telemetry sink record session_id does not match the active session";
            return Err(Error::new(ErrorKind::Record, what));
        }
        let record = event.as_target(self.options.target)?;
        let before = self.buffer.len();
        put_line(&record, &mut self.buffer)
            .map_err(|error| Error::new(ErrorKind::Record, error.to_string()))?;
        self.lengths.push_back(self.buffer.len() - before);
        if let Some(kept) = &mut self.kept {
            kept.add(&Facts::of(event));
        }
        self.make_room();
        Ok(())
    }

    /// Flushes if it is time to, and drops the oldest where that did not help.
    fn make_room(&mut self) {
        self.flush_if_due();
        if self.buffer.len() > self.options.buffer_bytes {
            self.drop_oldest();
        }
    }

    /// How many events wait for the next flush.
    pub(crate) fn waiting(&self) -> usize {
        self.lengths.len()
    }

    /// Flushes if it is time to. To be called now and then where events are rare.
    pub fn flush_if_due(&mut self) {
        let is_full = self.lengths.len() >= self.options.flush_events
            || self.buffer.len() > self.options.buffer_bytes / 2;
        let is_due = self.due_in().is_some_and(|due| due.is_zero());
        if is_due || is_full && self.retry.is_none() {
            _ = self.flush();
        }
    }

    /// How long until what waits is to be flushed; none where nothing waits.
    pub fn due_in(&self) -> Option<Duration> {
        if self.lengths.is_empty() {
            return None;
        }
        Some(match self.retry {
            Some((at, _)) => at.saturating_duration_since(Instant::now()),
            None => self.options.flush_every.saturating_sub(self.last_flush.elapsed()),
        })
    }

    /// Writes what waits, and lets the disk have it.
    ///
    /// # Errors
    ///
    /// Where the folder cannot be written; what waits then goes on waiting.
    pub fn flush(&mut self) -> Result<()> {
        self.last_flush = Instant::now();
        // What happens during this flush is told until the next one.
        self.totals.last_error = None;
        match file_size::without_signal(|| self.try_flush()) {
            Ok(()) => {
                self.retry = None;
                Ok(())
            }
            Err(error) => {
                let wait = self.retry.map_or(WAITS.0, |(_, wait)| (wait * 2).min(WAITS.1));
                self.retry = Some((Instant::now() + wait, wait));
                let error = cannot_write(&self.folder, &error);
                self.totals.last_error = Some(error.to_string());
                Err(error)
            }
        }
    }

    fn try_flush(&mut self) -> io::Result<()> {
        self.look_for_folder()?;
        while !self.lengths.is_empty() {
            if self.open.is_none() {
                self.next_segment()?;
            }
            let (count, bytes) = self.that_fits();
            if count == 0 {
                self.close_segment();
                self.totals.rollovers += 1;
                self.prune();
                continue;
            }
            self.write(bytes)?;
            if let Some(segment) = self.segments.last_mut() {
                segment.event_count += count as u64;
                segment.size_bytes += bytes as u64;
            }
            self.buffer.drain(..bytes);
            self.lengths.drain(..count);
            self.totals.events += count as u64;
        }
        if self.manifest_is_due { self.write_manifest() } else { Ok(()) }
    }

    /// How many lines the segment has room for, and their bytes. An empty one has room for one, however long.
    fn that_fits(&self) -> (usize, usize) {
        let Some(segment) = self.segments.last() else { return (0, 0) };
        let (mut count, mut bytes) = (0, 0);
        for length in &self.lengths {
            let events = segment.event_count + count as u64;
            let size = segment.size_bytes + (bytes + length) as u64;
            let is_full =
                events >= self.options.segment_events || size > self.options.segment_bytes;
            if is_full && events > 0 {
                break;
            }
            count += 1;
            bytes += length;
        }
        (count, bytes)
    }

    /// Appends the beginning of the buffer. What was half written is cut off again.
    fn write(&mut self, bytes: usize) -> io::Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let (file, _) = open.check()?;
        let written =
            file.write_all(&self.buffer[..bytes]).and_then(|()| match self.options.sync {
                true => file.sync_data(),
                false => Ok(()),
            });
        if let Err(error) = written {
            let whole = self.segments.last().map_or(0, |segment| segment.size_bytes);
            if file.set_len(whole).and_then(|()| file.seek(SeekFrom::Start(whole))).is_err() {
                // The next one begins in a file of its own, and whoever reads this one leaves out half a line.
                self.close_segment();
            }
            return Err(error);
        }
        Ok(())
    }

    fn next_segment(&mut self) -> io::Result<()> {
        let number = self.last_number + 1;
        let filename = format!("segment-{number:06}.jsonl");
        let path = self.folder.join(&filename);
        let file = create_private_to_append(&path)?;
        self.open = Some(OwnFile::new(file, &path)?);
        self.last_number = number;
        let session_id = Some(self.session.session_id.clone());
        let segment =
            Segment { filename, event_count: 0, size_bytes: 0, closed: false, session_id };
        self.segments.push(segment);
        self.manifest_is_due = true;
        Ok(())
    }

    fn close_segment(&mut self) {
        self.open = None;
        if let Some(segment) = self.segments.last_mut() {
            segment.closed = true;
        }
        self.manifest_is_due = true;
    }

    /// Files that are written to after somebody has removed them are lost: then the folder is made anew.
    fn look_for_folder(&mut self) -> io::Result<()> {
        let is_there = match &self.open {
            Some(open) => open.has_its_name(),
            None => self.folder.is_dir(),
        };
        if is_there {
            return lock::keep(&mut self.lock);
        }
        create_folders(&self.folder)?;
        self.lock = lock::take(&self.folder)?
            .ok_or_else(|| io::Error::other("it was removed, and another tracker has it now"))?;
        self.close_segment();
        let folder = &self.folder;
        let is_gone = |segment: &Segment| !folder.join(&segment.filename).exists();
        let gone = self.segments.iter().filter(|segment| is_gone(segment));
        self.totals.removed_events += gone.map(|segment| segment.event_count).sum::<u64>();
        self.segments.retain(|segment| !is_gone(segment));
        let folder = folder.display();
        self.totals.last_error =
            Some(format!("{folder} was removed, with what was in it, and is made anew"));
        Ok(())
    }

    fn prune(&mut self) {
        let bytes = |segments: &[Segment]| segments.iter().map(|one| one.size_bytes).sum::<u64>();
        // The next segment is one of those that are kept.
        while self.segments.len() >= self.options.keep_files
            || bytes(&self.segments).saturating_add(self.options.segment_bytes)
                > self.options.keep_bytes
        {
            let Some(oldest) = self.segments.first().filter(|oldest| oldest.closed) else { break };
            let removed = fs::remove_file(self.folder.join(&oldest.filename));
            if removed.is_err_and(|error| error.kind() != io::ErrorKind::NotFound) {
                break;
            }
            self.totals.pruned_segments += 1;
            self.totals.pruned_bytes += oldest.size_bytes;
            self.segments.remove(0);
            self.manifest_is_due = true;
        }
        self.forget_sessions();
    }

    /// Of sessions without segments only the latest stay listed.
    fn forget_sessions(&mut self) {
        let segments = &self.segments;
        let has_some = |session: &SessionSummary| {
            segments
                .iter()
                .any(|segment| segment.session_id.as_deref() == Some(&*session.session_id))
        };
        let mut too_many = self.others.len().saturating_sub(MOST_EMPTY_SESSIONS);
        self.others.retain(|session| {
            let goes = too_many > 0 && !has_some(session);
            too_many -= usize::from(goes);
            !goes
        });
    }

    fn drop_oldest(&mut self) {
        let mut bytes = 0;
        let mut count = 0;
        // Some more than need be, so that it need not be done for each event.
        let enough = self.buffer.len() - self.options.buffer_bytes / 4 * 3;
        while bytes < enough && self.lengths.len() > 1 {
            let Some(length) = self.lengths.pop_front() else { break };
            bytes += length;
            count += 1;
        }
        self.buffer.drain(..bytes);
        self.totals.dropped_events += count;
    }

    /// All sessions, in their order.
    fn sessions(&self) -> Vec<SessionSummary> {
        let mut sessions = self.others.clone();
        sessions.push(self.session.clone());
        sessions.sort_by_cached_key(|session| (session.started_at_ns, session.session_id.clone()));
        sessions
    }

    fn write_manifest(&mut self) -> io::Result<()> {
        Manifest::of(&self.sessions(), &self.segments).write(&self.folder)?;
        self.manifest_is_due = false;
        Ok(())
    }

    /// What was written so far.
    pub fn totals(&self) -> SinkTotals {
        let mut totals = self.totals.clone();
        totals.retained_files = self.segments.len() as u64;
        totals.retained_bytes = self.segments.iter().map(|segment| segment.size_bytes).sum();
        totals
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Ends the session: writes what waits, the manifest and the rollups.
    ///
    /// # Errors
    ///
    /// Where something could not be written; it says how many events are lost.
    pub fn close(mut self, status: SessionStatus, ended_at_ns: i64) -> Result<SinkTotals> {
        self.end(status, ended_at_ns).map(|()| self.totals())
    }

    /// The same for who wants the totals in any case. Nothing comes after it.
    pub(crate) fn end(&mut self, status: SessionStatus, ended_at_ns: i64) -> Result<()> {
        let ended = file_size::without_signal(|| self.try_end(status, ended_at_ns));
        if let Err(error) = &ended {
            self.totals.last_error = Some(error.to_string());
        }
        ended
    }

    fn try_end(&mut self, status: SessionStatus, ended_at_ns: i64) -> Result<()> {
        let flushed = self.flush();
        let lost = self.lengths.len();
        self.totals.dropped_events += lost as u64;
        self.lengths.clear();
        self.buffer.clear();
        self.session.status = status;
        self.session.ended_at_ns = Some(ended_at_ns);
        self.close_segment();
        let closed = self.write_manifest();
        let told = flushed.map_err(|error| {
            let lost = match lost {
                1 => "1 event is lost".to_owned(),
                lost => format!("{lost} events are lost"),
            };
            Error::new(ErrorKind::Store, format!("{error}; {lost}"))
        });
        told.and(closed.map_err(|error| cannot_write(&self.folder, &error)))?;
        sync_folder(&self.folder);
        if self.options.rollups {
            self.write_rollups().map_err(|error| cannot_write(&self.folder, &error))?;
        }
        Ok(())
    }

    fn write_rollups(&mut self) -> io::Result<()> {
        let (window, kept) = (self.options.rollup_window, self.kept.take());
        let told = match kept
            .and_then(|kept| kept.told(&self.session, &self.sessions(), &self.segments))
        {
            Some(told) => told,
            None => rollups::read_back(&self.folder, window)?,
        };
        rollups::write(&self.folder, &self.segments, &self.totals, window, &told)
    }
}

impl Drop for SinkWriter {
    fn drop(&mut self) {
        if !self.lengths.is_empty() && self.pid == std::process::id() {
            _ = self.flush();
        }
    }
}

fn locked(folder: &Path) -> Result<OwnFile> {
    let taken = lock::take(folder).map_err(|error| cannot_write(folder, &error))?;
    taken.ok_or_else(|| {
        let folder = folder.display();
        let what = format!("another tracker writes to {folder}: give each its own folder");
        Error::new(ErrorKind::Store, what)
    })
}

fn cannot_write(folder: &Path, error: &io::Error) -> Error {
    Error::new(ErrorKind::Store, format!("cannot write to the sink {}: {error}", folder.display()))
}
