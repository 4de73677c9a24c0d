//! Configures a tracker before it starts.

use std::path::PathBuf;
use std::time::Duration;

use super::alerts::{Alert, Alerts};
use super::collector::{About, Collector};
use super::core::Core;
use super::entry::Session;
use super::file::Wanted;
use super::host_memory::{Host, Process};
use super::outgoing::{OpenOutlet, Outlet, Sink};
use super::prepared::{Parts, Prepared};
use super::recorder::FlightRecorder;
use super::thread::{Cleanup, OnAlert};
use super::time::Clock;
use super::{Device, Tracker, gpu};
use crate::events::{Format, Identity, SinkOptions, SinkWriter, Target};
use runlore_core::notice::notice;
use runlore_core::record::Id;
use runlore_core::{Error, ErrorKind, Result, clock, host};

/// Opens an outlet.
type Opening = Box<dyn FnOnce() -> Result<Box<dyn Outlet>> + Send>;

/// Configures a tracker. Created by [`Tracker::builder`].
#[must_use = "it begins with `start`"]
pub struct TrackerBuilder {
    interval: Duration,
    devices: Vec<Device>,
    collectors: Vec<Box<dyn Collector>>,
    sink: Option<(PathBuf, SinkOptions)>,
    outputs: Vec<Wanted>,
    outlets: Vec<Opening>,
    alerts: Option<Alerts>,
    on_alert: Vec<OnAlert>,
    cleanup: Option<Cleanup>,
    recorder: Option<FlightRecorder>,
    history: usize,
    identity: Option<Identity>,
    job: Option<String>,
    session: Option<String>,
}

impl std::fmt::Debug for TrackerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TrackerBuilder")
            .field("interval", &self.interval)
            .field("devices", &self.devices)
            .field("sink", &self.sink)
            .field("alerts", &self.alerts)
            .finish_non_exhaustive()
    }
}

impl TrackerBuilder {
    pub(super) fn new() -> Self {
        Self {
            interval: Duration::from_millis(100),
            devices: Vec::new(),
            collectors: Vec::new(),
            sink: None,
            outputs: Vec::new(),
            outlets: Vec::new(),
            alerts: Some(Alerts::default()),
            on_alert: Vec::new(),
            cleanup: None,
            recorder: None,
            history: 10_000,
            identity: None,
            job: None,
            session: None,
        }
    }

    /// Sets the time between two samples [default: 100 ms].
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Adds a device to sample. May be called several times [default: the host]. Statistics
    /// describe the first device.
    pub fn device(mut self, device: Device) -> Self {
        self.devices.push(device);
        self
    }

    /// Adds a custom collector to sample.
    pub fn collector(mut self, collector: impl Collector + 'static) -> Self {
        self.collectors.push(Box::new(collector));
        self
    }

    /// Writes all events into this folder, as a [sink](SinkWriter).
    pub fn sink(self, folder: impl Into<PathBuf>) -> Self {
        self.sink_with(folder, SinkOptions::default())
    }

    /// Writes all events into this folder, with options.
    pub fn sink_with(mut self, folder: impl Into<PathBuf>, options: SinkOptions) -> Self {
        self.sink = Some((folder.into(), options));
        self
    }

    /// Writes all events to a new file as they occur, in the given format or else the one of the
    /// file name. Events are in the file after two seconds at the latest.
    pub fn output(
        mut self,
        path: impl Into<PathBuf>,
        format: Option<Format>,
        target: impl Into<Target>,
    ) -> Self {
        self.outputs.push(Wanted { path: path.into(), format, target: target.into() });
        self
    }

    /// Sends all events to a monitoring endpoint: a `runlore::push::Pusher`. The tracker fails to
    /// start if the endpoint cannot be set up, for example because its spool cannot be written.
    pub fn push(mut self, to: impl OpenOutlet + 'static) -> Self {
        self.outlets.push(Box::new(move || to.open()));
        self
    }

    /// Sets when to alert that memory runs short [default: [`Alerts::default`]].
    pub fn alerts(mut self, alerts: Alerts) -> Self {
        self.alerts = Some(alerts);
        self
    }

    /// Turns alerts off.
    pub fn without_alerts(mut self) -> Self {
        self.alerts = None;
        self
    }

    /// Adds a callback for alerts. It runs on the tracker's thread.
    pub fn on_alert(mut self, tell: impl Fn(&Alert) + Send + 'static) -> Self {
        self.on_alert.push(Box::new(tell));
        self
    }

    /// Sets a callback that frees memory, for example by emptying a cache. It runs on the tracker's
    /// thread after a critical alert, at most every 30 s.
    pub fn cleanup(mut self, cleanup: impl FnMut() + Send + 'static) -> Self {
        self.cleanup = Some(Box::new(cleanup));
        self
    }

    /// Dumps the most recent events when memory runs out.
    pub fn flight_recorder(mut self, recorder: FlightRecorder) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// Sets how many events are kept in memory [default: 10,000].
    pub fn history(mut self, events: usize) -> Self {
        self.history = events;
        self
    }

    /// Sets the job that the process is part of [default: as set by torchrun or Slurm].
    pub fn job(mut self, job: impl Into<String>) -> Self {
        self.job = Some(job.into());
        self
    }

    /// Sets the position of the process in its job [default: as set by torchrun, Open MPI or
    /// Slurm].
    pub fn identity(mut self, identity: Identity) -> Self {
        self.identity = Some(identity);
        self
    }

    /// Sets the id of the session [default: a new one].
    pub fn session(mut self, id: impl Into<String>) -> Self {
        self.session = Some(id.into());
        self
    }

    /// Starts sampling, on a separate thread.
    ///
    /// # Errors
    ///
    /// If the interval, the alerts, the session or the identity are invalid, a device does not
    /// exist, a file cannot be created, dumps, a spool or the sink cannot be written, or the sink
    /// has another writer. After the start nothing fails: events, statistics and
    /// [`Stopped::problem`](super::Stopped::problem) report later problems.
    pub fn start(self) -> Result<Tracker> {
        self.prepare()?.start()
    }

    /// Checks and opens everything without starting to sample. Use it if the program itself starts
    /// what is to be tracked: errors are returned before that, and nothing is read until
    /// [`Prepared::start`].
    ///
    /// ```no_run
    /// use runlore::tracker::{ProcessTree, Tracker};
    ///
    /// let prepared = Tracker::builder().collector(ProcessTree::of_children()).prepare()?;
    /// let child = std::process::Command::new("make").spawn()?;
    /// let tracker = prepared.start()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`start`](Self::start).
    pub fn prepare(mut self) -> Result<Prepared> {
        self.check()?;
        let mut collectors = self.named()?;
        collectors.append(&mut self.collectors);
        if collectors.is_empty() {
            collectors.push(Box::new(self.host()));
        }
        let abouts: Vec<About> = collectors.iter().map(|collector| collector.about()).collect();
        let mut identity = match self.identity {
            Some(identity) => identity,
            None => {
                let (identity, problem) = Identity::as_tasks_tell();
                problem.iter().for_each(|problem| notice(problem));
                identity
            }
        };
        identity.job_id = self.job.or(identity.job_id);
        check_identity(&identity)?;
        clock::anchor();
        let clock = Clock::system();
        let session = Session {
            id: self.session.unwrap_or_else(|| Id::new().to_string()),
            host: host::name(),
            pid: std::process::id(),
            identity,
            interval_ms: u64::try_from(self.interval.as_millis()).unwrap_or(u64::MAX),
            started_ns: clock.now(),
        };
        let has_outlets =
            self.sink.is_some() || !self.outputs.is_empty() || !self.outlets.is_empty();
        let mut core = Core::new(session, clock, abouts, self.alerts, self.history, has_outlets);
        core.has_recorder = self.recorder.is_some();
        let outputs: Vec<_> = self.outputs.into_iter().map(Wanted::open).collect::<Result<_>>()?;
        if let Some(recorder) = &self.recorder {
            recorder.check()?;
        }
        let outlets: Vec<_> = self.outlets.into_iter().map(|open| open()).collect::<Result<_>>()?;
        let sink = match self.sink {
            Some((folder, options)) => Some(Sink {
                writer: SinkWriter::open(folder, options.clone(), core.summary())?,
                options,
            }),
            None => None,
        };
        Ok(Prepared::new(Parts {
            core,
            interval: self.interval,
            collectors,
            sink,
            outputs,
            outlets,
            on_alert: self.on_alert,
            cleanup: self.cleanup,
            recorder: self.recorder,
        }))
    }

    /// Returns the collector of the host, which reads only as much as the alerts need.
    fn host(&self) -> Host {
        Host::new(self.cache_from())
    }

    fn cache_from(&self) -> f64 {
        self.alerts.as_ref().map_or(f64::INFINITY, Alerts::container_from)
    }

    fn check(&self) -> Result<()> {
        let wrong = |what: String| Err(Error::new(ErrorKind::Settings, what));
        let (least, most) = (Duration::from_millis(1), Duration::from_secs(24 * 3600));
        if !(least..=most).contains(&self.interval) {
            let interval = self.interval;
            return wrong(format!(
                "an interval of {interval:?} between samples is impossible: give 1 ms to 24 h"
            ));
        }
        if self.history == 0 {
            return wrong(
                "a tracker that keeps no events tells nothing: keep at least one".to_owned(),
            );
        }
        if let Some(session) = self.session.as_ref().filter(|session| session.trim().is_empty()) {
            return wrong(format!(
                "a session cannot be called {session:?}: give it a name, or leave it out"
            ));
        }
        match self.alerts.as_ref().and_then(Alerts::problem) {
            Some(problem) => wrong(problem),
            None => Ok(()),
        }
    }

    /// Returns the collectors of the configured devices.
    fn named(&self) -> Result<Vec<Box<dyn Collector>>> {
        let mut found: Vec<Box<dyn Collector>> = Vec::new();
        for device in &self.devices {
            match device {
                Device::Host => found.push(Box::new(self.host())),
                Device::Machine => found.push(Box::new(Host::machine(self.cache_from()))),
                Device::Process => found.push(Box::new(Process)),
                Device::Gpus => {
                    let gpus = gpu::all().map_err(|reason| no_gpus(&reason))?;
                    found.extend(gpus.into_iter().map(|gpu| Box::new(gpu) as Box<dyn Collector>));
                }
                Device::Gpu(number) => {
                    let gpus = gpu::all().map_err(|reason| no_gpus(&reason))?;
                    let gpu =
                        gpus.into_iter().find(|gpu| gpu.about().device_id == i64::from(*number));
                    let gpu =
                        gpu.ok_or_else(|| no_gpus(&format!("none has the number {number}")))?;
                    found.push(Box::new(gpu));
                }
            }
        }
        Ok(found)
    }
}

/// Checks the identity. With an invalid one, all events would be invalid.
fn check_identity(identity: &Identity) -> Result<()> {
    let Identity { job_id, rank, local_rank, world_size } = identity;
    let wrong = |what: String| Err(Error::new(ErrorKind::Settings, what));
    if let Some(job) = job_id.as_ref().filter(|job| job.trim().is_empty()) {
        return wrong(format!("a job cannot be called {job:?}: give it a name, or leave it out"));
    }
    if rank.max(local_rank) >= world_size {
        return wrong(format!(
            "a process of rank {rank} and local rank {local_rank} cannot be one of {world_size}: both must be below \
             `world_size`"
        ));
    }
    Ok(())
}

fn no_gpus(reason: &str) -> Error {
    Error::new(ErrorKind::Settings, format!("graphics processors cannot be tracked: {reason}"))
}
