//! The writer thread. It drains the rings and releases their room when the events are safe.
//! `pairing` turns the events into tasks; other threads communicate with the writer through
//! `recorder`.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

use super::cursor::{Cursor, OverflowCursor};
use super::overhead::Planner;
use super::pairing::{ById, OpenTask, Pairing};
use super::recorder::{self, Command, made_progress};
use super::run::{Run, RunEnd, RunValues};
use super::session::Home;
use super::task::Task;
use super::{exit, push, rings, session, signal};
use runlore_core::clock;
use runlore_core::contain::contain;
use runlore_core::context::Number;
use runlore_core::record::Id;
use runlore_telemetry as telemetry;

/// The writer's shortest and longest sleep between two passes.
const SLEEP: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(100));
/// The desired fill level of the fullest ring at a pass.
const FILL: f64 = 1.0 / 8.0;
/// The maximum number of stored STARTs of ended tasks, and their maximum size in bytes.
const MAX_KEPT: (usize, usize) = (4096, 16 << 20);
/// A task open for this long is shown as running.
const SHOW_AFTER: u64 = 1_000_000_000;

pub(super) struct Writer {
    pairing: Pairing,
    cursors: Vec<Cursor>,
    overflows: Vec<OverflowCursor>,
    /// The number of overflows when the list was last fetched.
    known_overflows: u64,
    /// The number of the newest ring that has a cursor.
    known_rings: u64,
    /// The fill level of the fullest ring in this turn.
    filled: f64,
    /// The run that ended last. A non-zero exit code marks it as failed.
    last: Option<(Number, Run)>,
    /// Whether the process is ending. From then on, nothing needs to stay in the rings.
    ending: bool,
    kept: KeptBeginnings,
    next_look_at_open: Instant,
    next_anchor: Instant,
    planner: Planner,
}

impl Writer {
    pub(super) fn new(commands: Receiver<Command>) -> Self {
        let now = Instant::now();
        Self {
            pairing: Pairing::new(commands, push::adds),
            cursors: Vec::new(),
            overflows: Vec::new(),
            known_overflows: 0,
            known_rings: 0,
            filled: 0.0,
            last: None,
            ending: false,
            kept: KeptBeginnings::default(),
            next_look_at_open: now,
            next_anchor: now,
            planner: Planner::new(),
        }
    }

    pub(super) fn run(mut self) {
        let mut sleep = SLEEP.0;
        loop {
            recorder::note_waking();
            // None of our code should panic. If it does, the process must not end because of it.
            _ = contain(|| self.turn());
            if signal::END_ALL.was_answered() {
                // The process is ending. A write that the exit interrupts would leave an incomplete
                // line.
                loop {
                    thread::park();
                }
            }
            sleep = self.next_sleep(sleep);
            thread::park_timeout(sleep);
        }
    }

    /// Returns how long to sleep before the next pass: until the fastest ring may have reached the
    /// desired fill level. A pass costs more than a record, so passes that are too frequent would
    /// be most of the work.
    fn next_sleep(&self, last: Duration) -> Duration {
        if self.pairing.holds_any() || self.pairing.runs.values().any(Run::is_behind) {
            return SLEEP.0;
        }
        let change = (FILL / self.filled).clamp(0.1, 4.0);
        last.mul_f64(change).clamp(SLEEP.0, SLEEP.1)
    }

    /// Makes one pass and handles the requests.
    fn turn(&mut self) {
        self.pairing.receive();
        // Requests made before the pass are answered after it.
        let flush = signal::FLUSH.take();
        let end_all = signal::END_ALL.take();
        let asked = self.pairing.take_asked();
        self.filled = 0.0;
        self.look();
        if !asked.is_empty() || flush.is_asked() || end_all.is_asked() {
            // The first pass may have held back an END that waits for earlier events.
            self.look();
        }
        for command in asked {
            match command {
                Command::Open(_) => {}
                Command::Note(number, record) => self.pairing.note(number, &record),
                Command::Close(number, end, answer) => {
                    self.pairing.end_run(number, *end, Some(answer));
                }
            }
        }
        if flush.is_asked() {
            self.pairing.write(None);
        }
        if end_all.is_asked() {
            self.end_all();
            self.ending = true;
        }
        let now = Instant::now();
        self.write_due(now);
        // Wait for a store that is writing, but not for one that fails.
        if !self.pairing.runs.values().any(Run::is_pending) {
            flush.answer();
        }
        // At the end of the process, wait for the last attempts of all runs.
        if !self.pairing.runs.values().any(Run::is_closing) {
            end_all.answer();
        }
        // While the process ends, other threads may still record for a run that has ended.
        if !self.ending {
            for number in self.runs_that(|run| run.ended) {
                self.forget_if_done(number);
            }
        }
        self.planner.tick();
        if now >= self.next_look_at_open {
            self.show_open(now);
        }
        if now >= self.next_anchor {
            clock::anchor();
            telemetry::keep_up(clock::monotonic_ns());
            self.next_anchor = now + Duration::from_secs(1);
        }
    }

    fn runs_that(&self, are_meant: impl Fn(&Run) -> bool) -> Vec<Number> {
        let runs = self.pairing.runs.iter().filter(|(_, run)| are_meant(run));
        runs.map(|(number, _)| *number).collect()
    }

    /// Makes a pass: reads the current content of the rings and overflows.
    fn look(&mut self) {
        // Read only what is there now. Under a steady load, reading would never end otherwise.
        self.find_new_overflows();
        self.overflows.iter_mut().for_each(OverflowCursor::look);
        self.find_new_rings();
        for cursor in &mut self.cursors {
            self.filled = self.filled.max(cursor.look());
        }
        self.pairing.begin_look();
        while self.drain_some() {
            self.write_due(Instant::now());
        }
        self.pairing.end_look();
    }

    /// Reads a part of every ring, so that no producer waits for the others. Returns whether there
    /// was anything.
    fn drain_some(&mut self) -> bool {
        let stranded = push::take_stranded();
        let mut worked = false;
        for cursor in &mut self.cursors {
            worked |= cursor.read_some(&mut self.pairing);
        }
        // A thread's events in the overflow come after those in its ring.
        if !worked {
            for overflow in &mut self.overflows {
                worked |= overflow.read_some(&mut self.pairing);
            }
        }
        if worked {
            made_progress();
        }
        self.pairing.settle(stranded) || worked
    }

    /// Writes the batches that are due, and releases room in the rings.
    fn write_due(&mut self, now: Instant) {
        let filling = self.cursors.iter().any(Cursor::is_filling)
            || self.overflows.iter().any(OverflowCursor::is_filling);
        if filling {
            self.pairing.write(None);
        }
        self.pairing.write(Some(now));
        if filling {
            // Records that a store did not accept stay in the rings while there is room, and go to
            // disk afterwards.
            self.pairing.runs.values_mut().for_each(Run::spill);
        }
        let busy = self.runs_that(|run| run.has_batch() || (run.has_backlog() && !filling));
        let busy: Vec<Home> = busy.into_iter().map(session::home_of).collect();
        if !self.pairing.holds_strangers() {
            self.release(&busy);
        }
    }

    /// Releases the room of events that are not needed any more: their records are stored, or the
    /// STARTs of their tasks are stored elsewhere. Other events stay in the rings, so that they can
    /// be recovered if the process is killed. So do all events of `busy` sessions, which have
    /// records that no store has yet.
    fn release(&mut self, busy: &[Home]) {
        for cursor in &mut self.cursors {
            if busy.contains(&cursor.ring.home) {
                continue;
            }
            // Other threads need a ring whose thread has ended.
            if cursor.is_filling() || cursor.ring.is_closed() || self.ending {
                self.kept.keep(cursor.ring.home, &cursor.beginnings, &mut self.pairing.open);
            }
            let done = done_with(&mut cursor.beginnings, &self.pairing).unwrap_or(cursor.read);
            cursor.ring.release(done);
            cursor.ring.free_if_done(cursor.read);
        }
        for cursor in &mut self.overflows {
            if busy.contains(&cursor.overflow.home) {
                continue;
            }
            if cursor.is_filling() || self.ending {
                self.kept.keep(cursor.overflow.home, &cursor.beginnings, &mut self.pairing.open);
            }
            let done = done_with(&mut cursor.beginnings, &self.pairing).unwrap_or(cursor.read);
            cursor.overflow.release(done);
        }
        self.overflows.retain(|cursor| !cursor.overflow.is_abandoned());
        self.cursors.retain(|cursor| !rings::remove_if_abandoned(cursor.ring));
        if !busy.is_empty() {
            return;
        }
        self.kept.clean_up(&self.pairing.open);
    }

    fn find_new_overflows(&mut self) {
        for overflow in rings::overflows_after(&mut self.known_overflows).unwrap_or_default() {
            if !self.overflows.iter().any(|known| Arc::ptr_eq(&known.overflow, &overflow)) {
                self.overflows.push(OverflowCursor::new(overflow));
            }
        }
    }

    fn find_new_rings(&mut self) {
        for ring in rings::made_after(self.known_rings) {
            self.known_rings = ring.number;
            self.cursors.push(Cursor::new(ring));
        }
    }

    fn end_all(&mut self) {
        let open = self.runs_that(|run| !run.ended);
        if !self.ending && exit::ending().fails_ended_runs() {
            self.pairing.runs.extend(self.last.take());
            let ended = self.pairing.runs.values_mut().filter(|run| run.ended && run.has_record());
            if let Some(last) = ended.max_by_key(|run| run.ended_ns) {
                last.fail_after_end(exit::ending());
            }
        }
        for number in open {
            let end = RunEnd {
                monotonic_ns: clock::monotonic_ns(),
                ending: exit::ending(),
                values: RunValues::default(),
            };
            self.pairing.end_run(number, end, None);
        }
    }

    /// Forgets an ended run when none of its tasks is open any more.
    fn forget_if_done(&mut self, number: Number) {
        let Pairing { runs, open, .. } = &mut self.pairing;
        let is_done = |run: &Run| run.ended && !run.is_closing() && !run.has_backlog();
        if runs.get(&number).is_some_and(is_done)
            && !open.values().any(|open| open.task.start.workflow == number)
        {
            session::forget_run(number);
            let last = self.last.as_ref().map_or(0, |(_, last)| last.ended_ns);
            if let Some(run) = runs.remove(&number)
                && run.has_record()
                && run.ended_ns >= last
            {
                self.last = Some((number, run));
            }
        }
    }

    /// Writes the tasks that have been open for a while as RUNNING.
    fn show_open(&mut self, now: Instant) {
        let Pairing { runs, open, .. } = &mut self.pairing;
        // Checking every open task must not become the writer's main work.
        let pause = 250 + open.len() as u64 / 40;
        self.next_look_at_open = now + Duration::from_millis(pause);
        let clock = clock::monotonic_ns();
        let mut due: HashMap<Number, Vec<&Task>> = HashMap::new();
        for open in open.values_mut() {
            if !open.shown && clock.saturating_sub(open.task.start.monotonic_ns) >= SHOW_AFTER {
                open.shown = true;
                due.entry(open.task.start.workflow).or_default().push(&open.task);
            }
        }
        for (number, tasks) in due {
            if let Some(run) = runs.get_mut(&number) {
                run.show_open(tasks.into_iter());
            }
        }
    }
}

/// Returns the position of the first event that must stay. `None` if there is none.
fn done_with(beginnings: &mut VecDeque<(u64, Id)>, pairing: &Pairing) -> Option<u64> {
    while beginnings.front().is_some_and(|(_, id)| !pairing.needs_events_of(*id)) {
        beginnings.pop_front();
    }
    beginnings.front().map(|(at, _)| *at)
}

/// The STARTs of open tasks that sessions store, so that queues need not keep them.
struct KeptBeginnings {
    /// Their number, including those of ended tasks.
    count: usize,
    /// Their size in bytes, and the size at which to clean up.
    bytes: usize,
    most_bytes: usize,
}

impl Default for KeptBeginnings {
    fn default() -> Self {
        Self { count: 0, bytes: 0, most_bytes: MAX_KEPT.1 }
    }
}

impl KeptBeginnings {
    /// Stores the STARTs of the tasks that began here and are still open.
    fn keep(&mut self, home: Home, beginnings: &VecDeque<(u64, Id)>, open: &mut ById<OpenTask>) {
        let mut due = Vec::new();
        for (_, id) in beginnings {
            if let Some(open) = open.get_mut(id).filter(|open| !open.kept) {
                open.kept = true;
                due.push(*id);
            }
        }
        if !due.is_empty() {
            self.count += due.len();
            let due = due.iter().filter_map(|id| open.get(id));
            self.bytes += session::keep_open(home, due.map(|open| &*open.task));
        }
    }

    /// Removes the STARTs of ended tasks, once these are most of them.
    fn clean_up(&mut self, open: &ById<OpenTask>) {
        if self.count > 0 && open.is_empty() {
            session::forget_open();
            *self = Self::default();
        }
        if self.count > MAX_KEPT.0 + 4 * open.len() || self.bytes > self.most_bytes {
            let still = open.values().filter(|open| open.kept).map(|open| &*open.task);
            let still: Vec<&Task> = still.collect();
            self.count = still.len();
            self.bytes = session::keep_only(&still);
            self.most_bytes = MAX_KEPT.1.max(4 * self.bytes);
        }
    }
}
