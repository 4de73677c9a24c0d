//! Runs blocking work on its own thread and lets async code await the results.
//!
//! A worker of an async runtime must not block on a disk or a server. This crate does not know
//! which runtime the program uses, if any. Therefore the work runs on a plain thread and sends its
//! results through a bounded queue.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use runlore_core::contain::contain;
use runlore_core::{Error, ErrorKind, Result};

/// The capacity of the queue. The thread pauses when it is full, so that a slow reader does not
/// fill the memory.
const WAITING: usize = 64;

/// The reader's end of the queue. Dropping it stops the thread at its next result.
#[derive(Debug)]
pub(super) struct Receiver<T>(Arc<Shared<T>>);

/// The thread's end of the queue.
#[derive(Debug)]
pub(super) struct Sender<T>(Arc<Shared<T>>);

#[derive(Debug)]
struct Shared<T> {
    queue: Mutex<Queue<T>>,
    has_room: Condvar,
}

#[derive(Debug)]
struct Queue<T> {
    waiting: VecDeque<T>,
    reader: Option<Waker>,
    is_over: bool,
}

/// Starts a thread that sends its results one by one.
pub(super) fn stream<T: Send + 'static>(
    work: impl FnOnce(&Sender<T>) + Send + 'static,
) -> Result<Receiver<T>> {
    let queue = Queue { waiting: VecDeque::new(), reader: None, is_over: false };
    let shared = Arc::new(Shared { queue: Mutex::new(queue), has_room: Condvar::new() });
    let sender = Sender(Arc::clone(&shared));
    std::thread::Builder::new()
        .name("runlore-query".to_owned())
        .spawn(move || _ = contain(|| work(&sender)))
        .map_err(|error| {
            Error::new(ErrorKind::Store, "cannot start a thread to ask").with_source(error)
        })?;
    Ok(Receiver(shared))
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

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, Queue<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Sender<T> {
    /// Sends a result, after waiting for room in the queue. Returns `false` if the reader is gone.
    pub(super) fn send(&self, answer: T) -> bool {
        let mut queue = self.0.lock();
        while queue.waiting.len() >= WAITING && !queue.is_over {
            queue = self.0.has_room.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        if queue.is_over {
            return false;
        }
        queue.waiting.push_back(answer);
        let reader = queue.reader.take();
        drop(queue);
        if let Some(reader) = reader {
            reader.wake();
        }
        true
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut queue = self.0.lock();
        queue.is_over = true;
        let reader = queue.reader.take();
        drop(queue);
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

impl<T> Receiver<T> {
    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<T>> {
        let mut queue = self.0.lock();
        if let Some(answer) = queue.waiting.pop_front() {
            drop(queue);
            self.0.has_room.notify_one();
            return Poll::Ready(Some(answer));
        }
        if queue.is_over {
            return Poll::Ready(None);
        }
        queue.reader = Some(context.waker().clone());
        Poll::Pending
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut queue = self.0.lock();
        queue.is_over = true;
        queue.waiting.clear();
        drop(queue);
        self.0.has_room.notify_one();
    }
}
