//! Scopes that are open, so that whoever reads the memory of the process can tell them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

static OPEN: Mutex<Vec<Weak<AtomicU64>>> = Mutex::new(Vec::new());

/// The most resident memory that was seen while a scope is open.
#[derive(Debug)]
pub(super) struct Seen(Arc<AtomicU64>);

impl Seen {
    pub(super) fn new(rss: u64) -> Self {
        let seen = Arc::new(AtomicU64::new(rss));
        let mut open = lock();
        open.retain(|other| other.strong_count() > 0);
        open.push(Arc::downgrade(&seen));
        Self(seen)
    }

    pub(super) fn most(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Tells all open scopes how much memory is resident.
pub(crate) fn note_resident(rss: u64) {
    for seen in lock().iter().filter_map(Weak::upgrade) {
        seen.fetch_max(rss, Ordering::Relaxed);
    }
}

fn lock() -> MutexGuard<'static, Vec<Weak<AtomicU64>>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}
