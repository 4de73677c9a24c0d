//! Limits on how much of a value is copied.

use std::sync::atomic::{AtomicU32, Ordering};

/// How much of one value a record stores. Of a longer value, it stores the true length and the
/// beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum size of one value in bytes.
    pub bytes: u32,
    /// Maximum number of items of one collection.
    pub items: u32,
    /// Maximum nesting depth.
    pub depth: u32,
}

impl Limits {
    /// The default limits.
    pub const DEFAULT: Self = Self { bytes: 4096, items: 64, depth: 8 };

    /// Returns the current limits of this process.
    #[inline]
    pub fn current() -> Self {
        Self {
            bytes: BYTES.load(Ordering::Relaxed),
            items: ITEMS.load(Ordering::Relaxed),
            depth: DEPTH.load(Ordering::Relaxed),
        }
    }
}

impl Limits {
    /// Makes these the current limits.
    pub(crate) fn set(self) {
        BYTES.store(self.bytes, Ordering::Relaxed);
        ITEMS.store(self.items, Ordering::Relaxed);
        DEPTH.store(self.depth, Ordering::Relaxed);
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

static BYTES: AtomicU32 = AtomicU32::new(Limits::DEFAULT.bytes);
static ITEMS: AtomicU32 = AtomicU32::new(Limits::DEFAULT.items);
static DEPTH: AtomicU32 = AtomicU32::new(Limits::DEFAULT.depth);
