//! Emitting metrics from async code.

use std::fmt::{self, Display};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Instant;

use super::emission::{Emission, sealed};
use super::queue::Queue;
use super::record::Emitted;
use super::telemetry::Telemetry;
use runlore_core::{Error, Result};

/// Emits without waiting for files: a separate thread writes them, in order. Created by
/// [`Telemetry::into_async`]. It works with any async runtime.
///
/// Up to 10,000 records wait in the queue. Beyond that, new records are dropped and
/// [counted](Self::dropped). When the last clone is dropped, it waits at most 5 s until the queued
/// records are written. A clone that is never dropped does not wait, for instance one in a static
/// or one that is alive at `std::process::exit`. In that case, await the record that you send last.
///
/// ```
/// # let path = std::env::temp_dir().join(format!("runlore-doc-async-{}.jsonl", std::process::id()));
/// # let rest = async {
/// let telemetry = runlore::emit::Telemetry::new().path(&path).into_async();
/// let answer = telemetry.track("think", async { 42 }).await;
/// # assert_eq!(answer, 42);
/// // Records are written in order: once this one is written, so are those before it.
/// telemetry.emit().metric("tokens_per_sec", 45.2).send().await?;
/// # Ok::<(), runlore::Error>(())
/// # };
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(rest)?;
/// # assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 3);
/// # std::fs::remove_file(&path).unwrap();
/// # Ok::<(), runlore::Error>(())
/// ```
#[derive(Clone)]
pub struct AsyncTelemetry {
    telemetry: Telemetry,
    queue: Arc<Queue>,
}

impl fmt::Debug for AsyncTelemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AsyncTelemetry").field(&self.telemetry).finish()
    }
}

/// A record that is queued when it is [sent](Emission::send) or dropped.
pub type AsyncEmission = Emission<AsyncTelemetry>;

/// A record that is being written. It can be awaited or dropped, and is written in either case,
/// unless the process ends before a clone of [`AsyncTelemetry`] has waited for it.
#[derive(Debug)]
pub struct Sent(Option<Arc<Outcome>>);

#[derive(Debug, Default)]
pub(super) struct Outcome(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    result: Option<Result<()>>,
    waker: Option<Waker>,
}

impl AsyncTelemetry {
    pub(super) fn new(telemetry: Telemetry) -> Self {
        Self { telemetry, queue: Arc::default() }
    }

    /// Returns the number of records that were dropped because the queue was full.
    pub fn dropped(&self) -> u64 {
        self.queue.dropped()
    }

    /// Creates a record to add values to.
    pub fn emit(&self) -> AsyncEmission {
        Emission::new(self.clone())
    }

    /// Creates a record with status `started`.
    pub fn start(&self) -> AsyncEmission {
        self.emit().status("started")
    }

    /// Creates a record with status `completed`.
    pub fn complete(&self) -> AsyncEmission {
        Emission::completed(self.clone())
    }

    /// Creates a record with status `failed`.
    pub fn fail(&self, error: impl Display) -> AsyncEmission {
        Emission::failed(self.clone(), error)
    }

    /// Runs a future, and emits one record when it begins and one when it ends. If the future is
    /// dropped before its end, it counts as failed.
    pub async fn track<T>(&self, message: &str, work: impl Future<Output = T>) -> T {
        self.tracked(message, work, |_| None).await
    }

    /// Runs a fallible future like [`track`](Self::track).
    ///
    /// # Errors
    ///
    /// Returns the future's own error.
    pub async fn try_track<T, E: Display>(
        &self,
        message: &str,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        self.tracked(message, work, |result| result.as_ref().err().map(E::to_string)).await
    }

    async fn tracked<T>(
        &self,
        message: &str,
        work: impl Future<Output = T>,
        error: impl FnOnce(&T) -> Option<String>,
    ) -> T {
        drop(self.start().message(message).send());
        let mut end = End {
            to: self,
            began: Instant::now(),
            failed: Some("dropped before its end".to_owned()),
        };
        let result = work.await;
        end.failed = error(&result);
        result
    }

    fn push(&self, record: Emitted) -> Sent {
        let outcome = Arc::new(Outcome::default());
        if let Err(error) = self.queue.push(record, Arc::clone(&outcome), &self.telemetry) {
            outcome.set(Err(error), &self.telemetry);
        }
        Sent(Some(outcome))
    }
}

/// Emits the end of a tracked future when dropped, however the future ends.
struct End<'a> {
    to: &'a AsyncTelemetry,
    began: Instant,
    failed: Option<String>,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        let end = match self.failed.take() {
            Some(_) if thread::panicking() => self.to.fail("panicked"),
            Some(why) => self.to.fail(why),
            None => self.to.complete(),
        };
        drop(end.metric("duration_sec", self.began.elapsed().as_secs_f64()).send());
    }
}

impl AsyncEmission {
    /// Queues the record for writing.
    pub fn send(mut self) -> Sent {
        match self.take() {
            Some(record) => self.to().push(record),
            None => Sent(None),
        }
    }
}

impl sealed::Destination for AsyncTelemetry {
    fn name(&self) -> &str {
        self.telemetry.command_name()
    }

    fn put(&self, record: Emitted) {
        drop(self.push(record));
    }
}

impl Outcome {
    pub(super) fn set(&self, result: Result<()>, telemetry: &Telemetry) {
        if let Err(error) = &result {
            telemetry.tell(Err(Error::new(error.kind(), error.to_string())));
        }
        let waker = {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            state.result = Some(result);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Future for Sent {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(outcome) = &self.0 else { return Poll::Ready(Ok(())) };
        let mut state = outcome.0.lock().unwrap_or_else(PoisonError::into_inner);
        match state.result.take() {
            Some(result) => {
                drop(state);
                self.0 = None;
                Poll::Ready(result)
            }
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}
