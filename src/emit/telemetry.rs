//! The entry point for emissions.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use super::asynchronous::AsyncTelemetry;
use super::backend::{self, Backend};
use super::emission::Emission;
use super::record::Emitted;
use super::track::Track;
use runlore_core::contain::contain;
use runlore_core::fork::PerProcess;
use runlore_core::notice::notice;
use runlore_core::record::scrub;
use runlore_core::{Error, ErrorKind, Result, file_size, host};

/// Emits metrics and milestones. Clones are cheap and write to the same backends. Changing a
/// clone's backend, path or command does not affect the others.
///
/// ```no_run
/// use runlore::emit::Telemetry;
///
/// let telemetry = Telemetry::new().backend("sqlite").path("telemetry.db");
/// telemetry.emit().metric("accuracy", 0.92);
/// ```
#[derive(Clone)]
pub struct Telemetry(Arc<Inner>);

struct Inner {
    config: Config,
    /// The backend selected by name, opened with the first record.
    named: PerProcess<Mutex<Option<Box<dyn Backend>>>>,
    has_told: AtomicBool,
}

#[derive(Clone)]
struct Config {
    command: String,
    backend: String,
    path: Option<PathBuf>,
    /// The user's own backends, shared with changed clones.
    own: Vec<Arc<Own>>,
}

/// A backend of the user's, which a forked child has a copy of.
struct Own {
    /// Taken by the thread that uses the backend.
    turn: PerProcess<Mutex<()>>,
    /// During a thread's turn, it is locked only if the parent was using it at the fork.
    backend: Mutex<Box<dyn Backend>>,
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry")
            .field("command", &self.0.config.command)
            .field("backend", &self.0.config.backend)
            .field("path", &self.0.config.path)
            .finish_non_exhaustive()
    }
}

/// Equivalent to [`Telemetry::new`].
impl Default for Telemetry {
    fn default() -> Self {
        Self::new()
    }
}

impl Telemetry {
    /// Creates an instance for this program that writes to `telemetry.jsonl`.
    pub fn new() -> Self {
        let (backend, command) = ("jsonl".to_owned(), host::program());
        Self::with(Config { command, backend, path: None, own: Vec::new() })
    }

    fn with(config: Config) -> Self {
        let (named, has_told) = (PerProcess::new(), AtomicBool::new(false));
        Self(Arc::new(Inner { config, named, has_told }))
    }

    fn changed(&self, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = self.0.config.clone();
        change(&mut config);
        Self::with(config)
    }

    /// Sets the backend: `jsonl`, `sqlite` (with the feature of that name), or `text`. The latter
    /// is for people and writes to standard output unless a path is set. An unknown name is
    /// reported when something is emitted.
    #[must_use]
    pub fn backend(self, name: &str) -> Self {
        self.changed(|config| config.backend = name.to_owned())
    }

    /// Sets the file [default: `telemetry.jsonl`, `telemetry.db`].
    #[must_use]
    pub fn path(self, path: impl Into<PathBuf>) -> Self {
        self.changed(|config| config.path = Some(path.into()))
    }

    /// Sets the command of the records [default: the name of the program].
    #[must_use]
    pub fn command(self, name: &str) -> Self {
        self.changed(|config| config.command = scrub(name))
    }

    /// Adds a backend of your own, beside the one selected by name. A forked child has a copy of
    /// it, unless its parent was writing to it during the fork. In that case, the child's records
    /// do not reach it, which is reported.
    #[must_use]
    pub fn and(self, backend: impl Backend + 'static) -> Self {
        let backend = Mutex::new(Box::new(backend) as Box<dyn Backend>);
        self.changed(|config| config.own.push(Arc::new(Own { turn: PerProcess::new(), backend })))
    }

    /// Creates a record to add values to.
    pub fn emit(&self) -> Emission {
        Emission::new(self.clone())
    }

    /// Creates a record with status `started`.
    pub fn start(&self) -> Emission {
        self.emit().status("started")
    }

    /// Creates a record with status `completed`.
    pub fn complete(&self) -> Emission {
        Emission::completed(self.clone())
    }

    /// Creates a record with status `failed`.
    pub fn fail(&self, error: impl fmt::Display) -> Emission {
        Emission::failed(self.clone(), error)
    }

    /// Tracks work: emits one record when it begins and one when it ends, however it ends.
    pub fn track(&self) -> Track {
        Track::new(self.clone())
    }

    /// Converts this to an emitter for async code, which writes records on a separate thread.
    pub fn into_async(self) -> AsyncTelemetry {
        AsyncTelemetry::new(self)
    }

    /// Returns whether the environment disables all emissions.
    pub(super) fn is_disabled() -> bool {
        ["RUNLORE_EMIT_DISABLED", "CLOUDMESH_AI_TELEMETRY_DISABLED"].iter().any(|name| {
            std::env::var(name)
                .is_ok_and(|value| matches!(&*value.to_lowercase(), "1" | "true" | "yes"))
        })
    }

    pub(super) fn command_name(&self) -> &str {
        &self.0.config.command
    }

    /// Writes to all backends. Returns the first error, after trying the others too.
    pub(super) fn write(&self, record: &Emitted) -> Result<()> {
        file_size::without_signal(|| self.write_to_all(record))
    }

    fn write_to_all(&self, record: &Emitted) -> Result<()> {
        let named = self.write_named(record);
        self.0.config.own.iter().map(|own| own.write(record)).fold(named, Result::and)
    }

    fn write_named(&self, record: &Emitted) -> Result<()> {
        let mut named = self.0.named.lock().unwrap_or_else(PoisonError::into_inner);
        let config = &self.0.config;
        let backend = match &mut *named {
            Some(backend) => backend,
            none => none.insert(backend::named(&config.backend, config.path.as_deref())?),
        };
        backend.write(record)
    }

    /// Reports an error, once.
    pub(super) fn tell(&self, result: Result<()>) {
        if let Err(error) = result
            && !self.0.has_told.swap(true, Ordering::Relaxed)
        {
            notice(&format!("{error}; this is told once"));
        }
    }
}

impl Own {
    fn write(&self, record: &Emitted) -> Result<()> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut backend = match self.backend.try_lock() {
            Ok(backend) => backend,
            Err(TryLockError::Poisoned(backend)) => backend.into_inner(),
            Err(TryLockError::WouldBlock) => {
                let what = "a backend was in use when this process was forked: add it anew";
                return Err(Error::new(ErrorKind::Store, what));
            }
        };
        caught(|| backend.write(record))
    }
}

fn caught(write: impl FnOnce() -> Result<()>) -> Result<()> {
    contain(write).unwrap_or_else(|| Err(Error::new(ErrorKind::Store, "a backend panicked")))
}
