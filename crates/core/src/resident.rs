//! Open scopes, which are informed whenever the memory of the process is read.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::fork::PerProcess;

static OPEN: PerProcess<Mutex<Vec<Weak<AtomicU64>>>> = PerProcess::new();

/// The number of open scopes. Usually 0, which is known without a lock.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// The highest resident memory seen while a scope is open.
#[derive(Debug)]
pub struct Seen(Arc<AtomicU64>);

impl Seen {
    pub fn new(rss: u64) -> Self {
        let seen = Arc::new(AtomicU64::new(rss));
        let mut open = open();
        open.retain(|other| other.strong_count() > 0);
        open.push(Arc::downgrade(&seen));
        COUNT.store(open.len(), Ordering::Release);
        Self(seen)
    }

    pub fn most(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Passes the resident memory of the process to all open scopes.
#[inline]
pub fn note_resident(rss: u64) {
    if COUNT.load(Ordering::Acquire) != 0 {
        note_resident_to_all(rss);
    }
}

#[cold]
fn note_resident_to_all(rss: u64) {
    let mut open = open();
    open.retain(|seen| seen.strong_count() > 0);
    COUNT.store(open.len(), Ordering::Release);
    for seen in open.iter().filter_map(Weak::upgrade) {
        seen.fetch_max(rss, Ordering::Relaxed);
    }
}

fn open() -> MutexGuard<'static, Vec<Weak<AtomicU64>>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}
