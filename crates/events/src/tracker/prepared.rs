//! A tracker that has opened everything and not read anything yet.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use super::Tracker;
use super::collector::Collector;
use super::core::Core;
use super::file::Opened;
use super::outgoing::{Outgoing, Outlet, Sink};
use super::recorder::FlightRecorder;
use super::shared::{PATIENCE, Shared};
use super::thread::{Cleanup, OnAlert, Sampler};
use crate::events::SessionStatus;
use runlore_core::context::Watch;
use runlore_core::{Error, ErrorKind, Result, file_size};

/// A tracker that is ready to start, created by
/// [`TrackerBuilder::prepare`](super::TrackerBuilder::prepare).
///
/// Existing output files keep their content until it starts. If it is dropped instead, it leaves a
/// session without events in its sink, and no new output files.
#[must_use = "it begins with `start`"]
pub struct Prepared(Option<Box<Parts>>);

pub(super) struct Parts {
    pub(super) core: Core,
    pub(super) interval: Duration,
    pub(super) collectors: Vec<Box<dyn Collector>>,
    pub(super) sink: Option<Sink>,
    pub(super) outputs: Vec<Opened>,
    pub(super) outlets: Vec<Box<dyn Outlet>>,
    pub(super) on_alert: Vec<OnAlert>,
    pub(super) cleanup: Option<Cleanup>,
    pub(super) recorder: Option<FlightRecorder>,
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared").finish_non_exhaustive()
    }
}

impl Prepared {
    pub(super) fn new(parts: Parts) -> Self {
        Self(Some(Box::new(parts)))
    }

    /// Starts sampling.
    ///
    /// # Errors
    ///
    /// If a file can no longer be written, or the thread cannot be started.
    pub fn start(mut self) -> Result<Tracker> {
        match self.0.take() {
            Some(parts) => (*parts).start(),
            None => Err(Error::new(ErrorKind::Pipeline, "the tracker has begun already")),
        }
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        if let Some(parts) = &mut self.0
            && let Some(sink) = &mut parts.sink
        {
            let began = parts.core.summary().started_at_ns;
            // There are no events that could be lost.
            _ = sink.writer.end(SessionStatus::Incomplete, began);
        }
    }
}

impl Parts {
    fn start(mut self) -> Result<Tracker> {
        // Truncate the output files last, when nothing else that was prepared can fail.
        for output in self.outputs {
            self.outlets.push(Box::new(output.begin()?));
        }
        let outgoing = Outgoing::new(self.sink, self.outlets);
        let shared = Arc::new(Shared::new(self.core, outgoing));
        let (begun, has_begun) = mpsc::sync_channel(1);
        let sampler = Sampler {
            shared: Arc::clone(&shared),
            interval: self.interval,
            collectors: self.collectors,
            watch: Watch::start(),
            on_alert: self.on_alert,
            cleanup: self.cleanup,
            recorder: self.recorder,
            cleaned: None,
            dumped: None,
            failure_dumped: None,
            unfinished: Vec::new(),
            tasks: Vec::new(),
            begun: Some(begun),
        };
        let (ended, has_ended) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name("runlore-tracker".to_owned());
        let work = move || {
            file_size::never_signal_thread();
            _ = ended.send(sampler.run());
        };
        thread.spawn(work).map_err(|error| {
            Error::new(ErrorKind::Pipeline, "cannot start the tracker's thread").with_source(error)
        })?;
        // A hanging collector must not block the program. The `start` event then has no counters.
        _ = has_begun.recv_timeout(PATIENCE);
        shared.lock().start();
        Ok(Tracker { shared, has_ended: Mutex::new(Some(has_ended)) })
    }
}
