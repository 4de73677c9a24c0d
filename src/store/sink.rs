//! Records from anywhere into a store: for copies, and for programs that make their records themselves.

use std::time::Duration;

use super::{Batch, RunInfo, Store, StoreChoice, take_refused};
use crate::Result;
use crate::once::Once;
use crate::record::{Id, Record};
use crate::settings::Settings;

/// Records that are written at once.
const BATCH: usize = 1000;
/// Bytes that are written at once.
const BATCH_BYTES: usize = 8 << 20;

/// Writes records to a store, a thousand at a time. One that is dropped before it is [finished](Self::finish) writes what it
/// has, if it can.
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
    lines: Vec<u8>,
    ends: Vec<usize>,
    written: u64,
    /// Whether whoever added the records knows what became of them.
    is_told: bool,
    /// The process that writes: a forked child has nothing of its own here.
    pid: u32,
}

impl std::fmt::Debug for Sink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sink").field("written", &self.written).finish_non_exhaustive()
    }
}

impl Sink {
    /// Opens a store. Where it makes a file for each run, the name becomes part of the file's.
    ///
    /// # Errors
    ///
    /// Where there is no such store. Whether it can be written to is found out later.
    pub fn open(to: impl Into<StoreChoice>, name: &str) -> Result<Self> {
        Self::for_run(to, &Id::new().to_string(), name, std::process::id())
    }

    /// Opens a store for the records of one run.
    pub(crate) fn for_run(
        to: impl Into<StoreChoice>,
        workflow_id: &str,
        name: &str,
        pid: u32,
    ) -> Result<Self> {
        // The settings in force must not decide what is kept.
        static SETTINGS: Once<Settings> = Once::new();
        let settings = SETTINGS.get_or_init(|| {
            let mut settings = Settings::default();
            // No task waits here: a store that others write to may take its time.
            settings.recorder.max_wait_ms = Duration::from_secs(60);
            settings
        });
        let info = RunInfo::new(workflow_id.to_owned(), name.to_owned(), pid, settings);
        let store = to.into().open(&info)?;
        let pid = std::process::id();
        Ok(Self { store, lines: Vec::new(), ends: Vec::new(), written: 0, is_told: false, pid })
    }

    /// Adds a record; now and then, what was added is written.
    ///
    /// # Errors
    ///
    /// Where the store cannot be written to. What was added since the last write is kept for the next.
    pub fn add(&mut self, record: &Record) -> Result<()> {
        let start = self.lines.len();
        if let Err(error) = serde_json::to_writer(&mut self.lines, record) {
            self.lines.truncate(start);
            let text = "a record cannot be written as JSON";
            return Err(crate::Error::new(crate::ErrorKind::Record, text).with_source(error));
        }
        self.lines.push(b'\n');
        self.ends.push(self.lines.len());
        self.is_told = false;
        if self.ends.len() >= BATCH || self.lines.len() >= BATCH_BYTES {
            return self.write();
        }
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        self.is_told = true;
        let batch = Batch::new(&self.lines, &self.ends);
        self.store.prepare(self.lines.len() as u64)?;
        self.store.write(&batch)?;
        take_refused(&mut *self.store);
        self.written += self.ends.len() as u64;
        self.lines.clear();
        self.ends.clear();
        Ok(())
    }

    /// Writes the rest and closes the store; returns how many records were written in all.
    ///
    /// # Errors
    ///
    /// Where the store cannot be written to.
    pub fn finish(mut self) -> Result<u64> {
        self.is_told = true;
        if !self.ends.is_empty() {
            self.write()?;
        }
        self.store.sync()?;
        self.store.close()?;
        Ok(self.written)
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        if !self.is_told && !self.ends.is_empty() && self.pid == std::process::id() {
            _ = self.write().and_then(|()| self.store.close());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::MemoryStore;

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
