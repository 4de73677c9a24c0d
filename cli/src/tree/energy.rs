//! The tree as a table: the energy that went by while each task ran.

use std::io::{self, Write};

use runlore::query::text::human_duration;
use runlore::query::{Item, Node, Tree};
use runlore::record::JoulesObject;

use super::names;
use crate::out::{DIM, paint};
use crate::table::{self, Cell};
use crate::units::{joules, measured_by, watts};

pub(super) fn write(out: &mut impl Write, tree: &Tree) -> io::Result<()> {
    let names = names::of(tree);
    let rows: Vec<_> =
        names.iter().zip(tree.walk()).map(|(name, (_, node))| row(name, node)).collect();
    let headings = ["TASK", "STATUS", ">DURATION", ">ENERGY", ">SELF", ">POWER", "SOURCE"];
    table::write(out, &headings, &rows)
}

fn row(name: &str, node: &Node) -> Vec<Cell> {
    let (status, duration, used) = match &node.item {
        Item::Task(task) => (task.status, task.duration(), task.joules()),
        Item::Workflow(run) => (run.status, run.duration(), run.joules()),
    };
    let mut cells = vec![
        Cell::whole(name),
        Cell::styled(status.map_or("", |status| status.as_str()), paint(status)),
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

/// Marked where it is not this task's alone.
fn inclusive(used: &JoulesObject) -> String {
    let mark = if used.overlap { "~" } else { "" };
    format!("{mark}{}", joules(used.inclusive))
}
