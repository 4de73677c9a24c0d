//! Resource usage of child tasks on other threads, summed up for their parent.
//!
//! A task measures only its own thread. The usage of its children on other threads is added here:
//! an entry is created when the task's context is passed on, and removed when the task ends.
//! Children that end later are not counted.

use std::collections::HashMap;
use std::ops::AddAssign;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::fork::PerProcess;
use crate::record::Id;
use crate::usage::Usage;

/// The summed usage of a task's children and their descendants.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sums {
    pub used: Usage,
    /// The number of tasks in the sum.
    pub count: u64,
    /// Whether other tasks ran at the same time as one of them.
    pub is_shared: bool,
}

impl AddAssign for Sums {
    fn add_assign(&mut self, other: Self) {
        self.used += other.used;
        self.count += other.count;
        self.is_shared |= other.is_shared;
    }
}

/// Whether any context was ever passed on. Most programs never do, and need no lock then.
static ANY: AtomicBool = AtomicBool::new(false);
static BY_TASK: PerProcess<Mutex<HashMap<Id, Sums>>> = PerProcess::new();

/// Creates the entry of a task whose context is passed on.
pub fn expect(task: Id) {
    ANY.store(true, Ordering::Relaxed);
    lock().entry(task).or_default();
}

/// Adds the usage of a child on another thread, if its parent is still open.
pub fn add(parent: Id, sums: Sums) {
    if ANY.load(Ordering::Relaxed)
        && let Some(sum) = lock().get_mut(&parent)
    {
        *sum += sums;
    }
}

/// Removes the entry of a task that ends. Returns the usage of its children on other threads.
pub fn take(task: Id) -> Sums {
    if !ANY.load(Ordering::Relaxed) {
        return Sums::default();
    }
    lock().remove(&task).unwrap_or_default()
}

fn lock() -> MutexGuard<'static, HashMap<Id, Sums>> {
    BY_TASK.lock().unwrap_or_else(PoisonError::into_inner)
}
