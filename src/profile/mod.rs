//! Measures the memory of a part of a program, before, after and at its peak, and records it as a
//! task.
//!
//! ```
//! use runlore::profile::Profiler;
//!
//! # let store = runlore::store::MemoryStore::new();
//! # let run = runlore::workflow("doc").store(store.clone()).start()?;
//! let profiler = Profiler::new();
//! let rows = profiler.scope("load").run(|| vec![1.0_f64; 100_000]);
//!
//! let mut fit = profiler.scope("fit");
//! fit.snapshot("half way");
//! let result = fit.finish();
//! println!("{}: {} bytes more", result.name, result.change_bytes());
//!
//! println!("{}", serde_json::to_string_pretty(&profiler.report())?);
//! # run.finish()?;
//! # assert_eq!(store.tasks().len(), 2);
//! # drop(rows);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A scope is a [task](crate::task()). Inside a workflow it is recorded like any task, with its
//! memory figures in `generated.memory`. Outside a workflow it only measures. [`profile`] does the
//! same without a profiler to pass around.

mod scope;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

pub use runlore_events::profile::{Allocated, Figures, ProfileResult, Report, Snapshot, Summary};
pub use scope::Scope;

use runlore_core::fork::PerProcess;
use runlore_core::store::write_file;
use runlore_core::{Error, ErrorKind, Result};

/// The maximum number of results and of snapshots to keep. Beyond it, the oldest are dropped and
/// counted.
const MOST: usize = 10_000;

/// Begins a scope of the process-wide profiler.
///
/// ```
/// use runlore::profile::{self, profile};
///
/// let sum: u64 = profile("sum").run(|| (0..1000).sum());
/// assert_eq!(sum, 499_500);
/// assert!(profile::of_process().results().iter().any(|result| result.name == "sum"));
/// ```
#[must_use = "the scope ends when it is dropped"]
#[track_caller]
pub fn profile(name: &str) -> Scope {
    of_process().scope(name)
}

/// Returns the profiler that [`profile`] uses.
pub fn of_process() -> &'static Profiler {
    static PROFILER: LazyLock<Profiler> = LazyLock::new(Profiler::new);
    &PROFILER
}

/// Collects the results of scopes. Clones are cheap and share one collection. A forked child
/// begins with an empty one.
#[derive(Debug, Clone, Default)]
pub struct Profiler(Arc<PerProcess<Mutex<Collected>>>);

#[derive(Debug, Default)]
struct Collected {
    results: VecDeque<ProfileResult>,
    snapshots: VecDeque<Snapshot>,
    summary: Summary,
    dropped: u64,
}

impl Profiler {
    /// Creates an empty profiler.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins a scope. It ends when it is dropped, or with [`Scope::finish`] or [`Scope::run`].
    #[must_use = "the scope ends when it is dropped"]
    #[track_caller]
    pub fn scope(&self, name: &str) -> Scope {
        Scope::begin(self.clone(), name)
    }

    /// Takes a snapshot of the memory in use now, and keeps it.
    pub fn snapshot(&self, label: &str) -> Snapshot {
        let snapshot = Snapshot::now(label);
        self.note(&snapshot);
        snapshot
    }

    /// Returns the results of the scopes, in the order in which they ended.
    pub fn results(&self) -> Vec<ProfileResult> {
        self.collected().results.iter().cloned().collect()
    }

    /// Returns the snapshots.
    pub fn snapshots(&self) -> Vec<Snapshot> {
        self.collected().snapshots.iter().cloned().collect()
    }

    /// Returns sums over all results, by name.
    pub fn summary(&self) -> Summary {
        self.collected().summary.clone()
    }

    /// Returns the summary, the results and the snapshots.
    pub fn report(&self) -> Report {
        let collected = self.collected();
        Report {
            summary: collected.summary.clone(),
            results: collected.results.iter().cloned().collect(),
            snapshots: collected.snapshots.iter().cloned().collect(),
            dropped: collected.dropped,
        }
    }

    /// Writes the report as JSON. The file is replaced atomically, and missing folders are created.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn export(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let failed = |error: std::io::Error| {
            Error::new(ErrorKind::Store, format!("cannot write {}: {error}", path.display()))
        };
        let json = serde_json::to_vec_pretty(&self.report());
        write_file(path, &json.map_err(|error| failed(error.into()))?).map_err(failed)
    }

    /// Forgets everything.
    pub fn clear(&self) {
        *self.collected() = Collected::default();
    }

    fn add(&self, result: &ProfileResult) {
        let mut collected = self.collected();
        collected.summary.add(result);
        keep(&mut collected, |collected| &mut collected.results, result.clone());
    }

    fn note(&self, snapshot: &Snapshot) {
        let mut collected = self.collected();
        keep(&mut collected, |collected| &mut collected.snapshots, snapshot.clone());
    }

    fn collected(&self) -> MutexGuard<'_, Collected> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<&Profiler> for Report {
    fn from(profiler: &Profiler) -> Self {
        profiler.report()
    }
}

fn keep<T>(collected: &mut Collected, of: impl Fn(&mut Collected) -> &mut VecDeque<T>, one: T) {
    if of(collected).len() == MOST {
        of(collected).pop_front();
        collected.dropped += 1;
    }
    of(collected).push_back(one);
}

#[cfg(all(test, unix))]
#[allow(unsafe_code)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_child_forked_while_a_thread_uses_the_profiler_hangs_on_nothing() {
        let profiler = Profiler::new();
        let (begun, has_begun) = channel();
        let (go_on, may_go_on) = channel::<()>();
        let user = std::thread::spawn({
            let profiler = profiler.clone();
            move || {
                let _collected = profiler.collected();
                begun.send(()).unwrap();
                may_go_on.recv().unwrap();
            }
        });
        has_begun.recv().unwrap();
        // SAFETY: the child only calls the code under test, and then exits.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: plain system calls; the alarm ends a child that hangs.
            unsafe { libc::alarm(10) };
            profiler.snapshot("before");
            profiler.scope("work").run(|| ());
            let report = profiler.report();
            // SAFETY: as above.
            unsafe { libc::_exit((report.results.len() + 2 * report.snapshots.len()) as i32) };
        }
        go_on.send(()).unwrap();
        user.join().unwrap();
        let mut status = 0;
        // SAFETY: `status` is valid for the write, and the child is ours.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert!(libc::WIFEXITED(status), "the child hung");
        assert_eq!(libc::WEXITSTATUS(status), 3);
    }
}
