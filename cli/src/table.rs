//! Tables of text.

use std::io::{self, Write};

use anstyle::Style;
use runlore_core::text::printable;

use crate::out::{DIM, PLAIN};

/// A cell of a table.
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// Creates a cell. The text is made printable and shortened.
    pub(crate) fn new(text: &str) -> Self {
        Self { text: printable(text).at_most(120).to_string(), style: PLAIN }
    }

    /// Creates a cell that is never shortened.
    pub(crate) fn whole(text: &str) -> Self {
        Self { text: printable(text).to_string(), style: PLAIN }
    }

    pub(crate) fn styled(text: &str, style: Style) -> Self {
        Self { style, ..Self::new(text) }
    }
}

/// Writes rows under their headings. A heading that begins with `>` right-aligns its column.
pub(crate) fn write(to: &mut impl Write, headings: &[&str], rows: &[Vec<Cell>]) -> io::Result<()> {
    let mut widths: Vec<usize> =
        headings.iter().map(|heading| heading.trim_start_matches('>').chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.text.chars().count());
        }
    }
    let heading: Vec<Cell> =
        headings.iter().map(|heading| Cell::styled(heading.trim_start_matches('>'), DIM)).collect();
    for row in std::iter::once(&heading).chain(rows) {
        let filled = row.iter().rposition(|cell| !cell.text.is_empty()).map_or(0, |last| last + 1);
        for (at, cell) in row.iter().take(filled).enumerate() {
            let Cell { text, style } = cell;
            let blanks = " ".repeat(widths[at] - text.chars().count());
            let is_last = at + 1 == filled;
            if headings[at].starts_with('>') {
                write!(to, "{blanks}{style}{text}{style:#}")?;
            } else {
                write!(to, "{style}{text}{style:#}")?;
                if !is_last {
                    write!(to, "{blanks}")?;
                }
            }
            if !is_last {
                write!(to, "  ")?;
            }
        }
        writeln!(to)?;
    }
    Ok(())
}
