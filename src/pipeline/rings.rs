//! All rings of the process, and the calling thread's own.

use std::cell::Cell;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use super::config::settings;
use super::memory::Memory;
use super::ring::Ring;
use super::{fork, session, thread, writer};

/// When half the budget is spent, new rings are smaller, so that thousands of threads still get one.
const SMALL_RING: usize = 16 << 10;

static LIST: AtomicPtr<Ring> = AtomicPtr::new(std::ptr::null_mut());
static SPENT: AtomicUsize = AtomicUsize::new(0);
/// Grows when rings of a better kind can be had, and in a forked child.
static GENERATION: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static OWN: Cell<Option<&'static Ring>> = const { Cell::new(None) };
    /// Set for a thread whose tasks are never recorded: the recorder's own.
    static SILENT: Cell<bool> = const { Cell::new(false) };
    /// Set for a thread whose destructors run already.
    static LATE: Cell<bool> = const { Cell::new(false) };
    /// Gives the ring back when the thread ends. Apart from `OWN`, because a thread-local with a destructor is
    /// dearer to reach.
    static CLOSER: Closer = const { Closer };
}

struct Closer;

impl Drop for Closer {
    fn drop(&mut self) {
        if let Some(ring) = OWN.take() {
            ring.close();
        }
    }
}

/// The calling thread's ring; none where the budget is spent or the thread is the recorder's own.
#[inline]
pub(crate) fn own() -> Option<&'static Ring> {
    match OWN.get() {
        Some(ring) if ring.generation == GENERATION.load(Ordering::Relaxed) => Some(ring),
        old => acquire(old),
    }
}

/// Keeps the calling thread from recording tasks of its own.
pub(crate) fn silence_thread() {
    SILENT.set(true);
}

/// Whether the calling thread is one whose tasks are never recorded.
pub(crate) fn is_silent() -> bool {
    SILENT.get()
}

/// From here on threads take rings of a new kind, as soon as none of their tasks is open in an old one.
pub(crate) fn renew() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// In a forked child: forgets the rings, which are the parent's.
pub(crate) fn forget_all() {
    OWN.set(None);
    LIST.store(std::ptr::null_mut(), Ordering::Relaxed);
    SPENT.store(0, Ordering::Relaxed);
    renew();
}

#[cold]
fn acquire(old: Option<&'static Ring>) -> Option<&'static Ring> {
    if SILENT.get() {
        return None;
    }
    fork::rearm_if_marked();
    if !writer::is_running() {
        return None;
    }
    if let Some(old) = old {
        // The END of a task that is open in the old ring must follow its START.
        if old.has_reservations() {
            return Some(old);
        }
        old.close();
        OWN.set(None);
    }
    let generation = GENERATION.load(Ordering::Relaxed);
    let free = all().filter(|ring| ring.generation == generation).find(|ring| ring.claim());
    let ring = free.or_else(|| allocate(generation))?;
    OWN.set(Some(ring));
    // While the thread's destructors run, the closer may be gone already.
    LATE.set(CLOSER.try_with(|_| ()).is_err());
    ring.introduce(thread::current_id(), std::thread::current().name());
    Some(ring)
}

/// Gives the ring back at the end of the outermost task of a thread whose destructors run already.
#[inline]
pub(crate) fn close_if_late(ring: &Ring) {
    if LATE.get() && !ring.has_reservations() {
        OWN.set(None);
        ring.close();
    }
}

fn allocate(generation: u32) -> Option<&'static Ring> {
    let recorder = &settings().recorder;
    let (ring, budget) = (recorder.ring_bytes.get() as usize, recorder.budget_bytes.get() as usize);
    let size = |spent: usize| if spent < budget / 2 { ring } else { ring.min(SMALL_RING) };
    let more = |spent| Some(spent + size(spent)).filter(|spent| *spent <= budget);
    let size = size(SPENT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?);
    let length = Ring::memory_for(size);
    let Some(memory) = session::ring_memory(length).or_else(|| Memory::new(length)) else {
        SPENT.fetch_sub(size, Ordering::Relaxed);
        return None;
    };
    let ring: &'static Ring = Box::leak(Box::new(Ring::new(memory, size, generation)));
    let mut first = LIST.load(Ordering::Acquire);
    loop {
        ring.next.store(first, Ordering::Relaxed);
        let published = std::ptr::from_ref(ring).cast_mut();
        match LIST.compare_exchange_weak(first, published, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return Some(ring),
            Err(newer) => first = newer,
        }
    }
}

/// By the writer: a free ring that no thread will claim any more does not count against the budget.
pub(crate) fn retire_if_old(ring: &Ring) {
    if ring.generation != GENERATION.load(Ordering::Relaxed) && ring.claim() {
        SPENT.fetch_sub(ring.capacity(), Ordering::Relaxed);
    }
}

/// Every ring there is.
#[allow(unsafe_code)]
pub(crate) fn all() -> impl Iterator<Item = &'static Ring> {
    let mut next = LIST.load(Ordering::Acquire);
    std::iter::from_fn(move || {
        // SAFETY: the list holds leaked rings only, and never loses one.
        let ring: &'static Ring = unsafe { next.as_ref()? };
        next = ring.next.load(Ordering::Relaxed);
        Some(ring)
    })
}
