//! A global allocator that counts what a program allocates. It wraps any other allocator.

mod counts;
#[doc(hidden)]
mod failure;
#[doc(hidden)]
mod slots;

use std::alloc::{GlobalAlloc, Layout, System};

pub use counts::{Counts, ThreadCounts};
pub use failure::{Failed, Watcher};
pub use slots::PeakScope;
pub use slots::{counts, is_installed, thread_counts};

/// Counts the allocations of the allocator that it wraps.
#[derive(Debug, Default, Clone, Copy)]
pub struct CountingAllocator<A = System>(A);

impl<A> CountingAllocator<A> {
    /// Wraps an allocator. For the system's, use `CountingAllocator::new(std::alloc::System)`.
    pub const fn new(inner: A) -> Self {
        Self(inner)
    }
}

// SAFETY: all calls are passed on unchanged to the wrapped allocator. Counting neither allocates
// nor unwinds.
#[allow(unsafe_code)]
unsafe impl<A: GlobalAlloc> GlobalAlloc for CountingAllocator<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's guarantees are those that the wrapped allocator requires.
        let place = unsafe { self.0.alloc(layout) };
        note(place, layout.size());
        place
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let place = unsafe { self.0.alloc_zeroed(layout) };
        note(place, layout.size());
        place
    }

    #[inline]
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        slots::freed(layout.size());
        // SAFETY: as above.
        unsafe { self.0.dealloc(place, layout) };
    }

    #[inline]
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        let moved = unsafe { self.0.realloc(place, layout, size) };
        if moved.is_null() {
            failure::note(size);
        } else {
            slots::resized(layout.size(), size);
        }
        moved
    }
}

#[inline]
fn note(place: *mut u8, size: usize) {
    if place.is_null() {
        failure::note(size);
    } else {
        slots::allocated(size);
    }
}

#[cfg(test)]
#[allow(unsafe_code)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Held by each test, so that no other test counts at the same time.
    static ALONE: Mutex<()> = Mutex::new(());

    /// Eight threads allocate and one frees everything. A separate ledger records what they did.
    #[test]
    fn sums_are_exact_whatever_threads_do() {
        static COUNTED: CountingAllocator = CountingAllocator::new(System);
        const ROUNDS: u64 = 20_000;
        let _alone = ALONE.lock().unwrap();
        let ledger = [const { AtomicU64::new(0) }; 4];
        let before = counts();
        let (give, take) = std::sync::mpsc::channel::<(usize, Layout)>();
        let freer = std::thread::spawn(move || {
            // Makes the thread claim its slot.
            slots::allocated(1);
            slots::freed(1);
            let before = thread_counts();
            let (mut bytes, mut count) = (0, 0);
            for (place, layout) in take {
                // SAFETY: the memory was allocated below with this layout, and nobody else has it.
                unsafe { COUNTED.dealloc(place as *mut u8, layout) };
                bytes += layout.size() as u64;
                count += 1;
            }
            (bytes, count, thread_counts().since(before))
        });
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (give, ledger) = (give.clone(), &ledger);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let size = ((round * 37 + thread * 101) % 4000 + 1) as usize;
                        let layout = Layout::from_size_align(size, 8).unwrap();
                        // SAFETY: the size is not zero.
                        let mut place = unsafe { COUNTED.alloc(layout) };
                        let mut layout = layout;
                        ledger[0].fetch_add(size as u64, Ordering::Relaxed);
                        ledger[1].fetch_add(1, Ordering::Relaxed);
                        if round % 5 == 0 {
                            let new = size * 2 + 1;
                            // SAFETY: allocated above with this layout; the new size is not zero.
                            place = unsafe { COUNTED.realloc(place, layout, new) };
                            ledger[0].fetch_add(new as u64, Ordering::Relaxed);
                            ledger[1].fetch_add(1, Ordering::Relaxed);
                            ledger[2].fetch_add(size as u64, Ordering::Relaxed);
                            ledger[3].fetch_add(1, Ordering::Relaxed);
                            layout = Layout::from_size_align(new, 8).unwrap();
                        }
                        give.send((place as usize, layout)).unwrap();
                    }
                });
            }
        });
        drop(give);
        let (bytes, count, own) = freer.join().unwrap();
        assert_eq!((own.freed_bytes, own.deallocations), (bytes, count), "what one thread did");
        let made = counts();
        let [allocated, allocations, freed, deallocations] =
            ledger.map(|number| number.load(Ordering::Relaxed));
        assert_eq!(made.allocated_bytes - before.allocated_bytes, allocated + 1);
        assert_eq!(made.allocations - before.allocations, allocations + 1);
        assert_eq!(made.freed_bytes - before.freed_bytes, freed + bytes + 1);
        assert_eq!(made.deallocations - before.deallocations, deallocations + count + 1);
        assert_eq!(made.live_bytes(), before.live_bytes(), "all was given back");
        assert!(made.peak_bytes >= made.live_bytes());
    }

    #[test]
    fn a_peak_is_that_of_its_scope() {
        let _alone = ALONE.lock().unwrap();
        // Counts on a thread of its own, as the allocator would.
        let (outer, inner) = std::thread::spawn(|| {
            slots::allocated(1000);
            let outer = PeakScope::begin();
            slots::allocated(500);
            let inner = PeakScope::begin();
            slots::allocated(50);
            slots::freed(50);
            let inner = inner.end();
            slots::freed(500);
            let outer = outer.end();
            slots::freed(1000);
            (outer, inner)
        })
        .join()
        .unwrap();
        assert_eq!((outer, inner), (550, 50));
    }
}
