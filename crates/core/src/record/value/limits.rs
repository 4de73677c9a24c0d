//! How much of a value is copied.

use std::sync::atomic::{AtomicU32, Ordering};

/// How much of one value a record holds. What is longer is stored as its true length and its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of one value.
    pub bytes: u32,
    /// Items of one collection.
    pub items: u32,
    /// Levels of nesting.
    pub depth: u32,
}

impl Limits {
    /// The limits where nothing else is set.
    pub const DEFAULT: Self = Self { bytes: 4096, items: 64, depth: 8 };

    /// The limits in force in this process.
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
    /// Puts these limits into force.
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
