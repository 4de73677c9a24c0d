//! The queue of records for the thread that writes them.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, SyncSender, TrySendError, channel, sync_channel,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use super::asynchronous::Outcome;
use super::record::Emitted;
use super::telemetry::Telemetry;
use runlore_core::fork::PerProcess;
use runlore_core::notice::notice;
use runlore_core::{Error, ErrorKind, Result};

/// The maximum number of queued records.
const MOST: usize = 10_000;
/// How long the last handle waits for queued records to be written.
const PATIENCE: Duration = Duration::from_secs(5);

/// The queue that all handles share. When the last handle is dropped, it waits until everything is
/// written.
#[derive(Default)]
pub(super) struct Queue {
    writer: PerProcess<Mutex<Option<Writer>>>,
    dropped: AtomicU64,
}

/// The thread that writes, and the channels to it.
struct Writer {
    /// `None` if the thread could not be started.
    thread: Option<ThreadId>,
    records: SyncSender<(Emitted, Arc<Outcome>)>,
    waiting: Arc<AtomicU64>,
    /// Disconnected once everything is written.
    ended: Receiver<Infallible>,
}

impl Queue {
    /// Queues a record without waiting for it to be written.
    pub(super) fn push(
        &self,
        record: Emitted,
        outcome: Arc<Outcome>,
        telemetry: &Telemetry,
    ) -> Result<()> {
        let mut writer = self.writer();
        let writer = writer.get_or_insert_with(|| Writer::start(telemetry.clone()));
        let sent = writer.records.try_send((record, outcome));
        writer.waiting.fetch_add(u64::from(sent.is_ok()), Ordering::Relaxed);
        let why = match sent {
            Ok(()) => return Ok(()),
            Err(TrySendError::Full(_)) => {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                format!("a record is dropped: {MOST} others wait to be written")
            }
            Err(TrySendError::Disconnected(_)) => {
                "nothing is emitted: its thread could not be started".to_owned()
            }
        };
        Err(Error::new(ErrorKind::Pipeline, why))
    }

    fn writer(&self) -> MutexGuard<'_, Option<Writer>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl Writer {
    fn start(telemetry: Telemetry) -> Self {
        let (records, to_write) = sync_channel::<(Emitted, Arc<Outcome>)>(MOST);
        let (ends, ended) = channel();
        let waiting = Arc::new(AtomicU64::new(0));
        let left = Arc::clone(&waiting);
        let work = move || {
            for (record, outcome) in to_write {
                outcome.set(telemetry.write(&record), &telemetry);
                left.fetch_sub(1, Ordering::Relaxed);
            }
            drop(ends);
        };
        // Without a thread nothing is written, and each emission returns an error.
        let thread = thread::Builder::new().name("runlore-emit".to_owned()).spawn(work).ok();
        let thread = thread.map(|thread| thread.thread().id());
        Self { thread, records, waiting, ended }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        let writer = self.writer().take();
        let Some(Writer { thread, records, waiting, ended }) = writer else { return };
        drop(records);
        // The thread itself must not wait for its own end.
        if thread != Some(thread::current().id())
            && ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout)
        {
            let waiting = waiting.load(Ordering::Relaxed);
            notice(&format!("{waiting} emitted records are not written yet, after 5 s"));
        }
        match self.dropped() {
            0 => {}
            dropped => notice(&format!(
                "{dropped} emitted records were dropped: they came faster than they could be written"
            )),
        }
    }
}
