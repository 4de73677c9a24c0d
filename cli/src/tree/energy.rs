//! The tree as a table with the energy used while each task ran.

use std::io::{self, Write};

use runlore::query::{Item, Node, Tree};
use runlore::record::JoulesObject;
use runlore_core::text::{human_duration, printable};

use super::names;
use crate::out::{DIM, paint};
use crate::table::{self, Cell};
use crate::units::{joules, measured_by, watts};

pub(super) fn write(out: &mut impl Write, tree: &Tree) -> io::Result<()> {
    if let Some(reason) = reason_for_all(tree) {
        let reason = printable(reason);
        return writeln!(
            out,
            "The energy of this run is unknown: {reason}. `runlore doctor energy` shows what can be measured here."
        );
    }
    let names = names::of(tree);
    let rows: Vec<_> =
        names.iter().zip(tree.walk()).map(|(name, (_, node))| row(name, node)).collect();
    let headings = ["TASK", "STATUS", ">DURATION", ">ENERGY", ">SELF", ">POWER", "SOURCE"];
    table::write(out, &headings, &rows)
}

/// Returns why there are no values, if the reason is the same for all tasks.
fn reason_for_all(tree: &Tree) -> Option<&str> {
    let mut reasons = tree.walk().filter_map(|(_, node)| match &node.item {
        Item::Task(task) => Some(task.joules().err()),
        Item::Workflow(run) => run.joules().is_ok().then_some(None),
    });
    let first = reasons.next()??;
    reasons.all(|reason| reason == Some(first)).then_some(first)
}

fn row(name: &str, node: &Node) -> Vec<Cell> {
    let shown = node.shown().unwrap_or_default();
    let (duration, used) = match &node.item {
        Item::Task(task) => (task.duration(), task.joules()),
        Item::Workflow(run) => (run.duration(), run.joules()),
    };
    let mut cells = vec![
        Cell::whole(name),
        Cell::styled(&shown.to_string(), paint(shown.tone())),
        Cell::new(&duration.map(human_duration).unwrap_or_default()),
    ];
    match used {
        Ok(used) => {
            let power = duration.and_then(|duration| watts(used.inclusive, duration));
            cells.extend([
                Cell::new(&inclusive(&used)),
                Cell::new(&used.own.map(joules).unwrap_or_default()),
                Cell::new(&power.unwrap_or_default()),
                Cell::styled(&measured_by(&used), DIM),
            ]);
        }
        Err(reason) => {
            cells.extend([(); 3].map(|()| Cell::new("")));
            cells.push(Cell::styled(&format!("unknown: {reason}"), DIM));
        }
    }
    cells
}

/// Formats the energy, with `~` if other tasks ran at the same time.
fn inclusive(used: &JoulesObject) -> String {
    let mark = if used.overlap { "~" } else { "" };
    format!("{mark}{}", joules(used.inclusive))
}
