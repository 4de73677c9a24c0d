//! The reasons why values are missing from a capture.

use std::borrow::Cow;
use std::fmt::Display;
use std::io;

/// The reason for a field that the portable backend never provides.
pub(super) const NOT_TOLD: &str = "sysinfo, the portable source, does not tell it";

/// The reasons of one capture, by field.
#[derive(Debug, Default)]
pub(super) struct Missing(Vec<(Cow<'static, str>, String)>);

impl Missing {
    /// Records why a field is missing.
    #[cold]
    pub(super) fn add(&mut self, field: impl Into<Cow<'static, str>>, reason: impl Into<String>) {
        self.0.push((field.into(), reason.into()));
    }

    /// Converts to reasons keyed by field.
    #[cfg(any(not(target_os = "linux"), feature = "portable"))]
    pub(super) fn named(self) -> super::Named<String> {
        self.0.into_iter().map(|(field, reason)| (field.into_owned(), reason)).collect()
    }
}

/// For captures that reuse this value and write it as bytes.
#[cfg(target_os = "linux")]
impl Missing {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the value. If it is an error, records that as the reason and returns `None`.
    #[inline]
    pub(super) fn or<T>(
        &mut self,
        field: &'static str,
        source: impl AsRef<std::path::Path>,
        value: io::Result<T>,
    ) -> Option<T> {
        value.map_err(|error| self.add(field, told(source.as_ref().display(), &error))).ok()
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        use super::snapshot::{OpenList, put_bytes};
        let mut list = OpenList::begin(out);
        for (field, reason) in &self.0 {
            put_bytes(field.as_bytes(), out);
            put_bytes(reason.as_bytes(), out);
            list.item();
        }
        list.end(out);
    }
}

/// Formats an error with its source: `/proc/stat: Permission denied`.
pub(super) fn told(source: impl Display, error: &io::Error) -> String {
    let error = error.to_string();
    let error = error.split(" (os error").next().unwrap_or(&error);
    format!("{source}: {error}")
}
