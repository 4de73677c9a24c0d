//! Writes sinks that stay readable whatever happens.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::manifest::{Manifest, Segment, sync_folder};
use super::options::SinkOptions;
use super::rollups::{self, Facts, RunningRollup};
use super::{lock, recover};
use crate::events::write::put_line;
use crate::events::{Schema, SessionStatus, SessionSummary, TelemetryEvent};
use runlore_core::store::{OwnFile, create_folders, create_private_to_append};
use runlore_core::{Error, ErrorKind, Result, file_size};

/// The first and the longest delay before writing is retried.
const WAITS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// The maximum number of earlier sessions in the manifest. Above it, the oldest sessions without
/// segments are removed.
const MOST_EMPTY_SESSIONS: usize = 256;

/// Writes the events of one session into a folder: a series of segments, and a manifest that lists
/// them.
///
/// A folder has one writer at a time. If an earlier writer did not finish, its sessions and
/// segments are closed first.
///
/// While the folder cannot be written, events are buffered up to a limit, and writing is retried
/// with increasing delays. Dropped events are counted. A writer that is dropped without
/// [`close`](Self::close) tries to write the buffered events. Its session is later found
/// interrupted.
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
    /// Held as long as the writer exists.
    lock: OwnFile,
    session: SessionSummary,
    /// Earlier sessions in the folder.
    others: Vec<SessionSummary>,
    /// All segments. While `open` is set, the last one is being written.
    segments: Vec<Segment>,
    open: Option<OwnFile>,
    last_number: u64,
    /// Buffered lines, and in `lengths` the length of each.
    buffer: Vec<u8>,
    lengths: VecDeque<usize>,
    last_flush: Instant,
    manifest_is_due: bool,
    retry: Option<(Instant, Duration)>,
    totals: SinkTotals,
    /// The running sums for the rollups. `None` if rollups are off, if the schema cannot express
    /// whole events, or if the start of the session is negative.
    kept: Option<RunningRollup>,
    /// The process that created the writer. A forked child must not write the buffered events
    /// again.
    pid: u32,
}

/// What a sink has written and lost.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SinkTotals {
    /// Events that were written.
    pub events: u64,
    /// Events that were dropped because the buffer was full while the sink could not be written.
    pub dropped_events: u64,
    /// Events that were written and then lost because the files were removed.
    pub removed_events: u64,
    /// Full segments that were closed to start another.
    pub rollovers: u64,
    /// Segments that were deleted by the retention limits.
    pub pruned_segments: u64,
    /// The size of these segments in bytes.
    pub pruned_bytes: u64,
    /// Segments that exist.
    pub retained_files: u64,
    /// The size of these segments in bytes.
    pub retained_bytes: u64,
    /// The error of the last flush, or the note that the folder was removed and recreated.
    pub last_error: Option<String>,
}

impl SinkWriter {
    /// Begins a session in a folder, creating the folder if needed.
    ///
    /// # Errors
    ///
    /// If the options are invalid, the folder cannot be written, its manifest is not that of a
    /// sink, or another writer uses it.
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
            writer.kept = RunningRollup::new(&writer.session, writer.options.rollup_window);
        }
        // Sessions that are too short to fill a segment still leave one each.
        writer.prune();
        let begun = writer.next_segment().and_then(|()| writer.write_manifest());
        begun.map_err(|error| cannot_write(&writer.folder, &error))?;
        Ok(writer)
    }

    /// Buffers an event and flushes if that is due. [`totals`](Self::totals) reports write errors.
    ///
    /// # Errors
    ///
    /// If the event belongs to another session, or the schema cannot express it.
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

    /// Flushes if that is due. Drops the oldest events if the buffer is still too large.
    fn make_room(&mut self) {
        self.flush_if_due();
        if self.buffer.len() > self.options.buffer_bytes {
            self.drop_oldest();
        }
    }

    /// Returns the number of buffered events.
    pub(crate) fn waiting(&self) -> usize {
        self.lengths.len()
    }

    /// Flushes if that is due. Call it regularly if events are rare.
    pub fn flush_if_due(&mut self) {
        let is_full = self.lengths.len() >= self.options.flush_events
            || self.buffer.len() > self.options.buffer_bytes / 2;
        let is_due = self.due_in().is_some_and(|due| due.is_zero());
        if is_due || is_full && self.retry.is_none() {
            _ = self.flush();
        }
    }

    /// Returns the time until the next flush is due. `None` if nothing is buffered.
    pub fn due_in(&self) -> Option<Duration> {
        if self.lengths.is_empty() {
            return None;
        }
        Some(match self.retry {
            Some((at, _)) => at.saturating_duration_since(Instant::now()),
            None => self.options.flush_every.saturating_sub(self.last_flush.elapsed()),
        })
    }

    /// Writes the buffered events and syncs them to disk, unless the options turn that off.
    ///
    /// # Errors
    ///
    /// If the folder cannot be written. The events then stay buffered.
    pub fn flush(&mut self) -> Result<()> {
        self.last_flush = Instant::now();
        // If this flush finds that the folder was removed, the totals report it until the next
        // flush.
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

    /// Returns how many buffered lines fit into the segment, and their size. An empty segment
    /// accepts at least one line of any length.
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

    /// Writes the first `bytes` of the buffer. After an error, cuts off what was written partially.
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
                // Continue in a new segment. Readers of this one skip the incomplete line.
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

    /// Recreates the folder if it was removed, because writes to removed files are lost.
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
        // Leave room for the next segment.
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

    /// Removes the oldest sessions without segments from a list that is too long.
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
        // Free more than needed, so that not every event has to drop some.
        let enough = self.buffer.len() - self.options.buffer_bytes / 4 * 3;
        while bytes < enough && self.lengths.len() > 1 {
            let Some(length) = self.lengths.pop_front() else { break };
            bytes += length;
            count += 1;
        }
        self.buffer.drain(..bytes);
        self.totals.dropped_events += count;
    }

    /// Returns all sessions, ordered by their start.
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

    /// Returns the totals so far.
    pub fn totals(&self) -> SinkTotals {
        let mut totals = self.totals.clone();
        totals.retained_files = self.segments.len() as u64;
        totals.retained_bytes = self.segments.iter().map(|segment| segment.size_bytes).sum();
        totals
    }

    /// Returns the folder of the sink.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Ends the session: writes the buffered events, the manifest and the rollups.
    ///
    /// # Errors
    ///
    /// If something could not be written. The message states how many events are lost.
    pub fn close(mut self, status: SessionStatus, ended_at_ns: i64) -> Result<SinkTotals> {
        self.end(status, ended_at_ns).map(|()| self.totals())
    }

    /// Ends the session as [`close`](Self::close) does, but keeps the writer for its totals.
    /// Nothing may be appended after it.
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
