//! The writer's side of one workflow: its batch, its store, and what its store could not take yet.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use super::config::settings;
use super::json;
use super::notice::notice;
use super::recorder;
use super::resources::Readings;
use super::session;
use super::stats::{self, Totals};
use super::view::{Common, Task, TaskView};
use crate::clock;
use crate::context::Number;
use crate::identity::Identity;
use crate::record::{ErrorObject, Id, Status, WorkflowObject};
use crate::settings::Durability;
use crate::store::{Batch, Store};
use crate::{Error, ErrorKind, Result};

/// Buffers kept for further tasks.
const SPARE: usize = 512;
/// Bytes of a batch up to which its room is kept for the next.
const MAX_KEPT: usize = 4 << 20;
/// How long to wait before a store that failed is tried again: doubled each time, up to the second.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// How long the end of a run tries to get its last records stored: less than anybody waits for it.
const LAST_TRY: Duration = Duration::from_millis(800);

/// What the writer is told of a run that starts.
pub(crate) struct RunSpec {
    pub(crate) number: Number,
    pub(crate) store: Box<dyn Store>,
    /// The id of the workflow and of its campaign, and its name.
    pub(crate) name: String,
    pub(crate) workflow_id: String,
    pub(crate) campaign_id: String,
    pub(crate) hostname: String,
    /// The record of the workflow as it starts; none when another process has it.
    pub(crate) workflow: Option<Box<WorkflowObject>>,
    /// The two clocks when it started.
    pub(crate) monotonic_ns: u64,
    pub(crate) wall_ns: u64,
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct RunEnd {
    pub(crate) monotonic_ns: u64,
    pub(crate) status: Status,
    pub(crate) error: Option<ErrorObject>,
    pub(crate) ended_early: bool,
}

pub(super) struct Run {
    number: Number,
    store: Box<dyn Store>,
    common: Common,
    workflow: Option<Box<WorkflowObject>>,
    /// The two clocks, monotonic and wall, when it started.
    started: (u64, u64),
    batch: Vec<Task>,
    batch_since: Option<Instant>,
    /// The room of the last batch, for the next: fresh memory costs more than what is written into it.
    lines: Lines,
    backlog: VecDeque<Lines>,
    backlog_bytes: usize,
    retry_at: Option<(Instant, Duration)>,
    totals: Totals,
    readings: Readings,
    last_error: Option<Error>,
    /// Records that were dropped because too many waited for the store.
    lost: usize,
    /// The workflow has ended; the run is kept for tasks that outlive it.
    pub(super) ended: bool,
    closing: Option<Closing>,
}

/// The end of a run that waits for its store.
struct Closing {
    until: Instant,
    answer: Option<SyncSender<Result<Totals>>>,
}

/// Records as lines of JSON.
#[derive(Default)]
pub(super) struct Lines {
    pub(super) bytes: Vec<u8>,
    pub(super) ends: Vec<usize>,
    /// The tasks among them.
    tasks: Totals,
}

impl Lines {
    /// Empties it, and keeps its room.
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.tasks = Totals::default();
    }

    pub(super) fn push_workflow(&mut self, workflow: &WorkflowObject) {
        self.push(|bytes| serde_json::to_writer(bytes, workflow));
    }

    pub(super) fn push_task(&mut self, task: &Task, common: &Common) {
        self.push(|bytes| TaskView { task, common }.write(bytes));
    }

    #[inline]
    fn push(&mut self, write: impl FnOnce(&mut Vec<u8>) -> json::Done) {
        let start = self.bytes.len();
        match write(&mut self.bytes) {
            Ok(()) => {
                self.bytes.push(b'\n');
                self.ends.push(self.bytes.len());
            }
            // Nothing in a record can fail to be JSON; should it, the others must not suffer.
            Err(error) => {
                self.bytes.truncate(start);
                stats::add(&stats::DROPPED, 1);
                notice(&format!("a record could not be written as JSON: {error}"));
            }
        }
    }

    fn batch(&self) -> Batch<'_> {
        Batch::new(&self.bytes, &self.ends)
    }
}

impl Run {
    pub(super) fn new(spec: RunSpec) -> Self {
        let common = Common::new(
            &spec.workflow_id,
            &spec.campaign_id,
            &spec.hostname,
            std::process::id(),
            Identity::of_process(),
        );
        let mut run = Self {
            number: spec.number,
            store: spec.store,
            common,
            workflow: spec.workflow,
            started: (spec.monotonic_ns, spec.wall_ns),
            batch: Vec::new(),
            batch_since: None,
            lines: Lines::default(),
            backlog: VecDeque::new(),
            backlog_bytes: 0,
            retry_at: None,
            totals: Totals::default(),
            readings: Readings::default(),
            last_error: None,
            lost: 0,
            ended: false,
            closing: None,
        };
        let mut lines = Lines::default();
        if let Some(workflow) = &run.workflow {
            lines.push_workflow(workflow);
        }
        run.send(lines);
        run
    }

    /// Stores the record of another workflow.
    pub(super) fn note(&mut self, record: &WorkflowObject) {
        let mut lines = Lines::default();
        lines.push_workflow(record);
        self.send(lines);
    }

    /// Adds a task that has ended.
    pub(super) fn add(&mut self, task: Task) {
        self.totals.count(task.status());
        if let Some(measured) = task.measured() {
            self.totals.capture_ns += measured.start_ns + measured.end_ns;
            self.readings.look_at(&task);
        }
        self.batch.push(task);
        self.batch_since.get_or_insert_with(Instant::now);
    }

    pub(super) fn count_dropped(&mut self, count: u64) {
        self.totals.dropped += count;
    }

    /// Writes what is due; gives back the buffers of what was written.
    pub(super) fn tick(&mut self, now: Instant, spare: &mut Vec<Vec<u8>>) {
        let recorder = &settings().recorder;
        let old = self.batch_since.is_some_and(|since| now - since >= recorder.flush_ms);
        if old || self.batch.len() >= recorder.flush_records as usize {
            self.write_batch(spare);
        }
        if self.retry_at.is_some_and(|(at, _)| now >= at) {
            self.drain_backlog();
        }
        self.try_to_close();
    }

    pub(super) fn write_batch(&mut self, spare: &mut Vec<Vec<u8>>) {
        self.batch_since = None;
        if self.batch.is_empty() {
            return;
        }
        let mut lines = std::mem::take(&mut self.lines);
        for task in &self.batch {
            lines.push_task(task, &self.common);
            lines.tasks.count(task.status());
            recorder::made_progress();
        }
        for mut task in self.batch.drain(..) {
            if spare.len() < SPARE && task.items.capacity() > 0 {
                task.items.clear();
                spare.push(task.items);
            }
        }
        if let Some(mut lines) = self.send(lines)
            && lines.bytes.capacity() <= MAX_KEPT
        {
            lines.clear();
            self.lines = lines;
        }
    }

    /// Shows tasks that have been open for a while.
    pub(super) fn show_open<'t>(&mut self, tasks: impl Iterator<Item = &'t Task>) {
        let mut lines = Lines::default();
        for task in tasks {
            lines.push_task(task, &self.common);
        }
        // A run that has ended says in its own records what is open.
        if lines.ends.is_empty() || self.ended {
            return;
        }
        let store = &mut self.store;
        if let Err(error) = guarded(|| store.write_open(&lines.batch())) {
            self.failed(error);
        }
    }

    /// Ends the run: the last tasks, those still open, and the workflow's final record.
    pub(super) fn end(
        &mut self,
        open: &[&Task],
        end: RunEnd,
        answer: Option<SyncSender<Result<Totals>>>,
        spare: &mut Vec<Vec<u8>>,
    ) {
        // The next try may be due later than there is time.
        self.ended = true;
        if !self.backlog.is_empty() {
            self.retry_at = None;
            self.drain_backlog();
        }
        self.write_batch(spare);
        let mut lines = Lines::default();
        for task in open {
            lines.push_task(task, &self.common);
            lines.tasks.count(task.status());
            self.totals.count(task.status());
        }
        if let Some(mut workflow) = self.workflow.take() {
            let (monotonic, wall) = self.started;
            let duration = end.monotonic_ns.saturating_sub(monotonic);
            workflow.ended_at = Some(clock::seconds(wall + duration));
            workflow.duration_ns = Some(duration);
            workflow.status = Some(end.status);
            workflow.ended_early = end.ended_early.then_some(true);
            workflow.stderr = end.error.as_ref().and_then(|error| error.message.clone());
            workflow.error = end.error.map(Box::new);
            if let Ok(serde_json::Value::Object(mut totals)) = serde_json::to_value(self.totals) {
                let percent = self.totals.capture_ns as f64 / duration.max(1) as f64 * 100.0;
                let rounded = (percent * 1000.0).round() / 1000.0;
                totals.insert("capture_percent".to_owned(), rounded.into());
                totals.extend(self.readings.joules().map(|used| ("joules".to_owned(), used)));
                workflow.totals = Some(totals);
            }
            lines.push_workflow(&workflow);
        }
        self.send_last(lines);
        self.closing = Some(Closing { until: Instant::now() + LAST_TRY, answer });
        self.try_to_close();
    }

    /// Whether the end of the run is still to be stored.
    pub(super) fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    /// Closes the store once it has everything, or when its time is up.
    fn try_to_close(&mut self) {
        let Some(closing) = &self.closing else { return };
        if !self.backlog.is_empty() && Instant::now() < closing.until {
            return;
        }
        let store = &mut self.store;
        let closed = guarded(|| store.close());
        if self.backlog.is_empty() {
            session::note_end(self.number);
        }
        let result = match self.backlog.is_empty() {
            true => closed.map(|()| self.totals),
            false => Err(self.give_up()),
        };
        if let Err(error) = &result {
            notice(&error.to_string());
        }
        if let Some(Closing { answer: Some(answer), .. }) = self.closing.take() {
            // Whoever asked may have lost patience.
            _ = answer.send(result);
        }
    }

    /// Drops what the store would not take, and says so.
    fn give_up(&mut self) -> Error {
        let lost: usize = self.backlog.drain(..).map(|lines| lines.ends.len()).sum();
        let all = lost + self.lost;
        self.backlog_bytes = 0;
        stats::add(&stats::DROPPED, lost as u64);
        stats::WAITING.fetch_sub(lost as u64, std::sync::atomic::Ordering::Relaxed);
        let error = Error::new(ErrorKind::Store, format!("{all} records were not stored"));
        match self.last_error.take() {
            Some(cause) => error.with_source(cause),
            None => error,
        }
    }

    /// Hands records to the store, or keeps them for the next try. Gives back what is done with.
    fn send(&mut self, lines: Lines) -> Option<Lines> {
        if lines.ends.is_empty() || self.backlog.is_empty() && self.try_write(&lines) {
            return Some(lines);
        }
        let all = self.backlog_bytes + lines.bytes.len();
        if all as u64 > settings().recorder.backlog_bytes.get() {
            notice("a store fails for too long: records are dropped until it works again");
            stats::add(&stats::DROPPED, lines.ends.len() as u64);
            self.lost += lines.ends.len();
            let of = lines.tasks;
            self.totals.tasks -= of.tasks;
            self.totals.finished -= of.finished;
            self.totals.errors -= of.errors;
            self.totals.running -= of.running;
            self.totals.dropped += of.tasks;
            return Some(lines);
        }
        self.keep(lines);
        None
    }

    /// Hands the last records to the store, or keeps them: what is waiting is of no use without its end.
    fn send_last(&mut self, lines: Lines) {
        if lines.ends.is_empty() || (self.backlog.is_empty() && self.try_write(&lines)) {
            return;
        }
        self.keep(lines);
    }

    fn keep(&mut self, lines: Lines) {
        stats::add(&stats::WAITING, lines.ends.len() as u64);
        self.backlog_bytes += lines.bytes.len();
        self.backlog.push_back(lines);
    }

    fn try_write(&mut self, lines: &Lines) -> bool {
        match self.prepare_and_write(lines) {
            Ok(()) => {
                stats::add(&stats::WRITTEN, lines.ends.len() as u64);
                stats::add(&stats::BYTES, lines.bytes.len() as u64);
                stats::add(&stats::BATCHES, 1);
                self.totals.bytes_written += lines.bytes.len() as u64;
                self.retry_at = None;
                true
            }
            Err(error) => {
                self.failed(error);
                false
            }
        }
    }

    fn prepare_and_write(&mut self, lines: &Lines) -> Result<()> {
        let store = &mut self.store;
        let mut file = None;
        guarded(|| {
            file = store.prepare(lines.bytes.len() as u64)?;
            Ok(())
        })?;
        if let Some(file) = file {
            // Before the first record is in it: whoever recovers this run must know of it.
            session::note_file(self.number, &file);
        }
        guarded(|| store.write(&lines.batch()))?;
        if settings().recorder.durability == Durability::System {
            match guarded(|| store.sync()) {
                Ok(()) => stats::add(&stats::SYNCED, lines.ends.len() as u64),
                // They are written: to write them again would double them.
                Err(error) => {
                    stats::add(&stats::STORE_ERRORS, 1);
                    notice(&format!("{error}; if the machine goes down, records may be lost"));
                }
            }
        }
        Ok(())
    }

    /// Whether records wait for their store to come back.
    pub(super) fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Adds to a task that has ended and is not written yet; `false` when there is none.
    pub(super) fn add_items(&mut self, task: Id, items: &[u8]) -> bool {
        let found = self.batch.iter_mut().rev().find(|known| known.start.id == task);
        if let Some(task) = found {
            let status = task.status();
            task.items.extend_from_slice(items);
            self.totals.recount(status, task.status());
            return true;
        }
        false
    }

    /// Whether all that was added was handed to the store, or waits for it in the backlog.
    pub(super) fn has_batch(&self) -> bool {
        !self.batch.is_empty()
    }

    fn drain_backlog(&mut self) {
        while let Some(lines) = self.backlog.pop_front() {
            if !self.try_write(&lines) {
                self.backlog.push_front(lines);
                return;
            }
            self.backlog_bytes -= lines.bytes.len();
            let count = lines.ends.len() as u64;
            stats::WAITING.fetch_sub(count, std::sync::atomic::Ordering::Relaxed);
        }
    }

    fn failed(&mut self, error: Error) {
        stats::add(&stats::STORE_ERRORS, 1);
        notice(&format!("{error}; records are kept in memory, and it is tried again"));
        let wait = match (self.retry_at, self.ended) {
            (Some((_, wait)), false) => (wait * 2).min(RETRY.1),
            _ => RETRY.0,
        };
        self.retry_at = Some((Instant::now() + wait, wait));
        self.last_error = Some(error);
    }
}

/// A store that panics has failed; the writer goes on.
fn guarded(call: impl FnOnce() -> Result<()>) -> Result<()> {
    catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|_| Err(Error::new(ErrorKind::Store, "the store panicked")))
}
