//! The tracker's thread. It samples, writes and runs callbacks, so that no other thread waits for
//! that.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use serde_json::{Map, json};

use super::alerts::{Alert, AlertKind, Level};
use super::collector::{Collector, Reading};
use super::core::Said;
use super::outgoing::SHORTEST_LOOK;
use super::recorder::{FlightRecorder, Occasion};
use super::shared::{Shared, Wish};
use crate::events::SessionStatus;
use runlore_core::Result;
use runlore_core::alloc;
use runlore_core::alloc::Failed;
use runlore_core::clock;
use runlore_core::contain::contain;
use runlore_core::context::Watch;
use runlore_core::notice::notice;
use runlore_core::record::Id;

/// The minimum time between two cleanups, and between two dumps for alerts.
const PAUSE: Duration = Duration::from_secs(30);

/// A callback for alerts.
pub(super) type OnAlert = Box<dyn Fn(&Alert) + Send>;
/// A callback that frees memory.
pub(super) type Cleanup = Box<dyn FnMut() + Send>;

pub(super) struct Sampler {
    pub(super) shared: Arc<Shared>,
    pub(super) interval: Duration,
    pub(super) collectors: Vec<Box<dyn Collector>>,
    pub(super) watch: Watch,
    pub(super) on_alert: Vec<OnAlert>,
    pub(super) cleanup: Option<Cleanup>,
    pub(super) recorder: Option<FlightRecorder>,
    pub(super) cleaned: Option<Instant>,
    pub(super) dumped: Option<Instant>,
    /// The last dump for a failure. A recent dump for a critical alert must not suppress it.
    pub(super) failure_dumped: Option<Instant>,
    /// Dumps that still lack the description of the machine. It is added once no other thread waits
    /// for the dump.
    pub(super) unfinished: Vec<PathBuf>,
    pub(super) tasks: Vec<Id>,
    /// Dropped after the first sample, for which `Prepared::start` waits.
    pub(super) begun: Option<SyncSender<()>>,
}

impl Sampler {
    /// Samples until the tracker is stopped, then writes the remaining events.
    pub(super) fn run(mut self) -> Result<()> {
        let watcher = self.recorder.is_some().then(alloc::Watcher::start);
        let mut next = clock::monotonic_ns();
        let mut answered = 0;
        while !self.shared.is_stopping.load(Ordering::Acquire) {
            // Read the counter before the flags: a request that arrives in between is then served
            // before it is answered.
            let asked = self.shared.asked();
            let wants_sample = self.shared.take(Wish::Sample);
            let wants_flush = self.shared.take(Wish::Flush);
            let now = clock::monotonic_ns();
            if now >= next || wants_sample {
                self.sample();
                self.begun = None;
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
            let until_writing = self.write(wants_flush);
            if asked > answered {
                self.shared.answer(asked);
                answered = asked;
            }
            let until_next = Duration::from_nanos(next.saturating_sub(clock::monotonic_ns()));
            self.shared.sleep.wait(until_next.min(until_writing));
        }
        drop(watcher);
        self.shared.lock().stop(SessionStatus::Completed);
        self.tell();
        self.finish_dump();
        self.shared.outgoing().map_or(Ok(()), |mut outgoing| outgoing.close(&self.shared))
    }

    /// Writes the queued events, unless another thread is writing. Returns the time until the next
    /// write is due.
    fn write(&self, wants_flush: bool) -> Duration {
        if !self.shared.has_outgoing() {
            return Duration::MAX;
        }
        let outgoing = match wants_flush {
            true => self.shared.outgoing(),
            false => self.shared.outgoing_if_free(),
        };
        let Some(mut outgoing) = outgoing else { return SHORTEST_LOOK };
        if wants_flush {
            let flushed = outgoing.flush(&self.shared);
            self.shared.lock().flush_error = flushed.err().map(|error| error.to_string());
        }
        // Also writes events that the flush itself added.
        outgoing.write(&self.shared);
        outgoing.due_in()
    }

    /// Returns when the next sample is due. Counts the samples that were missed.
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
                core.begin(device, read);
                core.sample(device, read);
            };
            // Collect without the lock, because it may take long. Pass the reading by reference: a
            // copy would cost more than most of the work that follows.
            let caught = contain(|| take_in(&collector.collect()));
            if caught.is_none() {
                take_in(&Err("the collector panicked".to_owned()));
            }
        }
    }

    /// Passes alerts to the callbacks. For critical alerts, also runs the cleanup and dumps events.
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
                // A panic in a callback must not affect the tracker.
                _ = contain(|| tell(alert));
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
        let went_well = contain(cleanup).is_some();
        let mut metadata = Map::new();
        metadata.insert("alert".to_owned(), alert.kind.as_str().into());
        metadata.insert("succeeded".to_owned(), went_well.into());
        let said = Said { metadata, ..Said::plain("cleanup", Some(0), "Cleanup ran") };
        self.shared.lock().add(0, said);
    }

    /// Records that allocations have failed, the last one with this size. The program may abort at
    /// once, so the events are written first, and callbacks run later.
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
        // Do not wait for the lock: its holder may be the thread whose allocation failed, and which
        // waits for this function.
        if let Some(mut outgoing) = self.shared.outgoing_if_free() {
            // A write error is reported with the next event.
            _ = outgoing.flush(&self.shared);
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
}

fn is_due(last: Option<Instant>) -> bool {
    last.is_none_or(|last| last.elapsed() >= PAUSE)
}
