//! All rings of the process, and the calling thread's own.

use std::cell::Cell;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::event::{ItemKind, Key, Kind, Marks, push_item};
use super::ring::Ring;

/// Bytes of all rings together.
const BUDGET: usize = 64 << 20;

/// The size of a thread's ring.
const RING: usize = 256 << 10;

/// When half the budget is spent, new rings are smaller, so that thousands of threads still get one.
const SMALL_RING: usize = 16 << 10;

static LIST: AtomicPtr<Ring> = AtomicPtr::new(std::ptr::null_mut());
static SPENT: AtomicUsize = AtomicUsize::new(0);

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
        Some(ring) => Some(ring),
        None => acquire(),
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

#[cold]
fn acquire() -> Option<&'static Ring> {
    if SILENT.get() {
        return None;
    }
    let ring = all().find(|ring| ring.claim()).or_else(allocate)?;
    OWN.set(Some(ring));
    // While the thread's destructors run, the closer may be gone already.
    LATE.set(CLOSER.try_with(|_| ()).is_err());
    introduce(ring);
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

fn allocate() -> Option<&'static Ring> {
    let spent = SPENT.load(Ordering::Relaxed);
    let size = if spent < BUDGET / 2 { RING } else { SMALL_RING };
    if spent + size > BUDGET {
        return None;
    }
    SPENT.fetch_add(size, Ordering::Relaxed);
    let ring: &'static Ring = Box::leak(Box::new(Ring::new(size)?));
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

/// Tells the writer whose ring this is from here on.
fn introduce(ring: &Ring) {
    let mut items = Vec::with_capacity(64);
    push_item(&mut items, ItemKind::Metadata, Key::Index(0), |items| {
        items.extend_from_slice(&thread_id().to_le_bytes());
        Marks::default()
    });
    if let Some(name) = std::thread::current().name() {
        super::event::push_text(&mut items, ItemKind::Activity, name);
    }
    // A recycled ring was drained, so there is room.
    _ = ring.push(Kind::Thread, [], &items, 0);
}

/// The system's number of the calling thread.
#[allow(unsafe_code)]
fn thread_id() -> u64 {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: gettid has no preconditions.
        unsafe { libc::gettid() as u64 }
    }
    #[cfg(not(target_os = "linux"))]
    {
        use std::sync::atomic::AtomicU64;
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NEXT.fetch_add(1, Ordering::Relaxed)
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
