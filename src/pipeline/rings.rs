//! All rings of the process, and the calling thread's own: one for each session that it works for.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::memory::Memory;
use super::overflow::{self, Overflow};
use super::recorder;
use super::ring::Ring;
use super::session::{self, Home, NO_HOME};
use runlore_core::clock;
use runlore_core::config::settings;
use runlore_core::context::Number;

/// When half the budget is spent, new rings are smaller, so that thousands of threads still get one.
const SMALL_RING: usize = 16 << 10;

/// What part of a ring is made ready for its first events: one of so many.
const FIRST_PART: usize = 32;

/// Every ring there is, the oldest first, and every overflow. Held for a moment only, by threads that want a ring and by
/// the writer.
static RINGS: Mutex<Rings> = Mutex::new(Rings { rings: Vec::new(), overflows: Vec::new() });
/// How many rings were ever made, so that the writer sees new ones without the lock.
static MADE: AtomicU64 = AtomicU64::new(0);
static SPENT: AtomicUsize = AtomicUsize::new(0);

/// How many overflows were ever registered.
static OVERFLOWS_MADE: AtomicU64 = AtomicU64::new(0);

/// Until then no thread tries again to get a ring: the system refused one.
static NO_RING_BEFORE: AtomicU64 = AtomicU64::new(0);
const TRY_AGAIN_NS: u64 = 100_000_000;

pub(super) struct Rings {
    rings: Vec<&'static Ring>,
    overflows: Vec<Arc<Overflow>>,
}

thread_local! {
    /// The run that the thread recorded for last, and the ring in the session of that run.
    static LAST: Cell<(Number, Option<&'static Ring>)> = const { Cell::new((0, None)) };
    /// The first of the thread's rings; each names the next.
    static OWN: Cell<Option<&'static Ring>> = const { Cell::new(None) };
    /// Set for a thread whose tasks are never recorded: the recorder's own.
    static SILENT: Cell<bool> = const { Cell::new(false) };
    /// Set for a thread whose destructors run already.
    static LATE: Cell<bool> = const { Cell::new(false) };
    /// Gives the rings back when the thread ends. Apart from `OWN`, because a thread-local with a destructor is
    /// dearer to reach.
    static CLOSER: Closer = const { Closer };
}

struct Closer;

impl Drop for Closer {
    fn drop(&mut self) {
        give_back(|_| true);
    }
}

/// The calling thread's ring for a run; none where the budget is spent or the thread is the recorder's own.
#[inline]
pub(crate) fn own(run: Number) -> Option<&'static Ring> {
    let (last, ring) = LAST.get();
    if last == run && ring.is_some() { ring } else { acquire(run) }
}

/// Keeps the calling thread from recording tasks of its own.
pub(crate) fn silence_thread() {
    SILENT.set(true);
}

/// Whether the calling thread is one whose tasks are never recorded.
pub(crate) fn is_silent() -> bool {
    SILENT.get()
}

/// Every ring, locked while the process forks.
#[cfg(unix)]
pub(super) type Held = MutexGuard<'static, Rings>;

#[cfg(unix)]
pub(super) fn hold() -> Held {
    rings()
}

/// In a forked child: forgets the rings, which are the parent's.
#[cfg(unix)]
pub(crate) fn forget_all() {
    LAST.set((0, None));
    OWN.set(None);
    let mut all = rings();
    all.rings.clear();
    // Their files are the parent's, too.
    std::mem::forget(std::mem::take(&mut all.overflows));
    overflow::forget_held();
    SPENT.store(0, Ordering::Relaxed);
}

fn rings() -> MutexGuard<'static, Rings> {
    RINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// For another run than the thread recorded for last.
#[cold]
fn acquire(run: Number) -> Option<&'static Ring> {
    if SILENT.get() {
        return None;
    }
    let ring = ring_in(session::home_of(run))?;
    LAST.set((run, Some(ring)));
    Some(ring)
}

/// The calling thread's ring in a session.
fn ring_in(home: Home) -> Option<&'static Ring> {
    own_rings().find(|ring| ring.home == home).or_else(|| new_ring_in(home))
}

fn new_ring_in(home: Home) -> Option<&'static Ring> {
    if !recorder::is_running() || clock::monotonic_ns() < NO_RING_BEFORE.load(Ordering::Relaxed) {
        return None;
    }
    // What is open in a ring must end there.
    give_back(|ring| ring.is_abandoned() && !ring.has_reservations());
    let wanted = |ring: &&Ring| ring.home == home && !ring.is_abandoned();
    let free = rings().rings.iter().copied().find(|ring| wanted(ring) && ring.claim());
    let ring = match free.map_or_else(|| allocate(home), |ring| Ok(Some(ring))) {
        Ok(ring) => ring?,
        // The run has ended. Should anything of it still come, the writer counts it.
        Err(Gone) => return ring_in(NO_HOME),
    };
    ring.set_next_own(OWN.replace(Some(ring)));
    // While the thread's destructors run, the closer may be gone already.
    LATE.set(CLOSER.try_with(|_| ()).is_err());
    ring.introduce(runlore_core::thread::current_id(), std::thread::current().name());
    Some(ring)
}

/// A session that is no more.
struct Gone;

fn own_rings() -> impl Iterator<Item = &'static Ring> {
    std::iter::successors(OWN.get(), |ring| ring.next_own())
}

/// Gives rings of the calling thread back.
fn give_back(is_due: impl Fn(&Ring) -> bool) {
    LAST.set((0, None));
    let mut next = OWN.take();
    while let Some(ring) = next {
        next = ring.next_own();
        if is_due(ring) {
            ring.close();
        } else {
            ring.set_next_own(OWN.replace(Some(ring)));
        }
    }
}

/// Gives the rings back at the end of the outermost task of a thread whose destructors run already.
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
    let Ok(spent) = SPENT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) else {
        return Ok(None);
    };
    let size = size(spent);
    let length = Ring::memory_for(size);
    let made = session::with_ring_memory(home, length, |memory| {
        let memory = memory.or_else(|| Memory::new(length))?;
        let mut all = rings();
        let overflow = all.overflow_of(home)?;
        let number = MADE.load(Ordering::Relaxed) + 1;
        let ring: &'static Ring = Box::leak(Box::new(Ring::new(memory, size, overflow, number)));
        all.rings.push(ring);
        MADE.store(number, Ordering::Release);
        Some(ring)
    });
    match made {
        // Where nobody else waits for it.
        Some(Some(ring)) => ring.prepare(0..ring.capacity() / FIRST_PART),
        _ => _ = SPENT.fetch_sub(size, Ordering::Relaxed),
    }
    if let Some(None) = made {
        // A thread without a ring uses the overflow; to ask the system for each task would cost more than the task.
        NO_RING_BEFORE.store(clock::monotonic_ns() + TRY_AGAIN_NS, Ordering::Relaxed);
    }
    made.ok_or(Gone)
}

impl Rings {
    /// The overflow of a session; none where the session has gone.
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
        OVERFLOWS_MADE.fetch_add(1, Ordering::Release);
    }
}

/// Makes the overflow of a new session known to the writer.
pub(super) fn add_overflow(overflow: Arc<Overflow>) {
    rings().add(overflow);
}

/// The overflow for the events of a run.
pub(super) fn overflow_of(run: Number) -> Option<Arc<Overflow>> {
    let home = session::home_of(run);
    rings().overflow_of(home)
}

/// By the writer: all overflows, if there are others than when `made` was told.
pub(super) fn overflows_after(made: &mut u64) -> Option<Vec<Arc<Overflow>>> {
    if OVERFLOWS_MADE.load(Ordering::Acquire) == *made {
        return None;
    }
    let all = rings();
    *made = OVERFLOWS_MADE.load(Ordering::Relaxed);
    Some(all.overflows.clone())
}

/// The rings of a session that has gone: their threads give them back when they next look for another.
pub(super) fn abandon(home: Home) {
    let mut all = rings();
    all.rings.iter().filter(|ring| ring.home == home).for_each(|ring| ring.abandon());
    all.overflows.extract_if(.., |overflow| overflow.home == home).for_each(|gone| gone.abandon());
}

/// By the writer, which must not touch the ring again if so: whether it was one that nobody will claim any more, and is
/// gone now.
#[allow(unsafe_code)]
pub(super) fn remove_if_abandoned(ring: &'static Ring) -> bool {
    if !ring.is_abandoned() {
        return false;
    }
    let rings = &mut rings().rings;
    let Some(at) = rings.iter().position(|known| std::ptr::eq(*known, ring)) else { return false };
    // It is free only when its thread has given it back.
    if !ring.claim() {
        return false;
    }
    rings.remove(at);
    SPENT.fetch_sub(ring.capacity(), Ordering::Relaxed);
    // SAFETY: the ring was leaked when it was made. No thread has it, none finds it any more, and the writer is here.
    drop(unsafe { Box::from_raw(std::ptr::from_ref(ring).cast_mut()) });
    true
}

/// By the writer: the rings made after the one of this number.
pub(super) fn made_after(number: u64) -> Vec<&'static Ring> {
    if MADE.load(Ordering::Acquire) == number {
        return Vec::new();
    }
    rings().rings.iter().copied().filter(|ring| ring.number > number).collect()
}

/// At the end of the process: whether nothing waits in any ring or overflow, as far as can be seen.
pub(super) fn are_drained() -> bool {
    // Another thread may hold the lock for ever.
    RINGS.try_lock().is_ok_and(|all| {
        all.rings.iter().all(|ring| ring.waiting() == 0)
            && all.overflows.iter().all(|overflow| overflow.waiting() == 0)
    })
}
