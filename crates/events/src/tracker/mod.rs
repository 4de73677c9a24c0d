//! Tracks memory while a program runs: samples, peaks, alerts and phases, in a sink that survives a
//! crash of the program.

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
    /// The memory of the whole machine, without this process's own counters. For programs that
    /// watch others. `allocated`, `reserved` and `used` all equal the memory in use.
    Machine,
    /// This process alone: its resident memory, and the bytes counted by the [counting
    /// allocator](runlore_core::alloc). Costs less than [`Host`](Self::Host), and raises no alerts
    /// about the machine.
    Process,
    /// All GPUs that the program may use.
    Gpus,
    /// The GPU with this number.
    Gpu(u32),
}

/// Samples memory until it is stopped or dropped. Threads may share it.
#[derive(Debug)]
pub struct Tracker {
    shared: Arc<Shared>,
    /// The mutex is needed only because a receiver is not `Sync`.
    has_ended: Mutex<Option<Receiver<Result<()>>>>,
}

/// The results of a tracker that was stopped.
#[derive(Debug)]
#[non_exhaustive]
pub struct Stopped {
    /// The statistics of its first device.
    pub statistics: TrackerStatistics,
    /// Its session.
    pub session: SessionSummary,
    /// What went wrong at the end: events that a sink or an endpoint did not receive.
    pub problem: Option<Error>,
    shared: Arc<Shared>,
}

impl Stopped {
    /// Returns the most recent events, oldest first. The last one is `stop`.
    ///
    /// ```
    /// let stopped = runlore::tracker::Tracker::builder().start()?.stop();
    /// assert_eq!(stopped.events().last().unwrap().event_type, "stop");
    /// # Ok::<(), runlore::Error>(())
    /// ```
    pub fn events(&self) -> Vec<TelemetryEvent> {
        self.shared.events()
    }

    /// Returns the memory of the first device over time.
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

    /// Writes the most recent events to a file, as [`events::save`] does.
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
    /// If the file cannot be written, or the schema cannot express an event. The file then stays
    /// unchanged.
    pub fn export(&self, path: impl AsRef<Path>, target: impl Into<Target>) -> Result<()> {
        events::save(path, &self.events(), target)
    }
}

impl Tracker {
    /// Returns the builder of a tracker. By default, it samples the host ten times a second.
    pub fn builder() -> TrackerBuilder {
        TrackerBuilder::new()
    }

    /// Sets the context that samples carry from now on, such as the current activity of the
    /// program.
    pub fn set_context(&self, context: &str) {
        let context = scrub(context);
        self.change(|core| core.set_context(Some(&context)));
    }

    /// Removes the context.
    pub fn clear_context(&self) {
        self.change(|core| core.set_context(None));
    }

    /// Adds a value to the metadata of all events from now on. Null removes it. Text under a name
    /// such as `api_key` and passwords in URLs are redacted, as everywhere.
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

    /// Adds a custom event. It carries the last reading of the first device.
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
        // Convert before taking the lock: the conversions are the program's code.
        let metadata = without_secrets(metadata);
        if self.shared.is_of_this_process() {
            let mut core = self.shared.lock();
            core.add_own(kind, context, metadata);
            self.shared.unlock(core);
        }
    }

    /// Begins a phase, which ends when the guard is dropped. Phases of one thread nest.
    pub fn phase(&self, name: &str) -> Phase {
        self.phase_with(name, Map::new())
    }

    /// Begins a phase with attributes.
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

    /// Takes a sample now and waits until it is taken.
    pub fn sample_now(&self) {
        if self.shared.is_of_this_process() {
            self.shared.ask(Wish::Sample);
        }
    }

    /// Writes the queued events to the sink and waits until they are on disk. A sink also flushes
    /// [regularly](crate::events::SinkOptions) on its own. Call this before something that may end
    /// the process.
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
    /// If the sink cannot be written, or the flush is not done within 5 s. The events then stay
    /// queued.
    pub fn flush(&self) -> Result<()> {
        if !self.shared.is_of_this_process() || !self.shared.has_outgoing() {
            return Ok(());
        }
        // Flush on the calling thread if no other thread is writing: waking the tracker's thread
        // costs half as much as a flush, and a hanging collector cannot delay this thread.
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

    /// Reports an error of the program. Returns whether its message indicates that memory ran out.
    ///
    /// If so, adds an `error` event, and the flight recorder dumps the most recent events unless it
    /// has done so for another failure within the last 30 s.
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

    /// Returns the most recent events, oldest first.
    pub fn events(&self) -> Vec<TelemetryEvent> {
        self.shared.events()
    }

    /// Returns the statistics of the first device so far.
    pub fn statistics(&self) -> TrackerStatistics {
        let seen = self.shared.look().map(|core| core.first_statistics());
        seen.unwrap_or_else(|| self.shared.begun.statistics.clone())
    }

    /// Returns the statistics of a device so far, by its number. `None` if it is not sampled.
    pub fn statistics_of(&self, device_id: i64) -> Option<TrackerStatistics> {
        let core = self.shared.look()?;
        let place = core.devices.iter().position(|device| device.id() == device_id)?;
        core.statistics(place)
    }

    /// Returns the memory of the first device over time, as far as its events are retained.
    pub fn timeline(&self, interval: Duration) -> Timeline {
        self.shared.timeline(interval)
    }

    /// Returns the session.
    pub fn session(&self) -> SessionSummary {
        let session = self.shared.look().map(|core| core.summary());
        session.unwrap_or_else(|| self.shared.begun.session.clone())
    }

    /// Writes the most recent events to a file, as [`events::save`] does. [`Stopped::export`]
    /// includes the `stop` event.
    ///
    /// # Errors
    ///
    /// If the file cannot be written, or the schema cannot express an event. The file then stays
    /// unchanged.
    pub fn export(&self, path: impl AsRef<Path>, target: impl Into<Target>) -> Result<()> {
        events::save(path, &self.events(), target)
    }

    /// Stops tracking, writes all queued events and completes the session.
    pub fn stop(mut self) -> Stopped {
        let problem = self.end(SessionStatus::Completed).err();
        let shared = Arc::clone(&self.shared);
        Stopped { statistics: self.statistics(), session: self.session(), problem, shared }
    }

    /// Changes the core. Does nothing in a forked child, because the tracker belongs to the parent.
    fn change(&self, change: impl FnOnce(&mut self::core::Core)) {
        if self.shared.is_of_this_process() {
            change(&mut self.shared.lock());
        }
    }

    fn end(&mut self, status: SessionStatus) -> Result<()> {
        let has_ended = self.has_ended.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let Some(has_ended) = has_ended else { return Ok(()) };
        if !self.shared.is_of_this_process() {
            // A forked child does not have the thread, and the sink belongs to the parent. It must
            // not close the channel either: the thread may have held the channel's lock during the
            // fork.
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

/// Redacts secrets in named values.
fn without_secrets<N: AsRef<str>, V: Into<Value>>(
    values: impl IntoIterator<Item = (N, V)>,
) -> Vec<(String, Value)> {
    let clean = |(name, value): (N, V)| {
        let name = name.as_ref();
        (name.to_owned(), hidden(name, value.into()))
    };
    values.into_iter().map(clean).collect()
}

/// Stops tracking as [`stop`](Tracker::stop) does. During a panic, the session is marked as
/// interrupted.
impl Drop for Tracker {
    fn drop(&mut self) {
        let panicking = std::thread::panicking();
        let status = if panicking { SessionStatus::Interrupted } else { SessionStatus::Completed };
        _ = self.end(status);
    }
}
