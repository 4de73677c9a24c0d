//! What tasks used that a context was handed to, kept for the task that it came from.
//!
//! A task sees what is used on its own thread. What its children use on others reaches it here: an entry is made when its
//! context is handed over, and taken when it ends. Children that end later are not part of it.

use std::collections::HashMap;
use std::ops::AddAssign;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::record::Id;
use crate::usage::Usage;

/// What is summed up of a task's children, and their children.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sums {
    pub used: Usage,
    /// How many there are.
    pub count: u64,
    /// Whether one of them had others beside it.
    pub is_shared: bool,
}

impl AddAssign for Sums {
    fn add_assign(&mut self, other: Self) {
        self.used += other.used;
        self.count += other.count;
        self.is_shared |= other.is_shared;
    }
}

/// Whether a context of any task was ever handed over: most programs need not lock anything.
static ANY: AtomicBool = AtomicBool::new(false);
static HANDED: Mutex<Option<HashMap<Id, Sums>>> = Mutex::new(None);

/// Notes that a task's context is handed over.
pub fn expect(task: Id) {
    ANY.store(true, Ordering::Relaxed);
    lock().get_or_insert_default().entry(task).or_default();
}

/// Adds a child on another thread, if its parent is open.
pub fn add(parent: Id, sums: Sums) {
    if ANY.load(Ordering::Relaxed)
        && let Some(sum) = lock().as_mut().and_then(|handed| handed.get_mut(&parent))
    {
        *sum += sums;
    }
}

/// The children of a task that ends, as far as they were on other threads.
pub fn take(task: Id) -> Sums {
    if !ANY.load(Ordering::Relaxed) {
        return Sums::default();
    }
    lock().as_mut().and_then(|handed| handed.remove(&task)).unwrap_or_default()
}

/// The entries, locked while the process forks.
#[cfg(unix)]
pub(super) type Held = MutexGuard<'static, Option<HashMap<Id, Sums>>>;

#[cfg(unix)]
pub(super) fn hold() -> Held {
    lock()
}

fn lock() -> MutexGuard<'static, Option<HashMap<Id, Sums>>> {
    HANDED.lock().unwrap_or_else(PoisonError::into_inner)
}
