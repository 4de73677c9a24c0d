//! An allocation that failed: whoever waits for that is told, before the program ends over it.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// How long whoever could not allocate waits until the last events are written.
const PATIENCE: Duration = Duration::from_secs(2);
/// A program that can do without what it asked for is not held up again for as long as this.
const PAUSE: Duration = Duration::from_secs(30);

/// How many allocations have failed.
static FAILED: AtomicU64 = AtomicU64::new(0);
/// Up to which of them they were seen to.
static ANSWERED: AtomicU64 = AtomicU64::new(0);
/// How many of them were told.
static TOLD: AtomicU64 = AtomicU64::new(0);
static WATCH: Mutex<Watch> = Mutex::new(Watch { watchers: Vec::new(), awaited: None });

/// Who is told, and of what.
struct Watch {
    /// The last one of this process counts, as long as it lives.
    watchers: Vec<Watching>,
    awaited: Option<Awaited>,
}

struct Watching {
    id: u64,
    thread: Thread,
    /// A forked child does not have the thread.
    pid: u32,
}

/// The last failure that somebody waited for.
#[derive(Clone, Copy)]
struct Awaited {
    number: u64,
    size: u64,
    since: Instant,
}

thread_local! {
    /// A thread that is seeing to a failure, or waiting for that, makes no more of it.
    static IS_BUSY: Cell<bool> = const { Cell::new(false) };
}

impl Watch {
    fn watcher(&self) -> Option<&Watching> {
        self.watchers.last().filter(|watcher| watcher.pid == std::process::id())
    }
}

/// Notes that so many bytes could not be had.
#[cold]
pub(super) fn note(size: usize) {
    wait(size, PATIENCE);
}

/// Waits until it was seen to, where somebody does that. Nothing in here allocates.
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

/// The failure that is to be waited for: this one, or one before that is still being seen to.
fn awaited(number: u64, size: u64) -> Option<(Awaited, Thread)> {
    // Whoever has the lock has it for a moment, unless it was held when this process was forked.
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

/// A failure that somebody waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failed {
    /// What could not be had.
    pub size: u64,
    /// How many allocations failed since that was last told, with this one.
    pub count: u64,
}

/// A thread that is told of failures, as long as this lives. Of several the last one counts; when it goes, the one before does.
#[derive(Debug)]
pub struct Watcher {
    id: u64,
}

impl Watcher {
    /// The calling thread, which is unparked when there is something to see.
    pub fn start() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        IS_BUSY.set(true);
        let id = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        let (thread, pid) = (std::thread::current(), std::process::id());
        let mut watch = lock();
        if watch.watcher().is_none() {
            // What failed before is nobody's.
            TOLD.store(FAILED.load(Ordering::Acquire), Ordering::Relaxed);
            watch.watchers.clear();
            watch.awaited = None;
        }
        watch.watchers.push(Watching { id, thread, pid });
        Self { id }
    }

    /// What has failed and is waited for. Whoever waits goes on once [`answer`](Self::answer) is called.
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

    /// The failure was seen to.
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
            // Whoever still waits is seen to by the one before.
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

    /// Far beyond what a busy machine takes.
    const LONG: Duration = Duration::from_secs(60);

    /// A thread that sees to failures until it is told to end; what it has seen.
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

    /// As if so much time had passed since somebody waited.
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
        // It was seen to before it went on.
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
