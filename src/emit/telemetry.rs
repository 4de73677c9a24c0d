//! Where emissions begin.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::asynchronous::AsyncTelemetry;
use super::backend::{self, Backend};
use super::emission::Emission;
use super::record::Emitted;
use super::track::Track;
use crate::{Result, host};

/// Emits metrics and milestones. Cheap to copy; all copies write to the same place.
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
    command: String,
    backend: String,
    path: Option<PathBuf>,
    /// The backends, once the first record was emitted.
    open: Mutex<Option<Vec<Box<dyn Backend>>>>,
    /// Those that are not known by name, until then.
    own: Mutex<Vec<Box<dyn Backend>>>,
    has_told: AtomicBool,
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry")
            .field("command", &self.0.command)
            .field("backend", &self.0.backend)
            .field("path", &self.0.path)
            .finish_non_exhaustive()
    }
}

/// The same as [`Telemetry::new`].
impl Default for Telemetry {
    fn default() -> Self {
        Self::new()
    }
}

impl Telemetry {
    /// For this program, into `telemetry.jsonl`.
    pub fn new() -> Self {
        Self::with("jsonl".to_owned(), None, host::program(), Vec::new())
    }

    fn with(
        backend: String,
        path: Option<PathBuf>,
        command: String,
        own: Vec<Box<dyn Backend>>,
    ) -> Self {
        let open = Mutex::new(None);
        let has_told = AtomicBool::new(false);
        Self(Arc::new(Inner { command, backend, path, open, own: Mutex::new(own), has_told }))
    }

    /// A copy with something changed, and files of its own.
    fn but(&self, backend: Option<&str>, path: Option<PathBuf>, command: Option<&str>) -> Self {
        let own = std::mem::take(&mut *lock(&self.0.own));
        Self::with(
            backend.unwrap_or(&self.0.backend).to_owned(),
            path.or_else(|| self.0.path.clone()),
            command.unwrap_or(&self.0.command).to_owned(),
            own,
        )
    }

    /// The backend: `jsonl`, `sqlite` (with the feature of that name), or `text`, which is for people and goes to standard
    /// output unless it has a path. A name that there is none of is told when something is emitted.
    #[must_use]
    pub fn backend(self, name: &str) -> Self {
        self.but(Some(name), None, None)
    }

    /// The file [default: `telemetry.jsonl`, `telemetry.db`].
    #[must_use]
    pub fn path(self, path: impl Into<PathBuf>) -> Self {
        self.but(None, Some(path.into()), None)
    }

    /// What the records say they are of [default: the name of the program].
    #[must_use]
    pub fn command(self, name: &str) -> Self {
        self.but(None, None, Some(name))
    }

    /// A backend of your own, beside the one that is named.
    #[must_use]
    pub fn and(self, backend: impl Backend + 'static) -> Self {
        let telemetry = self.but(None, None, None);
        lock(&telemetry.0.own).push(Box::new(backend));
        telemetry
    }

    /// A record: add to it what it is to say.
    pub fn emit(&self) -> Emission {
        Emission::new(self.clone())
    }

    /// A record that something begins.
    pub fn start(&self) -> Emission {
        self.emit().status("started")
    }

    /// A record that something came to a good end.
    pub fn complete(&self) -> Emission {
        self.emit().status("completed").message("Command completed successfully")
    }

    /// A record that something failed.
    pub fn fail(&self, error: impl fmt::Display) -> Emission {
        self.emit().status("failed").message(error.to_string())
    }

    /// Work with a record when it begins and one when it ends, however that is.
    pub fn track(&self) -> Track {
        Track::new(self.clone())
    }

    /// The same for futures: records are written on a thread of their own.
    pub fn into_async(self) -> AsyncTelemetry {
        AsyncTelemetry::new(self)
    }

    /// Whether nothing is to be emitted.
    pub(super) fn is_disabled() -> bool {
        ["RUNLORE_EMIT_DISABLED", "CLOUDMESH_AI_TELEMETRY_DISABLED"].iter().any(|name| {
            std::env::var(name)
                .is_ok_and(|value| matches!(&*value.to_lowercase(), "1" | "true" | "yes"))
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.0.command
    }

    /// Writes to all backends; the first error counts, but hinders none of the others.
    pub(super) fn write(&self, record: &Emitted) -> Result<()> {
        let mut open = lock(&self.0.open);
        let backends = match &mut *open {
            Some(backends) => backends,
            None => {
                let named = backend::named(&self.0.backend, self.0.path.as_deref())?;
                let mut backends = vec![named];
                backends.append(&mut lock(&self.0.own));
                open.insert(backends)
            }
        };
        let mut result = Ok(());
        for backend in backends {
            let written = backend.write(record);
            result = result.and(written);
        }
        result
    }

    /// Tells what went wrong, once.
    pub(super) fn tell(&self, result: Result<()>) {
        if let Err(error) = result
            && !self.0.has_told.swap(true, Ordering::Relaxed)
        {
            eprintln!("runlore: {error}; this is told once");
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
