//! Calls a store, on the writer's thread, or on a separate thread if the store would block the
//! writer.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::run::Lines;
use super::{overhead, recorder, rings, session, stats};
use runlore_core::config::settings;
use runlore_core::contain::contain;
use runlore_core::context::Number;
use runlore_core::file_size;
use runlore_core::notice::notice;
use runlore_core::settings::Durability;
use runlore_core::store::{Refused, Store, take_refused};
use runlore_core::{Error, ErrorKind, Result};

/// How long the end of a run waits for a store on another thread to close.
const CLOSING: Duration = Duration::from_millis(200);

/// The outcome of writing a batch.
#[derive(Debug)]
pub(super) enum Outcome {
    /// Stored, except for these records.
    Stored(Vec<Refused>),
    /// The batch is being written. No other batch is written before that has ended.
    Pending,
    Failed(Error),
}

/// A store, and the thread that calls it.
pub(super) enum Sink {
    /// Called on the writer's thread.
    Inline(Number, Box<dyn Store>),
    /// Called on its own thread.
    Apart(Apart),
    /// Placeholder while the store moves to its own thread.
    Gone,
}

impl Sink {
    pub(super) fn new(run: Number, store: Box<dyn Store>) -> Self {
        match store.is_remote() {
            true => Self::apart(run, store),
            false => Self::Inline(run, store),
        }
    }

    fn apart(run: Number, store: Box<dyn Store>) -> Self {
        Apart::start(run, store).map_or_else(|store| Self::Inline(run, store), Self::Apart)
    }

    /// Writes a batch or begins to. If a write on the writer's thread takes so long that tasks may
    /// have waited in vain, the store moves to its own thread afterwards.
    pub(super) fn write(&mut self, lines: &Arc<Lines>) -> Outcome {
        let Self::Inline(run, store) = self else {
            return match self {
                Self::Apart(apart) => apart.write(lines),
                _ => Outcome::Failed(Error::new(ErrorKind::Store, "the store is gone")),
            };
        };
        let began = Instant::now();
        let written = recorder::storing(|| write(*run, &mut **store, lines));
        let outcome = written.map_or_else(Outcome::Failed, Outcome::Stored);
        if began.elapsed() > recorder::SLOW.max(settings().recorder.max_wait_ms)
            && let Self::Inline(run, store) = std::mem::replace(self, Self::Gone)
        {
            *self = Self::apart(run, store);
        }
        outcome
    }

    /// Returns whether a batch is being written.
    pub(super) fn is_pending(&self) -> bool {
        matches!(self, Self::Apart(apart) if apart.is_pending)
    }

    /// Returns the outcome of the batch that was being written.
    pub(super) fn poll(&mut self) -> Outcome {
        match self {
            Self::Apart(apart) => apart.poll(),
            _ => Outcome::Pending,
        }
    }

    /// Writes open tasks. Skipped while the store is busy with a batch.
    pub(super) fn write_open(&mut self, lines: &Arc<Lines>) -> Result<()> {
        match self {
            Self::Inline(_, store) => {
                recorder::storing(|| guarded(|| store.write_open(&lines.records.batch())))
            }
            Self::Apart(apart) if !apart.is_pending => {
                _ = apart.jobs.send(Job::Open(Arc::clone(lines)));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn close(&mut self) -> Result<()> {
        match self {
            Self::Inline(_, store) => recorder::storing(|| guarded(|| store.close())),
            Self::Apart(apart) => apart.close(),
            Self::Gone => Ok(()),
        }
    }
}

enum Job {
    Write(Arc<Lines>),
    Open(Arc<Lines>),
    Close,
}

/// A store on its own thread. The thread ends when this is dropped.
pub(super) struct Apart {
    jobs: Sender<Job>,
    answers: Receiver<Result<Vec<Refused>>>,
    is_pending: bool,
}

impl Apart {
    /// Starts the thread. Returns the store if that fails.
    fn start(run: Number, store: Box<dyn Store>) -> std::result::Result<Self, Box<dyn Store>> {
        let (jobs, to_do) = channel();
        let (answer, answers) = channel();
        // Pass the store through a channel, so that it is not lost if the thread cannot be started.
        let (hand_over, handed) = channel::<Box<dyn Store>>();
        let spawned = thread::Builder::new().name("runlore-store".to_owned()).spawn(move || {
            rings::silence_thread();
            file_size::never_signal_thread();
            if let Ok(mut store) = handed.recv() {
                serve(run, &mut *store, &to_do, &answer);
            }
        });
        if spawned.is_err() {
            return Err(store);
        }
        hand_over.send(store).map_err(|refused| refused.0)?;
        Ok(Self { jobs, answers, is_pending: false })
    }

    fn write(&mut self, lines: &Arc<Lines>) -> Outcome {
        if !self.is_pending {
            if self.jobs.send(Job::Write(Arc::clone(lines))).is_err() {
                return Outcome::Failed(gone());
            }
            self.is_pending = true;
        }
        Outcome::Pending
    }

    fn poll(&mut self) -> Outcome {
        let answer = match self.answers.try_recv() {
            Err(TryRecvError::Empty) => return Outcome::Pending,
            Err(TryRecvError::Disconnected) => Err(gone()),
            Ok(answer) => answer,
        };
        self.is_pending = false;
        answer.map_or_else(Outcome::Failed, Outcome::Stored)
    }

    fn close(&mut self) -> Result<()> {
        if self.is_pending || self.jobs.send(Job::Close).is_err() {
            return Ok(());
        }
        match self.answers.recv_timeout(CLOSING) {
            Ok(answer) => answer.map(drop),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Ok(()),
        }
    }
}

fn gone() -> Error {
    Error::new(ErrorKind::Store, "the thread of the store is gone")
}

fn serve(
    run: Number,
    store: &mut dyn Store,
    to_do: &Receiver<Job>,
    answer: &Sender<Result<Vec<Refused>>>,
) {
    for job in to_do {
        let answered = match job {
            Job::Write(lines) => answer.send(write(run, store, &lines)),
            Job::Close => answer.send(guarded(|| store.close()).map(|()| Vec::new())),
            Job::Open(lines) => {
                if let Err(error) = guarded(|| store.write_open(&lines.records.batch())) {
                    notice(&error.to_string());
                }
                Ok(())
            }
        };
        overhead::count_this_thread();
        if answered.is_err() {
            return;
        }
        recorder::wake();
    }
}

/// Writes a batch. Returns the records that the store refused.
fn write(run: Number, store: &mut dyn Store, lines: &Lines) -> Result<Vec<Refused>> {
    let mut file = None;
    guarded(|| {
        file = store.prepare(lines.bytes() as u64)?;
        Ok(())
    })?;
    if let Some(file) = file {
        // Log the file before the first record is in it: recovery of this run must know it.
        session::note_file(run, &file);
    }
    guarded(|| store.write(&lines.records.batch()))?;
    let mut refused = Vec::new();
    // The batch is written, whatever this call returns.
    _ = guarded(|| {
        refused = take_refused(store);
        Ok(())
    });
    if settings().recorder.durability == Durability::System {
        match guarded(|| store.sync()) {
            Ok(()) => stats::add(&stats::SYNCED, lines.records.len() as u64),
            // The records are written already. Writing them again would duplicate them.
            Err(error) => {
                stats::add(&stats::STORE_ERRORS, 1);
                notice(&format!("{error}; if the machine goes down, records may be lost"));
            }
        }
    }
    Ok(refused)
}

/// Calls a store. A panic counts as a failure, and the thread continues.
fn guarded(call: impl FnOnce() -> Result<()>) -> Result<()> {
    contain(call).unwrap_or_else(|| Err(Error::new(ErrorKind::Store, "the store panicked")))
}
