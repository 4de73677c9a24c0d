//! The thread that calls the drivers, and how long other threads wait for it.
//!
//! A thread requests a reading and continues with other work. Later it takes the reading, and waits
//! for it at most for the budget. There is one reader thread and no queue: all requests that arrive
//! during a reading share the next one. While the driver is overdue, nobody waits at all, so a
//! hanging driver costs the budget once and not once per task.
//!
//! The thread belongs to the process that started it. A forked child does not have it, and starts
//! its own at its first request. It does not touch locks that the parent held.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::ending::{self, Inside};
use super::info::GpuInfo;
use super::open::{Asked, OpenGpus};
use super::reading::{Reading, Wanted};
use runlore_core::contain::contain;
use runlore_core::fork::PerProcess;
use runlore_core::settings::GpuVendor;

/// How long a task waits for a reading.
const BUDGET: Duration = Duration::from_millis(20);

/// A reading, or why there is none.
pub(crate) type Answer = Result<Arc<Reading>, Absent>;

/// Why there is no reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Absent {
    /// There is nothing to read, and there never will be.
    Nothing(String),
    /// The driver has not answered in time.
    Late(String),
}

impl Absent {
    pub(crate) fn reason(&self) -> &str {
        let (Self::Nothing(reason) | Self::Late(reason)) = self;
        reason
    }
}

/// The GPUs, with the vendor and the metrics that the settings select.
#[derive(Debug)]
pub(crate) struct Gpus {
    #[cfg(target_os = "linux")]
    number: u64,
    asked: Arc<Asked>,
    desks: PerProcess<Arc<Desk>>,
}

/// The state that the reader thread shares with the threads that request readings, in one process.
#[derive(Debug)]
struct Desk {
    state: Mutex<State>,
    /// Notified when there is work for the reader.
    work: Condvar,
    /// Notified when the reader has done its work.
    done: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_started: bool,
    vendor: Option<GpuVendor>,
    is_closed: bool,
    /// Why nothing can be read, now or later.
    failure: Option<String>,
    /// What the next reading must contain.
    wanted: Wanted,
    begun: u64,
    ended: u64,
    /// When the current reading began. Opening the library counts as a reading.
    since: Option<Instant>,
    /// Duration of the last reading.
    took: Duration,
    last: Option<(Instant, Arc<Reading>)>,
    /// Whether the description was requested.
    is_info_wanted: bool,
    info: Option<Arc<GpuInfo>>,
}

/// Work for the reader.
enum Work {
    Read(Wanted),
    Describe,
}

/// A requested reading.
#[derive(Debug)]
pub(crate) struct Ticket {
    wanted: Wanted,
    /// The number of the first reading that answers the request.
    number: u64,
    /// An earlier reading that was recent enough.
    ready: Option<Arc<Reading>>,
}

impl Gpus {
    pub(crate) fn new(asked: Asked) -> Self {
        Self {
            #[cfg(target_os = "linux")]
            number: next_number(),
            asked: Arc::new(asked),
            desks: PerProcess::new(),
        }
    }

    /// Returns the vendor of the devices, and how long the last reading took.
    pub(crate) fn seen(&self) -> (Option<GpuVendor>, Option<Duration>) {
        let state = self.desk().lock();
        (state.vendor, state.last.as_ref().map(|_| state.took))
    }

    /// Returns a number that identifies this instance. Other instances may read other metrics.
    #[cfg(target_os = "linux")]
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    fn desk(&self) -> &Arc<Desk> {
        &self.desks
    }

    /// Requests a reading without waiting. A reading that is at most `max_age` old is used instead
    /// of a new one.
    pub(crate) fn ask(&self, wanted: Wanted, max_age: Duration) -> Ticket {
        if wanted.is_nothing() {
            return Ticket { wanted, number: 0, ready: None };
        }
        let desk = self.desk();
        let mut state = desk.lock();
        let number = state.begun + 1;
        let ready = state.young(wanted, max_age);
        if state.failure.is_none() && ready.is_none() {
            state.wanted = state.wanted.and(wanted);
            self.set_to_work(desk, &mut state);
        }
        Ticket { wanted, number, ready }
    }

    fn set_to_work(&self, desk: &Arc<Desk>, state: &mut State) {
        if state.is_started {
            desk.work.notify_one();
        } else {
            start(desk, state, Arc::clone(&self.asked));
        }
    }

    /// Waits for the description of the devices. After `patience`, returns why it is not known.
    pub(crate) fn info(&self, patience: Duration) -> Result<Arc<GpuInfo>, Absent> {
        let desk = self.desk();
        let until = Instant::now() + patience;
        let mut state = desk.lock();
        loop {
            if let Some(info) = &state.info {
                return Ok(Arc::clone(info));
            }
            if let Some(failure) = &state.failure {
                return Err(Absent::Nothing(failure.clone()));
            }
            if !state.is_info_wanted {
                state.is_info_wanted = true;
                self.set_to_work(desk, &mut state);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let waited = state.since.map_or(patience, |since| since.elapsed());
                let reason = format!("the driver has not answered for {} ms", waited.as_millis());
                return Err(Absent::Late(reason));
            }
            let waited = desk.done.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits for the reading, at most for the budget. After that, returns why there is none.
    pub(crate) fn take(&self, ticket: &Ticket) -> Answer {
        self.take_within(ticket, BUDGET)
    }

    /// Like [`take`](Self::take), with another budget.
    pub(crate) fn take_within(&self, ticket: &Ticket, budget: Duration) -> Answer {
        if let Some(ready) = &ticket.ready {
            return Ok(Arc::clone(ready));
        }
        let desk = self.desk();
        let until = Instant::now() + budget;
        let mut state = desk.lock();
        loop {
            if let Some(failure) = &state.failure {
                return Err(Absent::Nothing(failure.clone()));
            }
            if state.ended >= ticket.number
                && let Some((_, last)) = &state.last
                && last.of.covers(ticket.wanted)
            {
                return Ok(Arc::clone(last));
            }
            let waited = state.since.map_or(Duration::ZERO, |since| since.elapsed());
            if waited > budget {
                let reason = format!("the driver has not answered for {} ms", waited.as_millis());
                return Err(Absent::Late(reason));
            }
            if state.took > budget {
                let reason = format!(
                    "a reading takes {} ms, and a task waits for {} at most: set telemetry_capture.max_age to share \
                     older ones",
                    state.took.as_millis(),
                    budget.as_millis()
                );
                return Err(Absent::Late(reason));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let reason = format!("the driver did not answer within {} ms", budget.as_millis());
                return Err(Absent::Late(reason));
            }
            let waited = desk.done.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(target_os = "linux")]
fn next_number() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Drop for Gpus {
    fn drop(&mut self) {
        let desk = self.desk();
        desk.lock().is_closed = true;
        desk.work.notify_one();
    }
}

impl Default for Desk {
    fn default() -> Self {
        Self { state: Mutex::default(), work: Condvar::new(), done: Condvar::new() }
    }
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn young(&self, wanted: Wanted, max_age: Duration) -> Option<Arc<Reading>> {
        let (at, last) = self.last.as_ref()?;
        let is_young = !max_age.is_zero() && at.elapsed() <= max_age && last.of.covers(wanted);
        is_young.then(|| Arc::clone(last))
    }
}

#[cold]
fn start(desk: &Arc<Desk>, state: &mut State, asked: Arc<Asked>) {
    state.is_started = true;
    state.since = Some(Instant::now());
    let desk = Arc::clone(desk);
    let thread = std::thread::Builder::new().name("runlore-gpu".to_owned());
    if let Err(error) = thread.spawn(move || read_on(&desk, &asked)) {
        state.failure = Some(format!("no thread can be started to read them: {error}"));
    }
}

/// Reads on request until the [`Gpus`] are dropped or the library fails.
fn read_on(desk: &Desk, asked: &Asked) {
    // After a panic in a vendor's crate, other threads must not wait for this thread.
    let result = contain(|| serve(desk, asked));
    let reason = match result {
        Some(Ok(())) => "nobody reads them any more".to_owned(),
        Some(Err(reason)) => reason,
        None => "reading them panicked, and was given up".to_owned(),
    };
    desk.lock().failure = Some(reason);
    desk.done.notify_all();
}

fn serve(desk: &Desk, asked: &Asked) -> Result<(), String> {
    ending::watch();
    let Some(inside) = Inside::enter() else { return Ok(()) };
    let mut opened = OpenGpus::new(asked)?;
    drop(inside);
    ending::watch();
    {
        let mut state = desk.lock();
        state.since = None;
        state.vendor = Some(opened.vendor());
    }
    while let Some(work) = next(desk) {
        let Some(_inside) = Inside::enter() else { break };
        let before = Instant::now();
        match work {
            Work::Read(wanted) => {
                let reading = Arc::new(opened.read(wanted));
                let mut state = desk.lock();
                state.ended = state.begun;
                state.took = before.elapsed();
                state.last = Some((Instant::now(), reading));
                state.since = None;
            }
            Work::Describe => {
                let info = Arc::new(opened.info());
                let mut state = desk.lock();
                state.info = Some(info);
                state.since = None;
            }
        }
        desk.done.notify_all();
    }
    Ok(())
}

/// Waits for a request and returns it. `None` if there will be no more.
fn next(desk: &Desk) -> Option<Work> {
    let mut state = desk.lock();
    loop {
        if state.is_closed {
            return None;
        }
        if !state.wanted.is_nothing() {
            let wanted = std::mem::take(&mut state.wanted);
            state.begun += 1;
            state.since = Some(Instant::now());
            return Some(Work::Read(wanted));
        }
        // Readings come first, because tasks wait for them.
        if state.is_info_wanted && state.info.is_none() {
            state.since = Some(Instant::now());
            return Some(Work::Describe);
        }
        state = desk.work.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
}
