//! Writes records from any source to a store: for copies, and for programs that make their own
//! records.

use std::sync::OnceLock;
use std::time::Duration;

use super::{RecordKind, RecordLines, Refused, RunInfo, Store, StoreChoice};
use super::{take_refused, write_record};
use crate::fork::get_or_make;
use crate::record::{Id, Record};
use crate::settings::Settings;
use crate::{Result, file_size};

/// The most records in one batch.
const BATCH: usize = 1000;
/// The most bytes in one batch.
const BATCH_BYTES: usize = 8 << 20;

/// Writes records to a store, in batches of a thousand. If it is dropped before
/// [`finish`](Self::finish), it tries to write the rest.
///
/// ```
/// use runlore::record::Record;
/// use runlore::store::{MemoryStore, Sink};
///
/// let store = MemoryStore::new();
/// let mut sink = Sink::open(store.clone(), "import")?;
/// sink.add(&Record::from_json(serde_json::json!({"task_id": "t1", "activity_id": "load"}))?)?;
/// assert_eq!(sink.finish()?, 1);
/// assert_eq!(store.tasks()[0].name(), "load");
/// # Ok::<(), runlore::Error>(())
/// ```
pub struct Sink {
    store: Box<dyn Store>,
    lines: RecordLines,
    /// Whether records that the store already has are skipped.
    is_looking: bool,
    tally: Tally,
    /// Whether the caller got the result of a write since the last `add`. If so, dropping the sink
    /// does not write again.
    is_told: bool,
    /// The process that created the sink. A forked child must not write its copy.
    pid: u32,
}

impl std::fmt::Debug for Sink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sink").field("written", &self.tally.written()).finish_non_exhaustive()
    }
}

/// Counts of what happened to records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Tasks that were written.
    pub tasks: u64,
    /// Workflows that were written.
    pub workflows: u64,
    /// Other records that were written.
    pub others: u64,
    /// Records that the store already had.
    pub known: u64,
    /// Records that the store refused.
    pub refused: u64,
}

impl Tally {
    /// Returns how many records were written.
    pub fn written(&self) -> u64 {
        self.tasks + self.workflows + self.others
    }

    /// Adds another tally to this one.
    pub fn add(&mut self, more: &Self) {
        self.tasks += more.tasks;
        self.workflows += more.workflows;
        self.others += more.others;
        self.known += more.known;
        self.refused += more.refused;
    }

    fn count(&mut self, kind: RecordKind) {
        match kind {
            RecordKind::Task => self.tasks += 1,
            RecordKind::Workflow => self.workflows += 1,
            RecordKind::Other => self.others += 1,
        }
    }

    /// Moves a counted record to `refused`.
    fn refuse(&mut self, refused: &Refused) {
        self.refused += 1;
        let counter = match refused.task {
            Some(_) => &mut self.tasks,
            // A store does not say which other kind the record was.
            None if self.others > 0 => &mut self.others,
            None => &mut self.workflows,
        };
        *counter = counter.saturating_sub(1);
    }
}

impl Sink {
    /// Opens a store. If the store creates a file for each run, the file's name contains `name`.
    ///
    /// # Errors
    ///
    /// If there is no such store. Whether it can be written to turns out later.
    pub fn open(to: impl Into<StoreChoice>, name: &str) -> Result<Self> {
        Self::for_run(to, &Id::new().to_string(), name, std::process::id())
    }

    /// Opens a store for the records of one run.
    pub fn for_run(
        to: impl Into<StoreChoice>,
        workflow_id: &str,
        name: &str,
        pid: u32,
    ) -> Result<Self> {
        // The user's retention limits must not apply here.
        static SETTINGS: OnceLock<Settings> = OnceLock::new();
        let settings = get_or_make(&SETTINGS, || {
            let mut settings = Settings::default();
            // No task waits here, so a store that other processes write to may take its time.
            settings.recorder.max_wait_ms = Duration::from_secs(60);
            settings
        });
        let info = RunInfo::new(workflow_id.to_owned(), name.to_owned(), pid, settings);
        let store = to.into().open(&info)?;
        let pid = std::process::id();
        Ok(Self {
            store,
            lines: RecordLines::default(),
            is_looking: false,
            tally: Tally::default(),
            is_told: false,
            pid,
        })
    }

    /// Skips and counts records that the store already has.
    pub fn looking(mut self) -> Self {
        self.is_looking = true;
        self
    }

    /// Returns what happened to the records so far. Records that wait for the next write are not
    /// counted.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Adds a record. Writes a batch when enough records are waiting.
    ///
    /// # Errors
    ///
    /// If the store cannot be written to. The records since the last write are kept for the next
    /// one.
    pub fn add(&mut self, record: &Record) -> Result<()> {
        self.lines.push(|bytes| write_record(bytes, record)).map_err(|error| {
            let text = "a record cannot be written as JSON";
            crate::Error::new(crate::ErrorKind::Record, text).with_source(error)
        })?;
        self.is_told = false;
        if self.lines.len() >= BATCH || self.lines.json_lines().len() >= BATCH_BYTES {
            return self.write();
        }
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        self.is_told = true;
        if self.is_looking && !self.lines.is_empty() {
            self.leave_out_known()?;
        }
        if self.lines.is_empty() {
            return Ok(());
        }
        self.store.prepare(self.lines.json_lines().len() as u64)?;
        file_size::without_signal(|| self.store.write(&self.lines.batch()))?;
        self.lines.batch().heads().for_each(|head| self.tally.count(head.kind));
        for refused in take_refused(&mut *self.store) {
            self.tally.refuse(&refused);
        }
        self.lines.clear();
        Ok(())
    }

    fn leave_out_known(&mut self) -> Result<()> {
        let is_missing = self.store.missing(&self.lines.batch())?;
        self.tally.known += is_missing.iter().filter(|missing| !**missing).count() as u64;
        self.lines.retain(&is_missing);
        Ok(())
    }

    /// Writes the remaining records and closes the store. Returns how many records were written in
    /// all. Refused records do not count.
    ///
    /// # Errors
    ///
    /// If the store cannot be written to.
    pub fn finish(mut self) -> Result<u64> {
        self.end()?;
        Ok(self.tally.written())
    }

    /// Writes the remaining records and closes the store.
    pub fn end(&mut self) -> Result<()> {
        self.write()?;
        self.store.sync()?;
        self.store.close()
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        if !self.is_told && !self.lines.is_empty() && self.pid == std::process::id() {
            _ = self.write().and_then(|()| self.store.close());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::record::Status;
    use crate::store::{Batch, MemoryStore};

    /// A store that already has one task and refuses another.
    struct Choosy(MemoryStore, u32);

    impl Store for Choosy {
        fn write(&mut self, batch: &Batch<'_>) -> Result<()> {
            self.0.write(batch)
        }

        fn missing(&mut self, batch: &Batch<'_>) -> Result<Vec<bool>> {
            Ok(batch.records().map(|record| !record.contains("known")).collect())
        }

        fn refused(&mut self) -> Vec<Refused> {
            let (store, why) = ("choosy".to_owned(), "it is too long".to_owned());
            let refused = Refused { store, why, kept: None, task: Some(Status::Finished) };
            vec![refused; std::mem::take(&mut self.1) as usize]
        }
    }

    #[test]
    fn what_is_known_is_left_out_and_what_is_refused_does_not_count() {
        let store = MemoryStore::new();
        let choosy = StoreChoice::custom(Choosy(store.clone(), 1));
        let mut sink = Sink::open(choosy, "import").unwrap().looking();
        for id in ["known", "a", "b"] {
            sink.add(&Record::from_json(json!({"task_id": id, "type": "task"})).unwrap()).unwrap();
        }
        sink.add(&Record::from_json(json!({"type": "agent"})).unwrap()).unwrap();
        sink.end().unwrap();
        let tally = Tally { tasks: 1, others: 1, known: 1, refused: 1, ..Tally::default() };
        assert_eq!(sink.tally(), tally);
        assert_eq!(sink.finish().unwrap(), 2);
        assert_eq!(store.tasks().len(), 2);
    }

    #[test]
    fn what_was_added_is_written_when_the_sink_is_dropped() {
        let store = MemoryStore::new();
        let mut sink = Sink::open(store.clone(), "import").unwrap();
        for number in 0..3 {
            let record = Record::from_json(json!({"task_id": format!("t{number}")})).unwrap();
            sink.add(&record).unwrap();
        }
        assert_eq!(store.tasks().len(), 0, "it waits for more");
        drop(sink);
        assert_eq!(store.tasks().len(), 3);
    }
}
