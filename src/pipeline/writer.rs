//! The writer thread: it drains the rings, pairs the events, and feeds the runs.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::event::{End, ItemKind, Items, Kind, Start, id_at, u64_at};
use super::ring::Ring;
use super::run::{Run, RunEnd, RunSpec};
use super::stats::{self, Totals};
use super::view::{Task, Thread};
use super::{push, rings, signal};
use crate::clock;
use crate::context::Number;
use crate::record::{Id, Status};
use crate::{Error, ErrorKind, Result};

/// The writer's sleep between two looks: short after work, longer and longer without.
const SLEEP: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(5));
/// A task open for this long is shown as running.
const SHOW_AFTER: u64 = 1_000_000_000;
/// How long a caller waits for the writer's answer.
const ANSWER: Duration = Duration::from_secs(10);

/// How long the end of the process may be held up.
const AT_EXIT: Duration = Duration::from_secs(2);

const NO_ANSWER: &str = "the recorder did not answer within 10 s: its store is slow or hangs";

enum Command {
    Open(RunSpec),
    Close(Number, RunEnd, SyncSender<Result<Totals>>),
}

struct Handle {
    commands: Mutex<Sender<Command>>,
    thread: thread::Thread,
}

static WRITER: OnceLock<Handle> = OnceLock::new();
static WOKEN: AtomicBool = AtomicBool::new(false);

/// Wakes the writer before its time; a second call before it woke does nothing.
#[cold]
pub(super) fn wake() {
    if !WOKEN.swap(true, Ordering::Relaxed)
        && let Some(writer) = WRITER.get()
    {
        writer.thread.unpark();
    }
}

/// Starts to record for a run.
pub(crate) fn open_run(spec: RunSpec) -> Result<()> {
    clock::anchor();
    send(Command::Open(spec))
}

/// Ends a run, once all that its tasks did so far is stored.
pub(crate) fn close_run(number: Number, end: RunEnd) -> Result<Totals> {
    ask(|answer| Command::Close(number, end, answer))?
}

/// Waits until every task that has ended by now was handed to its store.
///
/// A run that ends does this by itself; call it before something that the recorder cannot see coming, such as
/// `exec`.
pub fn flush() -> Result<()> {
    if WRITER.get().is_none() || signal::FLUSH.ask(ANSWER) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Pipeline, NO_ANSWER))
}

/// At the end of the process: stores everything and ends all runs, within a bounded time.
pub(super) fn end_all() {
    if WRITER.get().is_some() {
        signal::END_ALL.ask(AT_EXIT);
    }
}

fn ask<T>(command: impl FnOnce(SyncSender<T>) -> Command) -> Result<T> {
    let (answer, answered) = sync_channel(1);
    send(command(answer))?;
    answered.recv_timeout(ANSWER).map_err(|error| {
        let text = match error {
            RecvTimeoutError::Timeout => NO_ANSWER,
            RecvTimeoutError::Disconnected => "the workflow has ended already",
        };
        Error::new(ErrorKind::Pipeline, text)
    })
}

fn send(command: Command) -> Result<()> {
    let stopped = || Error::new(ErrorKind::Pipeline, "the recorder's thread cannot be started");
    let writer = match WRITER.get() {
        Some(writer) => writer,
        None => start()?,
    };
    let commands = writer.commands.lock().unwrap_or_else(PoisonError::into_inner);
    commands.send(command).map_err(|_| stopped())?;
    drop(commands);
    wake();
    Ok(())
}

fn start() -> Result<&'static Handle> {
    static STARTING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(writer) = WRITER.get() {
        return Ok(writer);
    }
    let (commands, received) = channel();
    let spawned = thread::Builder::new().name("runlore-writer".to_owned()).spawn(move || {
        rings::silence_thread();
        Writer::new(received).run();
    });
    let thread = spawned.map_err(|error| {
        Error::new(ErrorKind::Pipeline, "the recorder's thread cannot be started")
            .with_source(error)
    })?;
    super::exit::watch();
    let handle = Handle { commands: Mutex::new(commands), thread: thread.thread().clone() };
    Ok(WRITER.get_or_init(|| handle))
}

/// Ids are random already.
#[derive(Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u128(&mut self, id: u128) {
        self.0 = id as u64;
    }
}

type ById<T> = HashMap<Id, T, BuildHasherDefault<IdHasher>>;

/// How far the writer has read a ring, and whose it is.
struct Cursor {
    ring: &'static Ring,
    read: u64,
    thread: Rc<Thread>,
}

struct OpenTask {
    task: Task,
    shown: bool,
}

struct Writer {
    commands: Receiver<Command>,
    /// Commands that are answered after the next look at the rings.
    asked: Vec<Command>,
    cursors: Vec<Cursor>,
    runs: HashMap<Number, Run>,
    open: ById<OpenTask>,
    /// ENDs whose START has not been seen: it lies in a ring that was read before this END came.
    early: Vec<Vec<u8>>,
    /// Buffers to use again.
    spare: Vec<Vec<u8>>,
    next_look_at_open: Instant,
    next_anchor: Instant,
}

impl Writer {
    fn new(commands: Receiver<Command>) -> Self {
        let now = Instant::now();
        Self {
            commands,
            asked: Vec::new(),
            cursors: Vec::new(),
            runs: HashMap::new(),
            open: ById::default(),
            early: Vec::new(),
            spare: Vec::new(),
            next_look_at_open: now,
            next_anchor: now,
        }
    }

    fn run(mut self) {
        let mut sleep = SLEEP.0;
        loop {
            WOKEN.store(false, Ordering::Relaxed);
            let worked = self.turn();
            if signal::END_ALL.was_answered() {
                // The process is ending: a write that the end cuts in two would tear a line.
                loop {
                    thread::park();
                }
            }
            sleep = if worked { SLEEP.0 } else { (sleep * 2).min(SLEEP.1) };
            thread::park_timeout(sleep);
        }
    }

    /// One look at everything; whether there was something.
    fn turn(&mut self) -> bool {
        self.receive();
        // What was asked before this look at the rings is answered after it.
        let flush = signal::FLUSH.take();
        let end_all = signal::END_ALL.take();
        let asked = std::mem::take(&mut self.asked);
        let worked = self.drain() || !asked.is_empty();
        for command in asked {
            match command {
                Command::Open(_) => {}
                Command::Close(number, end, answer) => self.close(number, end, Some(answer)),
            }
        }
        if flush.is_asked() {
            for run in self.runs.values_mut() {
                run.write_batch(&mut self.spare);
            }
        }
        if end_all.is_asked() {
            self.end_all();
        }
        flush.answer();
        let now = Instant::now();
        for run in self.runs.values_mut() {
            run.tick(now, &mut self.spare);
        }
        // At the end of the process, the last tries of all runs are waited for.
        if !self.runs.values().any(Run::is_closing) {
            end_all.answer();
        }
        let ended: Vec<Number> =
            self.runs.iter().filter(|(_, run)| run.ended).map(|(number, _)| *number).collect();
        for number in ended {
            self.forget_if_done(number);
        }
        if now >= self.next_look_at_open {
            self.show_open(now);
        }
        if now >= self.next_anchor {
            clock::anchor();
            self.next_anchor = now + Duration::from_secs(1);
        }
        worked
    }

    /// Takes commands in; runs that start are known from here on.
    fn receive(&mut self) {
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Open(spec) => _ = self.runs.insert(spec.number, Run::new(spec)),
                other => self.asked.push(other),
            }
        }
    }

    /// Reads all rings to their ends.
    fn drain(&mut self) -> bool {
        let waited = std::mem::take(&mut self.early);
        let overflow = push::take_overflow();
        self.find_new_rings();
        let mut worked = false;
        let mut cursors = std::mem::take(&mut self.cursors);
        for cursor in &mut cursors {
            let mut thread = Rc::clone(&cursor.thread);
            let read = cursor.ring.read(cursor.read, |kind, bytes| match kind {
                Kind::Start => self.start(bytes, &thread),
                Kind::End => self.end_or_hold(bytes),
                Kind::Add => self.add(bytes),
                Kind::Thread => thread = Rc::new(introduced(bytes)),
                Kind::Pad => {}
            });
            worked |= read != cursor.read;
            cursor.read = read;
            cursor.thread = thread;
            cursor.ring.release(read);
            cursor.ring.free_if_done(read);
        }
        self.cursors = cursors;
        for bytes in overflow {
            worked = true;
            self.end_or_hold(&bytes);
        }
        for bytes in std::mem::take(&mut self.early) {
            self.end_or_hold(&bytes);
        }
        // Every ring was read after these came: a START that is still missing belongs to no run.
        for bytes in waited {
            self.end(&bytes);
        }
        for (number, count) in push::take_dropped() {
            if let Some(run) = self.runs.get_mut(&number) {
                run.count_dropped(count);
            }
        }
        worked
    }

    fn find_new_rings(&mut self) {
        let known = self.cursors.last().map(|cursor| std::ptr::from_ref(cursor.ring));
        let mut new: Vec<Cursor> = rings::all()
            .take_while(|ring| Some(std::ptr::from_ref(*ring)) != known)
            .map(|ring| Cursor { ring, read: 0, thread: Rc::default() })
            .collect();
        // The list begins with the newest, the cursors end with it.
        new.reverse();
        self.cursors.append(&mut new);
    }

    fn start(&mut self, bytes: &[u8], thread: &Rc<Thread>) {
        let Some((start, items)) = Start::from_bytes(bytes) else { return };
        if !self.runs.contains_key(&start.workflow) {
            // Its run may have been opened since this look began.
            self.receive();
        }
        if !self.runs.contains_key(&start.workflow) {
            stats::add(&stats::DROPPED, 1);
            return;
        }
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.extend_from_slice(items);
        let task = Task { start, end: None, items: buffer, thread: Rc::clone(thread) };
        self.open.insert(start.id, OpenTask { task, shown: false });
    }

    fn add(&mut self, bytes: &[u8]) {
        if let Some(open) = id_at(bytes, 0).and_then(|id| self.open.get_mut(&id)) {
            open.task.items.extend_from_slice(&bytes[16..]);
        }
    }

    fn end_or_hold(&mut self, bytes: &[u8]) {
        if !self.end(bytes) {
            self.early.push(bytes.to_vec());
        }
    }

    /// Ends a task; `false` when its START has not been seen.
    fn end(&mut self, bytes: &[u8]) -> bool {
        let Some((end, items)) = End::from_bytes(bytes) else { return true };
        let Some(OpenTask { mut task, .. }) = self.open.remove(&end.id) else { return false };
        task.end = Some(end);
        task.items.extend_from_slice(items);
        if let Some(run) = self.runs.get_mut(&task.start.workflow) {
            run.add(task);
            if run.ended {
                run.write_batch(&mut self.spare);
            }
        }
        true
    }

    fn end_all(&mut self) {
        let running: Vec<Number> =
            self.runs.iter().filter(|(_, run)| !run.ended).map(|(number, _)| *number).collect();
        for number in running {
            let end = RunEnd {
                monotonic_ns: clock::monotonic_ns(),
                status: Status::Finished,
                error: None,
                ended_early: true,
            };
            self.close(number, end, None);
        }
    }

    fn close(&mut self, number: Number, end: RunEnd, answer: Option<SyncSender<Result<Totals>>>) {
        // A run that is gone has ended before, and dropping the answer says so.
        let Some(run) = self.runs.get_mut(&number) else { return };
        let open = self.open.values().map(|open| &open.task);
        let open: Vec<&Task> = open.filter(|task| task.start.workflow == number).collect();
        run.end(&open, end, answer, &mut self.spare);
    }

    /// Forgets an ended run when no task of it is open any more.
    fn forget_if_done(&mut self, number: Number) {
        let ended = self.runs.get(&number).is_some_and(|run| run.ended && !run.is_closing());
        if ended && !self.open.values().any(|open| open.task.start.workflow == number) {
            self.runs.remove(&number);
        }
    }

    /// Shows the tasks that have been open for a while as running.
    fn show_open(&mut self, now: Instant) {
        // Looking at every open task must not become the writer's main work.
        let pause = 250 + self.open.len() as u64 / 40;
        self.next_look_at_open = now + Duration::from_millis(pause);
        let clock = clock::monotonic_ns();
        let mut due: HashMap<Number, Vec<&Task>> = HashMap::new();
        for open in self.open.values_mut() {
            if !open.shown && clock.saturating_sub(open.task.start.monotonic_ns) >= SHOW_AFTER {
                open.shown = true;
                due.entry(open.task.start.workflow).or_default().push(&open.task);
            }
        }
        for (number, tasks) in due {
            if let Some(run) = self.runs.get_mut(&number) {
                run.show_open(tasks.into_iter());
            }
        }
    }
}

fn introduced(bytes: &[u8]) -> Thread {
    let mut thread = Thread::default();
    for item in Items(bytes) {
        match item.kind {
            ItemKind::Metadata => thread.id = u64_at(item.payload, 0),
            ItemKind::Activity => thread.name = Some(item.text().to_owned()),
            _ => {}
        }
    }
    thread
}
