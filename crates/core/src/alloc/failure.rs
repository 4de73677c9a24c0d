//! Reports a failed allocation to a watching thread before the program ends.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// How long a thread whose allocation failed waits until the last events are written.
const PATIENCE: Duration = Duration::from_secs(2);
/// After a failure, further ones do not block for this long: a program that can do without the
/// memory must not be held up again and again.
const PAUSE: Duration = Duration::from_secs(30);

/// The number of failed allocations.
static FAILED: AtomicU64 = AtomicU64::new(0);
/// The number of the last failure that was handled.
static ANSWERED: AtomicU64 = AtomicU64::new(0);
/// The number of failures that were reported to a watcher.
static TOLD: AtomicU64 = AtomicU64::new(0);
static WATCH: Mutex<Watch> = Mutex::new(Watch { watchers: Vec::new(), awaited: None });

/// The watchers, and the failure that they have to handle.
struct Watch {
    /// The last one is active, if it is of this process.
    watchers: Vec<Watching>,
    awaited: Option<Awaited>,
}

struct Watching {
    id: u64,
    thread: Thread,
    /// The process of the thread: a forked child does not have the thread.
    pid: u32,
}

/// The last failure that a thread waited for.
#[derive(Clone, Copy)]
struct Awaited {
    number: u64,
    size: u64,
    since: Instant,
}

thread_local! {
    /// Whether this thread handles a failure or waits for one. Its own failures are then only
    /// counted.
    static IS_BUSY: Cell<bool> = const { Cell::new(false) };
}

impl Watch {
    fn watcher(&self) -> Option<&Watching> {
        self.watchers.last().filter(|watcher| watcher.pid == std::process::id())
    }
}

/// Notes that an allocation of `size` bytes failed.
#[cold]
pub(super) fn note(size: usize) {
    wait(size, PATIENCE);
}

/// Waits until a watcher has handled the failure, if there is a watcher. Must not allocate.
fn wait(size: usize, patience: Duration) {
    let number = FAILED.fetch_add(1, Ordering::AcqRel) + 1;
    if IS_BUSY.replace(true) {
        return;
    }
    if let Some((awaited, thread)) = awaited(number, size as u64) {
        thread.unpark();
        while ANSWERED.load(Ordering::Acquire) < awaited.number
            && awaited.since.elapsed() < patience
        {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    IS_BUSY.set(false);
}

/// Returns the failure to wait for: this one, or an earlier one that is still being handled.
fn awaited(number: u64, size: u64) -> Option<(Awaited, Thread)> {
    // The lock is held only briefly, unless it was held when this process was forked.
    let mut watch = (0..100).find_map(|_| {
        let taken = WATCH.try_lock().ok();
        if taken.is_none() {
            std::thread::yield_now();
        }
        taken
    })?;
    let thread = watch.watcher()?.thread.clone();
    let now = Instant::now();
    let is_recent = |last: &Awaited| now.duration_since(last.since) < PAUSE;
    if let Some(last) = watch.awaited.filter(is_recent) {
        let is_open = ANSWERED.load(Ordering::Acquire) < last.number;
        return is_open.then_some((last, thread));
    }
    let awaited = Awaited { number, size, since: now };
    watch.awaited = Some(awaited);
    Some((awaited, thread))
}

/// A failure that a thread is waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failed {
    /// The number of bytes that could not be allocated.
    pub size: u64,
    /// The number of failed allocations since the last report, including this one.
    pub count: u64,
}

/// Makes a thread the watcher of failed allocations until it is dropped. The last watcher is
/// active. When it is dropped, the one before it becomes active again.
#[derive(Debug)]
pub struct Watcher {
    id: u64,
}

impl Watcher {
    /// Makes the calling thread a watcher. It is unparked when a failure is to be handled.
    pub fn start() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        IS_BUSY.set(true);
        let id = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        let (thread, pid) = (std::thread::current(), std::process::id());
        let mut watch = lock();
        if watch.watcher().is_none() {
            // Earlier failures are not reported.
            TOLD.store(FAILED.load(Ordering::Acquire), Ordering::Relaxed);
            watch.watchers.clear();
            watch.awaited = None;
        }
        watch.watchers.push(Watching { id, thread, pid });
        Self { id }
    }

    /// Returns the failure that a thread is waiting for. That thread continues after
    /// [`answer`](Self::answer) is called.
    pub fn failed(&self) -> Option<Failed> {
        if ANSWERED.load(Ordering::Acquire) >= FAILED.load(Ordering::Acquire) {
            return None;
        }
        let watch = lock();
        let awaited = watch.awaited?;
        let is_open = ANSWERED.load(Ordering::Acquire) < awaited.number;
        let is_mine = watch.watcher().is_some_and(|watcher| watcher.id == self.id);
        (is_open && is_mine).then(|| {
            let all = FAILED.load(Ordering::Acquire);
            let told = TOLD.swap(all, Ordering::Relaxed);
            Failed { size: awaited.size, count: all.saturating_sub(told) }
        })
    }

    /// Marks the failure as handled.
    pub fn answer(&self) {
        if let Some(awaited) = lock().awaited {
            ANSWERED.fetch_max(awaited.number, Ordering::Release);
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let mut watch = lock();
        watch.watchers.retain(|watcher| watcher.id != self.id);
        match (watch.watcher(), watch.awaited) {
            // The previous watcher takes over the failure that is still open.
            (Some(before), _) => before.thread.unpark(),
            (None, Some(awaited)) => {
                _ = ANSWERED.fetch_max(awaited.number, Ordering::Release);
            }
            (None, None) => {}
        }
        drop(watch);
        IS_BUSY.set(false);
    }
}

fn lock() -> MutexGuard<'static, Watch> {
    WATCH.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    /// Longer than even a busy machine needs.
    const LONG: Duration = Duration::from_secs(60);

    /// Starts a thread that handles failures and sends them to `seen`. The returned closure ends
    /// it.
    fn watcher(seen: Sender<(&'static str, Failed)>, name: &'static str) -> impl FnOnce() {
        let (end, is_over) = channel::<()>();
        let (begin, has_begun) = channel();
        let thread = std::thread::spawn(move || {
            let watcher = Watcher::start();
            begin.send(()).unwrap();
            while is_over.try_recv().is_err() {
                if let Some(failed) = watcher.failed() {
                    seen.send((name, failed)).unwrap();
                    watcher.answer();
                }
                std::thread::park_timeout(Duration::from_millis(5));
            }
        });
        has_begun.recv().unwrap();
        move || {
            end.send(()).unwrap();
            thread.join().unwrap();
        }
    }

    /// Pretends that so much time has passed since the last wait began.
    fn pass(time: Duration) {
        if let Some(awaited) = &mut WATCH.lock().unwrap().awaited {
            awaited.since = awaited.since.checked_sub(time).unwrap();
        }
    }

    #[test]
    fn one_failure_in_a_while_is_waited_for_and_the_last_watcher_sees_to_it() {
        let (tell, seen) = channel();
        let end_first = watcher(tell.clone(), "first");
        wait(10, LONG);
        // It was handled before `wait` returned.
        assert_eq!(seen.try_recv().unwrap(), ("first", Failed { size: 10, count: 1 }));
        for _ in 0..3 {
            wait(20, LONG);
        }
        assert!(seen.try_recv().is_err(), "a program that goes on without is not held up again");

        let end_second = watcher(tell, "second");
        pass(PAUSE);
        wait(30, LONG);
        assert_eq!(seen.try_recv().unwrap(), ("second", Failed { size: 30, count: 4 }));
        end_second();
        pass(PAUSE);
        wait(40, LONG);
        assert_eq!(seen.try_recv().unwrap(), ("first", Failed { size: 40, count: 1 }));
        end_first();
        pass(PAUSE);
        wait(50, LONG);
        assert!(seen.try_recv().is_err(), "nobody sees to it, and nobody waits");
    }

    #[cfg(unix)]
    #[test]
    fn a_thread_of_another_process_is_not_waited_for() {
        let thread = std::thread::current();
        let parent = Watching { id: u64::MAX, thread, pid: std::os::unix::process::parent_id() };
        let watch = Watch { watchers: vec![parent], awaited: None };
        assert!(watch.watcher().is_none());
    }
}
