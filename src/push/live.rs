//! Sending while a tracker runs: on a thread that nobody waits for.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Pusher;
use super::batch::{Batch, Parcel};
use super::client::{Answer, Client, LONGEST_WAIT};
use super::spool::Spool;
use crate::events::TelemetryEvent;
use crate::pipeline::notice;
use crate::record::scrub;
use crate::tracker::Outlet;
use crate::{Error, ErrorKind, Result};

/// Events that may wait for the thread.
const QUEUE: usize = 10_000;
/// Events are sent after this time, however few there are.
const LINGER: Duration = Duration::from_secs(1);
/// Bytes that wait in memory while the endpoint is away.
const MEMORY: usize = 8 << 20;

/// The tracker's side.
#[derive(Debug)]
pub(super) struct Live {
    queue: Option<SyncSender<TelemetryEvent>>,
    thread: Option<JoinHandle<()>>,
    state: Arc<State>,
    url: String,
}

#[derive(Debug, Default)]
struct State {
    /// Events that are lost: there was no room for them, or the endpoint refused them.
    lost: AtomicU64,
    last_error: Mutex<Option<String>>,
}

impl State {
    fn lose(&self, count: u64) {
        self.lost.fetch_add(count, Ordering::Relaxed);
    }

    fn error(&self, error: Option<String>) {
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }
}

impl Live {
    pub(super) fn start(pusher: Pusher) -> Self {
        let (queue, events) = sync_channel(QUEUE);
        let state = Arc::new(State::default());
        let url = scrub(&pusher.url);
        let sender = Sender::new(pusher, Arc::clone(&state));
        let thread = std::thread::Builder::new()
            .name("runlore-push".to_owned())
            .spawn(move || sender.run(&events));
        if let Err(error) = &thread {
            notice(&format!("events are not sent to {url}: {error}"));
        }
        Self { queue: Some(queue), thread: thread.ok(), state, url }
    }
}

impl Outlet for Live {
    fn take(&mut self, event: &TelemetryEvent) {
        let sent = self.queue.as_ref().map(|queue| queue.try_send(event.clone()));
        if !matches!(sent, Some(Ok(()))) {
            self.state.lose(1);
        }
    }

    fn tick(&mut self) {}

    fn close(mut self: Box<Self>) -> Result<()> {
        // The thread sends what it can, within the time of one request, and ends.
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
        let lost = self.state.lost.load(Ordering::Relaxed);
        if lost == 0 {
            return Ok(());
        }
        let why = self.state.last_error.lock().unwrap_or_else(PoisonError::into_inner).take();
        let why = why.unwrap_or_else(|| "they came too fast".to_owned());
        let what = format!("{lost} events did not reach {}: {why}", self.url);
        Err(Error::new(ErrorKind::Store, what))
    }
}

/// The thread's side.
struct Sender {
    client: Client,
    pusher: Pusher,
    state: Arc<State>,
    spool: Option<Spool>,
    /// Newer than what the spool has.
    waiting: VecDeque<Parcel>,
    wait: Duration,
    retry_at: Option<Instant>,
}

impl Sender {
    fn new(pusher: Pusher, state: Arc<State>) -> Self {
        let spool = pusher.spool.as_ref().and_then(|(folder, limit)| {
            Spool::open(folder, *limit)
                .map_err(|error| notice(&format!("cannot spool to {}: {error}", folder.display())))
                .ok()
        });
        let client = Client::new(&pusher);
        let wait = pusher.backoff;
        Self { client, pusher, state, spool, waiting: VecDeque::new(), wait, retry_at: None }
    }

    fn run(mut self, events: &Receiver<TelemetryEvent>) {
        let mut batch = Batch::new();
        let mut began: Option<Instant> = None;
        loop {
            let until =
                [began.map(|began| began + LINGER), self.retry_at].into_iter().flatten().min();
            let patience =
                until.map_or(LINGER, |until| until.saturating_duration_since(Instant::now()));
            let ended = match events.recv_timeout(patience) {
                Ok(event) => {
                    if batch.add(&event, self.pusher.target).is_err() {
                        self.state.lose(1);
                    }
                    began.get_or_insert_with(Instant::now);
                    false
                }
                Err(RecvTimeoutError::Timeout) => false,
                Err(RecvTimeoutError::Disconnected) => true,
            };
            let is_due = batch.count() >= self.pusher.batch_events
                || began.is_some_and(|began| ended || began.elapsed() >= LINGER);
            if is_due && batch.count() > 0 {
                self.keep(std::mem::replace(&mut batch, Batch::new()).finish());
                began = None;
            }
            if ended {
                return self.end();
            }
            if self.retry_at.is_none_or(|at| Instant::now() >= at) {
                self.send_next();
            }
        }
    }

    /// Lets a batch wait for its turn. What there is no room for goes to the spool, or is lost.
    fn keep(&mut self, parcel: Parcel) {
        self.waiting.push_back(parcel);
        while self.waiting.iter().map(|parcel| parcel.body.len()).sum::<usize>() > MEMORY {
            let Some(oldest) = self.waiting.pop_front() else { break };
            self.put_away(&oldest);
        }
    }

    fn put_away(&mut self, parcel: &Parcel) {
        let put = self.spool.as_mut().map(|spool| spool.put(parcel));
        match put {
            Some(Ok(dropped)) => self.state.lose(dropped),
            Some(Err(error)) => {
                self.state.error(Some(format!("cannot spool: {error}")));
                self.state.lose(parcel.count);
            }
            None => self.state.lose(parcel.count),
        }
    }

    /// Sends all that waits, oldest first, until the endpoint does not take it; whether all is sent.
    fn send_next(&mut self) -> bool {
        loop {
            let mut dropped = 0;
            let spooled = self.spool.as_mut().and_then(|spool| spool.first(&mut dropped));
            self.state.lose(dropped);
            let is_spooled = spooled.is_some();
            let Some(parcel) = spooled.or_else(|| self.waiting.front().cloned()) else {
                return true;
            };
            match self.client.send(&parcel) {
                Answer::Taken => {}
                Answer::Refused(why) => {
                    notice(&format!("{} refuses events: {why}", scrub(&self.pusher.url)));
                    self.state.error(Some(why));
                    self.state.lose(parcel.count);
                }
                Answer::Away { why, after } => {
                    self.state.error(Some(why));
                    self.retry_at =
                        Some(Instant::now() + after.unwrap_or(self.wait).min(LONGEST_WAIT));
                    self.wait = (self.wait * 2).min(LONGEST_WAIT);
                    return false;
                }
            }
            match &mut self.spool {
                Some(spool) if is_spooled => spool.remove_first(),
                _ => _ = self.waiting.pop_front(),
            }
            self.wait = self.pusher.backoff;
            self.retry_at = None;
        }
    }

    /// One last try; the rest goes to the spool, or is lost.
    fn end(mut self) {
        if !self.send_next() {
            while let Some(parcel) = self.waiting.pop_front() {
                self.put_away(&parcel);
            }
        }
    }
}
