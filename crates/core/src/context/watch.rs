//! Shows the current task of each thread to a watching thread.
//!
//! A thread normally keeps its context to itself. While somebody watches, each thread publishes its
//! current task in a slot of its own, which is read without a lock. Otherwise a task pays for one
//! relaxed load only.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::{CURRENT, Context};
use crate::fork::{PerProcess, generation};
use crate::record::Id;

/// The number of watchers.
static WATCHING: AtomicU32 = AtomicU32::new(0);
/// Changes when watching starts: slots written for earlier watchers may be outdated.
static EPOCH: AtomicU64 = AtomicU64::new(0);
/// The slots of all threads that have published a task.
static SLOTS: PerProcess<Mutex<Vec<Weak<Slot>>>> = PerProcess::new();
/// How many slots were ever added to `SLOTS`.
static LISTED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The thread's slot, and the generation of the process that lists it.
    static SLOT: RefCell<Option<(u32, Arc<Slot>)>> = const { RefCell::new(None) };
}

/// The published task of one thread. The number is odd while the thread is writing.
#[derive(Debug, Default)]
struct Slot {
    number: AtomicU64,
    high: AtomicU64,
    low: AtomicU64,
    epoch: AtomicU64,
}

impl Slot {
    /// Publishes a task. Only the slot's own thread calls this.
    fn show(&self, task: Option<Id>) {
        let bits = task.map_or(0, Id::to_bits);
        let number = self.number.load(Ordering::Relaxed);
        self.number.store(number + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        self.high.store((bits >> 64) as u64, Ordering::Relaxed);
        self.low.store(bits as u64, Ordering::Relaxed);
        self.epoch.store(EPOCH.load(Ordering::Relaxed), Ordering::Relaxed);
        self.number.store(number + 2, Ordering::Release);
    }

    /// Reads the task. `None` also if it changes during every attempt.
    fn look(&self) -> Option<Id> {
        for _ in 0..8 {
            let before = self.number.load(Ordering::Acquire);
            let high = self.high.load(Ordering::Relaxed);
            let low = self.low.load(Ordering::Relaxed);
            let epoch = self.epoch.load(Ordering::Relaxed);
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && self.number.load(Ordering::Relaxed) == before {
                let task = Id::from_bits(u128::from(high) << 64 | u128::from(low));
                return task.filter(|_| epoch == EPOCH.load(Ordering::Relaxed));
            }
        }
        None
    }
}

/// Publishes the context that a thread has just entered.
#[inline]
pub(super) fn show(context: Context) {
    if WATCHING.load(Ordering::Relaxed) != 0 {
        show_anew(context);
    }
}

#[cold]
fn show_anew(context: Context) {
    // While a thread's destructors run, it has no slot, and no task that a watcher needs.
    _ = SLOT.try_with(|slot| {
        let mut slot = slot.borrow_mut();
        let generation = generation();
        slot.take_if(|(listed_in, _)| *listed_in != generation);
        slot.get_or_insert_with(|| (generation, Slot::listed())).1.show(context.task);
    });
}

impl Slot {
    fn listed() -> Arc<Self> {
        let slot = Arc::new(Self::default());
        let mut slots = slots();
        slots.retain(|slot| slot.strong_count() > 0);
        slots.push(Arc::downgrade(&slot));
        LISTED.fetch_add(1, Ordering::Release);
        slot
    }
}

fn slots() -> MutexGuard<'static, Vec<Weak<Slot>>> {
    SLOTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Watches the tasks of all threads until it is dropped. Sees the current task of the thread that
/// created it, and tasks on any thread that begin or resume after that.
#[derive(Debug)]
pub struct Watch {
    /// The slot of the thread that created the watch: its task comes first.
    first: Option<Arc<Slot>>,
    /// The slots of all threads, and the value of `LISTED` when they were copied.
    slots: Vec<Weak<Slot>>,
    listed: u64,
}

impl Watch {
    pub fn start() -> Self {
        if WATCHING.fetch_add(1, Ordering::Relaxed) == 0 {
            EPOCH.fetch_add(1, Ordering::Relaxed);
        }
        show(CURRENT.get());
        let first = SLOT.try_with(|slot| Some(slot.borrow().as_ref()?.1.clone())).ok().flatten();
        Self { first, slots: Vec::new(), listed: 0 }
    }

    /// Collects the innermost open task of each thread. That of the thread which started the watch
    /// comes first.
    pub fn open_tasks(&mut self, found: &mut Vec<Id>) {
        found.clear();
        let listed = LISTED.load(Ordering::Acquire);
        if self.listed != listed {
            self.slots.clone_from(&slots());
            self.listed = listed;
        }
        found.extend(self.first.as_ref().and_then(|slot| slot.look()));
        for slot in self.slots.iter().filter_map(Weak::upgrade) {
            if let Some(task) = slot.look()
                && !found.contains(&task)
            {
                found.push(task);
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        WATCHING.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context() -> Context {
        Context::new(Some(Id::new()), 0)
    }

    #[test]
    fn the_innermost_task_of_each_thread_is_seen() {
        let mut found = Vec::new();
        let (outer, inner, other) = (context(), context(), context());
        let entered = outer.enter();
        let mut watch = Watch::start();
        let mut open = || {
            watch.open_tasks(&mut found);
            found.clone()
        };
        assert_eq!(open().first().copied(), outer.task);
        inner.run(|| assert_eq!(open().first().copied(), inner.task));
        let seen = std::thread::scope(|scope| {
            scope.spawn(|| other.run(|| open().contains(&other.task.unwrap()))).join().unwrap()
        });
        assert!(seen);
        let after = open();
        assert_eq!(after.first().copied(), outer.task);
        assert!(!after.contains(&other.task.unwrap()), "its thread has ended");
        drop(entered);
        assert_ne!(open().first().copied(), outer.task);
    }
}
