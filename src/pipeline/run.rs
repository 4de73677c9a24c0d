//! The writer's side of one workflow: its batch, and a lane to each of its stores.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use serde_json::Map;

use super::ending::Ending;
use super::event::ItemKind;
use super::lane::{Lane, Last};
use super::overhead::{self, Reading};
use super::progress::Progress;
use super::recorder;
use super::resources::Readings;
use super::session;
use super::stats::{self, Totals};
use super::task::Task;
use super::view::{Common, TaskView};
use runlore_core::Result;
use runlore_core::clock;
use runlore_core::config::settings;
use runlore_core::contain::contain;
use runlore_core::context::Number;
use runlore_core::identity::Identity;
use runlore_core::notice::{self, notice};
use runlore_core::record::{Id, Status, WorkflowObject};
use runlore_core::store::{Batch, RunInfo, Store};

/// Bytes of a batch up to which its room is kept for the next.
const MAX_KEPT: usize = 4 << 20;
/// How long the end of a run tries to get its last records stored: less than anybody waits for it.
const LAST_TRY: Duration = Duration::from_millis(800);
/// How long it waits for the answer of a store that is at work, which has not failed.
const STALLED: Duration = Duration::from_secs(10);

/// Longer than any setting that is meant.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

pub(crate) type KnownLater = Box<dyn FnOnce(&mut WorkflowObject) + Send>;

/// What the writer is told of a run that starts.
pub(crate) struct RunSpec {
    pub(crate) number: Number,
    /// One or more.
    pub(crate) stores: Vec<Box<dyn Store>>,
    /// The id of the workflow and of its campaign, and its name.
    pub(crate) name: String,
    pub(crate) workflow_id: String,
    pub(crate) campaign_id: String,
    pub(crate) hostname: String,
    /// The record of the workflow as it starts; none when another process has it.
    pub(crate) workflow: Option<Box<WorkflowObject>>,
    /// Adds to its last record what could not be known when it started; must not wait for anything.
    pub(crate) known_later: Option<KnownLater>,
    /// The two clocks when it started.
    pub(crate) monotonic_ns: u64,
    pub(crate) wall_ns: u64,
    /// What recording had cost before it started.
    pub(crate) cost_before: Reading,
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct RunEnd {
    pub(crate) monotonic_ns: u64,
    pub(crate) ending: Ending,
}

pub(super) struct Run {
    number: Number,
    name: String,
    lanes: Vec<Lane>,
    common: Common,
    /// Its record: as it started, and once it has ended as it was stored last. None where another process started the
    /// workflow and this one has nothing to add.
    workflow: Option<Box<WorkflowObject>>,
    /// What this process can add: that it failed, or lost tasks.
    joined: Option<Box<WorkflowObject>>,
    known_later: Option<KnownLater>,
    /// The task that started the workflow: those that it called are the workflow's roots.
    around: Option<Id>,
    /// The two clocks, monotonic and wall, when it started.
    started: (u64, u64),
    cost_before: Reading,
    /// The same in percent of the process's time, once the run has ended.
    overhead_percent: f64,
    /// The records of tasks that have ended, until the stores get them.
    batch: Lines,
    batch_since: Option<Instant>,
    totals: Totals,
    readings: Readings,
    /// The workflow has ended; the run is kept for tasks that outlive it.
    pub(super) ended: bool,
    /// When it ended, by the monotonic clock.
    pub(super) ended_ns: u64,
    closing: Option<Closing>,
}

/// The end of a run that waits for its store.
struct Closing {
    until: Instant,
    /// As long as the stores get on, there is time until then.
    at_latest: Instant,
    /// How far they were when that was last looked at, and since when.
    written: u64,
    moved: Instant,
    progress: Progress,
    answer: Option<SyncSender<Result<Totals>>>,
}

/// Records as lines of JSON.
#[derive(Default)]
pub(super) struct Lines {
    pub(super) bytes: Vec<u8>,
    pub(super) ends: Vec<usize>,
    /// For each record the part of the bytes that a store's columns are never found in; none where that is not known.
    inner: Vec<Range<usize>>,
    /// The tasks among them.
    pub(super) tasks: Totals,
}

impl Lines {
    /// Empties it, and keeps its room.
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.inner.clear();
        self.tasks = Totals::default();
    }

    pub(super) fn push_workflow(&mut self, workflow: &WorkflowObject) {
        self.push(|bytes| {
            serde_json::to_writer(&mut *bytes, workflow)?;
            Ok(bytes.len()..bytes.len())
        });
    }

    pub(super) fn push_task(&mut self, task: &Task, common: &Common) {
        self.push(|bytes| TaskView { task, common }.write(bytes));
    }

    /// Nothing in a record can fail to be JSON; should it, the others must not suffer.
    #[inline]
    fn push(&mut self, write: impl FnOnce(&mut Vec<u8>) -> serde_json::Result<Range<usize>>) {
        let start = self.bytes.len();
        let problem = match contain(|| write(&mut self.bytes)) {
            Some(Ok(inner)) => {
                self.bytes.push(b'\n');
                self.ends.push(self.bytes.len());
                self.inner.push(inner);
                return;
            }
            Some(Err(error)) => error.to_string(),
            None => "writing it panicked".to_owned(),
        };
        self.bytes.truncate(start);
        stats::add(&stats::DROPPED, 1);
        notice(&format!("a record could not be written as JSON: {problem}"));
    }

    /// Lines that were written before.
    pub(super) fn from_bytes(bytes: Vec<u8>) -> Self {
        let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        let ends = ends.map(|(at, _)| at + 1).collect();
        Self { bytes, ends, ..Self::default() }
    }

    /// Those of the lines that are wanted.
    pub(super) fn only(self, is_wanted: &[bool]) -> Self {
        if is_wanted.iter().all(|wanted| *wanted) {
            return self;
        }
        let mut wanted = Self::default();
        let starts = std::iter::once(&0).chain(&self.ends);
        for ((start, end), is_wanted) in starts.zip(&self.ends).zip(is_wanted) {
            if *is_wanted {
                wanted.bytes.extend_from_slice(&self.bytes[*start..*end]);
                wanted.ends.push(wanted.bytes.len());
            }
        }
        wanted
    }

    pub(super) fn batch(&self) -> Batch<'_> {
        Batch::new(&self.bytes, &self.ends).with_inner(&self.inner)
    }
}

/// In percent, to a thousandth.
fn rounded_percent(part: u64, of: u64) -> f64 {
    (part as f64 / of.max(1) as f64 * 100_000.0).round() / 1000.0
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
        let joined = spec.workflow.is_none().then(|| {
            // Without `started_at`: the process that started the workflow speaks for it.
            Box::new(WorkflowObject {
                workflow_id: spec.workflow_id.clone(),
                campaign_id: Some(spec.campaign_id.clone()),
                hostname: Some(spec.hostname.clone()),
                pid: Some(u64::from(std::process::id())),
                ..WorkflowObject::default()
            })
        });
        let name = spec.name.clone();
        let info = RunInfo::new(spec.workflow_id, spec.name, std::process::id(), settings());
        let lanes = spec.stores.into_iter().enumerate();
        let lanes = lanes.map(|(at, store)| Lane::new(spec.number, store, &info, at == 0));
        let around =
            spec.workflow.as_ref().and_then(|it| it.parent_task_id.as_deref()?.parse().ok());
        let mut run = Self {
            number: spec.number,
            name,
            lanes: lanes.collect(),
            common,
            around,
            workflow: spec.workflow,
            joined,
            known_later: spec.known_later,
            started: (spec.monotonic_ns, spec.wall_ns),
            cost_before: spec.cost_before,
            overhead_percent: 0.0,
            batch: Lines::default(),
            batch_since: None,
            totals: Totals::default(),
            readings: Readings::default(),
            ended: false,
            ended_ns: 0,
            closing: None,
        };
        let mut lines = Lines::default();
        if let Some(workflow) = &run.workflow {
            lines.push_workflow(workflow);
        }
        run.send(lines);
        run.totals.start_up_ns = clock::monotonic_ns().saturating_sub(spec.monotonic_ns);
        run
    }

    /// Stores the record of another workflow.
    pub(super) fn note(&mut self, record: &WorkflowObject) {
        let mut lines = Lines::default();
        lines.push_workflow(record);
        self.send(lines);
    }

    /// Adds a task that has ended.
    pub(super) fn add(&mut self, task: &Task) {
        let status = task.status();
        self.totals.count(status);
        self.totals.overflowed += u64::from(task.overflowed);
        let is_root = task.start.parent.is_none_or(|parent| Some(parent) == self.around);
        self.totals.failed_roots += u64::from(is_root && status == Status::Error);
        if let Some(measured) = task.measured() {
            self.totals.capture_ns += measured.start_ns + measured.end_ns;
            let is_held_back = measured.is_thinned || measured.shared_age_ns.is_some();
            self.totals.held_back += u64::from(is_held_back);
            self.readings.look_at(task);
        }
        self.totals.held_back += u64::from(task.has(ItemKind::NoCaptures));
        self.batch.push_task(task, &self.common);
        self.batch.tasks.count(status);
        recorder::made_progress();
        self.batch_since.get_or_insert_with(Instant::now);
    }

    pub(super) fn count_dropped(&mut self, count: u64) {
        self.totals.dropped += count;
    }

    /// Writes what is due.
    pub(super) fn tick(&mut self, now: Instant) {
        let recorder = &settings().recorder;
        let old = self.batch_since.is_some_and(|since| now - since >= recorder.flush_ms);
        if old || self.batch.ends.len() >= recorder.flush_records as usize {
            self.write_batch();
        }
        self.lanes.iter_mut().for_each(|lane| lane.catch_up(now));
        self.try_to_close();
    }

    pub(super) fn write_batch(&mut self) {
        self.batch_since = None;
        if self.batch.ends.is_empty() {
            return;
        }
        let lines = std::mem::take(&mut self.batch);
        // Its room is for the next one: fresh memory costs more than what is written into it.
        if let Some(mut lines) = self.send(lines)
            && lines.bytes.capacity() <= MAX_KEPT
        {
            lines.clear();
            self.batch = lines;
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
        let lines = Arc::new(lines);
        self.lanes.iter_mut().for_each(|lane| lane.show_open(&lines));
    }

    /// Ends the run: the last tasks, those still open, and the workflow's final record.
    pub(super) fn end(
        &mut self,
        open: &[&Task],
        end: RunEnd,
        answer: Option<SyncSender<Result<Totals>>>,
    ) {
        if self.ended {
            return self.close(answer);
        }
        self.ended = true;
        self.ended_ns = end.monotonic_ns;
        self.lanes.iter_mut().for_each(Lane::begin_end);
        self.write_batch();
        let mut lines = Lines::default();
        for task in open {
            lines.push_task(task, &self.common);
            lines.tasks.count(task.status());
            self.totals.count(task.status());
        }
        self.send(lines);
        self.overhead_percent = self.count_overhead();
        if end.ending.is_failure() || self.totals.dropped > 0 {
            self.workflow = self.workflow.take().or_else(|| self.joined.take());
        }
        if let Some(workflow) = &mut self.workflow {
            let (monotonic, wall) = self.started;
            let duration = end.monotonic_ns.saturating_sub(monotonic);
            workflow.ended_at = Some(clock::seconds(wall + duration));
            workflow.duration_ns = Some(duration);
            if let Some(add) = self.known_later.take() {
                add(workflow);
            }
        }
        self.store_last(end.ending, answer);
    }

    /// The process failed after the run had ended: writes its last record again, as failed.
    pub(super) fn fail_after_end(&mut self, ending: Ending) {
        self.store_last(ending, None);
    }

    /// Whether it writes the workflow's record: where another process started the workflow, that one does.
    pub(super) fn has_record(&self) -> bool {
        self.workflow.is_some()
    }

    /// Writes the workflow's last record.
    fn store_last(&mut self, ending: Ending, answer: Option<SyncSender<Result<Totals>>>) {
        if let Some(workflow) = &mut self.workflow {
            ending.write_to(workflow);
            let totals = self.totals;
            let duration = workflow.duration_ns.unwrap_or_default();
            let capture_percent = rounded_percent(totals.capture_ns, duration);
            let mut more = Map::from_iter([
                ("capture_percent".to_owned(), capture_percent.into()),
                ("overhead_percent".to_owned(), self.overhead_percent.into()),
            ]);
            more.extend(self.readings.joules());
            for lane in &mut self.lanes {
                let (workflow, more) = (workflow.clone(), more.clone());
                lane.end_with(Last { workflow, totals, more });
            }
        }
        self.close(answer);
    }

    /// Closes the stores when they have everything, and then answers.
    fn close(&mut self, answer: Option<SyncSender<Result<Totals>>>) {
        let answer = answer.or_else(|| self.closing.take()?.answer);
        let now = Instant::now();
        // Nobody waits as long at the end of a process as where the end of a run was asked for.
        let longest = match &answer {
            Some(_) => settings().recorder.finish_wait_ms,
            None => LAST_TRY,
        };
        let at_latest = now.checked_add(longest).unwrap_or(now + FOREVER);
        let (until, progress) = (at_latest.min(now + LAST_TRY), Progress::new(now));
        self.closing = Some(Closing { until, at_latest, written: 0, moved: now, progress, answer });
        self.try_to_close();
    }

    /// Adds what recording has cost since the run started to its totals, and says so where the budget held telemetry
    /// back; the cost in percent of the process's time.
    fn count_overhead(&mut self) -> f64 {
        overhead::count_this_thread();
        let now = Reading::now();
        self.totals.overhead_cpu_ns = now.cost_since(&self.cost_before);
        let Totals { tasks, held_back, overhead_cpu_ns, .. } = self.totals;
        let bound = settings().telemetry_capture.max_overhead_percent;
        if let Some(bound) = bound.filter(|_| held_back > 0) {
            notice(&format!(
                "{held_back} of {tasks} tasks have fewer captures, shared ones or none, to keep the overhead below \
                 {bound} %: telemetry_capture.max_overhead_percent changes that (~ captures everything)"
            ));
        }
        rounded_percent(overhead_cpu_ns, now.time_since(&self.cost_before))
    }

    /// Whether the end of the run is still to be stored.
    pub(super) fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    /// Closes the stores once they have everything, or when the time is up.
    fn try_to_close(&mut self) {
        let Some(closing) = &mut self.closing else { return };
        let now = Instant::now();
        let written = self.lanes.iter().map(Lane::bytes_written).sum();
        if closing.written != written {
            (closing.written, closing.moved) = (written, now);
        }
        let is_at_work = self.lanes.iter().any(Lane::is_at_work) && now < closing.moved + STALLED;
        if closing.moved == now || is_at_work {
            closing.until = closing.at_latest.min(now + LAST_TRY);
        }
        let until = match self.lanes.iter().any(Lane::is_only_chance) {
            true => closing.at_latest,
            false => closing.until,
        };
        if !self.lanes.iter().all(Lane::is_done) && now < until {
            closing.progress.show(now, self.lanes.iter().map(Lane::waiting).sum());
            return;
        }
        let answer = self.closing.take().and_then(|closing| closing.answer);
        let mut result = Ok(());
        let mut totals = self.lanes.first().map(|lane| lane.totals(&self.totals));
        let mut spooled = 0;
        for lane in &mut self.lanes {
            let closed = lane.close();
            spooled += closed.spooled;
            if let Err(error) = &closed.result {
                notice(&error.to_string());
            }
            result = result.and(closed.result);
        }
        if result.is_ok() {
            session::note_end(self.number);
        }
        if let Some(totals) = &mut totals {
            totals.spooled = spooled;
            if totals.dropped > 0 {
                let (lost, name) = (totals.dropped, &self.name);
                notice(&format!(
                    "{lost} tasks of the run `{name}` are lost: its totals count them"
                ));
            }
        }
        notice::report_repeated();
        if let Some(answer) = answer {
            // Whoever asked may have lost patience.
            _ = answer.send(result.map(|()| totals.unwrap_or_default()));
        }
    }

    /// Hands records to every store. Gives back what is done with.
    fn send(&mut self, lines: Lines) -> Option<Lines> {
        let lines = Arc::new(lines);
        self.lanes.iter_mut().for_each(|lane| lane.send(&lines));
        Arc::into_inner(lines)
    }

    /// Puts on disk what waits in memory: the rings need their room.
    pub(super) fn spill(&mut self) {
        self.lanes.iter_mut().for_each(Lane::spill);
    }

    /// Whether a store is busy with a batch on a thread of its own.
    pub(super) fn is_pending(&self) -> bool {
        self.lanes.iter().any(Lane::is_pending)
    }

    /// Whether a store takes records, and more of them wait.
    pub(super) fn is_behind(&self) -> bool {
        self.lanes.iter().any(Lane::is_behind)
    }

    /// Whether records wait for a store in memory only.
    pub(super) fn has_backlog(&self) -> bool {
        self.lanes.iter().any(Lane::holds)
    }

    /// Whether anything was added that was handed to no store yet.
    pub(super) fn has_batch(&self) -> bool {
        !self.batch.ends.is_empty()
    }
}
