//! The interface to the writer thread: start it, wake it, send commands, wait for answers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use super::run::{RunEnd, RunSpec};
use super::session::ProcessEnd;
use super::stats::Totals;
use super::writer::Writer;
use super::{exit, overhead, rings, session, signal, signals, spool, threads};
use runlore_core::config::settings;
use runlore_core::context;
use runlore_core::context::Number;
use runlore_core::fork::PerProcess;
use runlore_core::record::WorkflowObject;
use runlore_core::{Error, ErrorKind, Result};
use runlore_core::{clock, file_size};

/// How long a caller waits for the writer's answer.
const ANSWER: Duration = Duration::from_secs(10);

/// How long the end of the process waits for a replay that is in the middle of a write.
const STANDING: Duration = Duration::from_millis(500);

/// A command to the writer.
pub(super) enum Command {
    Open(RunSpec),
    /// Stores the record of another workflow with this run.
    Note(Number, Box<WorkflowObject>),
    Close(Number, Box<RunEnd>, SyncSender<Result<Totals>>),
}

/// The writer of this process, and what it shows to other threads.
#[derive(Default)]
struct Recorder {
    starting: Mutex<()>,
    /// Empty until the writer has started.
    writer: OnceLock<Handle>,
    woken: AtomicBool,
    /// Increases with everything the writer does, so that a waiting task can see whether waiting
    /// makes sense.
    progress: AtomicU64,
    /// When the writer's thread began to write to a store. 0 if it is not writing.
    storing_since: AtomicU64,
}

static RECORDER: PerProcess<Recorder> = PerProcess::new();

struct Handle {
    commands: Mutex<Sender<Command>>,
    thread: thread::Thread,
}

/// Returns whether a writer reads the rings.
pub(super) fn is_running() -> bool {
    RECORDER.writer.get().is_some()
}

pub(super) fn progress() -> u64 {
    RECORDER.progress.load(Ordering::Relaxed)
}

pub(super) fn made_progress() {
    RECORDER.progress.fetch_add(1, Ordering::Relaxed);
}

/// A write that takes longer cannot be explained by a busy machine or disk.
pub(super) const SLOW: Duration = Duration::from_secs(1);

/// Runs a write on the writer's thread, and marks it so that tasks waiting for room can see it.
pub(super) fn storing<T>(write: impl FnOnce() -> T) -> T {
    RECORDER.storing_since.store(clock::monotonic_ns().max(1), Ordering::Relaxed);
    let written = write();
    RECORDER.storing_since.store(0, Ordering::Relaxed);
    written
}

/// Returns whether a store is writing on the writer's thread, for less than [`SLOW`].
pub(super) fn is_storing(now: u64) -> bool {
    let since = RECORDER.storing_since.load(Ordering::Relaxed);
    since > 0 && now.saturating_sub(since) < SLOW.as_nanos() as u64
}

/// Wakes the writer early. A second call before it woke up does nothing.
#[cold]
pub(super) fn wake() {
    if !RECORDER.woken.swap(true, Ordering::Relaxed)
        && let Some(writer) = RECORDER.writer.get()
    {
        writer.thread.unpark();
    }
}

/// For the writer: clears the wake-up flag. The writer sees everything pushed before the next
/// wake-up.
pub(super) fn note_waking() {
    RECORDER.woken.store(false, Ordering::Relaxed);
}

/// Starts recording for a run.
pub(crate) fn open_run(spec: RunSpec) -> Result<()> {
    clock::anchor();
    start()?;
    session::admit(&spec);
    send(Command::Open(spec))
}

/// Stores the record of another workflow with those of a run.
pub(crate) fn note_workflow(number: Number, record: Box<WorkflowObject>) -> Result<()> {
    send(Command::Note(number, record))
}

/// Ends a run, once everything that its tasks recorded so far is stored.
pub(crate) fn close_run(number: Number, end: RunEnd) -> Result<Totals> {
    // The writer answers in time, unless a store blocks it.
    let patience = ANSWER.saturating_add(settings().recorder.finish_wait_ms);
    ask(patience, |answer| Command::Close(number, Box::new(end), answer))?
}

/// Waits until every task that has ended so far was passed to its store.
///
/// A run does this by itself when it ends. Call it before something that the recorder cannot
/// detect, such as `exec`.
pub fn flush() -> Result<()> {
    if !is_running() || signal::FLUSH.ask(ANSWER) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Pipeline, no_answer(ANSWER)))
}

/// At the end of the process, stores everything and ends all runs, within a time limit. Other
/// threads continue recording until the process is gone. What they record meanwhile stays in the
/// session, to be recovered.
pub(super) fn end_process(patience: Duration) {
    let at = clock::seconds(clock::wall_ns(clock::monotonic_ns()));
    session::note_process_end(ProcessEnd { ending: exit::ending(), at });
    let has_stored = is_running() && signal::END_ALL.ask(patience);
    let is_over = !context::is_any_running() || threads::is_alone();
    if has_stored && is_over && rings::are_drained() {
        context::stop();
        session::remove_all();
    }
    spool::stand_still(STANDING);
}

fn no_answer(patience: Duration) -> String {
    let seconds = patience.as_secs();
    format!("the recorder did not answer within {seconds} s: its store is slow or hangs")
}

fn ask<T>(patience: Duration, command: impl FnOnce(SyncSender<T>) -> Command) -> Result<T> {
    let (answer, answered) = sync_channel(1);
    send(command(answer))?;
    answered.recv_timeout(patience).map_err(|error| {
        let text = match error {
            RecvTimeoutError::Timeout => no_answer(patience),
            RecvTimeoutError::Disconnected => "the workflow has ended already".to_owned(),
        };
        Error::new(ErrorKind::Pipeline, text)
    })
}

fn send(command: Command) -> Result<()> {
    let stopped = || Error::new(ErrorKind::Pipeline, "nothing is recorded in this process");
    let commands = &RECORDER.writer.get().ok_or_else(stopped)?.commands;
    let sent = commands.lock().unwrap_or_else(PoisonError::into_inner).send(command);
    sent.map_err(|_| stopped())?;
    wake();
    Ok(())
}

/// Starts the writer, unless it is running.
fn start() -> Result<()> {
    let _one_at_a_time = RECORDER.starting.lock().unwrap_or_else(PoisonError::into_inner);
    if is_running() {
        return Ok(());
    }
    exit::watch();
    signals::watch_where_asked();
    overhead::begin();
    let (commands, received) = channel();
    let spawned = thread::Builder::new().name("runlore-writer".to_owned()).spawn(move || {
        rings::silence_thread();
        file_size::never_signal_thread();
        Writer::new(received).run();
    });
    let thread = spawned.map_err(|error| {
        Error::new(ErrorKind::Pipeline, format!("the recorder's thread cannot be started: {error}"))
    })?;
    let handle = Handle { commands: Mutex::new(commands), thread: thread.thread().clone() };
    _ = RECORDER.writer.set(handle);
    Ok(())
}
