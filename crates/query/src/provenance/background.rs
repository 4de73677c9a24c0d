//! Runs blocking work on its own thread and lets async code await the results.
//!
//! A worker of an async runtime must not block on a disk or a server. This crate does not know
//! which runtime the program uses, if any. Therefore the work runs on a plain thread and sends its
//! results through a bounded queue.

use std::future::poll_fn;
use std::sync::mpsc::{self, SyncSender, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use runlore_core::contain::contain;
use runlore_core::{Error, ErrorKind, Result};

/// The capacity of the queue. The thread pauses when it is full, so that a slow reader does not
/// fill the memory.
const CAPACITY: usize = 64;

/// The reader's end of the queue. Dropping it stops the thread at its next result.
#[derive(Debug)]
pub(super) struct Receiver<T> {
    results: mpsc::Receiver<T>,
    reader: Reader,
}

/// The thread's end of the queue.
#[derive(Debug)]
pub(super) struct Sender<T> {
    results: SyncSender<T>,
    reader: Reader,
}

/// The task that waits for a result.
#[derive(Debug, Clone, Default)]
struct Reader(Arc<Mutex<Option<Waker>>>);

impl Reader {
    fn wait(&self, context: &Context<'_>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(context.waker().clone());
    }

    fn wake(&self) {
        let waker = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Starts a thread that sends its results one by one.
pub(super) fn stream<T: Send + 'static>(
    work: impl FnOnce(&Sender<T>) + Send + 'static,
) -> Result<Receiver<T>> {
    let (sender, results) = mpsc::sync_channel(CAPACITY);
    let reader = Reader::default();
    let receiver = Receiver { results, reader: reader.clone() };
    let sender = Sender { results: sender, reader: reader.clone() };
    std::thread::Builder::new()
        .name("runlore-query".to_owned())
        .spawn(move || {
            _ = contain(|| work(&sender));
            // The reader sees the end only once the sender is gone.
            drop(sender);
            reader.wake();
        })
        .map_err(|error| {
            Error::new(ErrorKind::Store, "cannot start a thread for the query").with_source(error)
        })?;
    Ok(receiver)
}

/// Runs `work` on a new thread and returns its result.
pub(super) async fn one<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let mut receiver = stream(move |sender| {
        sender.send(work());
    })?;
    let answer = poll_fn(|context| receiver.poll_next(context)).await;
    // The thread ended without a result, so it panicked. A third-party store may do that.
    answer.unwrap_or_else(|| Err(Error::new(ErrorKind::Store, "the store panicked")))
}

impl<T> Sender<T> {
    /// Sends a result, after waiting for room in the queue. Returns `false` if the reader is gone.
    pub(super) fn send(&self, result: T) -> bool {
        let is_sent = self.results.send(result).is_ok();
        self.reader.wake();
        is_sent
    }
}

impl<T> Receiver<T> {
    pub(super) fn poll_next(&mut self, context: &Context<'_>) -> Poll<Option<T>> {
        let received = self.results.try_recv().or_else(|_| {
            self.reader.wait(context);
            // A result that came before the reader waited has woken nobody.
            self.results.try_recv()
        });
        match received {
            Ok(result) => Poll::Ready(Some(result)),
            Err(TryRecvError::Disconnected) => Poll::Ready(None),
            Err(TryRecvError::Empty) => Poll::Pending,
        }
    }
}
