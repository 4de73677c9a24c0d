//! Counting what a program allocates: a global allocator around any other.
//!
//! ```standalone_crate
//! use std::alloc::System;
//! use runlore::alloc::{self, CountingAllocator};
//!
//! #[global_allocator]
//! static ALLOCATOR: CountingAllocator = CountingAllocator::new(System);
//!
//! fn main() {
//!     let before = alloc::thread_counts();
//!     let bytes = vec![0_u8; 10_000];
//!     let made = alloc::thread_counts().since(before);
//!     assert_eq!((made.allocated_bytes, made.allocations), (10_000, 1));
//!     assert!(alloc::counts().live_bytes() >= bytes.len() as u64);
//! }
//! ```
//!
//! Each thread counts in a place of its own, without an atomic operation that another thread could wait for: a few
//! nanoseconds an allocation. Sums are exact; the peak of the whole process is exact to 64 KiB a thread, and that of a
//! thread, which is what tasks tell, to the byte. A tracker (`runlore::tracker`) samples what is counted, and tasks tell it in
//! their `resources`.

pub use runlore_core::alloc::{
    CountingAllocator, Counts, ThreadCounts, counts, is_installed, thread_counts,
};
