//! The writer's side of one workflow: its current batch, and a queue for each of its stores.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use super::ending::Ending;
use super::event::ItemKind;
use super::overhead::{self, Reading};
use super::progress::Progress;
use super::recorder;
use super::resources::Readings;
use super::session;
use super::stats::{self, Totals};
use super::store_queue::{Last, StoreQueue};
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
use runlore_core::store::{RecordHead, RecordLines, RunInfo, Store, write_record};

/// The maximum capacity of a batch buffer that is reused, in bytes.
const MAX_KEPT: usize = 4 << 20;
/// How long the end of a run tries to store its last records. Shorter than any caller waits for it.
const LAST_TRY: Duration = Duration::from_millis(800);
/// How long it waits for a store that is writing and has not failed.
const STALLED: Duration = Duration::from_secs(10);

/// Longer than any sensible setting.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

pub(crate) type KnownLater = Box<dyn FnOnce(&mut WorkflowObject) + Send>;

/// Describes a run that starts, for the writer.
pub(crate) struct RunSpec {
    pub(crate) number: Number,
    /// At least one.
    pub(crate) stores: Vec<Box<dyn Store>>,
    /// The workflow's name, its id, and the id of its campaign.
    pub(crate) name: String,
    pub(crate) workflow_id: String,
    pub(crate) campaign_id: String,
    pub(crate) hostname: String,
    /// The workflow's first record. `None` if another process writes it.
    pub(crate) workflow: Option<Box<WorkflowObject>>,
    /// Adds facts to the last record that were unknown at the start. Must not block.
    pub(crate) known_later: Option<KnownLater>,
    /// The two clocks at the start.
    pub(crate) monotonic_ns: u64,
    pub(crate) wall_ns: u64,
    /// The cost of recording before the start.
    pub(crate) cost_before: Reading,
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct RunEnd {
    pub(crate) monotonic_ns: u64,
    pub(crate) ending: Ending,
    pub(crate) values: RunValues,
}

/// The values that a workflow got while it ran.
#[derive(Debug, Default)]
pub(crate) struct RunValues {
    pub(crate) used: Map<String, Value>,
    pub(crate) generated: Map<String, Value>,
    pub(crate) metadata: Map<String, Value>,
}

impl RunValues {
    fn is_empty(&self) -> bool {
        self.used.is_empty() && self.generated.is_empty() && self.metadata.is_empty()
    }

    fn write_to(self, workflow: &mut WorkflowObject) {
        for (field, values) in [
            (&mut workflow.used, self.used),
            (&mut workflow.generated, self.generated),
            (&mut workflow.custom_metadata, self.metadata),
        ] {
            if !values.is_empty() {
                field.get_or_insert_default().extend(values);
            }
        }
    }
}

pub(super) struct Run {
    number: Number,
    name: String,
    queues: Vec<StoreQueue>,
    common: Common,
    /// Its record: the first one, and after the end the one that was stored last. `None` if another
    /// process started the workflow and this one has nothing to add.
    workflow: Option<Box<WorkflowObject>>,
    /// The record with what this process can add: that it failed, or lost tasks.
    joined: Option<Box<WorkflowObject>>,
    known_later: Option<KnownLater>,
    /// The task that started the workflow. Its child tasks are the workflow's roots.
    around: Option<Id>,
    /// The monotonic and the wall clock at the start.
    started: (u64, u64),
    cost_before: Reading,
    /// The cost of recording in percent of the process's time. Set when the run has ended.
    overhead_percent: f64,
    /// The records of ended tasks that were not passed to the stores yet.
    batch: Lines,
    batch_since: Option<Instant>,
    totals: Totals,
    readings: Readings,
    /// Whether the workflow has ended. The run is kept for tasks that outlive it.
    pub(super) ended: bool,
    /// The monotonic time of the end.
    pub(super) ended_ns: u64,
    closing: Option<Closing>,
}

/// The state of a run that has ended and waits for its stores.
struct Closing {
    until: Instant,
    /// The deadline as long as the stores make progress.
    at_latest: Instant,
    /// The number of bytes written at the last check, and when that number last changed.
    written: u64,
    moved: Instant,
    progress: Progress,
    answer: Option<SyncSender<Result<Totals>>>,
}

/// Records as lines of JSON, and the counts of the tasks among them.
#[derive(Default)]
pub(super) struct Lines {
    pub(super) records: RecordLines,
    pub(super) tasks: Totals,
}

impl Lines {
    /// Clears the content and keeps the capacity.
    fn clear(&mut self) {
        self.records.clear();
        self.tasks = Totals::default();
    }

    pub(super) fn push_workflow(&mut self, workflow: &WorkflowObject) {
        self.push(|bytes| write_record(bytes, workflow));
    }

    pub(super) fn push_task(&mut self, task: &Task, common: &Common) {
        self.push(|bytes| TaskView { task, common }.write(bytes));
    }

    /// Appends a record. Converting it to JSON cannot fail; if it did, the other records must not
    /// be affected.
    #[inline]
    fn push(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>) -> serde_json::Result<RecordHead<'static>>,
    ) {
        let panicked = || Err(serde::ser::Error::custom("writing it panicked"));
        let written = self.records.push(|bytes| contain(|| write(bytes)).unwrap_or_else(panicked));
        if let Err(problem) = written {
            stats::add(&stats::DROPPED, 1);
            notice(&format!("a record could not be written as JSON: {problem}"));
        }
    }

    /// Returns the size of the records in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.records.json_lines().len()
    }
}

/// Returns a percentage, rounded to a thousandth.
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
            // Without `started_at`, because the process that started the workflow sets it.
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
        let queues = spec.stores.into_iter().enumerate();
        let queues = queues.map(|(at, store)| StoreQueue::new(spec.number, store, &info, at == 0));
        let around =
            spec.workflow.as_ref().and_then(|it| it.parent_task_id.as_deref()?.parse().ok());
        let mut run = Self {
            number: spec.number,
            name,
            queues: queues.collect(),
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

    /// Adds an ended task.
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

    /// Writes the batches that are due.
    pub(super) fn tick(&mut self, now: Instant) {
        let recorder = &settings().recorder;
        let old = self.batch_since.is_some_and(|since| now - since >= recorder.flush_ms);
        if old || self.batch.records.len() >= recorder.flush_records as usize {
            self.write_batch();
        }
        self.queues.iter_mut().for_each(|queue| queue.catch_up(now));
        self.try_to_close();
    }

    pub(super) fn write_batch(&mut self) {
        self.batch_since = None;
        if self.batch.records.is_empty() {
            return;
        }
        let lines = std::mem::take(&mut self.batch);
        // Reuse the buffer: allocating new memory costs more than filling it.
        if let Some(mut lines) = self.send(lines)
            && lines.records.capacity() <= MAX_KEPT
        {
            lines.clear();
            self.batch = lines;
        }
    }

    /// Writes tasks that have been open for a while.
    pub(super) fn show_open<'t>(&mut self, tasks: impl Iterator<Item = &'t Task>) {
        let mut lines = Lines::default();
        for task in tasks {
            lines.push_task(task, &self.common);
        }
        // A run that has ended contains its open tasks in its own records.
        if lines.records.is_empty() || self.ended {
            return;
        }
        let lines = Arc::new(lines);
        self.queues.iter_mut().for_each(|queue| queue.show_open(&lines));
    }

    /// Ends the run: writes the last tasks, the open ones, and the workflow's last record.
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
        self.queues.iter_mut().for_each(StoreQueue::begin_end);
        self.write_batch();
        let mut lines = Lines::default();
        for task in open {
            lines.push_task(task, &self.common);
            lines.tasks.count(task.status());
            self.totals.count(task.status());
        }
        self.send(lines);
        self.overhead_percent = self.count_overhead();
        if end.ending.is_failure() || self.totals.dropped > 0 || !end.values.is_empty() {
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
            end.values.write_to(workflow);
        }
        self.store_last(end.ending, answer);
    }

    /// Writes the last record again as failed, because the process failed after the run had ended.
    pub(super) fn fail_after_end(&mut self, ending: Ending) {
        self.store_last(ending, None);
    }

    /// Returns whether this process writes the workflow's record. If another process started the
    /// workflow, that one does.
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
            for queue in &mut self.queues {
                let (workflow, more) = (workflow.clone(), more.clone());
                queue.end_with(Last { workflow, totals, more });
            }
        }
        self.close(answer);
    }

    /// Closes the stores when they have everything, and then sends the answer.
    fn close(&mut self, answer: Option<SyncSender<Result<Totals>>>) {
        let answer = answer.or_else(|| self.closing.take()?.answer);
        let now = Instant::now();
        // The end of a process waits less long than a caller that ends a run.
        let longest = match &answer {
            Some(_) => settings().recorder.finish_wait_ms,
            None => LAST_TRY,
        };
        let at_latest = now.checked_add(longest).unwrap_or(now + FOREVER);
        let (until, progress) = (at_latest.min(now + LAST_TRY), Progress::new(now));
        self.closing = Some(Closing { until, at_latest, written: 0, moved: now, progress, answer });
        self.try_to_close();
    }

    /// Adds the cost of recording since the start to the run's totals, and prints a notice if the
    /// budget limited captures. Returns the cost in percent of the process's time.
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

    /// Returns whether the end of the run is not stored yet.
    pub(super) fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    /// Closes the stores once they have everything, or when the time is up.
    fn try_to_close(&mut self) {
        let Some(closing) = &mut self.closing else { return };
        let now = Instant::now();
        let written = self.queues.iter().map(StoreQueue::bytes_written).sum();
        if closing.written != written {
            (closing.written, closing.moved) = (written, now);
        }
        let is_at_work =
            self.queues.iter().any(StoreQueue::is_at_work) && now < closing.moved + STALLED;
        if closing.moved == now || is_at_work {
            closing.until = closing.at_latest.min(now + LAST_TRY);
        }
        let until = match self.queues.iter().any(StoreQueue::is_only_chance) {
            true => closing.at_latest,
            false => closing.until,
        };
        if !self.queues.iter().all(StoreQueue::is_done) && now < until {
            closing.progress.show(now, self.queues.iter().map(StoreQueue::waiting).sum());
            return;
        }
        let answer = self.closing.take().and_then(|closing| closing.answer);
        let mut result = Ok(());
        let mut totals = self.queues.first().map(|queue| queue.totals(&self.totals));
        let mut spooled = 0;
        for queue in &mut self.queues {
            let closed = queue.close();
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
            // The caller may have given up waiting.
            _ = answer.send(result.map(|()| totals.unwrap_or_default()));
        }
    }

    /// Passes records to every store. Returns the lines if no store needs them any more.
    fn send(&mut self, lines: Lines) -> Option<Lines> {
        let lines = Arc::new(lines);
        self.queues.iter_mut().for_each(|queue| queue.send(&lines));
        Arc::into_inner(lines)
    }

    /// Moves batches in memory to disk, because the rings need room.
    pub(super) fn spill(&mut self) {
        self.queues.iter_mut().for_each(StoreQueue::spill);
    }

    /// Returns whether a store is writing a batch on its own thread.
    pub(super) fn is_pending(&self) -> bool {
        self.queues.iter().any(StoreQueue::is_pending)
    }

    /// Returns whether a store is ready and more records wait for it.
    pub(super) fn is_behind(&self) -> bool {
        self.queues.iter().any(StoreQueue::is_behind)
    }

    /// Returns whether records wait for a store in memory only.
    pub(super) fn has_backlog(&self) -> bool {
        self.queues.iter().any(StoreQueue::holds)
    }

    /// Returns whether there are records that were not passed to any store yet.
    pub(super) fn has_batch(&self) -> bool {
        !self.batch.records.is_empty()
    }
}
