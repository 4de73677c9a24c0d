//! Sends events while a tracker runs. One thread keeps the batches, another sends them and waits
//! for responses; the tracker waits for neither.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvError, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::Pusher;
use super::batch::{Batch, Parcel};
use super::client::{Answer, Client, LONGEST_WAIT, pause};
use super::spool::Spool;
use runlore_core::notice::notice;
use runlore_core::record::scrub;
use runlore_core::{Error, ErrorKind, Result, file_size};
use runlore_events::events::TelemetryEvent;
use runlore_events::tracker::Outlet;

/// The maximum number of events that wait to be batched.
const QUEUE: usize = 10_000;
/// A batch is sent after this time even if it is not full.
const LINGER: Duration = Duration::from_secs(1);
/// The maximum size of batches in memory if they cannot be spooled, in bytes.
const MEMORY: usize = 8 << 20;
/// How long to continue sending after the tracker has ended.
const AT_END: Duration = Duration::from_secs(5);

/// The tracker's end of the queue.
#[derive(Debug)]
pub(super) struct Live {
    queue: Option<SyncSender<Message>>,
    keeper: Option<JoinHandle<()>>,
    state: Arc<State>,
    url: String,
    process: u32,
}

/// A message to the keeper thread.
#[derive(Debug)]
enum Message {
    Event(Box<TelemetryEvent>),
    /// The result of the batch in flight.
    Answer(Answer),
    /// No more events will come.
    End,
}

#[derive(Debug, Default)]
struct State {
    /// The number of lost events: the queue or the spool was full, or the endpoint refused them.
    lost: AtomicU64,
    last_error: Mutex<Option<String>>,
}

impl State {
    fn lose(&self, count: u64) {
        self.lost.fetch_add(count, Ordering::Relaxed);
    }

    fn error(&self, error: impl Into<String>) {
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.into());
    }
}

impl Live {
    /// Starts the threads.
    ///
    /// # Errors
    ///
    /// If the pusher's configuration is invalid, or its spool cannot be written.
    pub(super) fn start(pusher: Pusher) -> Result<Self> {
        pusher.check()?;
        let spool = pusher.spool.as_ref().map(|(folder, limit)| {
            Spool::open(folder, *limit).map_err(|error| {
                let what = format!("cannot spool to {}: {error}", folder.display());
                Error::new(ErrorKind::Store, what)
            })
        });
        let spool = spool.transpose()?;
        let (queue, messages) = sync_channel(QUEUE);
        let (parcels, to_send) = sync_channel::<Parcel>(1);
        let state = Arc::new(State::default());
        let url = scrub(&pusher.url);
        let (client, answers) = (Client::new(&pusher), queue.clone());
        let send = move || {
            for parcel in to_send {
                if answers.send(Message::Answer(client.send(&parcel))).is_err() {
                    return;
                }
            }
        };
        let keeper = Keeper::new(pusher, spool, Arc::clone(&state), parcels);
        let spawn = |name: &str| thread::Builder::new().name(name.to_owned());
        let keeper = spawn("runlore-push").spawn(move || {
            file_size::never_signal_thread();
            keeper.run(&messages);
        });
        let sender = spawn("runlore-send").spawn(send);
        if let Some(error) = keeper.as_ref().err().or(sender.as_ref().err()) {
            let why = format!("its thread could not be started: {error}");
            notice(&format!("events are not sent to {url}: {why}"));
            state.error(why);
        }
        let process = std::process::id();
        Ok(Self { queue: Some(queue), keeper: keeper.ok(), state, url, process })
    }

    fn end(&mut self) {
        match self.queue.take() {
            // A forked child does not have the threads, and must not wait for them.
            queue if self.process != std::process::id() => std::mem::forget(queue),
            Some(queue) => _ = queue.send(Message::End),
            None => {}
        }
    }
}

impl Outlet for Live {
    fn take(&mut self, event: &TelemetryEvent) {
        let is_sent =
            |queue: &SyncSender<_>| queue.try_send(Message::Event(Box::new(event.clone()))).is_ok();
        if !self.queue.as_ref().is_some_and(is_sent) {
            self.state.lose(1);
        }
    }

    fn tick(&mut self) {}

    fn close(mut self: Box<Self>) -> Result<()> {
        self.end();
        let lost = |what: String| Err(Error::new(ErrorKind::Store, what));
        if self.keeper.take().is_some_and(|keeper| keeper.join().is_err()) {
            return lost(format!(
                "the thread that sends events to {} panicked: what it had not spooled is lost",
                self.url
            ));
        }
        let count = self.state.lost.load(Ordering::Relaxed);
        if count == 0 {
            return Ok(());
        }
        let why = self.state.last_error.lock().unwrap_or_else(PoisonError::into_inner).take();
        let why = why.unwrap_or_else(|| "they came too fast".to_owned());
        lost(format!("{count} events did not reach {}: {why}", self.url))
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.end();
    }
}

/// Batches events and keeps the batches until they are sent. Never waits for the endpoint.
struct Keeper {
    pusher: Pusher,
    state: Arc<State>,
    /// The channel to the sending thread, one batch at a time.
    parcels: SyncSender<Parcel>,
    in_flight: Option<InFlight>,
    /// Holds every batch from before it is sent until the endpoint has accepted it.
    spool: Option<Spool>,
    /// Batches that could not be spooled.
    waiting: VecDeque<Parcel>,
    wait: Duration,
    retry_at: Option<Instant>,
}

struct InFlight {
    parcel: Parcel,
    is_spooled: bool,
}

impl Keeper {
    fn new(
        pusher: Pusher,
        spool: Option<Spool>,
        state: Arc<State>,
        parcels: SyncSender<Parcel>,
    ) -> Self {
        let (waiting, wait) = (VecDeque::new(), pusher.backoff);
        Self { pusher, state, parcels, in_flight: None, spool, waiting, wait, retry_at: None }
    }

    fn run(mut self, messages: &Receiver<Message>) {
        let mut batch = Batch::new();
        let mut began: Option<Instant> = None;
        self.send_next();
        loop {
            let retry_at = self.retry_at.filter(|_| self.in_flight.is_none());
            let until = [began.map(|began| began + LINGER), retry_at].into_iter().flatten().min();
            let message = match until {
                Some(until) => {
                    messages.recv_timeout(until.saturating_duration_since(Instant::now()))
                }
                None => messages.recv().map_err(|RecvError| RecvTimeoutError::Disconnected),
            };
            let has_ended = match message {
                Ok(Message::Event(event)) => {
                    match batch.add(&event, self.pusher.target) {
                        Ok(()) => _ = began.get_or_insert_with(Instant::now),
                        Err(_) => self.state.lose(1),
                    }
                    false
                }
                Ok(Message::Answer(answer)) => {
                    self.answered(answer);
                    false
                }
                Ok(Message::End) | Err(RecvTimeoutError::Disconnected) => true,
                Err(RecvTimeoutError::Timeout) => false,
            };
            let is_due = has_ended || began.is_some_and(|began| began.elapsed() >= LINGER);
            if batch.count() >= self.pusher.batch_events || (is_due && batch.count() > 0) {
                self.keep(std::mem::replace(&mut batch, Batch::new()).finish());
                began = None;
            }
            if has_ended {
                return self.end(messages);
            }
            self.send_next();
        }
    }

    /// Queues a batch: in the spool, or in memory if it cannot be spooled.
    fn keep(&mut self, parcel: Parcel) {
        if self.spooled(&parcel) {
            return;
        }
        self.waiting.push_back(parcel);
        while self.waiting.iter().map(|parcel| parcel.body.len()).sum::<usize>() > MEMORY {
            let Some(oldest) = self.waiting.pop_front() else { break };
            self.state.lose(oldest.count);
        }
    }

    fn spooled(&mut self, parcel: &Parcel) -> bool {
        let Some(spool) = &mut self.spool else { return false };
        let mut dropped = 0;
        if let Err(error) = spool.put(parcel, &mut dropped) {
            self.state.error(format!("cannot spool: {error}"));
        }
        self.state.lose(dropped);
        spool.has(&parcel.key)
    }

    /// Sends the oldest batch, unless one is in flight or the backoff has not passed.
    fn send_next(&mut self) {
        if self.in_flight.is_some() || self.retry_at.is_some_and(|at| Instant::now() < at) {
            return;
        }
        let mut damaged = 0;
        let spooled = self.spool.as_mut().and_then(|spool| spool.first(&mut damaged));
        if damaged > 0 {
            self.state.error("a batch in the spool was damaged");
            self.state.lose(damaged);
        }
        let is_spooled = spooled.is_some();
        let Some(parcel) = spooled.or_else(|| self.waiting.pop_front()) else { return };
        let is_sent = self.parcels.try_send(parcel.clone()).is_ok();
        self.in_flight = Some(InFlight { parcel, is_spooled });
        if !is_sent {
            let why = "the thread that sends has ended".to_owned();
            self.answered(Answer::Away { why, after: Some(LONGEST_WAIT) });
        }
    }

    fn answered(&mut self, answer: Answer) {
        let Some(InFlight { parcel, is_spooled }) = self.in_flight.take() else { return };
        if let Answer::Away { why, after } = answer {
            self.state.error(why);
            self.retry_at = Some(Instant::now() + pause(after, self.wait));
            self.wait = (self.wait * 2).min(LONGEST_WAIT);
            if !is_spooled {
                self.waiting.push_front(parcel);
            }
            return;
        }
        // A full spool may have dropped this batch meanwhile and counted it as lost.
        let was_kept =
            !is_spooled || self.spool.as_mut().is_some_and(|spool| spool.remove(&parcel.key));
        match answer {
            Answer::Refused(why) => {
                notice(&format!("{} refuses events: {why}", scrub(&self.pusher.url)));
                self.state.error(why);
                self.state.lose(if was_kept { parcel.count } else { 0 });
            }
            _ if !was_kept => _ = self.state.lost.fetch_sub(parcel.count, Ordering::Relaxed),
            _ => {}
        }
        self.wait = self.pusher.backoff;
        self.retry_at = None;
    }

    /// Sends what it can while its tracker waits. Spooled batches are safe at this point; the
    /// others are spooled if possible, and lost otherwise.
    fn end(mut self, messages: &Receiver<Message>) {
        let until = Instant::now() + AT_END;
        self.retry_at = None;
        loop {
            self.send_next();
            if self.in_flight.is_none() {
                break;
            }
            match messages.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Message::Answer(answer)) => self.answered(answer),
                Ok(Message::Event(_) | Message::End) => {}
                Err(_) => {
                    self.state.error(format!("it takes longer than {} s", AT_END.as_secs()));
                    break;
                }
            }
        }
        let in_flight = self.in_flight.take().filter(|in_flight| !in_flight.is_spooled);
        let unsent = in_flight.map(|in_flight| in_flight.parcel).into_iter();
        for parcel in unsent.chain(std::mem::take(&mut self.waiting)) {
            if !self.spooled(&parcel) {
                self.state.lose(parcel.count);
            }
        }
    }
}
