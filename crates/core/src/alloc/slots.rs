//! The counters: one slot per thread, which only that thread writes and any thread may read.
//!
//! An allocator may be called at any time, even while a thread starts or ends. So a thread finds
//! its slot through a plain thread-local number, which needs no destructor. The guard that returns
//! the slot when the thread ends is a separate thread-local. A thread that has no slot any more,
//! and threads beyond the last slot, use one shared slot with atomic additions.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};

use super::counts::{Counts, ThreadCounts};

const SLOTS: usize = 512;
/// How many bytes a thread may have counted that are not in `LIVE` yet.
const BATCH: i64 = 64 * 1024;

/// Aligned to its own cache lines, so that threads do not slow each other down.
#[repr(align(128))]
struct Slot {
    allocated: AtomicU64,
    freed: AtomicU64,
    allocations: AtomicU64,
    deallocations: AtomicU64,
    /// The change of the bytes in use that is not in `LIVE` yet.
    pending: AtomicI64,
    /// The bytes that the thread has allocated and not freed, and the maximum of that since a scope
    /// began.
    balance: AtomicI64,
    highest: AtomicI64,
    is_taken: AtomicBool,
}

impl Slot {
    const fn new() -> Self {
        Self {
            allocated: AtomicU64::new(0),
            freed: AtomicU64::new(0),
            allocations: AtomicU64::new(0),
            deallocations: AtomicU64::new(0),
            pending: AtomicI64::new(0),
            balance: AtomicI64::new(0),
            highest: AtomicI64::new(0),
            is_taken: AtomicBool::new(false),
        }
    }
}

/// All slots. The first one is shared.
static ALL: [Slot; SLOTS] = [const { Slot::new() }; SLOTS];
const SHARED: usize = 0;
/// The bytes in use, as far as threads have published them, and their maximum.
static LIVE: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);

/// The number of slots ever used: the others are all zero. 0 while nothing was counted.
static USED: AtomicUsize = AtomicUsize::new(0);

/// The thread has not counted yet and has no slot.
const NONE: usize = usize::MAX;

thread_local! {
    static OWN: Cell<usize> = const { Cell::new(NONE) };
    /// Returns the slot when the thread ends.
    static LEASE: Lease = const { Lease };
}

struct Lease;

impl Drop for Lease {
    fn drop(&mut self) {
        let slot = OWN.replace(SHARED);
        if slot != NONE && slot != SHARED {
            publish(&ALL[slot]);
            ALL[slot].is_taken.store(false, Ordering::Release);
        }
    }
}

/// Returns whether a counting allocator is installed: whether it has counted anything.
pub fn is_installed() -> bool {
    USED.load(Ordering::Relaxed) > 0
}

/// Returns the thread's slot. While a thread is claiming one, it counts in the shared slot.
#[inline]
fn own() -> usize {
    match OWN.get() {
        NONE => claim(),
        slot => slot,
    }
}

#[cold]
fn claim() -> usize {
    OWN.set(SHARED);
    USED.fetch_max(1, Ordering::Relaxed);
    // Allocations by this call are counted in the shared slot. If the thread's destructors already
    // run, the thread keeps the shared slot, because nothing would return another one.
    if LEASE.try_with(|_| ()).is_err() {
        return SHARED;
    }
    let taken = |slot: &Slot| {
        !slot.is_taken.load(Ordering::Relaxed)
            && slot
                .is_taken
                .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    };
    let found = ALL.iter().skip(1).position(taken).map_or(SHARED, |at| at + 1);
    if found != SHARED {
        let slot = &ALL[found];
        slot.balance.store(0, Ordering::Relaxed);
        slot.highest.store(0, Ordering::Relaxed);
        USED.fetch_max(found + 1, Ordering::Relaxed);
    }
    OWN.set(found);
    found
}

/// Adds to a counter that only this thread writes.
#[inline]
fn add(number: &AtomicU64, more: u64) {
    number.store(number.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

#[inline]
pub(super) fn allocated(size: usize) {
    let own = own();
    if own == SHARED {
        return shared(size, 0);
    }
    let slot = &ALL[own];
    add(&slot.allocated, size as u64);
    add(&slot.allocations, 1);
    moved(slot, size as i64);
}

#[inline]
pub(super) fn freed(size: usize) {
    let own = own();
    if own == SHARED {
        return shared(0, size);
    }
    let slot = &ALL[own];
    add(&slot.freed, size as u64);
    add(&slot.deallocations, 1);
    moved(slot, -(size as i64));
}

/// Counts a reallocation as freeing the old block and allocating a new one, even if it stayed in
/// place.
#[inline]
pub(super) fn resized(before: usize, now: usize) {
    freed(before);
    allocated(now);
}

#[inline]
fn moved(slot: &Slot, bytes: i64) {
    let balance = slot.balance.load(Ordering::Relaxed) + bytes;
    slot.balance.store(balance, Ordering::Relaxed);
    if balance > slot.highest.load(Ordering::Relaxed) {
        slot.highest.store(balance, Ordering::Relaxed);
    }
    let pending = slot.pending.load(Ordering::Relaxed) + bytes;
    slot.pending.store(pending, Ordering::Relaxed);
    if pending.abs() >= BATCH {
        publish(slot);
    }
}

#[cold]
fn publish(slot: &Slot) {
    let pending = slot.pending.load(Ordering::Relaxed);
    slot.pending.store(0, Ordering::Relaxed);
    let live = LIVE.fetch_add(pending, Ordering::Relaxed) + pending;
    if live > PEAK.load(Ordering::Relaxed) {
        PEAK.fetch_max(live, Ordering::Relaxed);
    }
}

#[cold]
fn shared(allocated: usize, freed: usize) {
    let slot = &ALL[SHARED];
    let count = |bytes: usize, sum: &AtomicU64, times: &AtomicU64| {
        if bytes > 0 {
            sum.fetch_add(bytes as u64, Ordering::Relaxed);
            times.fetch_add(1, Ordering::Relaxed);
        }
    };
    count(allocated, &slot.allocated, &slot.allocations);
    count(freed, &slot.freed, &slot.deallocations);
    let bytes = allocated as i64 - freed as i64;
    let live = LIVE.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(live, Ordering::Relaxed);
}

/// Returns what the process has allocated so far. All zero if no counting allocator is installed.
pub fn counts() -> Counts {
    let mut sum = Counts::default();
    for slot in &ALL[..USED.load(Ordering::Relaxed)] {
        sum.allocated_bytes =
            sum.allocated_bytes.wrapping_add(slot.allocated.load(Ordering::Relaxed));
        sum.freed_bytes = sum.freed_bytes.wrapping_add(slot.freed.load(Ordering::Relaxed));
        sum.allocations += slot.allocations.load(Ordering::Relaxed);
        sum.deallocations += slot.deallocations.load(Ordering::Relaxed);
    }
    let peak = u64::try_from(PEAK.load(Ordering::Relaxed)).unwrap_or(0);
    sum.peak_bytes = peak.max(sum.live_bytes());
    sum
}

/// Returns what the calling thread has allocated so far.
///
/// The counts do not start at zero, so only differences are meaningful. All zero if no counting
/// allocator is installed, and for threads beyond the first five hundred that run at the same time.
pub fn thread_counts() -> ThreadCounts {
    let own = OWN.get();
    if own == NONE || own == SHARED {
        return ThreadCounts::default();
    }
    let slot = &ALL[own];
    ThreadCounts {
        allocated_bytes: slot.allocated.load(Ordering::Relaxed),
        freed_bytes: slot.freed.load(Ordering::Relaxed),
        allocations: slot.allocations.load(Ordering::Relaxed),
        deallocations: slot.deallocations.load(Ordering::Relaxed),
    }
}

/// Measures the peak of the memory that the calling thread has in use during a scope, relative to
/// the beginning of the scope. Scopes of one thread must end in reverse order.
#[derive(Debug, Clone, Copy)]
pub struct PeakScope {
    slot: usize,
    before: i64,
    highest_before: i64,
}

impl PeakScope {
    #[inline]
    pub fn begin() -> Self {
        let slot = OWN.get();
        if slot == NONE || slot == SHARED {
            return Self { slot: SHARED, before: 0, highest_before: 0 };
        }
        let known = &ALL[slot];
        let before = known.balance.load(Ordering::Relaxed);
        let highest_before = known.highest.load(Ordering::Relaxed);
        known.highest.store(before, Ordering::Relaxed);
        Self { slot, before, highest_before }
    }

    /// Ends the scope and returns the peak in bytes. 0 if the scope began on another thread.
    #[inline]
    pub fn end(self) -> u64 {
        if self.slot == SHARED || self.slot != OWN.get() {
            return 0;
        }
        let known = &ALL[self.slot];
        let highest = known.highest.load(Ordering::Relaxed);
        known.highest.store(highest.max(self.highest_before), Ordering::Relaxed);
        u64::try_from(highest - self.before).unwrap_or(0)
    }
}
