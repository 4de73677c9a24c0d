//! The names of a tree's nodes, with the branches to their left.

use std::fmt::{self, Display};

use runlore::query::{Part, Style, Tree};

/// Returns one name per node, in the order of the tree.
pub(super) fn of(tree: &Tree) -> Vec<String> {
    let text = tree.render().style(&NamesOnly).to_string();
    text.lines().map(|line| line.trim_end().to_owned()).collect()
}

/// Renders only the branches and the name of each line.
struct NamesOnly;

impl Style for NamesOnly {
    fn write(&self, f: &mut fmt::Formatter<'_>, part: Part, text: &dyn Display) -> fmt::Result {
        match part {
            Part::Branch | Part::Task | Part::Workflow => text.fmt(f),
            _ => Ok(()),
        }
    }
}
