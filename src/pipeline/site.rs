//! Call sites: what is known of an annotated function at compile time.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock};

use crate::telemetry::TelemetryChoice;

/// What the macro knows of an annotated function.
#[derive(Debug)]
#[allow(missing_docs, reason = "written by the macro, read by nobody else")]
pub struct SiteSpec {
    pub name: &'static str,
    pub crate_name: &'static str,
    pub crate_version: &'static str,
    pub commit: Option<&'static str>,
    pub module: &'static str,
    pub file: &'static str,
    pub line: u32,
    pub column: u32,
    pub parameters: &'static [&'static str],
    pub used: &'static [&'static str],
    pub generated: &'static [&'static str],
    pub metadata: &'static [&'static str],
    pub tags: &'static [&'static str],
    pub subtype: Option<&'static str>,
    pub telemetry: TelemetryChoice,
    pub spread: bool,
    pub summarise_full: bool,
    pub is_async: bool,
}

/// An annotated function, and the number it goes by in events.
#[derive(Debug)]
pub struct Site {
    pub(crate) spec: SiteSpec,
    /// 0 until the site's first task.
    number: AtomicU32,
}

static SITES: RwLock<Vec<&'static Site>> = RwLock::new(Vec::new());

impl Site {
    /// The site of an annotated function.
    pub const fn new(spec: SiteSpec) -> Self {
        Self { spec, number: AtomicU32::new(0) }
    }

    /// The site's number; never 0.
    #[inline]
    pub(crate) fn number(&'static self) -> u32 {
        match self.number.load(Ordering::Relaxed) {
            0 => self.register(),
            number => number,
        }
    }

    #[cold]
    fn register(&'static self) -> u32 {
        let mut sites = SITES.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have come first.
        let number = self.number.load(Ordering::Relaxed);
        if number != 0 {
            return number;
        }
        sites.push(self);
        let number = sites.len() as u32;
        self.number.store(number, Ordering::Relaxed);
        number
    }

    /// The site of a number that an event holds; 0 is none.
    pub(crate) fn of(number: u32) -> Option<&'static Self> {
        let sites = SITES.read().unwrap_or_else(PoisonError::into_inner);
        sites.get((number as usize).checked_sub(1)?).copied()
    }
}

/// A site as the catalogue of annotated functions holds it.
#[derive(Debug)]
pub struct SiteEntry(pub(crate) &'static Site);

impl SiteEntry {
    /// An entry for the catalogue.
    pub const fn new(site: &'static Site) -> Self {
        Self(site)
    }
}

inventory::collect!(SiteEntry);
