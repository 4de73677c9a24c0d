//! The outputs of events: the sink, and other outlets.
//!
//! Lock order: a thread that holds the lock of the outputs may lock the core, never the reverse.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::core::Said;
use super::entry::Entry;
use super::shared::Shared;
use crate::events::{SinkOptions, SinkWriter, TelemetryEvent};
use runlore_core::notice::notice;
use runlore_core::{Error, ErrorKind, Result};

/// The minimum time between two checks for new events, however short the flush interval is.
pub(super) const SHORTEST_LOOK: Duration = Duration::from_millis(10);

/// A destination for events that is opened when the tracker starts.
pub trait OpenOutlet: Send {
    /// Opens the destination.
    ///
    /// # Errors
    ///
    /// If it cannot be set up.
    fn open(self) -> Result<Box<dyn Outlet>>;
}

/// Receives events as they occur, besides a sink.
pub trait Outlet: Send {
    /// Receives an event.
    fn take(&mut self, event: &TelemetryEvent);

    /// Returns the time until [`tick`](Self::tick) should be called. `None` if that does not
    /// matter.
    fn due_in(&self) -> Option<Duration> {
        None
    }

    /// Called at least once per sample.
    fn tick(&mut self);

    /// Closes the outlet. No events follow.
    fn close(self: Box<Self>) -> Result<()>;
}

/// A sink, and how it was opened.
pub(super) struct Sink {
    pub(super) writer: SinkWriter,
    pub(super) options: SinkOptions,
}

pub(super) struct Outgoing {
    sink: Option<Sink>,
    outlets: Vec<Box<dyn Outlet>>,
    /// The first error of an event that the sink refused, and the number of refused events.
    refused: Option<(Error, u64)>,
    /// Buffer for the events that are being written.
    entries: Vec<Entry>,
}

impl Outgoing {
    /// `None` if there are no outputs.
    pub(super) fn new(sink: Option<Sink>, outlets: Vec<Box<dyn Outlet>>) -> Option<Self> {
        let goes_somewhere = sink.is_some() || !outlets.is_empty();
        goes_somewhere.then_some(Self { sink, outlets, refused: None, entries: Vec::new() })
    }

    /// Whether the sink is the only output. Then any thread may write. Other outlets run only on
    /// the tracker's thread, because they may block or panic.
    pub(super) fn is_sink_alone(&self) -> bool {
        self.outlets.is_empty()
    }

    /// Returns the time until the sink or an outlet is due. Single events do not wake the thread,
    /// so an empty sink is checked at its flush interval.
    pub(super) fn due_in(&self) -> Duration {
        let others = self.outlets.iter().filter_map(|outlet| outlet.due_in());
        let sink = self.sink.as_ref().map(|sink| {
            sink.writer.due_in().unwrap_or(sink.options.flush_every.max(SHORTEST_LOOK))
        });
        others.chain(sink).min().unwrap_or(Duration::MAX)
    }

    /// Forwards the queued events to the sink and the outlets, and flushes the sink if that is due.
    pub(super) fn write(&mut self, shared: &Shared) {
        self.take(shared);
        self.outlets.iter_mut().for_each(|outlet| outlet.tick());
        if let Some(sink) = &mut self.sink {
            sink.writer.flush_if_due();
            self.note_sink(shared);
        }
    }

    /// Writes the queued events to the sink and flushes it to disk.
    ///
    /// # Errors
    ///
    /// If the sink cannot be written.
    pub(super) fn flush(&mut self, shared: &Shared) -> Result<()> {
        self.take(shared);
        let waiting = self.sink.as_mut().filter(|sink| sink.writer.waiting() > 0);
        let flushed = waiting.map_or(Ok(()), |sink| sink.writer.flush());
        self.note_sink(shared);
        flushed
    }

    fn take(&mut self, shared: &Shared) {
        let session = {
            let mut core = shared.lock();
            core.swap_waiting(&mut self.entries);
            Arc::clone(&core.session)
        };
        for entry in self.entries.drain(..) {
            let event = entry.to_event(&session);
            if let Some(sink) = &mut self.sink
                && let Err(error) = sink.writer.append(&event)
            {
                shared.lock().not_written += 1;
                self.refused.get_or_insert((error, 0)).1 += 1;
            }
            self.outlets.iter_mut().for_each(|outlet| outlet.take(&event));
        }
    }

    /// Updates the sink's totals. Adds an event if the sink can no longer be written, or can again.
    fn note_sink(&self, shared: &Shared) {
        let Some(sink) = &self.sink else { return };
        let totals = sink.writer.totals();
        let mut core = shared.lock();
        if self.outlets.is_empty() {
            // Wake the thread when there are enough events for a flush.
            core.worth_writing =
                sink.options.flush_events.saturating_sub(sink.writer.waiting()).max(1);
        }
        if core.sink.last_error != totals.last_error {
            let (kind, text) = match &totals.last_error {
                Some(error) => ("sink_degraded", error.clone()),
                None => ("sink_recovered", "The sink can be written again".to_owned()),
            };
            let counts = [
                ("dropped_events", totals.dropped_events),
                ("removed_events", totals.removed_events),
            ];
            let metadata = counts
                .map(|(name, count)| (name.to_owned(), Value::from(count)))
                .into_iter()
                .collect();
            core.add(0, Said { metadata, ..Said::plain(kind, Some(0), text) });
            if let Some(error) = &totals.last_error {
                notice(error);
            }
        }
        core.sink = totals;
    }

    /// Writes all remaining events and closes the outputs. Nothing may follow.
    ///
    /// # Errors
    ///
    /// All errors, as one.
    pub(super) fn close(&mut self, shared: &Shared) -> Result<()> {
        self.write(shared);
        let mut problems: Vec<Error> = Vec::new();
        if let Some((error, count)) = self.refused.take() {
            let what = match count {
                1 => format!("1 event is not in the sink: {error}"),
                count => format!("{count} events are not in the sink, the first because: {error}"),
            };
            problems.push(Error::new(ErrorKind::Record, what));
        }
        if let Some(mut sink) = self.sink.take() {
            let (status, ended) = {
                let summary = shared.lock().summary();
                (summary.status, summary.ended_at_ns.unwrap_or(summary.started_at_ns))
            };
            problems.extend(sink.writer.end(status, ended).err());
            shared.lock().sink = sink.writer.totals();
        }
        for outlet in std::mem::take(&mut self.outlets) {
            problems.extend(outlet.close().err());
        }
        together(problems)
    }
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing").finish_non_exhaustive()
    }
}

/// Combines all errors into one.
fn together(mut problems: Vec<Error>) -> Result<()> {
    match problems.len() {
        0 => Ok(()),
        1 => Err(problems.remove(0)),
        _ => {
            let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
            Err(Error::new(problems[0].kind(), all.join("; ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracker::Tracker;

    struct Panics;

    impl OpenOutlet for Panics {
        fn open(self) -> Result<Box<dyn Outlet>> {
            Ok(Box::new(self))
        }
    }

    impl Outlet for Panics {
        fn take(&mut self, _: &TelemetryEvent) {}

        fn tick(&mut self) {}

        fn close(self: Box<Self>) -> Result<()> {
            panic!("as it is meant to")
        }
    }

    #[test]
    fn a_tracker_whose_thread_panicked_does_not_blame_a_disk() {
        let stopped = Tracker::builder().push(Panics).start().unwrap().stop();
        let problem = stopped.problem.unwrap().to_string();
        assert_eq!(problem, "the tracker's thread panicked: what it had not written is lost");
    }
}
