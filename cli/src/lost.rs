//! Reports lost tasks. Every view shows this first, because its other numbers are too small.

use std::io::{self, Write};

use runlore::record::{Lost, WorkflowObject};
use runlore_core::text::printable;

use crate::out::RED;

/// Writes one line about what the runs lost. Writes nothing if nothing was lost.
pub(crate) fn write<'a>(
    out: &mut impl Write,
    runs: impl IntoIterator<Item = &'a WorkflowObject>,
) -> io::Result<()> {
    match told(runs) {
        Some(told) => writeln!(out, "{RED}{}{RED:#}", printable(&told)),
        None => Ok(()),
    }
}

/// Returns the same as text, for output that programs read. `None` if nothing was lost.
pub(crate) fn told<'a>(runs: impl IntoIterator<Item = &'a WorkflowObject>) -> Option<String> {
    Lost::of(runs).map(|lost| format!("incomplete: {lost}"))
}
