//! Tasks that have no record: every view says so first, because its other numbers are too small.

use std::io::{self, Write};

use runlore::record::{Lost, WorkflowObject};
use runlore_core::text::printable;

use crate::out::RED;

/// One line on what was lost of these runs; nothing where nothing was.
pub(crate) fn write<'a>(
    out: &mut impl Write,
    runs: impl IntoIterator<Item = &'a WorkflowObject>,
) -> io::Result<()> {
    match told(runs) {
        Some(told) => writeln!(out, "{RED}{}{RED:#}", printable(&told)),
        None => Ok(()),
    }
}

/// The same as a text, for output that is read by programs.
pub(crate) fn told<'a>(runs: impl IntoIterator<Item = &'a WorkflowObject>) -> Option<String> {
    Lost::of(runs).map(|lost| format!("incomplete: {lost}"))
}
