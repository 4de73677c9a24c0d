//! The writer thread: it drains the rings, pairs the events, and feeds the runs. How others reach it is in `recorder`.

use std::cell::OnceCell;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use super::event::{End, Kind, Start, id_at};
use super::recorder::{self, Command, made_progress};
use super::resources::ProcessUse;
use super::ring::Ring;
use super::run::{Run, RunEnd};
use super::session::Home;
use super::site::Site;
use super::stats::{self, Totals};
use super::thread::Thread;
use super::view::Task;
use super::{push, rings, session, signal};
use crate::clock;
use crate::context::Number;
use crate::record::{ErrorObject, Id, Status};
use crate::{Result, telemetry};

/// The writer's shortest and longest sleep between two looks.
const SLEEP: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(20));
/// How full a ring should be when it is looked at.
const FILL: f64 = 1.0 / 8.0;
/// Bytes of a ring that are read in one go.
const PART: u64 = 32 << 10;
/// Beginnings that may be kept for nothing.
const MAX_KEPT: usize = 4096;
/// A task open for this long is shown as running.
const SHOW_AFTER: u64 = 1_000_000_000;
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
    /// Where this look at the ring ends.
    until: u64,
    thread: Rc<Thread>,
    owners: u32,
    /// Where tasks began, or were added to, that may still be open: their events must stay until another place has
    /// them.
    beginnings: VecDeque<(u64, Id)>,
}

impl Cursor {
    /// Whether so much of the ring is taken that room must be made.
    fn is_filling(&self) -> bool {
        self.ring.waiting() > self.ring.capacity() as u64 / 4
    }
}

struct OpenTask {
    task: Task,
    shown: bool,
    /// Whether the session keeps its beginning, so that its ring need not.
    kept: bool,
    /// Whether its END was read and is held back.
    ending: bool,
}

pub(super) struct Writer {
    commands: Receiver<Command>,
    /// Commands that are answered after the next look at the rings.
    asked: Vec<Command>,
    cursors: Vec<Cursor>,
    /// The number of the newest ring that has a cursor.
    known_rings: u64,
    runs: HashMap<Number, Run>,
    open: ById<OpenTask>,
    /// ENDs whose START has not been seen: it lies in a ring that was read before this END came.
    /// Each with the number of the look that found it.
    early: Vec<(u64, Kind, Vec<u8>)>,
    /// How many times something was added to a task, as far as it was read.
    adds: u64,
    /// How many looks there were.
    looks: u64,
    /// How full the fullest ring had become since the last turn.
    filled: f64,
    /// The process ends: nothing needs to stay in the rings.
    ending: bool,
    /// How many beginnings of tasks the session keeps, those of ended tasks among them.
    kept: usize,
    /// Buffers to use again.
    spare: Vec<Vec<u8>>,
    next_look_at_open: Instant,
    next_anchor: Instant,
}

impl Writer {
    pub(super) fn new(commands: Receiver<Command>) -> Self {
        let now = Instant::now();
        Self {
            commands,
            asked: Vec::new(),
            cursors: Vec::new(),
            known_rings: 0,
            runs: HashMap::new(),
            open: ById::default(),
            early: Vec::new(),
            adds: 0,
            looks: 0,
            filled: 0.0,
            ending: false,
            kept: 0,
            spare: Vec::new(),
            next_look_at_open: now,
            next_anchor: now,
        }
    }

    pub(super) fn run(mut self) {
        let mut sleep = SLEEP.0;
        loop {
            recorder::note_waking();
            // Nothing of ours panics; should it, the process must not end for it.
            _ = catch_unwind(AssertUnwindSafe(|| self.turn()));
            if signal::END_ALL.was_answered() {
                // The process is ending: a write that the end cuts in two would tear a line.
                loop {
                    thread::park();
                }
            }
            sleep = self.next_sleep(sleep);
            thread::park_timeout(sleep);
        }
    }

    /// How long to sleep before the next look: until the fastest ring may be filled as far as it should be. A look costs
    /// more than a record, so that to look too often would be most of the work.
    fn next_sleep(&self, last: Duration) -> Duration {
        if !self.early.is_empty() {
            return SLEEP.0;
        }
        let change = (FILL / self.filled).clamp(0.1, 4.0);
        last.mul_f64(change).clamp(SLEEP.0, SLEEP.1)
    }

    /// Looks at everything and does what was asked for.
    fn turn(&mut self) {
        self.receive();
        // What was asked before the look at the rings is answered after it.
        let flush = signal::FLUSH.take();
        let end_all = signal::END_ALL.take();
        let asked = std::mem::take(&mut self.asked);
        self.filled = 0.0;
        self.look();
        if !asked.is_empty() || flush.is_asked() || end_all.is_asked() {
            // The first look may have left an END to wait for what belongs before it.
            self.look();
        }
        for command in asked {
            match command {
                Command::Open(_) => {}
                Command::Note(number, record) => {
                    if let Some(run) = self.runs.get_mut(&number) {
                        run.note(&record);
                    }
                }
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
            self.ending = true;
        }
        flush.answer();
        let now = Instant::now();
        self.write_due(now);
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
            telemetry::keep_up(clock::monotonic_ns());
            self.next_anchor = now + Duration::from_secs(1);
        }
    }

    /// Reads what is in the rings now.
    fn look(&mut self) {
        self.find_new_rings();
        // Only what is there now: under a steady load there would be no end.
        for cursor in &mut self.cursors {
            cursor.until = cursor.ring.committed();
            let new = cursor.until - cursor.read;
            self.filled = self.filled.max(new as f64 / cursor.ring.capacity() as f64);
        }
        self.looks += 1;
        while self.drain_some() {
            self.write_due(Instant::now());
        }
        // This look has read all that was there when the last one ended. What it did not find belongs to no run.
        let (new, old): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.early).into_iter().partition(|(look, ..)| *look == self.looks);
        self.early = new;
        for (_, kind, bytes) in old {
            _ = match kind {
                Kind::Add => self.add(&bytes),
                _ => self.end(&bytes),
            };
        }
    }

    /// Writes batches that are due, and gives room back to the rings.
    fn write_due(&mut self, now: Instant) {
        let filling = self.cursors.iter().any(Cursor::is_filling);
        for run in self.runs.values_mut() {
            if filling {
                run.write_batch(&mut self.spare);
            }
            run.tick(now, &mut self.spare);
        }
        // What a store would not take stays in the rings as long as they have room: memory does not outlive the process.
        let is_busy = |run: &Run| run.has_batch() || (run.has_backlog() && !filling);
        let busy = self.runs.iter().filter(|(_, run)| is_busy(run));
        let busy: Vec<Home> = busy.map(|(number, _)| session::home_of(*number)).collect();
        if !self.holds_strangers() {
            self.release(&busy);
        }
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

    /// Reads a part of every ring, so that no producer waits for the others' events; whether there was anything.
    fn drain_some(&mut self) -> bool {
        let overflow = push::take_overflow();
        let mut worked = false;
        let mut cursors = std::mem::take(&mut self.cursors);
        for cursor in &mut cursors {
            if cursor.owners != cursor.ring.owners() {
                cursor.owners = cursor.ring.owners();
                cursor.thread = Rc::new(cursor.ring.owner());
            }
            let Cursor { beginnings, thread, .. } = cursor;
            let read =
                cursor.ring.read(cursor.read, cursor.until, PART, |at, kind, bytes| match kind {
                    Kind::Start => beginnings.extend(self.start(bytes, thread).map(|id| (at, id))),
                    Kind::Add => {
                        self.adds += 1;
                        match self.add(bytes) {
                            true => beginnings.extend(id_at(bytes, 0).map(|id| (at, id))),
                            false => self.early.push((self.looks, kind, bytes.to_vec())),
                        }
                    }
                    // What another thread added to it may not have been read yet.
                    Kind::End if self.adds == push::adds() && self.end(bytes) => {}
                    Kind::End => {
                        beginnings.extend(self.await_end(bytes).map(|id| (at, id)));
                        self.early.push((self.looks, kind, bytes.to_vec()));
                    }
                    Kind::Pad => {}
                });
            if read != cursor.read {
                worked = true;
                cursor.read = read;
                made_progress();
            }
        }
        self.cursors = cursors;
        for (kind, bytes) in overflow {
            worked = true;
            self.adds += u64::from(kind == Kind::Add);
            self.early.push((self.looks, kind, bytes));
        }
        let early = std::mem::take(&mut self.early);
        // What was added to a task before its end.
        let (adds, ends): (Vec<_>, Vec<_>) =
            early.into_iter().partition(|(_, kind, _)| *kind == Kind::Add);
        for (look, kind, bytes) in adds.into_iter().chain(ends) {
            let found = match kind {
                Kind::Add => self.add(&bytes),
                _ => self.adds == push::adds() && self.end(&bytes),
            };
            if !found {
                self.early.push((look, kind, bytes));
            }
        }
        let dropped = push::take_dropped();
        if !dropped.is_empty() {
            // Their run may have been opened since this look began.
            self.receive();
        }
        for (number, count) in dropped {
            if let Some(run) = self.runs.get_mut(&number) {
                run.count_dropped(count);
            }
        }
        worked
    }

    /// Gives the room of events back that are done with: their records are stored, or their tasks' beginnings are kept
    /// elsewhere. A process that is killed leaves the others in its rings, for whoever recovers them; and those of sessions that
    /// are busy, with records that no store has yet.
    fn release(&mut self, busy: &[Home]) {
        let any_open = !self.open.is_empty();
        let open = &mut self.open;
        for cursor in &mut self.cursors {
            if busy.contains(&cursor.ring.home) {
                continue;
            }
            let is_needed = |open: &ById<OpenTask>, id: &Id| {
                open.get(id).is_some_and(|open| !open.kept || open.ending)
            };
            // A ring whose thread has ended is wanted by others.
            if cursor.is_filling() || cursor.ring.is_closed() || self.ending {
                let mut due = Vec::new();
                for (_, id) in &cursor.beginnings {
                    if let Some(open) = open.get_mut(id).filter(|open| !open.kept) {
                        open.kept = true;
                        due.push(*id);
                    }
                }
                if !due.is_empty() {
                    self.kept += due.len();
                    let due = due.iter().filter_map(|id| open.get(id));
                    session::keep_open(cursor.ring.home, due.map(|open| &open.task));
                }
            }
            while cursor.beginnings.front().is_some_and(|(_, id)| !is_needed(open, id)) {
                cursor.beginnings.pop_front();
            }
            let done = cursor.beginnings.front().map_or(cursor.read, |(at, _)| *at);
            cursor.ring.release(done);
            cursor.ring.free_if_done(cursor.read);
        }
        self.cursors.retain(|cursor| !rings::remove_if_abandoned(cursor.ring));
        if !busy.is_empty() {
            return;
        }
        if self.kept > 0 && !any_open {
            session::forget_open();
            self.kept = 0;
        }
        if self.kept > MAX_KEPT + 4 * open.len() {
            // Most of what is kept belongs to tasks that have ended.
            let still = open.values().filter(|open| open.kept).map(|open| &open.task);
            let still: Vec<&Task> = still.collect();
            self.kept = still.len();
            session::keep_only(&still);
        }
    }

    fn find_new_rings(&mut self) {
        for ring in rings::made_after(self.known_rings) {
            self.known_rings = ring.number;
            self.cursors.push(Cursor {
                ring,
                read: 0,
                until: 0,
                thread: Rc::default(),
                owners: 0,
                beginnings: VecDeque::new(),
            });
        }
    }

    fn start(&mut self, bytes: &[u8], thread: &Rc<Thread>) -> Option<Id> {
        let (start, items) = Start::from_bytes(bytes)?;
        if !self.runs.contains_key(&start.workflow) {
            // Its run may have been opened since this look began.
            self.receive();
        }
        if !self.runs.contains_key(&start.workflow) {
            stats::add(&stats::DROPPED, 1);
            return None;
        }
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.extend_from_slice(items);
        let site = Site::of(start.site);
        let task = Task {
            start,
            end: None,
            items: buffer,
            thread: Rc::clone(thread),
            site,
            process: OnceCell::new(),
            by_children: Some(ProcessUse::default()),
        };
        self.open.insert(start.id, OpenTask { task, shown: false, kept: false, ending: false });
        Some(start.id)
    }

    /// Adds to a task that is open, or whose END was read before this from another ring; `false` when it is neither.
    fn add(&mut self, bytes: &[u8]) -> bool {
        let Some(id) = id_at(bytes, 0) else { return true };
        let items = &bytes[16..];
        let Some(open) = self.open.get_mut(&id) else {
            return self.runs.values_mut().any(|run| run.add_items(id, items));
        };
        open.task.items.extend_from_slice(items);
        // What was shown or kept of it is not all any more.
        open.shown = false;
        open.kept = false;
        true
    }

    /// An END is held back. While its task is known, the END's ring keeps it.
    fn await_end(&mut self, bytes: &[u8]) -> Option<Id> {
        let id = id_at(bytes, 0)?;
        self.open.get_mut(&id)?.ending = true;
        Some(id)
    }

    /// Whether an event that is held back is in nobody's hands but ours: its task is not known.
    fn holds_strangers(&self) -> bool {
        self.early.iter().any(|(_, _, bytes)| {
            id_at(bytes, 0).is_none_or(|id| !self.open.get(&id).is_some_and(|open| open.ending))
        })
    }

    /// Ends a task; `false` when its START has not been seen.
    fn end(&mut self, bytes: &[u8]) -> bool {
        let Some((end, items)) = End::from_bytes(bytes) else { return true };
        let Some(OpenTask { mut task, .. }) = self.open.remove(&end.id) else { return false };
        task.end = Some(end);
        task.items.extend_from_slice(items);
        self.tell_parent(&task);
        if let Some(run) = self.runs.get_mut(&task.start.workflow) {
            run.add(task);
            if run.ended {
                run.write_batch(&mut self.spare);
            }
        }
        true
    }

    /// What a task changed in the process is no part of what its parent did itself.
    fn tell_parent(&mut self, task: &Task) {
        let Some(parent) = task.start.parent.and_then(|parent| self.open.get_mut(&parent)) else {
            return;
        };
        let used = match task.measured() {
            Some(_) => task.process_use(),
            // What a task does that is not measured is its parent's own, but for what was measured inside it.
            None => task.by_children,
        };
        match (&mut parent.task.by_children, used) {
            (Some(sum), Some(used)) => sum.add(used),
            // What it did cannot be told from what its parent did.
            (by_children, None) => *by_children = None,
            (None, Some(_)) => {}
        }
    }

    fn end_all(&mut self) {
        let running: Vec<Number> =
            self.runs.iter().filter(|(_, run)| !run.ended).map(|(number, _)| *number).collect();
        for number in running {
            let error = super::exit::reason().map(|(kind, message)| ErrorObject {
                kind: Some(kind.to_owned()),
                message: Some(message),
                ..ErrorObject::default()
            });
            let end = RunEnd {
                monotonic_ns: clock::monotonic_ns(),
                status: if error.is_some() { Status::Error } else { Status::Finished },
                ended_early: error.is_none(),
                error,
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
        let ended = self
            .runs
            .get(&number)
            .is_some_and(|run| run.ended && !run.is_closing() && !run.has_backlog());
        if ended && !self.open.values().any(|open| open.task.start.workflow == number) {
            self.runs.remove(&number);
            session::forget_run(number);
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
