//! The thread that samples: it reads, writes and calls back, so that nobody else waits for that.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::alerts::{Alert, AlertKind, Level};
use super::collector::{Collector, Reading};
use super::core::Said;
use super::entry::Entry;
use super::line::Lines;
use super::recorder::{FlightRecorder, Occasion};
use super::shared::{Shared, Wish};
use crate::alloc::{self, Failed};
use crate::clock;
use crate::context::Watch;
use crate::events::{SessionStatus, SinkOptions, SinkWriter, TelemetryEvent};
use crate::pipeline::notice;
use crate::record::Id;
use crate::{Error, ErrorKind, Result};

/// Between two cleanups, and between two dumps that nobody asked for.
const PAUSE: Duration = Duration::from_secs(30);

/// Between two looks whether there is something for a sink, however soon that is to be flushed.
const SHORTEST_LOOK: Duration = Duration::from_millis(10);

/// Something that takes events as they come, beside a sink.
pub(crate) trait Outlet: Send {
    fn take(&mut self, event: &TelemetryEvent);

    /// How long until it wants to be called by [`tick`](Self::tick), where that matters.
    fn due_in(&self) -> Option<Duration> {
        None
    }

    /// Called at least each time that a sample is taken.
    fn tick(&mut self);

    /// Nothing comes any more.
    fn close(self: Box<Self>) -> Result<()>;
}

/// Called with each alert.
pub(super) type OnAlert = Box<dyn Fn(&Alert) + Send>;
/// Called to give memory back.
pub(super) type Cleanup = Box<dyn FnMut() + Send>;

/// A sink, and how events become lines of it.
pub(super) struct Sink {
    pub(super) writer: SinkWriter,
    pub(super) lines: Lines,
    pub(super) options: SinkOptions,
}

pub(super) struct Sampler {
    pub(super) shared: Arc<Shared>,
    pub(super) interval: Duration,
    pub(super) collectors: Vec<Box<dyn Collector>>,
    pub(super) watch: Watch,
    pub(super) sink: Option<Sink>,
    pub(super) outlets: Vec<Box<dyn Outlet>>,
    pub(super) on_alert: Vec<OnAlert>,
    pub(super) cleanup: Option<Cleanup>,
    pub(super) recorder: Option<FlightRecorder>,
    pub(super) cleaned: Option<Instant>,
    pub(super) dumped: Option<Instant>,
    /// The same for a failure: what came before it must not stand in its way.
    pub(super) failure_dumped: Option<Instant>,
    /// Dumps that are to be finished once nobody waits for them.
    pub(super) unfinished: Vec<PathBuf>,
    /// Why the first event that the sink refused is not in it, and how many are not.
    pub(super) refused: Option<(Error, u64)>,
    pub(super) tasks: Vec<Id>,
    /// Events that are written.
    pub(super) entries: Vec<Entry>,
}

impl Sampler {
    /// Samples until it is stopped. Then what is left is written.
    pub(super) fn run(mut self) -> Result<()> {
        let watcher = self.recorder.is_some().then(alloc::Watcher::new);
        let mut next = clock::monotonic_ns();
        let mut answered = 0;
        while !self.shared.is_stopping.load(Ordering::Acquire) {
            // In this order: a wish that comes in between is met before it is answered.
            let asked = self.shared.asked();
            let wants_sample = self.shared.take(Wish::Sample);
            let wants_flush = self.shared.take(Wish::Flush);
            let now = clock::monotonic_ns();
            if now >= next || wants_sample {
                self.sample();
                if now >= next {
                    next = self.after(next, now);
                }
            }
            if let Some(watcher) = &watcher
                && let Some(failed) = watcher.failed()
            {
                self.allocation_failed(failed);
                watcher.answer();
            }
            self.tell();
            if !self.unfinished.is_empty() {
                self.finish_dump();
            }
            if self.sink.is_some() || !self.outlets.is_empty() {
                self.write();
            }
            if wants_flush {
                self.flush();
            }
            if asked > answered {
                self.shared.answer(asked);
                answered = asked;
            }
            let until_next = Duration::from_nanos(next.saturating_sub(clock::monotonic_ns()));
            self.shared.rest.wait(until_next.min(self.until_writing()));
        }
        drop(watcher);
        self.shared.lock().stop(SessionStatus::Completed);
        self.tell();
        self.finish_dump();
        self.close()
    }

    /// How long the sink and the others can wait. Nobody tells of single events that a sink is to have: they are found in time.
    fn until_writing(&self) -> Duration {
        let others = self.outlets.iter().filter_map(|outlet| outlet.due_in());
        let sink = self.sink.as_ref().map(|sink| {
            sink.writer.due_in().unwrap_or(sink.options.flush_every.max(SHORTEST_LOOK))
        });
        others.chain(sink).min().unwrap_or(Duration::MAX)
    }

    /// When the next sample is due; those that it is too late for are missed, and counted.
    fn after(&self, due: u64, now: u64) -> u64 {
        let interval = u64::try_from(self.interval.as_nanos()).unwrap_or(u64::MAX).max(1);
        let missed = (now - due) / interval;
        if missed > 0 {
            self.shared.lock().missed += missed;
        }
        due.saturating_add(interval.saturating_mul(missed + 1))
    }

    fn sample(&mut self) {
        self.watch.open_tasks(&mut self.tasks);
        for (device, collector) in self.collectors.iter_mut().enumerate() {
            if !self.shared.lock().is_due(device) {
                continue;
            }
            let take_in = |read: &Result<Reading, String>| {
                let mut core = self.shared.lock();
                core.set_tasks(&self.tasks);
                core.sample(device, read);
            };
            // Without the lock: it may take long. What was read stays where it is, for a copy costs more than most of what follows.
            let caught = catch_unwind(AssertUnwindSafe(|| take_in(&collector.collect())));
            if caught.is_err() {
                take_in(&Err("the collector panicked".to_owned()));
            }
        }
    }

    /// Tells callbacks of alerts, cleans up and dumps where an alert is critical.
    fn tell(&mut self) {
        let alerts = std::mem::take(&mut self.shared.lock().told);
        if !alerts.is_empty() {
            self.tell_of(&alerts);
        }
    }

    #[cold]
    fn tell_of(&mut self, alerts: &[Alert]) {
        for alert in alerts {
            for tell in &self.on_alert {
                // A callback that panics is the program's own affair, and costs nothing but itself.
                _ = catch_unwind(AssertUnwindSafe(|| tell(alert)));
            }
            if alert.level == Level::Critical {
                self.clean_up(alert);
            }
            let last = match alert.level {
                Level::Error => self.failure_dumped,
                _ => self.dumped,
            };
            if alert.level >= Level::Critical && is_due(last) {
                let details =
                    json!({"level": alert.level, "kind": alert.kind, "value": alert.value});
                self.dump(alert.level, &Occasion { reason: &alert.message, details });
            }
        }
    }

    fn clean_up(&mut self, alert: &Alert) {
        let Some(cleanup) = self.cleanup.as_mut().filter(|_| is_due(self.cleaned)) else { return };
        self.cleaned = Some(Instant::now());
        let went_well = catch_unwind(AssertUnwindSafe(cleanup)).is_ok();
        let mut metadata = Map::new();
        metadata.insert("alert".to_owned(), alert.kind.as_str().into());
        metadata.insert("succeeded".to_owned(), went_well.into());
        let said = Said { metadata, ..Said::plain("cleanup", Some(0), "Cleanup ran") };
        self.shared.lock().add(0, said);
    }

    /// Writes down that allocations have failed, the last of them of this size. The program may end over it at once: what its
    /// events are is written first, and callbacks wait.
    fn allocation_failed(&mut self, failed: Failed) {
        let Failed { size, count } = failed;
        let mut metadata = Map::new();
        metadata.insert("oom_reason".to_owned(), "allocation_failed".into());
        metadata.insert("requested_bytes".to_owned(), size.into());
        metadata.insert("failed_allocations".to_owned(), count.into());
        let message = format!("OOM detected (an allocation of {size} bytes failed)");
        let details = json!({"level": Level::Error, "kind": AlertKind::Failure, "value": size});
        self.shared.lock().failure(message.clone(), metadata);
        self.dump(Level::Error, &Occasion { reason: &message, details });
        self.write();
        if let Some(sink) = &mut self.sink {
            // Where it cannot be written, that is told with the next event.
            _ = sink.writer.flush();
        }
    }

    fn dump(&mut self, level: Level, occasion: &Occasion<'_>) {
        let Some(recorder) = &mut self.recorder else { return };
        self.dumped = Some(Instant::now());
        if level == Level::Error {
            self.failure_dumped = self.dumped;
        }
        let (events, session, statistics) = {
            let core = self.shared.lock();
            (core.events(), core.summary(), core.first_statistics())
        };
        match recorder.dump(occasion, &events, session, &statistics) {
            Ok(folder) => {
                self.shared.lock().last_dump = Some(folder.display().to_string());
                self.unfinished.push(folder);
            }
            Err(error) => notice(&format!("the last events cannot be dumped: {error}")),
        }
    }

    fn finish_dump(&mut self) {
        let Some(recorder) = &self.recorder else { return };
        for folder in self.unfinished.drain(..) {
            if let Err(error) = recorder.finish(&folder) {
                notice(&format!("a dump lacks what the machine is: {error}"));
            }
        }
    }

    /// Hands what waits to the sink and the others.
    fn write(&mut self) {
        let session = {
            let mut core = self.shared.lock();
            core.swap_waiting(&mut self.entries);
            Arc::clone(&core.session)
        };
        for entry in self.entries.drain(..) {
            if let Some(sink) = &mut self.sink
                && let Err(error) = sink.lines.append(&entry, &mut sink.writer)
            {
                self.shared.lock().not_written += 1;
                self.refused.get_or_insert((error, 0)).1 += 1;
            }
            if !self.outlets.is_empty() {
                let event = entry.to_event(&session);
                self.outlets.iter_mut().for_each(|outlet| outlet.take(&event));
            }
        }
        self.outlets.iter_mut().for_each(|outlet| outlet.tick());
        if let Some(sink) = &mut self.sink {
            sink.writer.flush_if_due();
            self.note_sink();
        }
    }

    /// Lets the disk have what waits.
    fn flush(&mut self) {
        let waiting = self.sink.as_mut().filter(|sink| sink.writer.waiting() > 0);
        let flushed = waiting.map_or(Ok(()), |sink| sink.writer.flush());
        self.note_sink();
        self.shared.lock().flush_error = flushed.err().map(|error| error.to_string());
    }

    /// Says in an event that the sink cannot be written, or can again.
    fn note_sink(&self) {
        let Some(sink) = &self.sink else { return };
        let totals = sink.writer.totals();
        let mut core = self.shared.lock();
        if self.outlets.is_empty() {
            // As many as the next flush is for.
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

    fn close(mut self) -> Result<()> {
        self.write();
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
                let summary = self.shared.lock().summary();
                (summary.status, summary.ended_at_ns.unwrap_or(summary.started_at_ns))
            };
            problems.extend(sink.writer.end(status, ended).err());
            self.shared.lock().sink = sink.writer.totals();
        }
        for outlet in self.outlets {
            problems.extend(outlet.close().err());
        }
        together(problems)
    }
}

/// All that went wrong, as one.
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

fn is_due(last: Option<Instant>) -> bool {
    last.is_none_or(|last| last.elapsed() >= PAUSE)
}
