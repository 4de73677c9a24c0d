//! A global allocator that counts allocations and delegates to another allocator.
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
//! Each thread has its own counters and never waits for another thread's atomic operation. Counting
//! costs a few nanoseconds per allocation. Sums are exact. A thread's peak, which is what tasks
//! record, is exact to the byte; the peak of the whole process is exact to 64 KiB per thread. A
//! tracker (`runlore::tracker`) samples these counters, and tasks record them in their `resources`.

pub use runlore_core::alloc::{
    CountingAllocator, Counts, ThreadCounts, counts, is_installed, thread_counts,
};
