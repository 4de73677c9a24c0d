//! All rings of the process, and the calling thread's own: one for each session that it records
//! into.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::memory::Memory;
use super::overflow::Overflow;
use super::recorder;
use super::ring::Ring;
use super::session::{self, Home, NO_HOME};
use runlore_core::clock;
use runlore_core::config::settings;
use runlore_core::context::Number;
use runlore_core::fork::{PerProcess, generation};

/// The size of new rings once half the budget is spent, so that thousands of threads still get one.
const SMALL_RING: usize = 16 << 10;

/// One part in this many of a new ring is prepared for its first events.
const FIRST_PART: usize = 32;

/// How long no thread requests a ring again after the system refused one.
const TRY_AGAIN_NS: u64 = 100_000_000;

static ALL: PerProcess<All> = PerProcess::new();

/// All rings and overflows of the process.
#[derive(Default)]
struct All {
    /// Locked only for a moment, by threads that need a ring and by the writer.
    rings: Mutex<Rings>,
    /// The number of rings ever created, so that the writer notices new ones without the lock.
    made: AtomicU64,
    /// The number of overflows ever registered.
    overflows_made: AtomicU64,
    /// The size of all rings in bytes.
    spent: AtomicUsize,
    /// The time before which no thread requests a ring.
    no_ring_before: AtomicU64,
}

#[derive(Default)]
struct Rings {
    /// Oldest first.
    rings: Vec<&'static Ring>,
    overflows: Vec<Arc<Overflow>>,
}

thread_local! {
    /// The [`key`] of the run that the thread recorded for last, and its ring in that run's session.
    static LAST: Cell<(u64, Option<&'static Ring>)> = const { Cell::new((0, None)) };
    /// The first of the thread's rings, and the generation of the process that it belongs to. Each
    /// ring links to the next.
    static OWN: Cell<(u32, Option<&'static Ring>)> = const { Cell::new((0, None)) };
    /// Set for the recorder's own threads, whose tasks are never recorded.
    static SILENT: Cell<bool> = const { Cell::new(false) };
    /// Set for a thread whose destructors are already running.
    static LATE: Cell<bool> = const { Cell::new(false) };
    /// Returns the rings when the thread ends. Separate from `OWN`, because access to a
    /// thread-local with a destructor is slower.
    static CLOSER: Closer = const { Closer };
}

struct Closer;

impl Drop for Closer {
    fn drop(&mut self) {
        give_back(|_| true);
    }
}

/// Returns the calling thread's ring for a run. `None` if the budget is spent or the thread is the
/// recorder's own.
#[inline]
pub(crate) fn own(run: Number) -> Option<&'static Ring> {
    let (last, ring) = LAST.get();
    if last == key(run) && ring.is_some() { ring } else { acquire(run) }
}

/// Returns a number for a run that differs in a forked child, which must not use its parent's rings.
#[inline]
fn key(run: Number) -> u64 {
    u64::from(generation()) << 32 | u64::from(run)
}

/// Prevents the calling thread from recording tasks.
pub(crate) fn silence_thread() {
    SILENT.set(true);
}

/// Returns whether the calling thread's tasks are never recorded.
pub(crate) fn is_silent() -> bool {
    SILENT.get()
}

fn rings() -> MutexGuard<'static, Rings> {
    ALL.rings.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the ring for another run than the thread recorded for last.
#[cold]
fn acquire(run: Number) -> Option<&'static Ring> {
    if SILENT.get() {
        return None;
    }
    let ring = ring_in(session::home_of(run))?;
    LAST.set((key(run), Some(ring)));
    Some(ring)
}

/// Returns the calling thread's ring in a session.
fn ring_in(home: Home) -> Option<&'static Ring> {
    own_rings().find(|ring| ring.home == home).or_else(|| new_ring_in(home))
}

fn new_ring_in(home: Home) -> Option<&'static Ring> {
    if !recorder::is_running() || clock::monotonic_ns() < ALL.no_ring_before.load(Ordering::Relaxed)
    {
        return None;
    }
    // Tasks that are open in a ring must end there.
    give_back(|ring| ring.is_abandoned() && !ring.has_reservations());
    let wanted = |ring: &&Ring| ring.home == home && !ring.is_abandoned();
    let free = rings().rings.iter().copied().find(|ring| wanted(ring) && ring.claim());
    let ring = match free.map_or_else(|| allocate(home), |ring| Ok(Some(ring))) {
        Ok(ring) => ring?,
        // The run has ended. If events of it still arrive, the writer counts them.
        Err(Gone) => return ring_in(NO_HOME),
    };
    add_own(ring);
    // The closer may already be gone while the thread's destructors run.
    LATE.set(CLOSER.try_with(|_| ()).is_err());
    ring.introduce(runlore_core::thread::current_id(), std::thread::current().name());
    Some(ring)
}

/// The error for a session that no longer exists.
struct Gone;

fn own_rings() -> impl Iterator<Item = &'static Ring> {
    let (of, first) = OWN.get();
    std::iter::successors(first.filter(|_| of == generation()), |ring| ring.next_own())
}

fn add_own(ring: &'static Ring) {
    ring.set_next_own(own_rings().next());
    OWN.set((generation(), Some(ring)));
}

/// Returns rings of the calling thread.
fn give_back(is_due: impl Fn(&Ring) -> bool) {
    LAST.set((0, None));
    let mut next = own_rings().next();
    OWN.set((0, None));
    while let Some(ring) = next {
        next = ring.next_own();
        if is_due(ring) {
            ring.close();
        } else {
            add_own(ring);
        }
    }
}

/// Returns the rings at the end of the outermost task of a thread whose destructors are already
/// running.
#[inline]
pub(crate) fn close_if_late() {
    if LATE.get() {
        give_back(|ring| !ring.has_reservations());
    }
}

fn allocate(home: Home) -> Result<Option<&'static Ring>, Gone> {
    let recorder = &settings().recorder;
    let (ring, budget) = (recorder.ring_bytes.get() as usize, recorder.budget_bytes.get() as usize);
    let size = |spent: usize| if spent < budget / 2 { ring } else { ring.min(SMALL_RING) };
    let more = |spent| Some(spent + size(spent)).filter(|spent| *spent <= budget);
    let Ok(spent) = ALL.spent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) else {
        return Ok(None);
    };
    let size = size(spent);
    let length = Ring::memory_for(size);
    let made = session::with_ring_memory(home, length, |memory| {
        let memory = memory.or_else(|| Memory::new(length))?;
        let mut all = rings();
        let overflow = all.overflow_of(home)?;
        let number = ALL.made.load(Ordering::Relaxed) + 1;
        let ring: &'static Ring = Box::leak(Box::new(Ring::new(memory, size, overflow, number)));
        all.rings.push(ring);
        ALL.made.store(number, Ordering::Release);
        Some(ring)
    });
    match made {
        // Prepare the pages here, after the locks are released, so that no other thread waits for
        // it.
        Some(Some(ring)) => ring.prepare(0..ring.capacity() / FIRST_PART),
        _ => _ = ALL.spent.fetch_sub(size, Ordering::Relaxed),
    }
    if let Some(None) = made {
        // A thread without a ring uses the overflow. Asking the system again for each task would
        // cost more than the task.
        ALL.no_ring_before.store(clock::monotonic_ns() + TRY_AGAIN_NS, Ordering::Relaxed);
    }
    made.ok_or(Gone)
}

impl Rings {
    /// Returns the overflow of a session. `None` if the session is gone.
    fn overflow_of(&mut self, home: Home) -> Option<Arc<Overflow>> {
        let known = self.overflows.iter().find(|overflow| overflow.home == home).cloned();
        if known.is_some() || home != NO_HOME {
            return known;
        }
        let overflow = Arc::new(Overflow::without_folder(NO_HOME));
        self.add(Arc::clone(&overflow));
        Some(overflow)
    }

    fn add(&mut self, overflow: Arc<Overflow>) {
        self.overflows.push(overflow);
        ALL.overflows_made.fetch_add(1, Ordering::Release);
    }
}

/// Registers the overflow of a new session with the writer.
pub(super) fn add_overflow(overflow: Arc<Overflow>) {
    rings().add(overflow);
}

/// Returns the overflow for the events of a run.
pub(super) fn overflow_of(run: Number) -> Option<Arc<Overflow>> {
    let home = session::home_of(run);
    rings().overflow_of(home)
}

/// For the writer: returns all overflows, if there are new ones since `made`.
pub(super) fn overflows_after(made: &mut u64) -> Option<Vec<Arc<Overflow>>> {
    if ALL.overflows_made.load(Ordering::Acquire) == *made {
        return None;
    }
    let all = rings();
    *made = ALL.overflows_made.load(Ordering::Relaxed);
    Some(all.overflows.clone())
}

/// Abandons the rings of a session that is gone. Their threads return them when they next need
/// another ring.
pub(super) fn abandon(home: Home) {
    let mut all = rings();
    all.rings.iter().filter(|ring| ring.home == home).for_each(|ring| ring.abandon());
    all.overflows.extract_if(.., |overflow| overflow.home == home).for_each(|gone| gone.abandon());
}

/// For the writer: frees an abandoned ring that no thread owns. Returns whether it did, in which
/// case the writer must not touch the ring again.
#[allow(unsafe_code)]
pub(super) fn remove_if_abandoned(ring: &'static Ring) -> bool {
    if !ring.is_abandoned() {
        return false;
    }
    let rings = &mut rings().rings;
    let Some(at) = rings.iter().position(|known| std::ptr::eq(*known, ring)) else { return false };
    // It is free only after its thread has returned it.
    if !ring.claim() {
        return false;
    }
    rings.remove(at);
    ALL.spent.fetch_sub(ring.capacity(), Ordering::Relaxed);
    // SAFETY: the ring was leaked when it was created. No thread owns it or can find it any more,
    // and the writer is here.
    drop(unsafe { Box::from_raw(std::ptr::from_ref(ring).cast_mut()) });
    true
}

/// For the writer: returns the rings created after the one with this number.
pub(super) fn made_after(number: u64) -> Vec<&'static Ring> {
    if ALL.made.load(Ordering::Acquire) == number {
        return Vec::new();
    }
    rings().rings.iter().copied().filter(|ring| ring.number > number).collect()
}

/// At the end of the process, returns whether all rings and overflows appear to be empty.
pub(super) fn are_drained() -> bool {
    // Another thread may hold the lock forever.
    ALL.rings.try_lock().is_ok_and(|all| {
        all.rings.iter().all(|ring| ring.waiting() == 0)
            && all.overflows.iter().all(|overflow| overflow.waiting() == 0)
    })
}
