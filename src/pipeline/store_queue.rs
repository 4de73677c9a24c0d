//! The queue for one store of a run. Each store is written at its own pace.
//!
//! If a store fails, its batches wait in memory, while the rings keep their events too. When the
//! rings need room, or the run ends, the batches go to the spool. Waiting batches are written in
//! order: the spool first, then memory.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use super::push;
use super::retry::Backoff;
use super::run::Lines;
use super::sink::{Outcome, Sink};
use super::spool::{self, Spool};
use super::stats::{self, Totals};
use runlore_core::config::settings;
use runlore_core::context::Number;
use runlore_core::notice::notice;
use runlore_core::record::WorkflowObject;
use runlore_core::settings::WhenFull;
use runlore_core::store::{Refused, RunInfo, Store};
use runlore_core::{Error, ErrorKind, Result};

/// How long the writer works on a store's backlog before it reads the rings again: normally, and
/// after the run has ended, when a caller waits for it.
const CATCHING_UP: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(200));

/// How long to wait before writing to a spool again that could not be written.
const SPILL_AGAIN: Duration = Duration::from_secs(1);

pub(super) struct StoreQueue {
    /// The run whose session counts the records that the store will never get. Only set for the
    /// first store.
    counted_for: Option<Number>,
    sink: Sink,
    backlog: VecDeque<Arc<Lines>>,
    backlog_bytes: usize,
    spool: Option<Spool>,
    /// When to retry a spool that could not be written.
    spill_at: Option<Instant>,
    /// When to retry a store that failed.
    retry_at: Option<Instant>,
    backoff: Backoff,
    last_error: Option<Error>,
    /// Whether the last attempt failed.
    is_failing: bool,
    /// The number of records that the store will never get, and the tasks among them.
    lost: (u64, Totals),
    /// Tasks that the store refused and keeps elsewhere.
    refused: Totals,
    bytes_written: u64,
    /// The last record of the run. It waits until the store has all others, because it contains
    /// their counts.
    last: Option<Last>,
    /// Whether the run has ended. From then on, batches are kept even above the memory limit.
    is_ending: bool,
}

/// The last record of a run, without its totals.
#[derive(Debug, Clone)]
pub(super) struct Last {
    pub(super) workflow: Box<WorkflowObject>,
    /// Counts of all tasks of the run.
    pub(super) totals: Totals,
    /// Further fields for the totals.
    pub(super) more: Map<String, Value>,
}

impl Last {
    fn into_lines(self, totals: Totals) -> Lines {
        let Self { mut workflow, more, .. } = self;
        if let Ok(Value::Object(mut record)) = serde_json::to_value(totals) {
            record.extend(more);
            workflow.totals = Some(record);
        }
        let mut lines = Lines::default();
        lines.push_workflow(&workflow);
        lines
    }
}

/// The state of a store queue at the end of its run.
#[derive(Debug)]
pub(super) struct Closed {
    /// The number of records that wait on disk.
    pub(super) spooled: u64,
    pub(super) result: Result<()>,
}

impl StoreQueue {
    pub(super) fn new(
        number: Number,
        store: Box<dyn Store>,
        run: &RunInfo,
        is_first: bool,
    ) -> Self {
        Self {
            counted_for: is_first.then_some(number),
            spool: Spool::new(&*store, run),
            sink: Sink::new(number, store),
            backlog: VecDeque::new(),
            backlog_bytes: 0,
            spill_at: None,
            retry_at: None,
            backoff: Backoff::default(),
            last_error: None,
            is_failing: false,
            lost: (0, Totals::default()),
            refused: Totals::default(),
            bytes_written: 0,
            last: None,
            is_ending: false,
        }
    }

    /// Writes records to the store, or keeps them until the store accepts them.
    pub(super) fn send(&mut self, lines: &Arc<Lines>) {
        if lines.records.is_empty() {
            return;
        }
        if !self.waits() {
            match self.sink.write(lines) {
                Outcome::Stored(refused) => return self.count_stored(lines, &refused),
                Outcome::Pending => {}
                Outcome::Failed(error) => self.failed(error),
            }
        }
        self.keep(lines);
    }

    fn keep(&mut self, lines: &Arc<Lines>) {
        let limit = settings().recorder.backlog_bytes.get() as usize;
        if self.backlog_bytes + lines.bytes() > limit {
            self.spill();
        }
        // A batch that is being written is not lost yet.
        let is_being_written = self.sink.is_pending() && !self.waits();
        let is_too_much = self.backlog_bytes + lines.bytes() > limit;
        if is_too_much && !is_being_written && !self.is_ending {
            return self.lose(lines);
        }
        stats::add(&stats::WAITING, lines.records.len() as u64);
        self.backlog_bytes += lines.bytes();
        self.backlog.push_back(Arc::clone(lines));
    }

    fn lose(&mut self, lines: &Lines) {
        notice("a store fails for too long: records are dropped until it works again");
        let records = lines.records.len() as u64;
        stats::add(&stats::DROPPED, records);
        self.count_lost(records, &lines.tasks);
    }

    /// Counts records that the store will never get.
    fn count_lost(&mut self, records: u64, tasks: &Totals) {
        self.lost.0 += records;
        self.lost.1.add(tasks);
        if let Some(run) = self.counted_for {
            push::count_for_recovery(run, tasks.tasks);
        }
    }

    /// Moves the batches in memory to the spool, as far as there is room. Nothing else needs to
    /// keep them afterwards.
    pub(super) fn spill(&mut self) {
        if self.spill_at.is_some_and(|at| Instant::now() < at) && !self.is_ending {
            return;
        }
        while let Some(lines) = self.backlog.front() {
            let Some(spool) = &mut self.spool else { return };
            match spool.append(lines) {
                Ok(()) => stats::add(&stats::SPOOLED, lines.records.len() as u64),
                Err(spool::Refused::Full) => {
                    notice("a store fails for too long: the spool is full");
                    let is_being_written = spool.is_empty() && self.sink.is_pending();
                    if settings().recorder.when_full != WhenFull::Drop || is_being_written {
                        return;
                    }
                    let lines = Arc::clone(lines);
                    stats::WAITING.fetch_sub(lines.records.len() as u64, Ordering::Relaxed);
                    self.lose(&lines);
                }
                Err(spool::Refused::Io(error)) => {
                    notice(&format!(
                        "records cannot be kept in {}: {error}; they are kept in memory",
                        spool.folder().display()
                    ));
                    self.spill_at = Some(Instant::now() + SPILL_AGAIN);
                    return;
                }
            }
            self.forget_first_of_backlog();
        }
    }

    fn forget_first_of_backlog(&mut self) {
        if let Some(lines) = self.backlog.pop_front() {
            self.backlog_bytes -= lines.bytes();
        }
    }

    /// Returns whether anything waits for the store.
    fn waits(&self) -> bool {
        self.holds() || self.spooled() > 0
    }

    /// Returns whether a batch is being written on another thread.
    pub(super) fn is_pending(&self) -> bool {
        self.sink.is_pending()
    }

    /// Returns whether a batch is being written by a store that has not failed but may be slow.
    pub(super) fn is_at_work(&self) -> bool {
        self.sink.is_pending() && !self.is_failing
    }

    /// Returns the number of records that wait, in memory or on disk.
    pub(super) fn waiting(&self) -> u64 {
        let in_memory: usize = self.backlog.iter().map(|lines| lines.records.len()).sum();
        in_memory as u64 + self.spooled()
    }

    /// Returns whether the batch being written would be lost if the caller did not wait for it.
    pub(super) fn is_only_chance(&self) -> bool {
        self.sink.is_pending() && self.spool.is_none()
    }

    /// Returns whether something can be written now.
    pub(super) fn is_behind(&self) -> bool {
        self.waits() && self.retry_at.is_none() && !self.sink.is_pending()
    }

    /// Returns whether anything waits in memory only.
    pub(super) fn holds(&self) -> bool {
        !self.backlog.is_empty()
    }

    fn spooled(&self) -> u64 {
        self.spool.as_ref().map_or(0, Spool::records)
    }

    /// Writes waiting batches if a retry is due. Once all are written, writes the last record.
    pub(super) fn catch_up(&mut self, now: Instant) {
        self.write_waiting(now);
        if !self.waits() {
            self.send_last();
        }
    }

    fn send_last(&mut self) {
        if let Some(last) = self.last.take() {
            let totals = self.totals(&last.totals);
            self.send(&Arc::new(last.into_lines(totals)));
        }
    }

    fn write_waiting(&mut self, now: Instant) {
        if !self.waits() {
            return;
        }
        let until = Instant::now() + if self.is_ending { CATCHING_UP.1 } else { CATCHING_UP.0 };
        while Instant::now() < until {
            if !self.sink.is_pending() {
                if !self.waits() || self.retry_at.is_some_and(|at| now < at) {
                    return;
                }
                let Some(first) = self.first() else { continue };
                match self.sink.write(&first) {
                    Outcome::Pending => return,
                    outcome => self.settle(outcome, Some(first)),
                }
                continue;
            }
            match self.sink.poll() {
                Outcome::Pending => return,
                outcome => self.settle(outcome, None),
            }
        }
    }

    /// Returns the oldest waiting batch. `None` if it cannot be read now, or was damaged and is
    /// lost.
    fn first(&mut self) -> Option<Arc<Lines>> {
        let spool = self.spool.as_mut().filter(|spool| !spool.is_empty());
        let Some(spool) = spool else { return self.backlog.front().cloned() };
        match spool.first() {
            Ok(lines) => lines.map(Arc::new),
            Err(error) if error.kind() != io::ErrorKind::InvalidData => {
                let text = format!("cannot read what waits in {}", spool.folder().display());
                self.failed(Error::new(ErrorKind::Store, text).with_source(error));
                None
            }
            Err(error) => {
                let before = spool.records();
                spool.forget_first();
                let lost = before - spool.records();
                notice(&format!("records that waited for their store are lost: {error}"));
                stats::add(&stats::DROPPED, lost);
                stats::WAITING.fetch_sub(lost, Ordering::Relaxed);
                stats::SPOOLED.fetch_sub(lost, Ordering::Relaxed);
                self.lost.0 += lost;
                None
            }
        }
    }

    /// Handles the outcome of the oldest waiting batch.
    fn settle(&mut self, outcome: Outcome, first: Option<Arc<Lines>>) {
        match outcome {
            Outcome::Failed(error) => self.failed(error),
            Outcome::Pending => {}
            Outcome::Stored(refused) => {
                let Some(first) = first.or_else(|| self.first()) else { return };
                let records = first.records.len() as u64;
                self.count_stored(&first, &refused);
                stats::WAITING.fetch_sub(records, Ordering::Relaxed);
                match self.spool.as_mut().filter(|spool| !spool.is_empty()) {
                    Some(spool) => {
                        spool.forget_first();
                        stats::SPOOLED.fetch_sub(records, Ordering::Relaxed);
                    }
                    None => self.forget_first_of_backlog(),
                }
            }
        }
    }

    fn count_stored(&mut self, lines: &Lines, refused: &[Refused]) {
        stats::add(&stats::WRITTEN, lines.records.len().saturating_sub(refused.len()) as u64);
        for one in refused {
            let mut task = Totals::default();
            one.task.iter().for_each(|status| task.count(*status));
            match one.kept {
                Some(_) => self.refused.add(&task),
                None => self.count_lost(1, &task),
            }
        }
        stats::add(&stats::BYTES, lines.bytes() as u64);
        stats::add(&stats::BATCHES, 1);
        self.bytes_written += lines.bytes() as u64;
        self.retry_at = None;
        self.is_failing = false;
        self.backoff.reset();
    }

    fn failed(&mut self, error: Error) {
        stats::add(&stats::STORE_ERRORS, 1);
        self.is_failing = true;
        notice(&format!("{error}; records are kept, and it is tried again"));
        if self.is_ending {
            // There is little time left, so use the shortest delay.
            self.backoff.reset();
        }
        self.retry_at = Some(Instant::now() + self.backoff.next());
        self.last_error = Some(error);
    }

    /// Writes tasks that have been open for a while.
    pub(super) fn show_open(&mut self, lines: &Arc<Lines>) {
        if let Err(error) = self.sink.write_open(lines) {
            self.failed(error);
        }
    }

    /// Called when the run ends. Retries waiting batches at once.
    pub(super) fn begin_end(&mut self) {
        self.is_ending = true;
        self.retry_at = None;
        self.catch_up(Instant::now());
    }

    /// Returns the counts of the run's tasks that the store has or will get.
    pub(super) fn totals(&self, of_run: &Totals) -> Totals {
        let mut totals = *of_run;
        totals.lose(&self.lost.1);
        totals.refuse(&self.refused);
        totals.bytes_written = self.bytes_written;
        totals.spooled = self.spooled();
        totals
    }

    pub(super) fn bytes_written(&self) -> u64 {
        self.bytes_written
    }

    /// Sets the last record of the run.
    pub(super) fn end_with(&mut self, last: Last) {
        self.last = Some(last);
        self.catch_up(Instant::now());
    }

    /// Returns whether nothing waits.
    pub(super) fn is_done(&self) -> bool {
        !self.waits() && self.last.is_none()
    }

    /// Closes the store. Batches that it has not accepted go to disk. If that fails too, they are
    /// lost.
    pub(super) fn close(&mut self) -> Closed {
        self.spill();
        self.send_last();
        self.spill();
        let closed = self.sink.close();
        let spooled = self.spooled();
        if let Some(spool) = self.spool.as_ref().filter(|_| spooled > 0) {
            notice(&format!(
                "{spooled} records wait in {} for their store: the next run writes them, or `runlore replay`",
                spool.folder().display()
            ));
        }
        let mut left = 0;
        for lines in self.backlog.drain(..) {
            left += lines.records.len() as u64;
            // The last record contains the number of lost tasks. It may be written again if the
            // process fails.
            self.lost.1.add(&lines.tasks);
        }
        self.backlog_bytes = 0;
        stats::add(&stats::DROPPED, left);
        stats::WAITING.fetch_sub(left, Ordering::Relaxed);
        let lost = left + std::mem::take(&mut self.lost.0);
        if lost == 0 {
            return Closed { spooled, result: closed };
        }
        let error = Error::new(ErrorKind::Store, format!("{lost} records were not stored"));
        let error = match self.last_error.take() {
            Some(cause) => error.with_source(cause),
            None => error,
        };
        Closed { spooled, result: Err(error) }
    }
}

impl Drop for StoreQueue {
    /// Records on disk belong to the next run.
    fn drop(&mut self) {
        let spooled = self.spooled();
        stats::WAITING.fetch_sub(spooled, Ordering::Relaxed);
        stats::SPOOLED.fetch_sub(spooled, Ordering::Relaxed);
    }
}
