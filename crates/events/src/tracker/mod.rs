//! Watching memory while a program runs: samples, peaks, alerts, phases, in a sink that survives whatever ends the program.

mod activity;
mod alerts;
mod builder;
mod collector;
mod core;
mod device;
mod entry;
mod file;
mod gpu;
mod health;
mod host_memory;
mod outgoing;
mod phase;
mod prepared;
mod process_tree;
mod recorder;
mod shared;
mod sleep;
mod statistics;
#[cfg(test)]
mod tests;
mod texts;
mod thread;
mod time;
mod timeline;
mod watch;
mod words;

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};

pub use activity::Activity;
pub use alerts::{Alert, AlertKind, Alerts, Level};
pub use builder::TrackerBuilder;
pub use collector::{About, Collector, Reading, Supported};
pub use host_memory::HostMemory;
pub use outgoing::{OpenOutlet, Outlet};
pub use phase::Phase;
pub use prepared::Prepared;
pub use process_tree::ProcessTree;
pub use recorder::FlightRecorder;
pub use statistics::TrackerStatistics;
pub use timeline::Timeline;

use crate::events;
use crate::events::{SessionStatus, SessionSummary, Target, TelemetryEvent};
use runlore_core::record::redact::hidden;
use runlore_core::record::scrub;
use runlore_core::{Error, ErrorKind, Result};
use shared::{Shared, Wish};

/// How long `stop` waits for a collector or a disk that hangs.
const PATIENCE: Duration = Duration::from_secs(10);

/// A device that can be sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Device {
    /// This process on its machine, inside its container.
    Host,
    /// The memory of the whole machine, without this process's own counters: for programs that watch from outside.
    /// `allocated`, `reserved` and `used` are all the memory in use.
    Machine,
    /// This process alone: what is resident, and what the [counting allocator](runlore_core::alloc) counts. It costs less, and gives no alerts
    /// about the machine.
    Process,
    /// All graphics processors that the program may use.
    Gpus,
    /// One of them.
    Gpu(u32),
}

/// Samples memory until it is stopped or dropped. Threads may share it.
#[derive(Debug)]
pub struct Tracker {
    shared: Arc<Shared>,
    /// Locked only because a receiver cannot be shared.
    has_ended: Mutex<Option<Receiver<Result<()>>>>,
}

/// What is left of a tracker that was stopped.
#[derive(Debug)]
#[non_exhaustive]
pub struct Stopped {
    /// What it has seen, of its first device.
    pub statistics: TrackerStatistics,
    /// Its session.
    pub session: SessionSummary,
    /// What went wrong at the end: what a sink or an endpoint did not get.
    pub problem: Option<Error>,
    shared: Arc<Shared>,
}

impl Stopped {
    /// The last events, oldest first; the last one is `stop`.
    ///
    /// ```
    /// let stopped = runlore::tracker::Tracker::builder().start()?.stop();
    /// assert_eq!(stopped.events().last().unwrap().event_type, "stop");
    /// # Ok::<(), runlore::Error>(())
    /// ```
    pub fn events(&self) -> Vec<TelemetryEvent> {
        self.shared.events()
    }

    /// The memory of the first device over time.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let stopped = runlore::tracker::Tracker::builder().start()?.stop();
    /// assert_eq!(stopped.timeline(Duration::from_secs(60)).timestamps.len(), 1);
    /// # Ok::<(), runlore::Error>(())
    /// ```
    pub fn timeline(&self, interval: Duration) -> Timeline {
        self.shared.timeline(interval)
    }

    /// Writes the last events to a file, as [`events::save`] does.
    ///
    /// ```
    /// use runlore::events::Schema;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("events.json");
    /// let stopped = runlore::tracker::Tracker::builder().start()?.stop();
    /// stopped.export(&path, Schema::V3)?;
    /// assert_eq!(runlore::events::load(&path)?.sessions[0].events.len(), stopped.events().len());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the file cannot be written, or the schema cannot express an event. The file is then as it was.
    pub fn export(&self, path: impl AsRef<Path>, target: impl Into<Target>) -> Result<()> {
        events::save(path, &self.events(), target)
    }
}

impl Tracker {
    /// A tracker of the host, ten times a second; change what is to be otherwise.
    pub fn builder() -> TrackerBuilder {
        TrackerBuilder::new()
    }

    /// Says what the program is about from here on: samples have it as their context.
    pub fn set_context(&self, context: &str) {
        let context = scrub(context);
        self.change(|core| core.set_context(Some(&context)));
    }

    /// Takes that back.
    pub fn clear_context(&self) {
        self.change(|core| core.set_context(None));
    }

    /// Adds a value to the metadata of all events from here on; null takes it back. As everywhere, text under a name such as
    /// `api_key` and passwords in URLs are hidden.
    ///
    /// ```
    /// # let tracker = runlore::tracker::Tracker::builder().start()?;
    /// tracker.set_metadata("batch_size", 32);
    /// # tracker.sample_now();
    /// # assert_eq!(tracker.events().last().unwrap().metadata["batch_size"], 32);
    /// # Ok::<(), runlore::Error>(())
    /// ```
    pub fn set_metadata(&self, name: &str, value: impl Into<Value>) {
        let value = hidden(name, value.into());
        self.change(|core| core.set_metadata(name, value));
    }

    /// Adds an event of your own, about the first device as it was last sampled.
    ///
    /// ```
    /// # let tracker = runlore::tracker::Tracker::builder().start()?;
    /// tracker.event("checkpoint", "saved epoch 3", [("path", "epoch-3.bin")]);
    /// # assert_eq!(tracker.events().last().unwrap().metadata["path"], "epoch-3.bin");
    /// # Ok::<(), runlore::Error>(())
    /// ```
    pub fn event<N: AsRef<str>, V: Into<Value>>(
        &self,
        event_type: &str,
        context: &str,
        metadata: impl IntoIterator<Item = (N, V)>,
    ) {
        let kind = if event_type.trim().is_empty() { "event" } else { event_type };
        // Before the lock: what converts the values is the program's.
        let metadata = without_secrets(metadata);
        if self.shared.is_of_this_process() {
            let mut core = self.shared.lock();
            core.add_own(kind, context, metadata);
            self.shared.unlock(core);
        }
    }

    /// Begins a phase; it ends when the guard is dropped. Phases of a thread are inside each other.
    pub fn phase(&self, name: &str) -> Phase {
        self.phase_with(name, Map::new())
    }

    /// The same, with attributes.
    ///
    /// ```
    /// # let tracker = runlore::tracker::Tracker::builder().start()?;
    /// let phase = tracker.phase_with("load", [("rows", 10_000)]);
    /// # drop(phase);
    /// # let events = tracker.events();
    /// # assert_eq!(events.last().unwrap().metadata["phase_scope"]["attributes"]["rows"], 10_000);
    /// # Ok::<(), runlore::Error>(())
    /// ```
    pub fn phase_with<N: AsRef<str>, V: Into<Value>>(
        &self,
        name: &str,
        attributes: impl IntoIterator<Item = (N, V)>,
    ) -> Phase {
        Phase::begin(&self.shared, &scrub(name), without_secrets(attributes).into_iter().collect())
    }

    /// Samples now, and waits until that is done.
    pub fn sample_now(&self) {
        if self.shared.is_of_this_process() {
            self.shared.ask(Wish::Sample);
        }
    }

    /// Writes the events that wait to the sink, and waits until the disk has them. A sink does so by itself
    /// [before long](crate::events::SinkOptions); call this before something that may end the process.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let tracker = runlore::tracker::Tracker::builder().sink(folder.path().join("sink")).start()?;
    /// tracker.event("checkpoint", "about to call the driver", [("step", 12)]);
    /// tracker.flush()?;
    /// # let written = std::fs::read_to_string(folder.path().join("sink/segment-000001.jsonl"))?;
    /// # assert!(written.contains("about to call the driver"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Where the sink cannot be written, or somebody else has been writing to it for 5 s. What waits goes on waiting.
    pub fn flush(&self) -> Result<()> {
        if !self.shared.is_of_this_process() || !self.shared.has_outgoing() {
            return Ok(());
        }
        // Whoever asks writes, unless somebody is at it: to wake the thread costs half as much as a flush, and a collector that hangs
        // is in nobody's way.
        let outgoing = self.shared.outgoing_if_free().filter(|outgoing| outgoing.is_sink_alone());
        if let Some(mut outgoing) = outgoing {
            return outgoing.flush(&self.shared);
        }
        if !self.shared.ask(Wish::Flush) {
            let text = "the sink was not flushed within 5 s: a collector or a disk hangs";
            return Err(Error::new(ErrorKind::Pipeline, text));
        }
        match self.shared.lock().flush_error.take() {
            Some(error) => Err(Error::new(ErrorKind::Store, error)),
            None => Ok(()),
        }
    }

    /// Says that something has failed. If it looks as if that was for want of memory, it is an `error` event and the flight
    /// recorder dumps the last events, unless it did so for another failure within the last 30 s; whether it looks so.
    ///
    /// ```
    /// # let tracker = runlore::tracker::Tracker::builder().start()?;
    /// let error = std::io::Error::other("CUDA error: out of memory");
    /// assert!(tracker.failed(&error));
    /// assert!(!tracker.failed(&std::io::Error::other("no such file")));
    /// # Ok::<(), runlore::Error>(())
    /// ```
    pub fn failed(&self, error: &dyn std::error::Error) -> bool {
        let message = error.to_string();
        let Some(sign) = recorder::classify(&message) else { return false };
        let mut metadata = Map::new();
        metadata.insert("oom_reason".to_owned(), format!("message_pattern:{sign}").into());
        metadata.insert("exception_message".to_owned(), scrub(&message).into());
        let text = format!("OOM detected (message_pattern:{sign})");
        self.change(|core| core.failure(text, metadata));
        self.shared.wake();
        true
    }

    /// The last events, oldest first.
    pub fn events(&self) -> Vec<TelemetryEvent> {
        self.shared.events()
    }

    /// What was seen so far, of the first device.
    pub fn statistics(&self) -> TrackerStatistics {
        let seen = self.shared.look().map(|core| core.first_statistics());
        seen.unwrap_or_else(|| self.shared.begun.statistics.clone())
    }

    /// What was seen so far of a device, by its number; none where it is not sampled.
    pub fn statistics_of(&self, device_id: i64) -> Option<TrackerStatistics> {
        let core = self.shared.look()?;
        let place = core.devices.iter().position(|device| device.id() == device_id)?;
        core.statistics(place)
    }

    /// The first device over time, as far as events are still there.
    pub fn timeline(&self, interval: Duration) -> Timeline {
        self.shared.timeline(interval)
    }

    /// The session.
    pub fn session(&self) -> SessionSummary {
        let session = self.shared.look().map(|core| core.summary());
        session.unwrap_or_else(|| self.shared.begun.session.clone())
    }

    /// Writes the last events to a file, as [`events::save`] does. [`Stopped::export`] has the end too.
    ///
    /// # Errors
    ///
    /// If the file cannot be written, or the schema cannot express an event. The file is then as it was.
    pub fn export(&self, path: impl AsRef<Path>, target: impl Into<Target>) -> Result<()> {
        events::save(path, &self.events(), target)
    }

    /// Ends it: what is left is written, and the session is completed.
    pub fn stop(mut self) -> Stopped {
        let problem = self.end(SessionStatus::Completed).err();
        let shared = Arc::clone(&self.shared);
        Stopped { statistics: self.statistics(), session: self.session(), problem, shared }
    }

    /// Changes what is known, unless this is a forked child: the tracker is its parent's.
    fn change(&self, change: impl FnOnce(&mut self::core::Core)) {
        if self.shared.is_of_this_process() {
            change(&mut self.shared.lock());
        }
    }

    fn end(&mut self, status: SessionStatus) -> Result<()> {
        let has_ended = self.has_ended.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let Some(has_ended) = has_ended else { return Ok(()) };
        if !self.shared.is_of_this_process() {
            // A forked child does not have the thread; the sink is its parent's. Nor does it close the channel, in which the
            // thread may have held a lock.
            std::mem::forget(has_ended);
            return Ok(());
        }
        self.shared.lock().stop(status);
        self.shared.is_stopping.store(true, Ordering::Release);
        self.shared.wake();
        has_ended.recv_timeout(PATIENCE).unwrap_or_else(|error| {
            let what = match error {
                RecvTimeoutError::Timeout => {
                    "the tracker did not end within 10 s: a collector or a disk hangs"
                }
                RecvTimeoutError::Disconnected => {
                    "the tracker's thread panicked: what it had not written is lost"
                }
            };
            Err(Error::new(ErrorKind::Pipeline, what))
        })
    }
}

/// Values by name, as they may leave the caller's side.
fn without_secrets<N: AsRef<str>, V: Into<Value>>(
    values: impl IntoIterator<Item = (N, V)>,
) -> Vec<(String, Value)> {
    let clean = |(name, value): (N, V)| {
        let name = name.as_ref();
        (name.to_owned(), hidden(name, value.into()))
    };
    values.into_iter().map(clean).collect()
}

/// As [`stop`](Tracker::stop); in a panic the session is interrupted.
impl Drop for Tracker {
    fn drop(&mut self) {
        let panicking = std::thread::panicking();
        let status = if panicking { SessionStatus::Interrupted } else { SessionStatus::Completed };
        _ = self.end(status);
    }
}
